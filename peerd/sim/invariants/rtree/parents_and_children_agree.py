"""A participant is a child of another exactly if that one is its parent, one level above its top."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.rtree.trees import trees

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    found = trees(swarm)
    above = {(me, tree.parent.address, tree.top) for me, tree in found.items() if tree.parent is not None}
    below = {
        (address, me, node.height - 1)
        for me, tree in found.items()
        for node in tree.nodes
        for address in node.entries
        if address != me
    }
    for child, parent, level in sorted(above - below):
        yield f"{child} at level {level} has the parent {parent}, which does not have it"
    for child, parent, level in sorted(below - above):
        yield f"{parent} has the child {child} at level {level}, which does not say so"
