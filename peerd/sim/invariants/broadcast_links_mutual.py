"""If one participant of the baseline holds a link to another, that one holds it too."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    held = {
        (overlay.descriptor().address, link.to)
        for node in swarm.live.values()
        for overlay in node.peer.participants.values()
        for link in overlay.links()
    }
    for holder, to in sorted(held):
        if (to, holder) not in held:
            yield f"{holder} holds a link to {to}, which does not hold it"
