"""At level l each place is linked with the places k^l before and behind it, and with nobody where there are none."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.gosskip.places import called, in_order
from protocols.gosskip.config import GosSkipConfig

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, GosSkipConfig)
    places = in_order(swarm)
    for at, place in enumerate(places):
        for side, step, links in (("left", -1, place.levels.left), ("right", 1, place.levels.right)):
            expected, level, distance = {}, 1, config.k
            while 0 <= at + step * distance < len(places):
                expected[level] = places[at + step * distance].spot.id
                level, distance = level + 1, distance * config.k
            wrong = expected.keys() ^ links.keys()
            wrong |= {level for level in expected.keys() & links.keys() if links[level].spot.id != expected[level]}
            if wrong:
                yield f"{called(place)} is not linked {side} as it should be at levels {sorted(wrong)}"
