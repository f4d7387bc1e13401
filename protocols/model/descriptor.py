"""Descriptors: what participants and peers tell each other about themselves and about third parties.

They are copied from peer to peer, so they age and contradict each other. One rule settles every contradiction: the
higher (boot, version) wins, then the lower age (`newer`). A box never changes under an unchanged version.
"""

from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import msgspec

from protocols.model.bounds import (
    ENTRIES_MAX,
    EXTENSION_MAX,
    PARTICIPANTS_MAX,
    TEXT_MAX,
    Count,
    Finite,
    ParticipantSlot,
)
from protocols.model.box import Box
from protocols.model.ids import Address

Extension: TypeAlias = Annotated[
    tuple[int | Finite | Annotated[bytes, msgspec.Meta(max_length=TEXT_MAX)], ...],
    msgspec.Meta(max_length=EXTENSION_MAX),
]
"""What one overlay adds to its descriptors (depth, cell, bandwidth …); empty for most. Text goes as bytes: the decoder
cannot tell strings from bytes in one union."""


REFUTATION_MAX: Final = 1 << 53
"""No peer can be suspected so often; keeps the number within what every decoder reads."""

Refutation: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=REFUTATION_MAX)]


class Descriptor(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A participant: where it is, and the box it routes by."""

    address: Address
    box: Box
    version: Count = 0
    age: Count = 0
    ext: Extension = ()


class Standing(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A participant as its peer's `PeerDescriptor` names it: the address is the peer's but for the slot."""

    slot: ParticipantSlot
    box: Box
    version: Count = 0
    ext: Extension = ()


class PeerDescriptor(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A peer as peer sampling hands it around: its address, some of its participants, and when it last spoke.

    `refutation` is the peer's own counter against rumours of its death: a higher one proves that it lived after the
    rumour was started.
    """

    address: Address
    age: Count = 0
    refutation: Refutation = 0
    participants: Annotated[tuple[Standing, ...], msgspec.Meta(max_length=PARTICIPANTS_MAX)] = ()


PeerEntries: TypeAlias = Annotated[tuple[PeerDescriptor, ...], msgspec.Meta(max_length=ENTRIES_MAX)]
"""What one message of bootstrap or sampling tells about other peers."""


def newer(a: Descriptor, b: Descriptor) -> Descriptor:
    """Which of two descriptors of the same participant to believe."""
    ahead = (a.address.boot, a.version, -a.age) >= (b.address.boot, b.version, -b.age)
    return a if ahead else b


def participants_of(peers: Iterable[tuple[PeerDescriptor, int]]) -> list[Descriptor]:
    """The participants that peers' descriptors of these ages name, as descriptors of their own."""
    return [
        Descriptor(Address(own.peer, own.boot, each.slot, own.at), each.box, each.version, age, each.ext)
        for peer, age in peers
        for own in (peer.address,)
        for each in peer.participants
    ]
