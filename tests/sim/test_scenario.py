"""A scenario goes through its phases, and its summary says what came of it."""

from typing import Any

import msgspec
import pytest

from peerd.sim.faults import Fault
from peerd.sim.scenario import Scenario, run
from peerd.sim.summary import Summary


def phases_of(scenario: Scenario) -> tuple[list[str], Summary]:
    seen: list[str] = []

    def progress(phase: str, share: float) -> None:
        assert 0.0 <= share <= 1.0
        if not seen or seen[-1] != phase:
            seen.append(phase)

    return seen, run(scenario, progress)


def test_without_faults() -> None:
    phases, summary = phases_of(Scenario(peers=15, events=50, seed=1))
    assert phases == ["join", "settle", "calm", "drain"]
    assert summary.peers == 15
    assert summary.subscriptions == 15
    assert summary.events == 50
    assert summary.expected > 0
    assert (summary.false_negatives, summary.at_risk, summary.spurious, summary.duplicates) == (0, 0, 0, 0)
    assert summary.invariant_violations == 0
    assert summary.converged_s is not None


def test_with_faults_half_of_the_events_are_published_while_they_happen() -> None:
    scenario = Scenario(
        peers=15, events=60, rate=10, seed=1, workload="mixed", faults=(Fault(fault="crash", count=3, at_s=1),)
    )
    phases, summary = phases_of(scenario)
    assert phases == ["join", "settle", "stress", "converge", "calm", "drain"]
    assert summary.peers == 12
    assert summary.events == 60
    assert summary.at_risk > 0
    assert summary.expected > 0
    assert (summary.false_negatives, summary.spurious, summary.duplicates) == (0, 0, 0)


def test_churn_lasts_as_long_as_its_events() -> None:
    _, summary = phases_of(Scenario(peers=15, events=40, rate=4, churn=0.1, seed=2, workload="mixed"))
    assert summary.at_risk > 0
    assert summary.expected > 0
    assert summary.false_negatives == 0
    assert summary.peers == 15


def test_as_many_subscriptions_as_asked_for() -> None:
    _, summary = phases_of(Scenario(peers=10, subscriptions=35, events=20, seed=1, workload="mixed"))
    assert summary.subscriptions == 35
    assert summary.delivered >= summary.expected > 0
    _, none = phases_of(Scenario(peers=5, subscriptions=0, events=5, seed=1))
    assert (none.expected, none.delivered, none.fn_ratio, none.bytes_per_delivery) == (0, 0, 0.0, 0.0)


def test_no_events_at_all() -> None:
    _, summary = phases_of(Scenario(peers=5, events=0))
    assert (summary.events, summary.expected) == (0, 0)


def test_one_peer() -> None:
    _, summary = phases_of(Scenario(peers=1, events=20, workload="mixed"))
    assert summary.hops.max == 0
    assert summary.false_negatives == 0


CHANGING: dict[str, Any] = {"peers": 25, "events": 60, "rate": 10, "seed": 1, "churn": 0.05, "workload": "mixed"}


@pytest.fixture(scope="module")
def with_protocols() -> Summary:
    return run(msgspec.convert(CHANGING, Scenario))


@pytest.mark.parametrize(
    "oracle", [{"liveness": "oracle"}, {"sampling": "oracle"}, {"liveness": "oracle", "sampling": "oracle"}]
)
def test_an_oracle_may_stand_in(oracle: dict[str, str], with_protocols: Summary) -> None:
    summary = run(msgspec.convert(CHANGING | oracle, Scenario))
    assert summary.expected > 0
    assert summary.false_negatives == 0
    assert summary.invariant_violations == 0
    assert summary.messages < with_protocols.messages


def test_the_same_scenario_gives_the_same_summary() -> None:
    def measured() -> dict[str, object]:
        summary = msgspec.to_builtins(run(Scenario(peers=12, events=30, churn=0.1, rate=5, loss=0.05, seed=5)))
        return {key: value for key, value in summary.items() if key not in ("wall_s", "messages_per_s", "peak_rss_mb")}

    assert measured() == measured()


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"overlay": "telepathy"}, "there is no overlay 'telepathy'"),
        ({"workload": "nothing"}, "unknown workload"),
        ({"settings": {"link": "3"}}, "no parameter 'link'"),
        ({"overlay": "broadcast", "settings": {"links": "many"}}, "overlay 'broadcast'"),
        ({"latency": "fast"}, "latency 'fast'"),
    ],
)
def test_wrong_options_say_so_in_one_line(wrong: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as error:
        run(msgspec.convert({"peers": 3, "events": 1, **wrong}, Scenario))
    assert "\n" not in str(error.value)
