"""What a parent knows of a child is what the child's own children need, and no more; a leaf needs its own box."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.rtree.trees import trees
from protocols.model.box import Box, enclosing_all
from protocols.model.ids import Address
from protocols.rtree.tree import Tree

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    found = trees(swarm)
    for me, tree in found.items():
        for node in tree.nodes:
            for address, entry in node.entries.items():
                needed = _needed(found, address, node.height - 1)
                if needed is not None and (entry.box != needed or entry.core != needed):
                    yield f"{me}: the box of {address} at level {node.height - 1} is not what it needs"


def _needed(found: dict[Address, Tree], address: Address, height: int) -> Box | None:
    """What encloses the children of a node; None if it is not there."""
    tree = found.get(address)
    if tree is None or height > tree.top:
        return None
    node = tree.node(height)
    return tree.box if node is None else enclosing_all(e.box for e in node.entries.values())
