"""The participants of a swarm as the R-tree's invariants look at them."""

from typing import TYPE_CHECKING

from protocols.model.ids import Address
from protocols.rtree.overlay import Rtree
from protocols.rtree.tree import Tree

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def trees(swarm: "Swarm") -> dict[Address, Tree]:
    """What each participant of a living peer holds, by its address."""
    return {
        overlay.tree.me: overlay.tree
        for node in swarm.live.values()
        for overlay in node.peer.participants.values()
        if isinstance(overlay, Rtree)
    }
