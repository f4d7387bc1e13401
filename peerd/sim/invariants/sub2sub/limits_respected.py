"""No feeder has let more events into a higher cell than its limit, and what it had saved of it, allows."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.sub2sub.standing import standing

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    for overlay in standing(swarm):
        for limit in overlay.limits():
            if limit.left < 0.0:
                yield f"{overlay.descriptor().address}: {-limit.left:.0f} events more than a limit of {limit.rate:.1f}"
