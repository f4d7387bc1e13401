"""Every participant is a leaf below the root, and all leaves lie equally deep."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.rtree.trees import trees
from protocols.model.ids import Address

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    found = trees(swarm)
    roots = [address for address, tree in found.items() if tree.parent is None]
    if not roots:
        return
    leaves: dict[Address, None] = {}
    depths: dict[int, None] = {}
    frontier = [(max(roots, key=lambda address: found[address].top), -1, 0)]
    while frontier:
        address, height, depth = frontier.pop()
        tree = found.get(address)
        if tree is None or depth > len(found):
            continue
        node = tree.node(tree.top if height < 0 else height)
        if node is None:
            leaves[address] = None
            depths[depth] = None
        else:
            frontier += [(child, node.height - 1, depth + 1) for child in node.entries]
    if len(leaves) < len(found):
        yield f"{len(found) - len(leaves)} participants are not below the root"
    if len(depths) > 1:
        yield f"leaves at depths {sorted(depths)}"
