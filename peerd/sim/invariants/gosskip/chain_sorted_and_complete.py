"""Level 0 is one sorted chain of all places: each has those beside it as its left and its right neighbour."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.gosskip.places import called, in_order

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    places = in_order(swarm)
    for before, place, behind in zip([None, *places], places, [*places[1:], None]):
        for side, should, has in (("left", before, place.chain.left), ("right", behind, place.chain.right)):
            if (None if should is None else should.spot.id) != (None if has is None else has.id):
                yield f"{called(place)} has not the {side} neighbour that stands beside it"
