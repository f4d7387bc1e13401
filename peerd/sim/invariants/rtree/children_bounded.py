"""Every node has m to M children, the root two to M, each a participant itself; its host is one of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.rtree.trees import trees
from protocols.rtree.config import RtreeConfig

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, RtreeConfig)
    for me, tree in trees(swarm).items():
        for node in tree.nodes:
            least = 2 if tree.parent is None and node.height == tree.top else config.children_min
            count = len(node.entries)
            if not least <= count <= config.children_max:
                yield f"{me}: the node at height {node.height} has {count} children"
            if me not in node.entries:
                yield f"{me}: the node at height {node.height} does not have its host as a child"
