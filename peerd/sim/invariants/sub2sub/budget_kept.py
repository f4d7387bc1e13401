"""In no cycle do events use more of a budget than gossip has left; a token bucket may have saved one cycle's worth."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.sub2sub.standing import standing
from protocols.sub2sub.config import Sub2SubConfig

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, Sub2SubConfig)
    for overlay in standing(swarm):
        limit = overlay.budget.limit
        charged, on_events = overlay.budget.last
        most = None if limit is None else limit if config.buffered else 2.2 * limit  # cycles vary by a tenth
        if most is not None and on_events and charged + on_events > most:
            yield f"{overlay.descriptor().address}: {charged + on_events:.0f} spent in a cycle of {limit:.0f}"
