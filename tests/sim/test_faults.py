"""Faults happen to as many peers as asked for, when they were asked for."""

import msgspec
import pytest

from peerd.sim.faults import Fault, schedule
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import workload

STOCKS = workload("stocks")


@pytest.fixture
def swarm() -> Swarm:
    settled = Swarm(SwarmConfig(overlay="broadcast", schema=STOCKS.schema, seed=3))
    interests = STOCKS.subscriptions(settled.stream("subscriptions"), 20)
    settled.start_many([[interest] for interest in interests], 50)
    settled.run(1_100)
    assert settled.converge(30_000) is not None
    return settled


def counts(swarm: Swarm) -> tuple[int, int, int]:
    """Living, refusing and vanished peers."""
    nodes = swarm.engine.nodes
    dead = [node for node in nodes if not node.alive]
    return len(swarm.live), sum(not node.silent for node in dead), sum(node.silent for node in dead)


@pytest.mark.parametrize(
    ("fault", "after"),
    [
        (Fault(fault="crash", at_s=2, share=0.2), (16, 4, 0)),
        (Fault(fault="crash", at_s=2, share=0.1, count=3), (15, 5, 0)),
        (Fault(fault="vanish", at_s=2, count=5), (15, 0, 5)),
        (Fault(fault="leave", at_s=2, share=0.5), (10, 10, 0)),
        (Fault(fault="join", at_s=2, share=0.5), (30, 0, 0)),
        (Fault(fault="crash", at_s=2, share=1.0), (1, 19, 0)),  # never everybody
    ],
    ids=lambda value: f"{value.fault}-{value.share}-{value.count}" if isinstance(value, Fault) else "",
)
def test_it_hits_as_many_as_it_says_at_its_time(swarm: Swarm, fault: Fault, after: tuple[int, int, int]) -> None:
    schedule(swarm, (fault,))
    swarm.run(1_999)
    assert counts(swarm) == (20, 0, 0)
    swarm.run(15_000)
    assert counts(swarm) == after


def test_who_joins_has_the_interests_of_somebody_who_is_there(swarm: Swarm) -> None:
    known = [interest for mine in swarm.interests.values() for interest in mine.values()]
    schedule(swarm, (Fault(fault="join", count=3),))
    swarm.run(10)
    newcomers = list(swarm.live)[20:]
    assert len(newcomers) == 3
    assert all(interest in known for index in newcomers for interest in swarm.interests[index].values())


@pytest.mark.parametrize("keep_state", [True, False])
def test_restart(swarm: Swarm, keep_state: bool) -> None:
    identities = {node.address.peer for node in swarm.live.values()}
    endpoints = {node.address.at for node in swarm.live.values()}
    schedule(swarm, (Fault(fault="restart", count=4, for_s=3, keep_state=keep_state),))
    swarm.run(2_000)
    assert len(swarm.live) == 16
    swarm.run(2_000)
    assert len(swarm.live) == 20
    assert {node.address.at for node in swarm.live.values()} == endpoints
    assert len(identities - {node.address.peer for node in swarm.live.values()}) == (0 if keep_state else 4)
    again = list(swarm.live.values())[-4:]
    assert all(bool(swarm.interests[node.index]) is keep_state for node in again)
    if keep_state:
        boots = {node.address.peer: node.address.boot for node in swarm.engine.nodes[:20]}
        assert all(node.address.boot > boots[node.address.peer] for node in again)


def test_stall(swarm: Swarm) -> None:
    schedule(swarm, (Fault(fault="stall", share=0.25, for_s=2),))
    swarm.run(10)
    assert sum(not node.open for node in swarm.live.values()) == 5
    swarm.run(2_000)
    assert all(node.open for node in swarm.live.values())


def test_partition_heals_by_itself(swarm: Swarm) -> None:
    schedule(swarm, (Fault(fault="partition", share=0.3, for_s=20),))
    swarm.run(10)
    sides = [node.side for node in swarm.live.values()]
    assert sides.count(1) == 6
    swarm.run(15_000)
    assert swarm.oracle.lost > 0
    assert swarm.converge(2_000) is None
    swarm.run(4_000)
    assert swarm.converge(30_000) is not None


def test_reset_breaks_a_connection_with_somebody_else(swarm: Swarm, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[tuple[int, int]] = []
    monkeypatch.setattr(swarm.engine, "reset", lambda a, b: broken.append((a.index, b.index)))
    schedule(swarm, tuple(Fault(fault="reset", at_s=second, share=1.0) for second in range(10)))
    swarm.run(10_000)
    assert len(broken) == 190
    assert all(a != b for a, b in broken)


def test_churn_replaces_a_share_every_second(swarm: Swarm) -> None:
    schedule(swarm, (Fault(fault="churn", share=0.1, for_s=10),))
    for _ in range(9):
        before = len(swarm.engine.nodes)
        swarm.run(1_000)
        assert len(swarm.engine.nodes) - before == 2  # a tenth of twenty
        assert len(swarm.live) == 20
    swarm.run(5_000)
    assert len(swarm.engine.nodes) == 40


def test_churn_of_less_than_one_a_second_adds_up(swarm: Swarm) -> None:
    schedule(swarm, (Fault(fault="churn", share=0.01, for_s=100),))
    swarm.run(101_000)
    assert 10 <= len(swarm.engine.nodes) - 20 <= 30
    assert len(swarm.live) == 20


def test_a_timetable_runs_in_its_order(swarm: Swarm) -> None:
    faults = (
        Fault(fault="join", at_s=3, count=2),
        Fault(fault="crash", at_s=1, count=1),
        Fault(fault="leave", at_s=2, count=1),
    )
    schedule(swarm, faults)
    living = []
    for _ in range(4):
        living.append(len(swarm.live))
        swarm.run(1_000)
    assert living == [20, 19, 18, 20]


@pytest.mark.parametrize(
    "wrong",
    [
        {"fault": "earthquake"},
        {"fault": "crash", "share": 1.5},
        {"fault": "crash", "share": -0.1},
        {"fault": "crash", "count": -1},
        {"fault": "crash", "at_s": -1},
        {"fault": "crash", "victims": 3},
    ],
)
def test_wrong_lines_of_a_timetable_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Fault)
