"""What must hold in a swarm that is left in peace: one file per invariant, one function, one sentence.

A checker gets the swarm and yields one line per violation, the same line for as long as it lasts. Those under `EVERY`
hold for all overlays; an overlay's own ones stand under its name.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from peerd.sim.invariants import (
    broadcast_graph_connected,
    broadcast_links_bounded,
    broadcast_links_mutual,
    covers_enclose_subscriptions,
    links_lead_to_the_living,
    participants_bounded,
    sampling_connected,
)

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm

Checker: TypeAlias = "Callable[[Swarm], Iterator[str]]"

EVERY: Final[list[Checker]] = [
    participants_bounded.check,
    covers_enclose_subscriptions.check,
    links_lead_to_the_living.check,
    sampling_connected.check,
]

OF_OVERLAY: Final[dict[str, list[Checker]]] = {
    "broadcast": [
        broadcast_links_mutual.check,
        broadcast_links_bounded.check,
        broadcast_graph_connected.check,
    ],
}


def violations(swarm: "Swarm") -> list[str]:
    """Every violation there is now, in words."""
    checkers = EVERY + OF_OVERLAY.get(swarm.kind.name, [])
    return [line for check in checkers for line in check(swarm)]
