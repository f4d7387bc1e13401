"""Each measure on a few rows written by hand."""

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from analytics.clocks import clocks, corrected, differences, of_relays
from analytics.faults import faults
from analytics.measures import (
    accuracy,
    churn,
    control,
    convergence,
    degree,
    dissemination,
    drops,
    duplicates,
    links,
    load,
    losses,
    subscriptions,
    summary,
    timeline,
    traffic,
    ways,
)
from analytics.receptions import receptions as receptions_of
from analytics.schema import RECORD
from analytics.spread import spread
from tests.analytics.support import S, rows, table


@pytest.fixture
def runs(spark: SparkSession) -> DataFrame:
    columns = (
        "run string, overlay string, first_us long, parameters string, detail string, sample double, converged_s double"
    )
    return table(
        spark,
        columns,
        ("r", "rtree", 10 * S, "{}", "full", 1.0, 2.0),
        ("quiet", "chord", 0, "{}", "summary", 1.0, None),
    )


@pytest.fixture
def publications(spark: SparkSession) -> DataFrame:
    columns = "run string, event_id string, publisher string, at_us long, participants long"
    return table(spark, columns, ("r", "e1", "a", 11 * S, 4), ("r", "e2", "a", 12 * S, 6))


@pytest.fixture
def owed(spark: SparkSession) -> DataFrame:
    columns = "run string, event_id string, peer string, at_us long, at_risk boolean, missing boolean"
    return table(
        spark,
        columns,
        ("r", "e1", "b", 11 * S, False, False),
        ("r", "e1", "c", 11 * S, False, True),
        ("r", "e2", "c", 12 * S, True, True),
    )


@pytest.fixture
def receptions(spark: SparkSession) -> DataFrame:
    """e1 goes a -> b -> c and comes to c again; e2 goes a -> c."""
    columns = "run string, event_id string, peer string, sender string, ts_us long, result string"
    return table(
        spark,
        columns,
        ("r", "e1", "b", "a", 11 * S + 1_000, "wanted"),
        ("r", "e1", "c", "b", 11 * S + 4_000, "unwanted"),
        ("r", "e1", "c", "a", 11 * S + 5_000, "duplicate"),
        ("r", "e2", "c", "a", 12 * S + 2_000, "unwanted"),
        ("r", "e2", "b", "a", 12 * S, "touched"),
    )


@pytest.fixture
def arrivals(spark: SparkSession) -> DataFrame:
    columns = "run string, event_id string, peer string, arrived_us long, hops int, latency_us long, copies long"
    return table(
        spark,
        columns,
        ("r", "e1", "b", 11 * S, 1, 1_000, 1),
        ("r", "e1", "c", 13 * S, 3, 2_000_000, 2),
        ("r", "e2", "c", 13 * S, 2, 9_000, 1),
    )


@pytest.fixture
def lives(spark: SparkSession) -> DataFrame:
    columns = "run string, peer string, boot long, first_us long, joined_us long, ended_us long, how string"
    return table(
        spark,
        f"{columns}, records long, lost long",
        ("r", "a", 1, 10 * S, 11 * S, None, "lived", 9, 0),
        ("r", "b", 1, 10 * S, 12 * S, 14 * S, "crashed", 9, 3),
        ("r", "b", 2, 15 * S, 15 * S, None, "lived", 9, 0),
        ("r", "c", 1, 10 * S, None, 16 * S, "left", 9, 0),
    )


def test_spread_is_by_nearest_rank(spark: SparkSession) -> None:
    values = table(spark, "run string, x int", *[("r", n) for n in range(1, 201)], ("q", 7), ("q", None))
    found = rows(spread(values, ["run"], "x"))
    assert found == [("q", 1, 7.0, 7, 7, 7), ("r", 200, 100.5, 100, 198, 200)]


def test_accuracy(
    runs: DataFrame, publications: DataFrame, owed: DataFrame, receptions: DataFrame, lives: DataFrame
) -> None:
    by_event = accuracy.by_event(publications, owed, receptions)
    assert rows(by_event, "event_id", "expected", "false_negatives", "at_risk_missing", "unwanted", "fp_ratio") == [
        ("e1", 2, 1, 0, 1, 0.25),
        ("e2", 0, 0, 1, 1, 1 / 6),
    ]
    by_peer = accuracy.by_peer(lives, owed, receptions)
    assert rows(by_peer, "peer", "lives", "expected", "false_negatives", "unwanted", "duplicate_copies") == [
        ("a", 1, 0, 0, 0, 0),
        ("b", 2, 1, 0, 0, 0),
        ("c", 1, 1, 1, 2, 1),
    ]
    by_run = accuracy.by_run(runs, publications, owed, receptions)
    assert rows(by_run, "run", "overlay", "pairs", "expected", "fn_ratio", "fp_ratio", "touched_ratio") == [
        ("quiet", "chord", 0, 0, 0.0, None, None),
        ("r", "rtree", 10, 2, 0.5, 0.2, 0.4),
    ]


def test_accuracy_of_an_overlay_over_its_runs(spark: SparkSession) -> None:
    """One run of rtree has not written its receptions down."""
    counts = "expected long, false_negatives long, at_risk long, at_risk_missing long"
    copies = "wanted long, unwanted long, duplicate_copies long, touched long"
    by_run = table(
        spark,
        f"run string, overlay string, events long, pairs long, {counts}, {copies}",
        ("r", "rtree", 2, 10, 2, 1, 1, 1, 1, 2, 1, 1),
        ("s", "rtree", 3, 90, 6, 1, 0, 0, None, None, None, None),
        ("t", "chord", 1, 10, 0, 0, 0, 0, 0, 0, 0, 0),
    )
    found = accuracy.by_overlay(by_run)
    assert rows(found, "overlay", "runs", "events", "expected", "fn_ratio", "fp_ratio", "touched_ratio") == [
        ("chord", 1, 1, 0, 0.0, 0.0, 0.0),
        ("rtree", 2, 5, 8, 0.25, 0.2, 0.4),
    ]


def test_dissemination_ratio(receptions: DataFrame) -> None:
    assert rows(dissemination.ratio_by_peer(receptions), "peer", "received", "sent", "mdr") == [
        ("b", 1, 1, 1.0),
        ("c", 3, 0, 0.0),
    ]


def test_hops_and_latency(arrivals: DataFrame) -> None:
    assert rows(ways.hops(arrivals)) == [("r", 3, 2.0, 2, 3, 3)]
    assert rows(ways.hops_distribution(arrivals)) == [("r", 1, 1), ("r", 2, 1), ("r", 3, 1)]
    assert rows(ways.latency(arrivals), "count", "p50", "max") == [(3, 9.0, 2000.0)]
    found = ways.latency_distribution(arrivals).collect()
    assert [row["deliveries"] for row in found] == [1, 1, 1]
    assert all(upto / 1.25 <= ms <= upto * 1.0001 for ms, upto in zip((1, 9, 2000), (row["upto_ms"] for row in found)))


def test_how_far_each_event_went(publications: DataFrame, receptions: DataFrame, arrivals: DataFrame) -> None:
    """e1 to its first delivery, though it went on; without one as far as it got; one that nobody received nowhere."""
    went = receptions.withColumn("hops", functions.when(functions.col("sender") == "b", 2).otherwise(1))
    assert rows(ways.by_event(publications, went, arrivals)) == [("r", "e1", 1), ("r", "e2", 2)]
    assert rows(ways.by_event(publications, went, arrivals.limit(0))) == [("r", "e1", 2), ("r", "e2", 1)]
    assert rows(ways.by_event(publications, went.limit(0), arrivals.limit(0))) == [("r", "e1", 0), ("r", "e2", 0)]


def test_load_and_noise(lives: DataFrame, publications: DataFrame, receptions: DataFrame) -> None:
    loads = load.by_peer(lives, publications, receptions)
    assert rows(loads, "peer", "load", "noise", "noise_ratio") == [("a", 0, 0, 0.0), ("b", 1, 0, 0.0), ("c", 3, 2, 1.0)]
    [evenness] = rows(load.evenness(loads), "peers", "load_max", "noise_max", "load_gini")
    assert evenness == (3, 3, 1.0, pytest.approx(0.5))  # |differences|: 2 * (1 + 3 + 2) / (2 * 3^2 * 4/3)
    assert rows(load.noise_distribution(loads), "peers", "share") == [(1, 1 / 3), (2, 2 / 3)]


def test_degree(spark: SparkSession, lives: DataFrame) -> None:
    columns = "run string, peer string, boot long, participant int, link string, receiver string, change string"
    told = table(
        spark,
        f"{columns}, ts_us long, seq long",
        ("r", "a", 1, 0, "parent", "b", "up", 1, 1),
        ("r", "a", 1, 0, "child", "b", "up", 2, 2),
        ("r", "a", 1, 0, "child", "c", "up", 3, 3),
        ("r", "a", 1, 1, "child", "a", "up", 3, 4),
        ("r", "a", 1, 0, "child", "d", "up", 3, 5),
        ("r", "a", 1, 0, "child", "d", "down", 3, 6),
        ("r", "b", 2, 0, "parent", "a", "up", 4, 1),
        ("r", "b", 1, 0, "parent", "x", "up", 4, 1),
    )
    degrees = degree.by_peer(degree.links(told, lives))
    assert rows(degrees, "peer", "degree", "links", "kinds") == [
        ("a", 2, 3, '{"child":2,"parent":1}'),
        ("b", 1, 1, '{"parent":1}'),
    ]
    assert rows(degree.by_run(degrees)) == [("r", 2, 1.5, 2, 0.25)]
    assert rows(degree.distribution(degrees)) == [("r", 1, 1), ("r", 2, 1)]


def test_traffic(spark: SparkSession, arrivals: DataFrame) -> None:
    columns = "run string, message string, sent long, received long, sent_bytes long, received_bytes long"
    told = table(
        spark, columns, ("r", "ping", 1, 1, 10, 10), ("r", "ping", 2, 1, 20, 10), ("r", "event", 3, 3, 300, 300)
    )
    found = traffic.by_message(told)
    assert [tuple(row) for row in found.collect()] == [("r", "event", 3, 3, 300, 300), ("r", "ping", 3, 2, 30, 20)]
    assert rows(traffic.by_run(found, arrivals)) == [("r", 6, 330, 3, 110.0)]


def test_duplicates(receptions: DataFrame, arrivals: DataFrame) -> None:
    assert rows(duplicates.by_run(receptions, arrivals)) == [("r", 4, 1, 1, 0.25)]


def test_convergence(spark: SparkSession, runs: DataFrame) -> None:
    columns = "run string, fault string, about string, ts_us long, inferred boolean, converged_us long"
    came = table(spark, columns, ("r", "crash", "b", 14 * S, False, 20 * S), ("r", "crash", "c", 15 * S, True, None))
    assert rows(convergence.after_faults(came, runs), "at_s", "about", "converged_s") == [
        (4.0, "b", 6.0),
        (5.0, "c", None),
    ]


def test_each_fault_has_its_own_convergence(spark: SparkSession, lives: DataFrame) -> None:
    """The first one that was seen after it; a silent peer of a run that nobody watched has none."""
    columns = "run string, kind string, fact string, fault string, about string, ts_us long"
    records = table(
        spark,
        columns,
        ("r", "fault", None, "crash", "b", 14 * S),
        ("r", "control", "run.converged", None, None, 20 * S),
        ("r", "control", "run.converged", None, None, 33 * S),
        ("r", "fault", None, "partition", None, 30 * S),
        ("r", "fault", None, "reset", "c", 40 * S),
    )
    silent = lives.where("how = 'crashed'").selectExpr("'u' as run", "peer", "'silent' as how", "ended_us")
    found = faults(records, lives.select(*silent.columns).union(silent))
    assert rows(found, "run", "ts_us", "fault", "inferred", "watched", "converged_us") == [
        ("r", 14 * S, "crash", False, True, 20 * S),
        ("r", 30 * S, "partition", False, True, 33 * S),
        ("r", 40 * S, "reset", False, True, None),
        ("u", 14 * S, "silence", True, False, None),
    ]


def test_receptions_by_what_came_of_them(spark: SparkSession) -> None:
    """b stood before the publication, c came later and was sent the event again, d touched it only."""
    told = "run string, kind string, peer string, event_id string, matched boolean, duplicate boolean, ts_us long"
    records = table(
        spark,
        told,
        ("r", "receive", "b", "e", True, False, 12 * S),
        ("r", "receive", "b", "e", True, True, 13 * S),
        ("r", "receive", "b", "f", False, False, 13 * S),
        ("r", "receive", "c", "e", True, False, 21 * S),
        ("r", "touch", "d", "e", None, None, 12 * S),
    ).withColumn("boot", functions.lit(1).cast("long"))
    publications = table(spark, "run string, event_id string, at_us long", ("r", "e", 11 * S), ("r", "f", 11 * S))
    standing = table(
        spark,
        "run string, peer string, boot long, stood_us long",
        ("r", "b", 1, 10 * S),
        ("r", "c", 1, 20 * S),
        ("r", "d", 1, 10 * S),
    )
    found = receptions_of(padded(records), publications, standing)
    assert rows(found, "peer", "event_id", "ts_us", "result") == [
        ("b", "e", 12 * S, "wanted"),
        ("b", "e", 13 * S, "duplicate"),
        ("b", "f", 13 * S, "unwanted"),
        ("c", "e", 21 * S, "late"),
        ("d", "e", 12 * S, "touched"),
    ]


def test_subscriptions(spark: SparkSession) -> None:
    columns = "run string, peer string, subscription_id string, version int, filter string, regions string"
    versions = table(
        spark,
        f"{columns}, judged boolean",
        ("r", "b", "s", 2, "price > 1", "[]", True),
        ("r", "b", "s", 1, "TRUE", "[{}]", True),
        ("r", "a", "t", 1, "x LIKE 'a%'", "[]", False),
    )
    listed = subscriptions.listed(versions).collect()
    assert [(row["peer"], row["version"], row["filter"]) for row in listed] == [
        ("a", 1, "x LIKE 'a%'"),
        ("b", 1, "TRUE"),
        ("b", 2, "price > 1"),
    ]
    assert rows(subscriptions.unjudged(versions)) == [("r", "a", "t", 1, "x LIKE 'a%'")]


def test_what_overlays_say(spark: SparkSession, runs: DataFrame) -> None:
    columns = "run string, ts_us long, peer string, participant int, fact string, value double, detail string"
    told = table(
        spark,
        columns,
        ("r", 11 * S, "a", 0, "split", 2.0, "{}"),
        ("r", 12 * S, "b", 0, "split", 4.0, "{}"),
        ("r", 14 * S, "c", 0, "limit-lifted", 0.0, "{}"),
        ("r", 13 * S, "b", 0, "cell-switch", 3.0, '{"from":"4"}'),
        ("r", 12 * S, "c", 0, "flow-control", 7.0, "{}"),
        ("r", 15 * S, "c", 0, "role", 2.0, '{"role":"feeder"}'),
        ("r", 16 * S, "c", 0, "links-overflow", 1.0, "{}"),
    )
    assert rows(control.facts(told)) == [
        ("r", "cell-switch", 1, 1, 3.0, 3.0, 3.0),
        ("r", "flow-control", 1, 1, 7.0, 7.0, 7.0),
        ("r", "limit-lifted", 1, 1, 0.0, 0.0, 0.0),
        ("r", "links-overflow", 1, 1, 1.0, 1.0, 1.0),
        ("r", "role", 1, 1, 2.0, 2.0, 2.0),
        ("r", "split", 2, 2, 6.0, 2.0, 4.0),
    ]
    assert [tuple(row) for row in control.history(told, runs).collect()] == [
        ("r", 2.0, "c", 0, "flow-control", 7.0, "{}"),
        ("r", 3.0, "b", 0, "cell-switch", 3.0, '{"from":"4"}'),
        ("r", 4.0, "c", 0, "limit-lifted", 0.0, "{}"),
        ("r", 5.0, "c", 0, "role", 2.0, '{"role":"feeder"}'),
    ]


def test_churn(lives: DataFrame, runs: DataFrame) -> None:
    columns = ("lives", "alive", "left", "crashed", "life_s_mean", "join_s_mean", "join_s_max", "restarted")
    assert rows(churn.by_run(lives), *columns) == [(4, 2, 1, 1, 5.0, 1.0, 2.0, 1)]
    assert rows(churn.steps(lives, runs)) == [("r", 0, 3, 0), ("r", 4, 0, 1), ("r", 5, 1, 0), ("r", 6, 0, 1)]


def test_slow_links(receptions: DataFrame, publications: DataFrame) -> None:
    times = links.hop_times(receptions, publications)
    assert rows(times, "sender", "receiver", "hop_us") == [("a", "b", 1_000), ("a", "c", 2_000), ("b", "c", 3_000)]
    many = times.union(times).union(times)
    assert [row["sender"] + row["receiver"] for row in links.slowest(many).collect()] == ["bc", "ac", "ab"]
    assert links.slowest(times).count() == 0


def test_timeline(
    spark: SparkSession,
    runs: DataFrame,
    publications: DataFrame,
    arrivals: DataFrame,
    owed: DataFrame,
    receptions: DataFrame,
) -> None:
    columns = "run string, kind string, ts_us long, sent long, sent_bytes long"
    records = table(
        spark, columns, ("r", "traffic", 12 * S, 5, 50), ("r", "drop", 12 * S, None, None), ("r", "peer", 12 * S, 1, 1)
    )
    found = timeline.by_second(runs, publications, arrivals, owed, receptions, records)
    assert rows(found) == [
        ("r", 1, 1, 1, 1, 3, 1, 0, 0, 0),
        ("r", 2, 1, 0, 1, 2, 1, 5, 50, 1),
        ("r", 3, 0, 2, 0, 0, 0, 0, 0, 0),
    ]


def test_drops_and_losses(spark: SparkSession, lives: DataFrame) -> None:
    told = table(
        spark, "run string, peer string, reason string", ("r", "a", "full"), ("r", "b", "full"), ("r", "b", "late")
    )
    assert rows(drops.by_reason(told)) == [("r", "full", 2, 2), ("r", "late", 1, 1)]
    assert rows(losses.by_peer(lives)) == [("r", "b", 1, 9, 3)]


def test_summary_knows_what_was_not_written_down(
    spark: SparkSession,
    runs: DataFrame,
    publications: DataFrame,
    owed: DataFrame,
    receptions: DataFrame,
    arrivals: DataFrame,
    lives: DataFrame,
) -> None:
    none = table(spark, "run string", ("nobody",))
    versions = table(
        spark,
        "run string, version int, added_us long, judged boolean",
        ("r", 1, 10 * S, True),
        ("r", 2, 10 * S, False),
        ("r", 1, 12 * S, True),
    )
    messages = table(
        spark,
        "run string, messages long, bytes long, bytes_per_delivery double",
        ("r", 5, 50, 10.0),
        ("quiet", 1, 2, 0.0),
    )
    found = summary.by_run(
        runs,
        accuracy.by_run(runs, publications, owed, receptions),
        summary.deliveries(arrivals, none),
        ways.hops(arrivals),
        ways.latency(arrivals),
        messages,
        churn.by_run(lives),
        summary.subscriptions(versions, publications),
    )
    columns = (
        "run",
        "events",
        "expected",
        "delivered",
        "duplicates",
        "fp_ratio",
        "hops_p50",
        "lives",
        "peers",
        "subscriptions",
        "unjudged",
        "messages",
    )
    assert rows(found, *columns) == [
        ("quiet", None, None, None, None, None, None, 0, 0, None, None, 1),
        ("r", 2, 2, 3, 1, 0.2, 2, 4, 2, 1, 1, 5),
    ]


# --- Clocks -----------------------------------------------------------------------------------------------------------


def test_a_clock_that_is_an_hour_off_is_found_and_corrected(spark: SparkSession) -> None:
    hour = 3600 * S
    off = {"d": hour}
    told: list[tuple[object, ...]] = []
    number = 0
    for publisher in "abcd":
        for subscriber in "abcd":
            number += 1
            sent = 10_000 * S + off.get(publisher, 0)
            got = 10_000 * S + 5_000 + off.get(subscriber, 0)
            told.append(("publish", publisher, f"e{number}", sent, None))
            told.append(("deliver", subscriber, f"e{number}", got, got - sent))
    columns = "run string, kind string, peer string, event_id string, ts_us long, latency_us long"
    records = table(spark, columns, *[("r", *row) for row in told])
    wrong = clocks(differences(records.where("kind = 'deliver'"), records.where("kind = 'publish'")))
    assert rows(wrong) == [("r", "d", 3600.0, 3)]
    right = corrected(padded(records), wrong)
    assert {row["ts_us"] for row in right.collect()} <= {10_000 * S, 10_000 * S + 5_000}
    assert right.where("kind = 'deliver' and latency_us is not null").count() == 9
    assert right.count() == 32


def test_whose_clock_was_wrong(spark: SparkSession) -> None:
    """A lone publisher that is ahead, and not its subscribers behind; of two peers just one; d is right, though it
    knows nobody but c, who is wrong."""
    hour = 3600 * S
    columns = "run string, peer string, event_id string, latency_us long, ts_us long"
    publications = table(
        spark,
        columns,
        *[(run, "p", f"{run}-p", None, 0) for run in ("lone", "two", "far")],
        ("far", "c", "far-c", None, 0),
    )
    deliveries = table(
        spark,
        columns,
        *[("lone", peer, "lone-p", 5_000 - hour, 0) for peer in "abc"],
        ("two", "a", "two-p", 5_000 - hour, 0),
        *[("far", peer, "far-p", 5_000, 0) for peer in "ab"],
        ("far", "c", "far-p", 5_000 + hour, 0),
        ("far", "d", "far-c", 5_000 - hour, 0),
    )
    found = clocks(differences(deliveries, publications))
    assert rows(found, "run", "peer", "offset_s") == [
        ("far", "c", 3600.0),
        ("lone", "p", 3600.0),
        ("two", "a", -3600.0),
    ]


def test_the_clock_of_a_peer_that_only_passes_events_on(spark: SparkSession) -> None:
    """c is an hour behind; d joined a minute after the publication and was sent it then; b is known already."""
    columns = "run string, peer string, event_id string, latency_us long, ts_us long"
    publications = table(spark, columns, *[("r", "a", f"e{n}", None, 10_000 * S) for n in range(3)])
    deliveries = table(spark, columns, ("r", "b", "e0", 5_000, 10_000 * S + 5_000))
    known = differences(deliveries, publications)
    received = table(
        spark,
        columns,
        *[("r", "b", f"e{n}", None, 10_000 * S + 5_000) for n in range(3)],
        *[("r", "c", f"e{n}", None, 6_400 * S + 5_000) for n in range(3)],
        *[("r", "d", f"e{n}", None, 10_055 * S) for n in range(3)],
    )
    found = clocks(known.union(of_relays(received, publications, known)))
    assert rows(found) == [("r", "c", -3600.0, 1)]


def padded(records: DataFrame) -> DataFrame:
    """Records with all columns that records have."""
    missing = {
        field.name: functions.lit(None).cast(field.dataType)
        for field in RECORD.fields
        if field.name not in records.columns
    }
    return records.withColumns(missing).select(*RECORD.names)
