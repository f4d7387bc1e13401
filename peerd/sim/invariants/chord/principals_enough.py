"""In a ring of more than r nodes, more than r are principals: no extended successor list skips them (Zave's
invariant)."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from peerd.sim.invariants.chord.circle import members
from protocols.chord.config import ChordConfig

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, ChordConfig)
    ring = members(swarm)
    ids = [member.id for member in ring]
    skipped: set[int] = set()
    for member in ring:
        circle = member.chord.circle
        extended = [member.id, *[circle.node(address) for address in member.ring.successors]]
        for lo, hi in pairwise(extended):
            place = bisect_right(ids, lo) % len(ids)
            while circle.between(ids[place], lo, hi):
                skipped.add(ids[place])
                place = (place + 1) % len(ids)
    if len(ring) > config.successors and len(ring) - len(skipped) <= config.successors:
        yield f"only {len(ring) - len(skipped)} of {len(ring)} nodes are principals"
