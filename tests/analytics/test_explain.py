"""Forensics: the way of an event, and why a delivery is missing."""

from argparse import Namespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics.advise import collected
from analytics.explain import explain, told
from analytics.ingest import NoLogs, read_lines, segments
from analytics.parse import parsed
from analytics.places import Places
from tests.analytics.support import GUARD_S, Log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(GUARD_S)]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """a publishes; b passes on to c; d is linked with c only, e with nobody; f's copy was dropped. In the end peers are
    taken down."""
    log, everything = Log(), {"price": {"ge": 1.0}}
    peers = ("a", "b", "c", "d", "e", "f")
    log.start(*peers)
    for peer in peers[1:]:
        log.subscribe(1, peer, f"s-{peer}", everything)
        log.active(2, peer, f"s-{peer}")
    log.subscribe(1, "b", "cheap", {"price": {"lt": 1.0}})
    log.active(2, "b", "cheap")
    log.subscribe(29, "c", "late", everything)
    log.active(30.5, "c", "late")
    log.subscribe(1, "d", "late", {"price": {"lt": 1.0}})  # callers choose names
    log.active(2, "d", "late")
    linked = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "f"))
    for peer, other in linked:
        log.add(3, peer, "link", change="up", link="random", receiver=other, participant=0)
    log.publish(30, "a", "event-1", price=2.0)
    log.receive(30.010, "b", "event-1", "a")
    log.deliver(30.010, "b", "event-1", "s-b", latency_us=10_000)
    log.receive(30.030, "c", "event-1", "b", hops=2)
    log.deliver(30.030, "c", "event-1", "s-c", latency_us=30_000, hops=2)
    log.add(30.020, "a", "drop", event_id="event-1", reason="link-full", receiver="f")
    log.publish(31, "a", "event-10", price=0.5)  # its id begins with that of another
    log.alive(35, *peers)
    log.end(35)
    for peer, other in linked:
        log.add(36, peer, "link", change="down", link="random", receiver=other, participant=0)
    directory = tmp_path_factory.mktemp("logs")
    log.write(directory)
    return str(directory)


@pytest.fixture(scope="module")
def found(spark: SparkSession, logs: str) -> dict[str, Any]:
    return explain(spark, logs, "event-1")


def test_the_way(found: dict[str, Any]) -> None:
    lines = told(found).splitlines()
    assert lines[0] == "event event-1 of run r (broadcast)"
    tree = lines.index("a")
    assert lines[tree + 1 : tree + 3] == ["  b  10 ms  delivered to s-b", "    c  30 ms  delivered to s-c"]
    assert "dropped by a for f: link-full" in lines


def test_where_it_stopped(found: dict[str, Any]) -> None:
    reasons = {verdict["subscription_id"]: verdict["why"] for verdict in found["missing"]}
    assert reasons == {
        "s-d": "c had the event and has a link to d, which it never reached",
        "s-e": "no peer that had the event was linked with it, or with peers that are",
        "s-f": "a dropped the copy for it: link-full",
    }
    [stopped] = [verdict for verdict in found["missing"] if verdict["subscription_id"] == "s-d"]
    assert [(step["sender"], step["peer"]) for step in stopped["way"]] == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize(
    ("subscription", "outcomes"),
    [
        ("s-c", [("c", "delivered", "after 2 hops and 30 ms")]),
        ("cheap", [("b", "not owed", "its filter does not match: …")]),
        (
            "late",
            [
                ("c", "not owed", "it became active 0.500 s after the publication"),
                ("d", "not owed", "its filter does not match: …"),
            ],
        ),
    ],
)
def test_what_became_of_one_delivery(
    spark: SparkSession, logs: str, subscription: str, outcomes: list[tuple[str, str, str]]
) -> None:
    """At each peer that has a subscription of that name."""
    found = explain(spark, logs, "event-1", subscription)
    assert [(each["peer"], each["verdict"], each["why"]) for each in found["subscriptions"]] == outcomes
    assert [f"  {why}" in told(found).splitlines() for _, _, why in outcomes] == [True] * len(outcomes)


def test_there_must_be_such_an_event(spark: SparkSession, logs: str) -> None:
    with pytest.raises(NoLogs, match="there is no event nothing"):
        explain(spark, logs, "nothing")
    with pytest.raises(NoLogs, match=r"there is no run 'none' in the logs; there are r$"):
        explain(spark, logs, "event-1", run="none")
    with pytest.raises(NoLogs, match="there is no subscription nobody"):
        explain(spark, logs, "event-1", "nobody")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """c's clock is an hour ahead; of three events, one of them its own, the last never came to it. A line of a newer
    version, and one that was cut off."""
    hour, log = 3_600, Log("odd", author=False)
    ahead = {"a": 0, "b": 0, "c": hour}
    for peer, by_s in ahead.items():
        log.start(peer, at_s=by_s)
        log.subscribe(1 + by_s, peer, f"s-{peer}", {"price": {"ge": 1.0 if peer != "a" else 9.0}})
        log.active(1 + by_s, peer, f"s-{peer}")
    for at_s, publisher, readers in ((5, "a", "bc"), (6, "c", "bc"), (7, "a", "b")):
        log.publish(at_s + ahead[publisher], publisher, f"event-{at_s}", price=2.0)
        for peer in readers:
            late_us = (ahead[peer] - ahead[publisher]) * 1_000_000 + 10_000
            log.deliver(at_s + ahead[peer] + 0.01, peer, f"event-{at_s}", f"s-{peer}", late_us)
    for second in range(1, 31):
        for peer, by_s in ahead.items():
            log.add(second + by_s, peer, "peer", change="alive", about=None)
    log.add(8, "a", "publish", event_id="from-the-future", attributes={}, v=2)
    directory = tmp_path_factory.mktemp("odd")
    log.write(directory, tail='{"v":1,"ts_us":17')
    log.write(directory, "000001.jsonl.open")
    return str(directory)


def test_a_wrong_clock_and_lines_that_are_no_records_are_told(spark: SparkSession, odd: str) -> None:
    found = explain(spark, odd, "event-7")
    assert [verdict["subscription_id"] for verdict in found["missing"]] == ["s-c"]  # by its own clock not yet active
    assert found["notes"] == [
        "1 segments are still open and were left out; --open takes them in",
        "1 lines are no records: not a JSON object, or a field of the wrong type",
        "the clock of c was 3,600 s ahead; its times are corrected, to the second",
    ]
    assert f"note: {found['notes'][0]}" in told(found).splitlines()


def test_an_event_of_a_newer_version_is_not_simply_absent(spark: SparkSession, odd: str) -> None:
    with pytest.raises(NoLogs, match=r"there is no event from-the-future.*; 1 lines are no records: a newer version"):
        explain(spark, odd, "from-the-future")


def test_a_workload_is_collected_at_its_true_rate(spark: SparkSession, odd: str) -> None:
    """Three events in two seconds, though one of them is dated an hour later."""
    rows = parsed(read_lines(spark, segments(Places(spark), odd).closed))
    workload, notes = collected(rows, Namespace(run=None, peers=10, events=10))
    assert (workload["rate"], len(workload["events"]), len(workload["subscriptions"])) == (1.5, 3, 3)
    assert len(notes) == 2
