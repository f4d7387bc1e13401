"""Who is who: peers, participants and events.

A *peer* is a daemon. Its id is a string of hexadecimal digits. A restart is a new *boot*, a number that only grows, so
that (peer, boot) names one life of one daemon.

A *participant* is a logical node of the overlay inside a peer, named by a *slot*. Slots are never reused within a boot.

An `Address` says where a participant is and how to reach it: peer, boot, slot and the TCP endpoint that the peer
advertises for that whole boot. It is self-contained on purpose: a message that names a third participant names
everything that is needed to talk to it. Two special forms:

- slot `PEER_SLOT`: the peer itself, above its participants (sampling, liveness, bootstrap);
- peer `""`: whoever answers at that endpoint (`endpoint()`), which is all that one knows of a seed.

An event id is a string, `publisher-boot-sequence`: it travels with every copy and is looked up at every hop, and a
string hashes once.
"""

from typing import Annotated, Final, TypeAlias

import msgspec

from protocols.model.bounds import ENDPOINT_MAX, EVENT_ID_MAX, ID_MAX, Count, Slot

PeerId: TypeAlias = Annotated[str, msgspec.Meta(max_length=ID_MAX)]
EventId: TypeAlias = Annotated[str, msgspec.Meta(max_length=EVENT_ID_MAX)]
Endpoint: TypeAlias = Annotated[str, msgspec.Meta(max_length=ENDPOINT_MAX)]

PEER_SLOT: Final = -1


class Address(msgspec.Struct, frozen=True, array_like=True, order=True, cache_hash=True, gc=False):
    """One life of one participant, and where to reach it."""

    peer: PeerId
    boot: Count
    slot: Slot
    at: Endpoint

    def __str__(self) -> str:
        return f"{self.peer or '?'}/{self.slot}@{self.at}"


def endpoint(at: str) -> Address:
    """The address of whichever peer answers at `at` ("host:port")."""
    return Address("", 0, PEER_SLOT, at)


def of_peer(address: Address) -> Address:
    """The address of the peer that `address` belongs to."""
    return Address(address.peer, address.boot, PEER_SLOT, address.at)


def in_slot(address: Address, slot: int) -> Address:
    """The address of another participant of the same peer and boot."""
    return Address(address.peer, address.boot, slot, address.at)


def event_id(publisher: PeerId, boot: int, sequence: int) -> EventId:
    return f"{publisher}-{boot}-{sequence}"


def split_event_id(id_: EventId) -> tuple[PeerId, int, int]:
    """Publisher, boot and sequence of an event; `ValueError` if it is not an event id."""
    publisher, boot, sequence = id_.rsplit("-", 2)
    return publisher, int(boot), int(sequence)
