"""Every link of a living participant leads to a participant of a living peer's present boot."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    living = {
        (node.address.peer, node.address.boot, slot) for node in swarm.live.values() for slot in node.peer.participants
    }
    for node in swarm.live.values():
        for slot, overlay in node.peer.participants.items():
            for link in overlay.links():
                if (link.to.peer, link.to.boot, link.to.slot) not in living:
                    yield f"peer {node.index}: {link.kind} link of participant {slot} leads to {link.to}, which is gone"
