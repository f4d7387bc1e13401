"""What must hold in a swarm that is left in peace: one file per invariant, one function, one sentence.

A checker gets the swarm and yields one line per violation, the same line for as long as it lasts. Those under `EVERY`
hold for all overlays; an overlay's own ones stand in a folder of its name.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from peerd.sim.invariants import (
    broadcast,
    chord,
    covers_enclose_subscriptions,
    gosskip,
    links_lead_to_the_living,
    participants_bounded,
    rtree,
    sampling_connected,
    semantic,
    sub2sub,
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

OF_OVERLAY: Final[dict[str, Sequence[Checker]]] = {
    "broadcast": broadcast.CHECKERS,
    "rtree": rtree.CHECKERS,
    "chord": chord.CHECKERS,
    "gosskip": gosskip.CHECKERS,
    "semantic": semantic.CHECKERS,
    "sub2sub": sub2sub.CHECKERS,
}


def violations(swarm: "Swarm") -> list[str]:
    """Every violation there is now, in words."""
    checkers = [*EVERY, *OF_OVERLAY.get(swarm.kind.name, ())]
    return [line for check in checkers for line in check(swarm)]
