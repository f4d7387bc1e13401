"""Every participant knows of a claim, by somebody who stands in the ring, for every value of every span."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from peerd.sim.invariants.sub2sub.standing import standing

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    participants = standing(swarm)
    spans: dict[int, list[tuple[Any, Any]]] = {}
    for overlay in participants:
        for place, ring in overlay.rings.items():
            spans.setdefault(place, []).append((ring.lo, ring.hi))
    needed = {place: list(dict.fromkeys(each)) for place, each in spans.items()}
    sound: set[int] = set()  # digests: equal ones mean equal claims
    for overlay in participants:
        if overlay.claims.digest in sound:
            continue
        gaps = 0
        for place, each in needed.items():
            left = [gap for lo, hi in each for gap in overlay.claims.uncovered(place, lo, hi)]
            if left and overlay.claims.complete:
                gaps += 1
                yield f"{overlay.descriptor().address}: nobody claims {left[0]} at place {place}"
        if not gaps:
            sound.add(overlay.claims.digest)
