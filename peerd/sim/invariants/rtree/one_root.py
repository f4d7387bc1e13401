"""Exactly one participant has no parent."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.rtree.trees import trees

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    roots = sorted(address for address, tree in trees(swarm).items() if tree.parent is None)
    if len(roots) != 1 and swarm.live:
        yield f"{len(roots)} roots: {', '.join(map(str, roots))}"
