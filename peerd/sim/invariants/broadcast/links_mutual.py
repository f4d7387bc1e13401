"""If one participant of the baseline holds a link to another, that one holds it too, unless they are agreeing on it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from protocols.broadcast.overlay import Broadcast

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    participants = {
        overlay.descriptor().address: overlay
        for node in swarm.live.values()
        for overlay in node.peer.participants.values()
        if isinstance(overlay, Broadcast)
    }
    held = {(holder, link.to) for holder, overlay in participants.items() for link in overlay.links()}
    for holder, to in sorted(held):
        if (to, holder) in held or to not in participants:
            continue
        if not participants[to].is_agreeing_with(holder) and not participants[holder].is_agreeing_with(to):
            yield f"{holder} holds a link to {to}, which does not hold it"
