"""Finger i of a node is the first node at its identifier + 2^i or after it, for every finger beyond its successor."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.chord.circle import members, owner

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    ring = members(swarm)
    ids = [member.id for member in ring]
    for member in ring:
        fingers = member.chord.fingers
        for number in range(fingers.first(), member.chord.circle.bits):
            exact = ring[owner(ring, ids, fingers.start(number))].ring.me
            if fingers.table.get(number, member.ring.me) != exact:
                yield f"peer {member.number}: finger {number} is wrong"
                break
