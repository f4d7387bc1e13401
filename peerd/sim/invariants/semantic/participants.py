"""The participants of a containment tree, for the invariants that look at them."""

from typing import TYPE_CHECKING

from protocols.model.ids import Address
from protocols.semantic.containment import Containment
from protocols.semantic.participant import LEAVING, STANDING

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def standing(swarm: "Swarm") -> dict[Address, Containment]:
    """All that stand in the tree (none, where the swarm is a similarity graph)."""
    return {
        overlay.descriptor().address: overlay
        for node in swarm.live.values()
        for overlay in node.peer.participants.values()
        if isinstance(overlay, Containment) and overlay.state in (STANDING, LEAVING)
    }
