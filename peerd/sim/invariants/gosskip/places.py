"""The places of a swarm, in the order in which they should stand."""

from typing import TYPE_CHECKING

from protocols.gosskip.overlay import own_places
from protocols.gosskip.place import Place

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def in_order(swarm: "Swarm") -> list[Place]:
    """Every place of a living peer that is in the chain."""
    overlays = [overlay for node in swarm.live.values() for overlay in node.peer.participants.values()]
    linked = [place for place in own_places(overlays) if place.chain.is_linked]
    return sorted(linked, key=lambda place: place.spot.key)


def called(place: Place) -> str:
    """How a place is named in a violation."""
    return f"place {place.version} of {place.spot.address}"
