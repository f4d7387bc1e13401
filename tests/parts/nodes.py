"""Addresses and descriptors for the tests of the parts."""

from protocols.model.box import Box
from protocols.model.descriptor import Descriptor, PeerDescriptor
from protocols.model.ids import PEER_SLOT, Address


def address(number: int, boot: int = 1, slot: int = PEER_SLOT) -> Address:
    return Address(f"p{number}", boot, slot, f"10.0.0.{number}:6470")


def peer(number: int, age: int = 0, boot: int = 1, refutation: int = 0) -> PeerDescriptor:
    return PeerDescriptor(address(number, boot), age, refutation)


def participant(
    number: int, place: int = 0, age: int = 0, boot: int = 1, version: int = 0, slot: int = 0
) -> Descriptor:
    return Descriptor(address(number, boot, slot), Box((place,), (place + 1,)), version, age)


def number_of(descriptor: PeerDescriptor | Descriptor) -> int:
    return int(descriptor.address.peer[1:])
