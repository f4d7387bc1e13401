"""No child of a node covers more than its host does, but for the hysteresis."""

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
            if me not in node.entries:
                continue  # another checker's business
            own = tree.measure.volume(node.entries[me].core)
            for address, entry in node.entries.items():
                volume = tree.measure.volume(entry.core)
                if volume > own * (1.0 + config.hysteresis) * (1.0 + 1e-9):
                    yield f"{me} hosts a node at height {node.height} in which {address} covers more"
