"""What is owed, at risk, spurious and double, on histories written by hand."""

from math import inf
from typing import Any, cast

import pytest

from peerd.sim.engine import Node
from peerd.sim.oracle import GRACE_MS, Oracle, Verdict
from protocols.model.box import Box, Point
from protocols.model.event import Attributes, Event
from protocols.model.ids import PEER_SLOT
from protocols.overlay import Active, Deliver, Dropped, Joined, Left, Lost, Rejected, Repaired, Report
from tests.sim.machines import address

LOW, HIGH, WIDE = (Box((0,), (10,)),), (Box((10,), (20,)),), (Box((0,), (20,)),)


def everything(attributes: object) -> bool:
    return True


class History:
    """A run in which only the test says what happens."""

    def __init__(self, peers: int = 2) -> None:
        self.oracle = Oracle()
        self.nodes = [Node(number, address(number), cast(Any, None)) for number in range(peers)]
        for node in self.nodes:
            self.oracle.peer_started(node)
        self._events: dict[str, Event] = {}

    def subscribe(self, at_ms: int, boxes: tuple[Box, ...] = LOW, active_ms: int | None = None, peer: int = 0) -> None:
        self.oracle.subscribed(at_ms, self.nodes[peer], "s", boxes, everything)
        if active_ms is not None:
            self.active(active_ms, peer)

    def active(self, at_ms: int, peer: int = 0) -> None:
        self.oracle.on_active(at_ms, self.nodes[peer], Active(PEER_SLOT, "s", 0))

    def publish(self, at_ms: int, value: int = 5, id_: str = "e") -> None:
        attributes: Attributes = {"x": value}
        self._events[id_] = Event(id_, Point((value,)))
        self.oracle.published(at_ms, self._events[id_], attributes)

    def deliver(self, at_ms: int, id_: str = "e", peer: int = 0) -> None:
        self.oracle.on_deliver(at_ms, self.nodes[peer], Deliver(PEER_SLOT, self._events[id_], ("s",), 1))

    def report(self, fact: Any, slot: int = 0, peer: int = 0) -> None:
        self.oracle.on_report(0, self.nodes[peer], Report(slot, fact))

    def settle(self) -> Verdict:
        return self.oracle.settle()


# --- Owed -------------------------------------------------------------------------------------------------------------


def test_delivered_and_owed() -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.publish(20)
    history.deliver(30)
    assert history.settle() == Verdict(expected=1)


def test_owed_and_missing() -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.publish(20)
    assert history.settle() == Verdict(expected=1, false_negatives=1, missing=[("e", 0, "s")])


def test_nothing_is_owed_to_who_does_not_match() -> None:
    history = History()
    history.subscribe(0, HIGH, active_ms=10)
    history.publish(20)
    assert history.settle() == Verdict()


@pytest.mark.parametrize(("published_ms", "expected"), [(9, 0), (10, 0), (11, 1)])
def test_owed_if_active_before_the_publication(published_ms: int, expected: int) -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.publish(published_ms)
    assert history.settle().expected == expected


def test_what_never_became_active_is_owed_nothing() -> None:
    history = History()
    history.subscribe(0)
    history.publish(20)
    assert history.settle() == Verdict()
    assert history.oracle.versions[0].active_ms == inf


@pytest.mark.parametrize("end", ["unsubscribe", "update", "crash"])
@pytest.mark.parametrize(("after_ms", "expected"), [(GRACE_MS - 1, 0), (GRACE_MS, 1), (GRACE_MS + 1, 1)])
def test_unchanged_and_alive_for_ten_seconds(end: str, after_ms: int, expected: int) -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.publish(1_000)
    end_ms = 1_000 + after_ms
    if end == "unsubscribe":
        history.oracle.unsubscribed(end_ms, history.nodes[0], "s")
    elif end == "update":
        history.subscribe(end_ms, HIGH)
    else:
        history.oracle.peer_ended(end_ms, history.nodes[0])
    assert history.settle().expected == expected


def test_an_update_is_owed_from_its_own_active_on() -> None:
    history = History()
    history.subscribe(0, LOW, active_ms=10)
    history.subscribe(20_000, HIGH, active_ms=20_100)
    history.publish(20_050, 15, "between")
    history.publish(20_101, 15, "after")
    assert [missing[0] for missing in history.settle().missing] == ["after"]


def test_each_peer_is_owed_for_itself() -> None:
    history = History(3)
    for peer in range(3):
        history.subscribe(0, active_ms=10, peer=peer)
    history.publish(20)
    history.deliver(30, peer=1)
    verdict = history.settle()
    assert (verdict.expected, verdict.false_negatives) == (3, 2)
    assert verdict.missing == [("e", 0, "s"), ("e", 2, "s")]


# --- At risk ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("published_ms", "at_risk"),
    [(39_999, False), (40_000, True), (50_000, True), (60_000, True), (60_001, False)],
)
def test_at_risk_from_ten_seconds_before_the_fault_until_converged(published_ms: int, at_risk: bool) -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.publish(published_ms)
    history.oracle.fault(50_000)
    history.oracle.converged(60_000)
    verdict = history.settle()
    assert (verdict.at_risk, verdict.at_risk_missing) == ((1, 1) if at_risk else (0, 0))
    assert (verdict.expected, verdict.false_negatives) == ((0, 0) if at_risk else (1, 1))


def test_at_risk_and_delivered_is_not_missing() -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.publish(45_000)
    history.oracle.fault(50_000)
    history.deliver(51_000)
    assert history.settle() == Verdict(at_risk=1)


def test_a_fault_that_never_ends_puts_everything_after_it_at_risk() -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.oracle.fault(50_000)
    history.publish(10_000_000)
    assert history.settle() == Verdict(at_risk=1, at_risk_missing=1)


def test_a_second_fault_before_convergence_prolongs_the_first() -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.oracle.fault(50_000)
    history.oracle.fault(70_000)
    history.oracle.converged(80_000)
    history.publish(75_000, id_="during")
    history.publish(80_001, id_="after")
    verdict = history.settle()
    assert (verdict.at_risk, verdict.expected) == (1, 1)


def test_two_faults_are_two_windows() -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    for start_ms in (50_000, 100_000):
        history.oracle.fault(start_ms)
        history.oracle.converged(start_ms + 5_000)
    history.publish(52_000, id_="first")
    history.publish(80_000, id_="between")
    history.publish(102_000, id_="second")
    verdict = history.settle()
    assert verdict.at_risk == 2
    assert [missing[0] for missing in verdict.missing] == ["between"]


# --- Spurious and double ----------------------------------------------------------------------------------------------


def test_spurious_is_what_does_not_match() -> None:
    history = History()
    history.subscribe(0, HIGH, active_ms=10)
    history.publish(20)
    history.deliver(30)
    assert history.settle().spurious == 1


def test_spurious_is_what_nobody_subscribed_to() -> None:
    history = History()
    history.publish(20)
    history.deliver(30)
    assert history.settle().spurious == 1


def test_before_it_is_active_a_subscription_may_be_served() -> None:
    history = History()
    history.publish(5)
    history.subscribe(10, active_ms=100)
    history.deliver(50)
    assert history.settle() == Verdict()


def test_spurious_is_what_arrived_before_the_subscription() -> None:
    history = History()
    history.publish(5)
    history.deliver(8)
    history.subscribe(10, active_ms=100)
    assert history.settle().spurious == 1


def test_spurious_is_what_was_published_after_the_end() -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.oracle.unsubscribed(100, history.nodes[0], "s")
    history.publish(101)
    history.deliver(120)
    assert history.settle().spurious == 1


def test_what_was_on_its_way_at_the_end_is_not_spurious() -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.publish(90)
    history.oracle.unsubscribed(100, history.nodes[0], "s")
    history.deliver(101)
    assert history.settle() == Verdict()


def test_while_an_update_is_under_way_the_old_filter_is_served() -> None:
    history = History()
    history.subscribe(0, LOW, active_ms=10)
    history.subscribe(1_000, HIGH)
    history.publish(1_100, 5, "old")
    history.publish(1_100, 15, "new")
    history.deliver(1_200, "old")
    history.deliver(1_200, "new")
    history.active(2_000)
    history.publish(2_001, 5, "too late")
    history.deliver(2_100, "too late")
    verdict = history.settle()
    assert verdict.spurious == 1


def test_an_event_that_both_filters_match_may_come_by_the_old_one() -> None:
    """It arrives before the update that matches it too: that is no reason to call it spurious."""
    history = History()
    history.subscribe(0, LOW, active_ms=10)
    history.publish(90_000)
    history.deliver(90_050)
    history.subscribe(90_100, WIDE, active_ms=90_200)
    assert history.settle().spurious == 0


def test_a_second_delivery_is_a_duplicate() -> None:
    history = History(2)
    history.subscribe(0, active_ms=10)
    history.subscribe(0, active_ms=10, peer=1)
    history.publish(20)
    history.deliver(30)
    history.deliver(40)
    history.deliver(50, peer=1)
    assert history.oracle.duplicates == 1
    assert history.oracle.arrivals["e"][0, "s"].at_ms == 30
    assert history.settle() == Verdict(expected=2)


# --- Who stands -------------------------------------------------------------------------------------------------------


def test_participants_are_counted_while_they_stand() -> None:
    history = History(2)
    history.report(Joined(), slot=0)
    history.report(Joined(), slot=1)
    history.report(Joined(), slot=0, peer=1)
    assert history.oracle.participants == 3
    history.report(Left(), slot=1)
    assert history.oracle.participants == 2
    history.oracle.peer_ended(10, history.nodes[0])
    assert history.oracle.participants == 1
    history.report(Left(), slot=0)  # of a peer that has ended: counted already
    assert history.oracle.participants == 1
    history.publish(20)
    assert history.oracle.publications["e"].participants == 1


def test_ready_and_left_are_the_peers_own() -> None:
    history = History(2)
    history.report(Joined(), slot=0)
    assert list(history.oracle.not_ready) == [0, 1]
    history.report(Joined(), slot=PEER_SLOT)
    assert list(history.oracle.not_ready) == [1]
    history.oracle.peer_ended(5, history.nodes[1])
    assert list(history.oracle.not_ready) == []
    history.report(Left(), slot=PEER_SLOT)
    assert list(history.oracle.left) == [0]


def test_reports_are_counted() -> None:
    history = History()
    for reason in ("full", "full", "expired"):
        history.report(Dropped("e", reason))
    history.report(Rejected(address(1), "nonsense"))
    history.report(Repaired("link"))
    history.report(Lost(address(1)))
    oracle = history.oracle
    assert oracle.dropped == {"full": 2, "expired": 1}
    assert (oracle.rejected, oracle.repaired, oracle.lost) == (1, 1, 1)


# --- Without an end ---------------------------------------------------------------------------------------------------


def test_what_is_settled_and_forgotten_counts_once() -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.publish(20, id_="first")
    history.publish(5_000, id_="second")
    history.deliver(5_010, "second")
    assert history.oracle.settle(5_000) == Verdict(expected=1, false_negatives=1, missing=[("first", 0, "s")])
    history.oracle.forget(5_000)
    assert list(history.oracle.publications) == list(history.oracle.arrivals) == ["second"]
    assert history.settle() == Verdict(expected=1)


def test_nothing_is_kept_for_events_that_nobody_told_of() -> None:
    """Their publisher died before it could answer."""
    history = History()
    history.subscribe(0, active_ms=10)
    history.publish(20)
    history.deliver(30)
    del history.oracle.publications["e"]
    history.oracle.forget(30)
    assert list(history.oracle.arrivals) == ["e"]
    history.oracle.forget(31)
    assert history.oracle.arrivals == {}


def test_filters_and_risks_of_the_past_are_forgotten() -> None:
    history = History()
    history.subscribe(0, active_ms=10)
    history.oracle.unsubscribed(100, history.nodes[0], "s")
    history.subscribe(200, active_ms=210)
    history.oracle.fault(300 + GRACE_MS)
    history.oracle.converged(400 + GRACE_MS)
    history.oracle.forget(150)
    assert len(history.oracle.versions) == 1
    assert len(history.oracle.risky) == 1
    history.oracle.forget(500 + GRACE_MS)
    assert len(history.oracle.versions) == 1
    assert history.oracle.risky == []


def test_at_risk_while_a_fault_has_not_converged() -> None:
    oracle = History().oracle
    assert not oracle.at_risk
    oracle.fault(0)
    assert [oracle.at_risk] == [True]
    oracle.converged(10)
    assert [oracle.at_risk] == [False]
