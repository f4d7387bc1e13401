"""Every broad range of an active place is kept at the home of each of its cells."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.gosskip.places import called, in_order

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    places = in_order(swarm)
    keys = [place.spot.key for place in places]
    for place in places:
        if place.spot.is_broad and place.active:
            for key in place.keeper.own_cells():
                keeper = places[max(0, bisect_right(keys, key) - 1)]
                if place.spot.id not in keeper.keeper:
                    yield f"{called(place)} is not kept at {called(keeper)}"
                    break
