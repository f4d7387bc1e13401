"""A place knows exactly its left neighbour and the ranges that reach beyond that one, and knows that it does."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.gosskip.places import called, in_order
from protocols.gosskip.order import Spot, covers

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    reaching: list[Spot] = []
    for number, place in enumerate(in_order(swarm)):
        if {spot.id for spot in reaching} != {spot.id for spot in place.known.spots()}:
            yield f"{called(place)} does not know the ranges that reach to it"
        elif number and not place.known.whole:
            yield f"{called(place)} does not know that it knows the ranges that reach to it"
        own = [place.spot] if place.spot.is_told else []
        reaching = [spot for spot in reaching if covers(spot, place.spot)] + own
