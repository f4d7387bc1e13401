"""Every active subscription's row stands at the successors that hold copies for the owner of each of its keys."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.chord.circle import members, placed
from protocols.chord.config import ChordConfig
from protocols.chord.rows import key_of

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, ChordConfig)
    ring = members(swarm)
    copies = min(config.replicas, len(ring) - 1)
    for member, placement, place in placed(ring):
        for step in range(1, copies + 1):
            at = ring[(place + step) % len(ring)]
            if at.chord.storage.rows.get(key_of(placement.row)) is None:
                row = placement.row
                yield f"peer {at.number} lacks its copy of row {row.number} of list {row.list} of peer {member.number}"
