"""What the processes of a testbed tell each other: MessagePack with a length before it, over socket pairs.

Orders go from the steering process to the fork server, with an open socket beside each `Fork`; `Forked` and `Gone` come
back. Between the steering process and each peer there is a line of its own: `Up`, `Ready` and batches of what it saw
one way, questions the other.

Times are microseconds of the machine's monotonic clock, which all processes share: no clock is compared with another.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast

import msgspec

from peerd.testbed.processes import Process

HEAD: Final = 4
MESSAGE_MAX: Final = 64 * 2**20
BACKLOG_MAX: Final = 64 * 2**20
"""What a peer keeps for a steering process that does not listen, before it gives up watching. Our choice."""
PATIENCE_S: Final = 5.0
"""How long peers may take to leave before they are killed. A leave lingers for 4 s; nobody is left to mind."""

# --- Steering process and fork server ---------------------------------------------------------------------------------


class Fork(msgspec.Struct, frozen=True, tag=True):
    """Fork a peer. `flags` is what `peerd.config.load` takes; `watched`: it tells what it sees."""

    number: int
    flags: dict[str, Any]
    watched: bool


class LetGo(msgspec.Struct, frozen=True, tag=True):
    """The steering process is about to end, and the testbed stays."""


class End(msgspec.Struct, frozen=True, tag=True):
    """Let all peers leave, for so long at the most, and end."""

    patience_s: float


Order: TypeAlias = Fork | LetGo | End


class Started(msgspec.Struct, frozen=True, tag=True):
    """The fork server stands."""

    process: Process


class Refused(msgspec.Struct, frozen=True, tag=True):
    """It cannot do what it should."""

    reason: str


class Forked(msgspec.Struct, frozen=True, tag=True):
    number: int
    process: Process


class Gone(msgspec.Struct, frozen=True, tag=True):
    """A peer has ended; `status` is what `os.waitstatus_to_exitcode` makes of it."""

    number: int
    status: int


Reply: TypeAlias = Started | Refused | Forked | Gone

# --- Steering process and peer ----------------------------------------------------------------------------------------


class Look(msgspec.Struct, frozen=True, tag=True):
    """How do you stand?"""

    number: int


Question: TypeAlias = Look


class Up(msgspec.Struct, frozen=True, tag=True):
    """The peer listens."""

    peer: str
    boot: int
    listen: str
    http: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """It stands in the overlay."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It could not start, or cannot go on watching."""

    reason: str


class Looked(msgspec.Struct, frozen=True, tag=True):
    number: int
    ready: bool
    settled_ms: int
    links: tuple[str, ...]
    """Ids of the peers that its participants have links to."""
    messages: int
    bytes: int
    """Sent since the start."""


class Batch(msgspec.Struct, tag=True, omit_defaults=True):
    """What a peer saw since the last batch, each thing with its time at the end; deliveries have the hops before it."""

    published: list[tuple[str, int]] = []
    delivered: list[tuple[str, tuple[str, ...], int, int]] = []
    active: list[tuple[str, int]] = []
    stood: list[tuple[int, bool, int]] = []
    receptions: dict[str, int] = {}
    dropped: dict[str, int] = {}
    counts: dict[str, int] = {}


News: TypeAlias = Up | Ready | Failed | Looked | Batch

# --- Framing ----------------------------------------------------------------------------------------------------------

_encode: Final = msgspec.msgpack.Encoder().encode
decode_order: Final = msgspec.msgpack.Decoder(Order).decode
decode_reply: Final = msgspec.msgpack.Decoder(Reply).decode
decode_question: Final = msgspec.msgpack.Decoder(Question).decode
decode_news: Final = msgspec.msgpack.Decoder(News).decode


def pack(message: msgspec.Struct) -> bytes:
    data = _encode(message)
    return len(data).to_bytes(HEAD) + data


class Unpacker:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        while len(self._buffer) >= HEAD:
            size = int.from_bytes(self._buffer[:HEAD])
            if size > MESSAGE_MAX:
                raise ValueError(f"a message of {size} bytes")
            if len(self._buffer) < HEAD + size:
                return
            message = bytes(self._buffer[HEAD : HEAD + size])
            del self._buffer[: HEAD + size]
            yield message


class Line(asyncio.Protocol):
    """One end of a line in an event loop."""

    def __init__(self, heard: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._heard = heard
        self._ended = ended
        self._unpacker = Unpacker()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._transport.set_write_buffer_limits(high=BACKLOG_MAX)

    def data_received(self, data: bytes) -> None:
        for message in self._unpacker.feed(data):
            self._heard(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ended()

    def tell(self, message: msgspec.Struct) -> bool:
        """Whether the other end is still there and has taken what it was told before."""
        transport = self._transport
        if transport is None or transport.get_write_buffer_size() > BACKLOG_MAX:
            return False
        transport.write(pack(message))
        return True

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
