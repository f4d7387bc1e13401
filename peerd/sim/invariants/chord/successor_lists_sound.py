"""A successor list is in the order of the ring, names nobody twice and never its own node."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.chord.circle import members

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    for member in members(swarm):
        circle = member.chord.circle
        far = [circle.distance(member.id, circle.node(address)) for address in member.ring.successors]
        if 0 in far or far != sorted(set(far)):
            yield f"peer {member.number}: its successor list is out of order"
