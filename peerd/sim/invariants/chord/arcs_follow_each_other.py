"""Every node answers for the arc from its predecessor to itself, so that each key has one node that answers for it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.chord.circle import members

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    ring = members(swarm)
    for place, member in enumerate(ring):
        if member.ring.low != ring[place - 1].id:
            yield f"peer {member.number} does not answer for the arc from peer {ring[place - 1].number}"
