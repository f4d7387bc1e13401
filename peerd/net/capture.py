"""Captured frames: a file of every frame both ways, and a printer that does not trust our own codec.

    file   = "peerd-frames 1\\n", record ...
    record = direction (1 byte, "<" received or ">" sent), time in µs since 1970 (8 bytes, big-endian),
             length of the peer's id (1 byte), id, length of the frame (4 bytes), frame

A frame is kept as it was on the wire, with its own length in front. The id is empty while the peer is not known: in the
handshake. A file whose end is missing is read up to the last whole record. A disk that is full ends the capture, not
the peer.
"""

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from struct import Struct as Layout
from typing import Any, BinaryIO, Final, TextIO

import msgpack
import msgspec

from peerd.wire import LENGTH_BYTES

MAGIC: Final = b"peerd-frames 1\n"
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""A longer frame in a file means that the file is not ours: 64 times the greatest."""
LINE_MAX: Final = 400
"""Characters printed of a frame's content."""

_head: Final = Layout(">cQB")
_length: Final = Layout(">I")
_log = logging.getLogger("peerd.net")


class Captured(msgspec.Struct, frozen=True):
    received: bool
    peer: str
    time_us: int
    frame: bytes


class CaptureWriter:
    """Writes until the file fails, then never again."""

    __slots__ = ("_file",)

    def __init__(self, file: BinaryIO) -> None:
        self._file: BinaryIO | None = file
        self._write(MAGIC)

    def sent(self, peer: str, frame: bytes) -> None:
        self._record(b">", peer, frame)

    def received(self, peer: str, frame: bytes) -> None:
        self._record(b"<", peer, frame)

    def flush(self) -> None:
        if self._file is not None:
            try:
                self._file.flush()
            except (OSError, ValueError) as error:
                self._end(error)

    def _record(self, direction: bytes, peer: str, frame: bytes) -> None:
        id_ = peer.encode()[:255]
        self._write(_head.pack(direction, time.time_ns() // 1000, len(id_)) + id_ + _length.pack(len(frame)) + frame)

    def _write(self, data: bytes) -> None:
        if self._file is not None:
            try:
                self._file.write(data)
            except (OSError, ValueError) as error:
                self._end(error)

    def _end(self, error: Exception) -> None:
        self._file = None
        _log.warning("frames are not captured any more: %s", error)


class Splitter:
    """Cuts what a connection reads into frames, for the capture alone: the decoder does not keep their bytes."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        pending = self._pending
        pending += data
        while len(pending) >= LENGTH_BYTES:
            (size,) = _length.unpack_from(pending)
            end = LENGTH_BYTES + size
            if size > FRAME_BYTES_MAX:  # not a frame: the connection ends here, so keep what came
                yield bytes(pending)
                pending.clear()
                return
            if len(pending) < end:
                return
            yield bytes(pending[:end])
            del pending[:end]


def read_frames(file: BinaryIO) -> Iterator[Captured]:
    """The records of a capture, up to the last whole one; `ValueError` if it is none."""
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("this is not a file of captured frames")
    while len(head := file.read(_head.size)) == _head.size:
        direction, time_us, id_length = _head.unpack(head)
        rest = file.read(id_length + _length.size)
        if direction not in (b"<", b">"):
            raise ValueError("the file is damaged: a record has no direction")
        if len(rest) < id_length + _length.size:
            return
        (size,) = _length.unpack_from(rest, id_length)
        if size > FRAME_BYTES_MAX:
            raise ValueError(f"the file is damaged: a frame of {size} bytes")
        frame = file.read(size)
        if len(frame) < size:
            return
        yield Captured(direction == b"<", rest[:id_length].decode(errors="replace"), time_us, frame)


def print_frames(file: BinaryIO, out: TextIO) -> int:
    """One line per frame, decoded with the msgpack package; returns how many. `ValueError` as `read_frames`."""
    count = 0
    for captured in read_frames(file):
        out.write(_line(captured) + "\n")
        count += 1
    return count


def _line(captured: Captured) -> str:
    seconds, micros = divmod(captured.time_us, 1_000_000)
    try:
        when = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{micros:06}Z"
    except (OverflowError, OSError, ValueError):
        when = f"{captured.time_us}us"
    arrow = "<" if captured.received else ">"
    text = f"{when} {arrow} {captured.peer or '-'} {len(captured.frame)} {_content(captured.frame[LENGTH_BYTES:])}"
    return text if len(text) <= LINE_MAX else text[: LINE_MAX - 1] + "…"


def _content(content: bytes) -> str:
    if not content:
        return "end"
    try:
        value: Any = msgpack.unpackb(content, strict_map_key=False)
    except Exception as error:  # the package raises many kinds, and a capture may hold anything
        return f"not MessagePack ({type(error).__name__}): {content[:40].hex()}"
    match value:
        case [int(source), int(target), [str(tag), *fields]]:
            return f"{source}->{target} {tag} {fields!r}"
        case {"peerd": str(kind), **rest}:
            return f"{kind} {rest!r}"
        case _:
            return repr(value)
