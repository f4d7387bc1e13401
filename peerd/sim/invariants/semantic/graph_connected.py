"""The links of a similarity graph tie all living peers together."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.graph import component
from protocols.semantic.config import SemanticConfig

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, SemanticConfig)
    if config.organisation != "similarity":
        return
    index_of = {node.address.peer: node.index for node in swarm.live.values()}
    edges: dict[int, list[int]] = {index: [] for index in swarm.live}
    for node in swarm.live.values():
        for overlay in node.peer.participants.values():
            for link in overlay.links():
                other = index_of.get(link.to.peer)
                if other is not None:
                    edges[node.index].append(other)
                    edges[other].append(node.index)
    if len(component(edges)) < len(edges):
        yield "the links do not tie all peers together"
