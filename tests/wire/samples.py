"""Messages for the tests alone: one of every kind of field, and of every struct of the model that travels.

The corpus is written against these, so it does not change when an overlay does.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from peerd.wire import Codec
from protocols.model.bounds import Count, Finite
from protocols.model.box import Box, Point
from protocols.model.descriptor import Descriptor, PeerDescriptor
from protocols.model.event import Copy, Event
from protocols.model.ids import Address


class Note(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="note"):
    """One field of every plain type."""

    text: Annotated[str, Meta(max_length=8)]
    number: int = 0
    count: Count = 0
    ratio: Finite = 0.0
    flag: bool = False
    blob: Annotated[bytes, Meta(max_length=8)] = b""
    maybe: Count | None = None
    numbers: Annotated[tuple[int, ...], Meta(max_length=4)] = ()
    table: Annotated[dict[Annotated[str, Meta(max_length=4)], int], Meta(max_length=2)] = {}
    pair: tuple[int, bool] = (0, False)


class Carry(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="carry"):
    copy: Copy


class Shuffle(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="shuffle"):
    request: Count
    participants: Annotated[tuple[Descriptor, ...], Meta(max_length=32)] = ()
    peers: Annotated[tuple[PeerDescriptor, ...], Meta(max_length=32)] = ()


class Ping(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ping"):
    """Nothing but its tag."""


MESSAGES: Final = (Note, Carry, Shuffle, Ping)
CODEC: Final = Codec(MESSAGES)

_address = Address("a1b2c3d4e5f6a7b8", 1_700_000_000, 3, "192.0.2.17:6470")
_box = Box((-1, 831), (2001, 870), ("=OTE",), ("=OTE\0",))
_event = Event("a1b2c3d4e5f6a7b8-1700000000-12345", Point((831, 835, -1), ("=ATH", "=Ωmega")), bytes(range(80)))

EXAMPLES: Final = (
    Note("grün", -1, 7, 0.5, True, b"\x00\xff", None, (1, 2, 3), {"a": 1}, (2**64 - 1, True)),
    Carry(Copy(_event, 3, 120)),
    Shuffle(1, (Descriptor(_address, _box, 2, 3, (1, 0.5, b"\x80")),) * 3, (PeerDescriptor(_address, 1, 0),)),
    Ping(),
)
