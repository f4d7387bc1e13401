"""A place knows exactly the ranges of places left of it that reach to it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.gosskip.places import called, in_order
from protocols.gosskip.order import Spot, covers

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    reaching: list[Spot] = []
    for place in in_order(swarm):
        reaching = [spot for spot in reaching if covers(spot, place.spot)]
        if {spot.id for spot in reaching} != {spot.id for spot in place.known.spots()}:
            yield f"{called(place)} does not know the ranges that reach to it"
        reaching.append(place.spot)
