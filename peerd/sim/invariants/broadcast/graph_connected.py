"""The links of the baseline tie all living peers together."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.graph import component

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    index_of = {node.address.peer: node.index for node in swarm.live.values()}
    edges: dict[int, list[int]] = {index: [] for index in swarm.live}
    for node in swarm.live.values():
        for overlay in node.peer.participants.values():
            edges[node.index] += [index_of[link.to.peer] for link in overlay.links() if link.to.peer in index_of]
    if len(component(edges)) < len(edges):
        yield "the links do not tie all peers together"
