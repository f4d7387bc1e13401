"""No place has more than 2·log2 N links (paper, section 3.1), the logarithm rounded up."""

from collections.abc import Iterator
from math import ceil, log2
from typing import TYPE_CHECKING

from peerd.sim.invariants.gosskip.places import called, in_order

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    places = in_order(swarm)
    most = 2 * ceil(log2(max(2, len(places))))
    for place in places:
        count = len(place.links())
        if count > most:
            yield f"{called(place)} has {count} links, more than {most}"
