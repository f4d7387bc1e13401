"""A participant that is left in peace has one place, for the box that it was given last, and it is active."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from protocols.gosskip.overlay import GosSkip

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    for node in swarm.live.values():
        for slot, overlay in node.peer.participants.items():
            assert isinstance(overlay, GosSkip)
            if [(place.version, place.active) for place in overlay.places.values()] != [(overlay.version, True)]:
                yield f"peer {node.index}: participant {slot} has not settled at one place"
