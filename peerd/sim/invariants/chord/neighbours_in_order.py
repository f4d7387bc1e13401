"""The nodes form one cycle in the order of their identifiers: everyone's successor is the next, its predecessor the one
before."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.chord.circle import members

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    ring = members(swarm)
    for place, member in enumerate(ring):
        after, before = ring[(place + 1) % len(ring)], ring[place - 1]
        head = member.ring.me if member.ring.head is None else member.ring.head
        predecessor = member.ring.me if member.ring.predecessor is None else member.ring.predecessor
        if head != after.ring.me:
            yield f"peer {member.number}: its successor is not peer {after.number}"
        if predecessor != before.ring.me:
            yield f"peer {member.number}: its predecessor is not peer {before.number}"
