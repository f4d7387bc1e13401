"""What was owed, on a run written by hand: who subscribed when, to what, and what a fault put at risk."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from analytics import parse
from analytics.holding import on_disk
from analytics.ingest import read_lines
from analytics.places import File
from analytics.truth import Truth, truth
from tests.analytics.support import GUARD_S, Log, rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(GUARD_S)]


@pytest.fixture(scope="module")
def all_runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """The truth of all runs of this page, worked out together."""
    logs = tmp_path_factory.mktemp("logs")
    paths = [log.write(logs) for log in (eventful(), coarse(), unwatched(), untyped())]
    records = parse.records(parse.parsed(read_lines(spark, [File(str(path), 0) for path in paths])))
    return truth(records, on_disk(str(tmp_path_factory.mktemp("held"))), 1.0)


def of_run(truth: Truth, run: str) -> Truth:
    return Truth(*[frame.where(F.col("run") == run) for frame in truth])


def eventful(run: str = "eventful") -> Log:
    """Events are called after what they show; all match `s`, which is at b, unless they say so."""
    log = Log(run)
    log.start("a", "b", "c", "d")
    log.subscribe(1, "b", "s", {"price": {"ge": 1.0, "le": 5.0}}, {"symbol": {"eq": "X"}})
    log.active(2, "b", "s")
    log.subscribe(1, "c", "all", {})
    log.active(1.5, "c", "all")
    log.publish(1.9, "a", "early", price=2.0)
    log.publish(2, "a", "same moment", price=2.0)
    log.publish(3, "a", "fine", price=2.0, symbol="X")
    log.publish(4, "a", "missing", symbol="X")
    log.publish(5, "a", "unwanted by s", price=7.0)
    log.subscribe(20, "b", "s", {"price": {"gt": 5.0}}, change="updated")
    log.publish(11, "a", "too near to the update", price=2.0)
    log.publish(21, "a", "after the update", price=7.0)
    log.active(22, "b", "s")
    log.publish(23, "a", "of the new filter", price=7.0)
    log.add(50, "d", "fault", fault="crash", about="d", detail={})
    log.publish(39, "a", "before the fault reaches", price=8.0)
    log.publish(41, "a", "at risk", price=8.0)
    log.publish(59, "a", "still at risk", price=8.0)
    log.add(60, "sim", "control", fact="run.converged", value=5.0, detail={})
    log.publish(61, "a", "safe again", price=8.0)
    log.add(69, "c", "peer", change="leaving", about=None)
    log.add(90, "b", "subscription", change="removed", subscription_id="s", filter=None, boxes=[])
    for id_ in ("fine", "of the new filter", "before the fault reaches", "at risk", "safe again"):
        log.deliver(62, "b", id_, "s")
    log.deliver(6, "b", "unwanted by s", "s")
    log.deliver(63, "b", "fine", "s")
    for peer in ("a", "b"):
        log.add(99, peer, "peer", change="alive", about=None)
    log.receive(99, "a", "fine", "b", matched=False)
    log.end(100)
    log.add(101, "a", "peer", change="leaving", about=None)
    log.receive(101, "b", "safe again", "a", matched=False)  # sent again to whoever takes over
    log.add(101, "b", "traffic", message="ev", sent=1, received=1, sent_bytes=9, received_bytes=9)
    return log


@pytest.fixture
def made(all_runs: Truth) -> Truth:
    return of_run(all_runs, "eventful")


def test_what_was_owed(made: Truth) -> None:
    owed = rows(made.owed.where("subscription_id = 's'"), "event_id", "at_risk", "missing")
    assert owed == [
        ("at risk", True, False),
        ("before the fault reaches", False, False),
        ("fine", False, False),
        ("missing", False, True),
        ("of the new filter", False, False),
        ("safe again", False, False),
        ("still at risk", True, True),
    ]


def test_a_leaver_is_owed_what_came_10_s_before(made: Truth) -> None:
    owed = {row[0] for row in rows(made.owed.where("subscription_id = 'all'"), "event_id")}
    assert "still at risk" in owed  # at 59, it was told to leave at 69
    assert "safe again" not in owed
    assert "early" in owed


def test_deliveries_that_nobody_asked_for(made: Truth) -> None:
    assert rows(made.spurious, "event_id", "subscription_id") == [("unwanted by s", "s")]


def test_a_second_delivery_is_a_copy_of_the_first(made: Truth) -> None:
    assert rows(made.arrivals.where("event_id = 'fine'"), "copies", "latency_us") == [(2, 5_000)]


def test_how_lives_ended(made: Truth) -> None:
    assert rows(made.lives, "peer", "how") == [("a", "lived"), ("b", "lived"), ("c", "left"), ("d", "crashed")]


def test_what_peers_write_while_they_are_taken_down_is_not_lost(made: Truth) -> None:
    assert rows(made.lives, "peer", "lost") == [(peer, 0) for peer in "abcd"]


def test_what_peers_do_while_they_are_taken_down_means_nothing(made: Truth) -> None:
    assert rows(made.receptions, "event_id") == [("fine",)]
    assert made.records.where("kind = 'traffic'").count() == 1  # summed by intervals, of which this is the last


def test_participants_stand_until_their_peer_ends(made: Truth) -> None:
    counts = dict(rows(made.publications, "event_id", "participants"))
    assert (counts["early"], counts["before the fault reaches"], counts["still at risk"]) == (4, 4, 3)


# --- Logs of peers that nobody watched --------------------------------------------------------------------------------


def unwatched(run: str = "unwatched", **fields: Any) -> Log:
    log = Log(run, author=False)
    log.start("a", "b", "c", **fields)
    log.subscribe(1, "b", "s", {})
    log.active(2, "b", "s")
    log.alive(90, "a", "b")
    log.alive(20, "c")
    log.publish(2.5, "a", "within the grace of clocks", price=1.0)
    log.publish(4, "a", "owed", price=1.0)
    log.publish(15, "a", "around the silence", price=1.0)
    log.publish(85, "a", "too near to the end", price=1.0)
    return log


def test_a_silent_peer_is_a_fault_and_clocks_have_a_grace(all_runs: Truth) -> None:
    made = of_run(all_runs, "unwatched")
    assert rows(made.lives, "peer", "how") == [("a", "cut off"), ("b", "cut off"), ("c", "silent")]
    assert rows(made.faults, "fault", "about", "inferred") == [("silence", "c", True)]
    assert rows(made.owed, "event_id", "at_risk") == [("around the silence", True), ("owed", False)]


# --- What cannot be judged --------------------------------------------------------------------------------------------


def coarse() -> Log:
    log = eventful("coarse")
    log.subscribe(1, "c", "coarse", {"price": {"ge": 1.0}}, coarse=True)
    log.active(1.5, "c", "coarse")
    log.deliver(3, "c", "early", "coarse")
    return log


def untyped() -> Log:
    log = unwatched("untyped", schema=None)
    log.subscribe(1, "b", "typed", {"price": {"ge": 0.5}})
    log.active(2, "b", "typed")
    return log


def test_coarse_filters_are_not_judged(all_runs: Truth) -> None:
    made = of_run(all_runs, "coarse")
    assert rows(made.versions.where("not judged"), "subscription_id") == [("coarse",)]
    assert made.owed.where("subscription_id = 'coarse'").count() == 0
    assert made.spurious.where("subscription_id = 'coarse'").count() == 0


def test_without_types_nothing_is_judged_that_needs_one(all_runs: Truth) -> None:
    made = of_run(all_runs, "untyped")
    assert rows(made.versions, "subscription_id", "judged") == [("s", True), ("typed", False)]  # TRUE needs no types
    assert {row[0] for row in rows(made.owed, "subscription_id")} == {"s"}
