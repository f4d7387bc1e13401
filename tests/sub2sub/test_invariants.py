"""Each checker is silent on a sound swarm and speaks up on one that was corrupted by hand."""

from collections.abc import Callable

import pytest

from peerd.sim import invariants
from peerd.sim.invariants.sub2sub import budget_kept, claims_cover, limits_respected, rings_exact
from peerd.sim.swarm import Swarm
from protocols.overlay import Send, SetBudget
from protocols.sub2sub.messages import FlowLimit, Ring
from protocols.sub2sub.order import cell
from tests.sub2sub.scene import copy, participants, swarm_of


@pytest.fixture(scope="module")
def swarm() -> Swarm:
    return swarm_of([(0, 30), (20, 60), (50, 90), (10, 80)])


def test_a_sound_swarm_violates_nothing(swarm: Swarm) -> None:
    assert invariants.violations(swarm) == []


def a_link_is_forgotten(swarm: Swarm) -> Callable[[], None]:
    ring = participants(swarm)[1].rings[0]
    former = ring.upper, ring.lower
    ring.upper, ring.lower = [], []

    def mend() -> None:
        ring.upper, ring.lower = former

    return mend


def a_claim_is_forgotten(swarm: Swarm) -> Callable[[], None]:
    claims = participants(swarm)[2].claims
    former, claims._places = claims._places, {}
    digest, claims.digest = claims.digest, 1

    def mend() -> None:
        claims._places, claims.digest = former, digest

    return mend


def too_much_is_spent(swarm: Swarm) -> Callable[[], None]:
    participant = participants(swarm)[0]
    participant.handle(swarm.now_ms, SetBudget(100.0))
    participant.budget.last = (390.0, 20.0)

    def mend() -> None:
        participant.budget.limit = None

    return mend


def a_limit_is_exceeded(swarm: Swarm) -> Callable[[], None]:
    """A feeder that does not know its limit: it sends what comes."""
    wire = swarm.engine.tap
    assert isinstance(wire, limits_respected.Wire)
    standing = {cell(p.descriptor()): p.descriptor().address for p in participants(swarm)}
    feeder, broker = standing[5], standing[6]
    wire(swarm.now_ms, broker, Send(0, (feeder,), FlowLimit(0, 6, 0, 100, 5.0, 1)))
    for number in range(30):
        wire(swarm.now_ms, feeder, Send(0, (broker,), Ring(copy(f"e{number}", 25))))
    return wire.accounts.clear


@pytest.mark.parametrize(
    ("corrupt", "check"),
    [
        (a_link_is_forgotten, rings_exact.check),
        (a_claim_is_forgotten, claims_cover.check),
        (too_much_is_spent, budget_kept.check),
        (a_limit_is_exceeded, limits_respected.check),
    ],
)
def test_a_corrupted_swarm_is_found_out(
    swarm: Swarm, corrupt: Callable[[Swarm], Callable[[], None]], check: invariants.Checker
) -> None:
    assert list(check(swarm)) == []
    mend = corrupt(swarm)
    assert list(check(swarm))
    mend()
    assert list(check(swarm)) == []
