"""Flow control in a swarm that is overloaded: limits are set, kept, and lifted when the load is gone."""

from collections import Counter
from functools import partial
from typing import Any

from peerd.sim.engine import Node
from peerd.sim.swarm import Swarm
from protocols.overlay import Control, Report
from tests.sub2sub.scene import participants, swarm_of

RANGES = [(0, 100)] * 4 + [(0, 40), (30, 70), (60, 100)] * 2
PARAMETERS: dict[str, Any] = {"profile": "paper", "rate_max": 4, "buffer_max": 60, "threshold": 30}


def overload(swarm: Swarm, per_cycle: int, cycles: int) -> None:
    rng = swarm.stream("load")
    for number in range(per_cycle * cycles):
        at_ms = swarm.now_ms + number * 1_000 // per_cycle
        swarm.engine.at(at_ms, partial(swarm.publish, {"x": rng.randrange(101)}))
    swarm.run(1_000 * cycles)


def counted(swarm: Swarm) -> Counter[str]:
    """Control facts from now on, as they come."""
    told: Counter[str] = Counter()
    oracle = swarm.oracle

    class Listener:
        on_active, on_deliver, on_reception = oracle.on_active, oracle.on_deliver, oracle.on_reception

        @staticmethod
        def on_report(now_ms: int, node: Node, effect: Report) -> None:
            oracle.on_report(now_ms, node, effect)
            if isinstance(effect.fact, Control):
                told[effect.fact.fact] += 1

    swarm.engine.observe(Listener)
    return told


def test_limits_are_set_kept_and_lifted() -> None:
    swarm = swarm_of(RANGES, uploads=(110.0,), **PARAMETERS)
    told = counted(swarm)
    overload(swarm, 40, 40)
    assert told["flow-control"]
    assert told["limit-set"]
    assert told["limit-kept"]
    assert swarm.oracle.dropped["limit"] > 0  # nothing is gone in silence
    assert not told["flow-lifted"]
    swarm.run(80_000)
    assert told["limit-lifted"]
    assert all(not p.limits() for p in participants(swarm))


def test_without_budgets_there_is_no_flow_control_and_nothing_is_lost() -> None:
    swarm = swarm_of(RANGES, **PARAMETERS)
    told = counted(swarm)
    overload(swarm, 40, 5)
    swarm.run(60_000)
    verdict = swarm.oracle.settle()
    assert verdict.expected > 1_000
    assert verdict.missing == []
    assert told == {}
