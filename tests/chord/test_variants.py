"""Whatever way rows are stored and events matched: nothing owed is missing, in calm and through graceful change."""

import pytest

from tests.conformance.support import Stage, gaps
from tests.conformance.test_graceful import LEAVE_BOUND_MS, Changes

VARIANTS: dict[str, dict[str, str]] = {
    "paper": {"profile": "paper"},
    "plain Chord": {"profile": "paper-chord", "values_max": "40"},
    "chain": {"matching": "chain"},
    "chain home multicast": {"matching": "chain", "delivery": "home", "range_store": "multicast"},
    "parallel iterative": {"matching": "parallel", "lookup": "iterative", "range_store": "jump"},
    "iterative": {"lookup": "iterative"},
    "multicast": {"range_store": "multicast", "range_nodes_max": "1000"},
    "walk": {"range_store": "walk", "range_nodes_max": "1000"},
    "rotated": {"rotations": "3", "prefix_max": "3"},
    "no copies": {"replicas": "0", "cache": "0", "successors": "2"},
    "small circle": {"bits": "24"},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_owed_is_missing(variant: str) -> None:
    stage = Stage("chord", 1, "mixed", settings=VARIANTS[variant])
    stage.gather(14, each=2)
    changes = Changes(stage, every_ms=400, count=25)
    stage.publish(60, 10_000)
    stage.run(10_000 + LEAVE_BOUND_MS)
    assert [node.index for _, node in changes.left if node.alive] == []
    stage.converge()
    stage.publish(30, 1_500)
    stage.run(1_500)
    verdict = stage.finish(least_expected=50)
    assert verdict.at_risk == 0
    assert gaps(stage.swarm.oracle) == []
