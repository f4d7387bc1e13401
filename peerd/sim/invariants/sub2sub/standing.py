"""The participants that stand, for the checkers of this folder."""

from typing import TYPE_CHECKING

from protocols.sub2sub.overlay import STANDING, Sub2Sub

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def standing(swarm: "Swarm") -> list[Sub2Sub]:
    return [
        overlay
        for node in swarm.live.values()
        for overlay in node.peer.participants.values()
        if isinstance(overlay, Sub2Sub) and overlay.state == STANDING
    ]
