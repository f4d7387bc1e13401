"""A successor list names the next r nodes, or all others if there are fewer."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.chord.circle import members
from protocols.chord.config import ChordConfig

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, ChordConfig)
    ring = members(swarm)
    length = min(config.successors, len(ring) - 1)
    for place, member in enumerate(ring):
        exact = tuple(ring[(place + step) % len(ring)].ring.me for step in range(1, length + 1))
        if member.ring.successors != exact:
            yield f"peer {member.number}: its successor list is not the next {length} nodes"
