"""Whatever way rows are stored and events matched: nothing owed is missing, in calm, through graceful change, and once
the ring has converged after faults."""

import pytest

from peerd.sim.network import NetworkConfig
from tests.conformance.support import Stage, cut_off, gaps
from tests.conformance.test_graceful import LEAVE_BOUND_MS, Changes

VARIANTS: dict[str, dict[str, str]] = {
    "paper": {"profile": "paper"},
    "plain Chord": {"profile": "paper-chord", "values_max": "40"},
    "chain": {"matching": "chain"},
    "chain home multicast": {"matching": "chain", "delivery": "home", "range_store": "multicast"},
    "parallel iterative": {"matching": "parallel", "lookup": "iterative", "range_store": "jump"},
    "iterative": {"lookup": "iterative"},
    "iterative home": {"lookup": "iterative", "delivery": "home"},
    "multicast": {"range_store": "multicast", "range_nodes_max": "1000"},
    "walk": {"range_store": "walk", "range_nodes_max": "1000"},
    "rotated": {"rotations": "3", "prefix_max": "3"},
    "no copies": {"replicas": "0", "cache": "0", "successors": "2"},
    "small circle": {"bits": "24"},
}
QUICK = ("paper", "plain Chord", "chain home multicast", "parallel iterative", "walk", "rotated", "no copies")
"""The fast part has these: every way of hashing, of matching, of storing a range, of delivery and of lookup."""


@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in VARIANTS]
)
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


def calm_again(stage: Stage) -> None:
    stage.converge()
    stage.publish(40, 2_000)
    stage.run(2_000)
    stage.finish(least_expected=20)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_faults_are_mended(variant: str) -> None:
    stage = Stage("chord", 2, "mixed", settings=VARIANTS[variant])
    stage.gather(24, each=2)
    lone = {"successors": "2"}.items() <= VARIANTS[variant].items()  # who loses all of them is cut off
    for node in stage.some(1 / 24 if lone else 0.2):
        stage.swarm.crash(node, silent=True)
    calm_again(stage)
    stage.swarm.partition(cut_off(stage.some(1 / 3)))
    stage.run(20_000)
    stage.swarm.heal()
    calm_again(stage)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_datagrams_are_safe(variant: str) -> None:
    network = NetworkConfig(link="datagram", loss=0.05, duplication=0.05, reordering_ms=100)
    stage = Stage("chord", 3, "mixed", network, settings=VARIANTS[variant])
    stage.gather(20, each=2)
    stage.swarm.oracle.fault(stage.swarm.now_ms)
    Changes(stage, every_ms=300, count=25)
    stage.publish(60, 10_000)
    stage.run(10_000 + LEAVE_BOUND_MS)
    stage.swarm.calm()
    calm_again(stage)
