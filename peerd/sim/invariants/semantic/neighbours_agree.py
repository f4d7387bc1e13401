"""In a similarity graph, whom a participant has chosen as a neighbour, and who has agreed, forwards to it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from protocols.semantic.similarity import Similarity

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    participants = {
        overlay.descriptor().address: overlay
        for node in swarm.live.values()
        for overlay in node.peer.participants.values()
        if isinstance(overlay, Similarity)
    }
    for address, overlay in participants.items():
        for to, agreed in overlay.circle.chosen.items():
            if agreed and to in participants and address not in participants[to].circle.choosers:
                yield f"{address} has chosen {to}, which does not know it"
