"""The views of peer sampling tie all living peers together."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.graph import component

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    if swarm.config.sampling == "oracle":
        return
    index_of = {node.address.peer: node.index for node in swarm.live.values()}
    edges: dict[int, list[int]] = {index: [] for index in swarm.live}
    for node in swarm.live.values():
        for peer in node.peer.membership.cyclon.peer_ids():
            other = index_of.get(peer)
            if other is not None:
                edges[node.index].append(other)
                edges[other].append(node.index)
    if len(component(edges)) < len(edges):
        yield "peer sampling does not tie all peers together"
