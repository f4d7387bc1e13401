"""The yardstick: an asyncio Protocol as one would write it by hand, with nothing that the task does not need.

Frames are cut out of the stream, msgspec decodes their content straight into a struct, and everything that one turn of
the event loop has to write leaves in one write. No greeting, no limits, no queue bounds, no counters, no back-pressure.
"""

import asyncio
from collections.abc import Callable
from struct import Struct as Layout
from typing import Final, TypeAlias, cast

import msgspec

from protocols.broadcast.messages import Flood, LinkRequest
from protocols.overlay import Message

Receive: TypeAlias = Callable[[Message], None]

_length: Final = Layout(">I").unpack_from
_decode: Final = msgspec.msgpack.Decoder(tuple[int, int, Flood | LinkRequest]).decode


class Bare(asyncio.Protocol):
    """Calls `received` for each message. Sends frames."""

    def __init__(self, received: Receive) -> None:
        self.received = received
        self._loop = asyncio.get_running_loop()
        self._rest = b""
        self._waiting: list[bytes] = []
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by type

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        view, start, end, received = memoryview(data), 0, len(data), self.received
        while start + 4 <= end:
            stop = start + 4 + _length(data, start)[0]
            if stop > end:
                break
            received(_decode(view[start + 4 : stop])[2])
            start = stop
        self._rest = data[start:]

    def send(self, frame: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(frame)

    def _flush(self) -> None:
        self._transport.write(b"".join(self._waiting))
        self._waiting.clear()

    def close(self) -> None:
        self._transport.abort()
