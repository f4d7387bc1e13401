"""Whoever has a chart finds on it every cell that any participant wants."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.rtree.trees import trees

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    found = trees(swarm)
    wanted = 0
    for tree in found.values():
        if tree.grid is not None:
            wanted |= tree.grid.touched(tree.box)
    for me, tree in found.items():
        if tree.config.climb == "needed" and tree.chart.cells is not None and wanted & ~tree.chart.cells:
            yield f"{me} has a chart that lacks cells which are wanted"
