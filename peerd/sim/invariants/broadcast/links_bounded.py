"""No participant of the baseline has more links than it may accept, plus those it asked for meanwhile."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm

from protocols.broadcast.config import BroadcastConfig


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, BroadcastConfig)
    most = config.links_max + config.links
    for node in swarm.live.values():
        for slot, overlay in node.peer.participants.items():
            count = len(overlay.links())
            if count > most:
                yield f"peer {node.index}: participant {slot} has {count} links, more than {most}"
