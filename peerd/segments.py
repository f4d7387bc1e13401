"""Files of log records: `DIR/run=R/peer=P/NNNNNN.jsonl`, one JSON object in a line.

The last file ends in `.open` until it is closed, by size or age; whoever analyses a log while it is written takes the
closed ones and can rely on each being whole. Numbers only grow. A process that was killed leaves an `.open` file
behind: the next writer in that directory cuts off its half-written line and closes it.

This writer is synchronous: the simulator calls it directly, the daemon from a thread (`peerd/eventlog/log.py`).
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final
from urllib.parse import quote

import msgspec

from peerd import files

SEGMENT_BYTES: Final = 64 * 2**20
SEGMENT_S: Final = 600.0
"""When a file is closed and the next one begun (contract)."""

BUFFER_BYTES: Final = 1 << 20
"""Lines that `write` collects before it writes them: few system calls, little memory. Our choice."""

KEPT_IN: Final = 4
"""What is kept is spread over at least so many files, so that deleting the oldest takes a quarter and not all."""

_CLOSED: Final = ".jsonl"
_OPEN: Final = ".jsonl.open"


def place(directory: str, run: str, peer: str) -> Path:
    """Where a peer's records go. Names are quoted as in a URL, which Spark undoes when it finds the columns."""
    return Path(directory) / f"run={quote(run, safe='')}" / f"peer={quote(peer, safe='')}"


class Segments:
    """Appends lines; `OSError` where that fails, and then nothing of what was to be appended is in the file."""

    def __init__(self, directory: Path, keep_bytes: int | None = None, clock: Callable[[], float] = monotonic) -> None:
        self._directory = directory
        self._keep_bytes = keep_bytes
        self._segment_bytes = SEGMENT_BYTES if keep_bytes is None else min(SEGMENT_BYTES, keep_bytes // KEPT_IN)
        self._clock = clock
        self._encode = msgspec.json.Encoder().encode
        self._buffer = bytearray()
        self._pending = 0
        self.lost = 0
        """Records that did not get into a file because a write failed."""
        self._fd: int | None = None
        self._size = 0
        self._opened_at = 0.0
        self._directory.mkdir(parents=True, exist_ok=True)
        self._number = self._recover()
        self._prune()

    # --- Writing ------------------------------------------------------------------------------------------------------

    def write(self, record: object) -> None:
        """Add one record; it is in the file after the next `flush` at the latest."""
        buffer = self._buffer
        buffer += self._encode(record)
        buffer += b"\n"
        self._pending += 1
        if len(buffer) >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the operating system, which keeps it if the process is killed; close by size and age."""
        if self._buffer:
            data, count = bytes(self._buffer), self._pending
            self._buffer.clear()
            self._pending = 0
            try:
                self._append(data)
            except OSError:
                self.lost += count
                raise
        if self._size >= self._segment_bytes or self._clock() - self._opened_at >= SEGMENT_S:
            self._finish()

    def _append(self, data: bytes) -> None:
        if self._fd is None:
            self._open()
        assert self._fd is not None
        self._size = files.append(self._fd, self._size, data)

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._finish()

    def _path(self, number: int, ending: str) -> Path:
        return self._directory / f"{number:06}{ending}"

    def _open(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)  # somebody may have cleaned up
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self._path(self._number, _OPEN), flags, 0o644)
        self._size = 0
        self._opened_at = self._clock()

    def _finish(self) -> None:
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        os.close(fd)
        number, self._number, size, self._size = self._number, self._number + 1, self._size, 0
        _close(self._path(number, _OPEN), size)
        self._prune()

    # --- What earlier writers left ------------------------------------------------------------------------------------

    def _recover(self) -> int:
        """Close what is still open, and return the next number."""
        for path in sorted(self._directory.glob(f"*{_OPEN}")):
            _close(path, files.cut_half_line(path))
        numbers = [number for path in self._directory.glob(f"*{_CLOSED}") if (number := _number(path)) is not None]
        return max(numbers, default=-1) + 1

    def _prune(self) -> None:
        """Delete the oldest closed files, so that the others and the next one fit in what is kept."""
        if self._keep_bytes is None:
            return
        closed = [path for path in self._directory.glob(f"*{_CLOSED}") if _number(path) is not None]
        closed.sort(key=lambda path: _number(path) or 0, reverse=True)
        room = self._keep_bytes - self._segment_bytes
        for path in closed:
            with suppress(FileNotFoundError):  # somebody may have taken it away
                room -= path.stat().st_size
                if room < 0:
                    path.unlink()


def _close(path: Path, size: int) -> None:
    """Give a file its final name; one without a whole line has nothing to say."""
    if size:
        path.rename(path.with_name(path.name.removesuffix(_OPEN) + _CLOSED))
    else:
        path.unlink()


def _number(path: Path) -> int | None:
    name = path.name.removesuffix(_CLOSED)
    return int(name) if name.isdecimal() else None
