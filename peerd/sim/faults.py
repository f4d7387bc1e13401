"""Faults on a timetable: what a scenario does to its swarm, and when.

| fault       | does to `share` of the peers (or `count` of them)                                             |
|-------------|-----------------------------------------------------------------------------------------------|
| `crash`     | end their processes: connections are refused                                                  |
| `vanish`    | take their hosts away: nobody answers at all                                                  |
| `leave`     | let them leave gracefully                                                                     |
| `restart`   | crash them, and start them again after `for_s`; without `keep_state` as somebody new          |
| `stall`     | freeze them for `for_s`                                                                       |
| `partition` | cut them off from the others for `for_s`                                                      |
| `reset`     | break their connection with one other peer each                                               |
| `join`      | nothing: as many new peers join, with the interests of peers that are there                   |
| `corrupt`   | scramble what they know of the overlay, where it claims to stabilise from any state          |
| `churn`     | replace so many *per second* for `for_s`: half leave, half crash, and as many join            |
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from peerd.sim.engine import Node
from peerd.sim.swarm import Swarm

Name: TypeAlias = Literal[
    "crash", "vanish", "leave", "restart", "stall", "partition", "reset", "join", "corrupt", "churn"
]


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the timetable. `at_s` counts from the moment when the swarm has settled."""

    fault: Name
    at_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 0.0
    for_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 0.0
    share: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    count: Annotated[int, Meta(ge=0)] = 0
    keep_state: bool = True

    @property
    def end_s(self) -> float:
        return self.at_s + self.for_s


def schedule(swarm: Swarm, faults: tuple[Fault, ...]) -> None:
    """Put the timetable into the swarm's future."""
    for fault in faults:
        swarm.engine.at(swarm.now_ms + int(fault.at_s * 1000), partial(_FAULTS[fault.fault], swarm, fault))


def _victims(swarm: Swarm, fault: Fault) -> list[Node]:
    """Whom it hits: drawn at random, never everybody."""
    living = list(swarm.live.values())
    count = min(fault.count + round(fault.share * len(living)), len(living) - 1)
    return swarm.rng.sample(living, max(0, count))


def _crash(swarm: Swarm, fault: Fault) -> None:
    for node in _victims(swarm, fault):
        swarm.crash(node, silent=fault.fault == "vanish")


def _leave(swarm: Swarm, fault: Fault) -> None:
    for node in _victims(swarm, fault):
        swarm.leave(node)


def _restart(swarm: Swarm, fault: Fault) -> None:
    for node in _victims(swarm, fault):
        swarm.crash(node)
        at_ms = swarm.now_ms + int(fault.for_s * 1000)
        swarm.engine.at(at_ms, partial(swarm.restart, node, fault.keep_state))


def _stall(swarm: Swarm, fault: Fault) -> None:
    for node in _victims(swarm, fault):
        swarm.stall(node, int(fault.for_s * 1000))


def _partition(swarm: Swarm, fault: Fault) -> None:
    swarm.partition({node.index: 1 for node in _victims(swarm, fault)})
    swarm.engine.at(swarm.now_ms + int(fault.for_s * 1000), swarm.heal)


def _reset(swarm: Swarm, fault: Fault) -> None:
    living = list(swarm.live.values())
    for node in _victims(swarm, fault):
        others = [other for other in living if other is not node]
        if others:
            swarm.reset(node, others[swarm.rng.randrange(len(others))])


def _join(swarm: Swarm, fault: Fault) -> None:
    for node in _victims(swarm, fault):
        swarm.start(swarm.interests[node.index].values())


def _corrupt(swarm: Swarm, fault: Fault) -> None:
    for node in _victims(swarm, fault):
        swarm.corrupt(node)


def _churn(swarm: Swarm, fault: Fault) -> None:
    """Replace the share of one second, and again a second later."""
    expected = fault.share * len(swarm.live) + fault.count
    count = int(expected) + (swarm.rng.random() < expected - int(expected))
    for _ in range(min(count, len(swarm.live) - 1)):
        _replace(swarm)
    left_s = fault.for_s - 1.0
    if left_s > 0.0:
        again = msgspec.structs.replace(fault, for_s=left_s)
        swarm.engine.at(swarm.now_ms + 1000, partial(_churn, swarm, again))


def _replace(swarm: Swarm) -> None:
    """One peer goes, one way or the other, and a new one comes with its interests."""
    node = list(swarm.live.values())[swarm.rng.randrange(len(swarm.live))]
    interests = list(swarm.interests[node.index].values())
    if swarm.rng.random() < 0.5:
        swarm.leave(node)
    else:
        swarm.crash(node)
    swarm.start(interests)


_FAULTS: Final[dict[str, Callable[[Swarm, Fault], Any]]] = {
    "crash": _crash,
    "vanish": _crash,
    "leave": _leave,
    "restart": _restart,
    "stall": _stall,
    "partition": _partition,
    "reset": _reset,
    "join": _join,
    "corrupt": _corrupt,
    "churn": _churn,
}
