"""The range join finds what a look at every pair finds, and what the filters themselves say."""

import json
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from analytics import bounds, matching
from analytics.bounds import Attribute
from peerd.sim.workloads import workload
from protocols.model.describe import describe_region
from protocols.model.lint import CompiledFilter, compile_filter
from protocols.model.schema import STOCKS, Schema
from tests.analytics.support import table

PUBLICATIONS = "run string, event_id string, at_us long, grace_us long, attributes string"
VERSIONS = (
    "run string, peer string, boot long, subscription_id string, version int, added_us long, active_us long, "
    "ended_us long, served_us long, regions string"
)


def published(spark: SparkSession, events: Sequence[Mapping[str, object]], run: str = "r") -> DataFrame:
    rows = [(run, f"e{number}", 10, 0, json.dumps(event)) for number, event in enumerate(events)]
    return table(spark, PUBLICATIONS, *rows)


def subscribed(spark: SparkSession, regions: list[object], run: str = "r", served_us: int = 100) -> DataFrame:
    rows = [
        (run, "p", 1, f"s{number}", 1, 0, 1, 90, served_us, json.dumps(each)) for number, each in enumerate(regions)
    ]
    return table(spark, VERSIONS, *rows)


def attributes_of(schema: Schema) -> tuple[Attribute, ...]:
    return tuple(Attribute(each.name, each.type) for each in schema.attributes)


def sides_of(
    spark: SparkSession, name: str, seed: int, subscriptions: int, events: int
) -> tuple[DataFrame, DataFrame, tuple[Attribute, ...]]:
    """What a workload draws."""
    drawn, rng = workload(name), Random(seed)
    interests = drawn.subscriptions(rng, subscriptions)
    told: list[dict[str, object]] = [dict(event) for event in drawn.events(rng, events, interests)]
    compiled = [compile_filter(interest.filter, drawn.schema) for interest in interests]
    regions: list[object] = [[describe_region(drawn.schema, region) for region in each.regions] for each in compiled]
    return published(spark, told), subscribed(spark, regions), attributes_of(drawn.schema)


def pairs(found: DataFrame) -> set[tuple[str, str]]:
    rows = [(row["event_id"], row["subscription_id"]) for row in found.collect()]
    assert len(rows) == len(set(rows)), "a pair is found once"
    return set(rows)


@pytest.mark.slow
def test_it_finds_what_the_filters_say(spark: SparkSession) -> None:
    """Filters of every form the language has, events with and without attributes, on and off the grid."""
    drawn, rng = workload("mixed"), Random(1)
    interests = drawn.subscriptions(rng, 120)
    events = drawn.events(rng, 150, interests)
    compiled = [compile_filter(interest.filter, drawn.schema) for interest in interests]
    expected = {
        (f"e{e}", f"s{s}")
        for e, event in enumerate(events)
        for s, filter_ in enumerate(compiled)
        if filter_.matcher(event)
    }
    assert len(expected) > 300
    regions: list[object] = [[describe_region(drawn.schema, region) for region in each.regions] for each in compiled]
    found = matching.matches(
        published(spark, [dict(event) for event in events]), subscribed(spark, regions), attributes_of(drawn.schema)
    )
    assert pairs(found) == expected


CASES: list[tuple[str, dict[str, object], bool]] = [
    ("price > 8.302 AND price < 8.31", {"price": 8.305}, True),
    ("price > 8.302 AND price < 8.31", {"price": 8.302}, False),
    ("price >= 8.302 AND price < 8.31", {"price": 8.302}, True),
    ("price < 8.31", {"price": 8.31}, False),
    ("price < 8.31", {}, False),
    ("price IS NULL", {}, True),
    ("price IS NULL", {"price": 1.0}, False),
    ("price IS NOT NULL", {"price": 1.0}, True),
    ("NOT (price = 5)", {}, False),
    ("price <> 5 OR symbol = 'A'", {"symbol": "A", "price": 6.0}, True),
    ("symbol LIKE 'A%'", {"symbol": "AB"}, True),
    ("symbol LIKE 'A%'", {"symbol": "B"}, False),
    ("symbol > 'é'", {"symbol": "\U0001f600"}, True),
    ("symbol > 'A' AND symbol <= 'C'", {"symbol": "A"}, False),
    ("symbol > 'A' AND symbol <= 'C'", {"symbol": "C"}, True),
    ("TRUE", {}, True),
    ("price >= 20", {"price": 4711.0}, True),
]


def test_edges(spark: SparkSession) -> None:
    filters: list[CompiledFilter] = [compile_filter(text, STOCKS) for text, _, _ in CASES]
    regions: list[object] = [[describe_region(STOCKS, region) for region in each.regions] for each in filters]
    events: list[dict[str, object]] = [dict(event) for _, event, _ in CASES]
    found = pairs(matching.matches(published(spark, events), subscribed(spark, regions), attributes_of(STOCKS)))
    wrong = [text for n, (text, _, hit) in enumerate(CASES) if ((f"e{n}", f"s{n}") in found) is not hit]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stocks", "zipf-25:75"])
def test_it_finds_what_a_look_at_every_pair_finds(spark: SparkSession, name: str) -> None:
    sides = sides_of(spark, name, 2, 200, 200)
    expected = pairs(matching.cross(*sides))
    assert expected
    assert pairs(matching.matches(*sides)) == expected


@pytest.mark.slow
def test_runs_and_times_keep_apart(spark: SparkSession) -> None:
    everything: list[object] = [[{}]]
    events = published(spark, [{"price": 1.0}]).union(published(spark, [{"price": 2.0}], "q"))
    gone = subscribed(spark, everything, served_us=9)
    there = subscribed(spark, everything, "q", served_us=10)
    found = matching.matches(events, gone.union(there), attributes_of(STOCKS))
    assert [(row["run"], row["event_id"]) for row in found.collect()] == [("q", "e0")]


def test_a_bad_sample_makes_no_wrong_join(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not in the sample may fit no shape, and may lie beyond all cuts."""
    monkeypatch.setattr(matching, "SAMPLED", 10)
    monkeypatch.setattr(matching, "SAMPLED_VERSIONS", 5)
    monkeypatch.setattr("analytics.shapes.LOOKUP", 0.0)
    monkeypatch.setattr("analytics.shapes.FILING", 0.01)
    sides = sides_of(spark, "mixed", 4, 60, 80)
    expected = pairs(matching.cross(*sides))
    assert len(expected) > 50
    assert pairs(matching.matches(*sides)) == expected


def test_regions_that_are_too_many_to_be_sent_out_are_shuffled(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "BROADCAST_MAX", 0)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # Spark would send so few of its own accord
    sides = sides_of(spark, "stocks", 6, 60, 60)
    try:
        found = matching.matches(*sides)
        assert "Broadcast" not in found._jdf.queryExecution().sparkPlan().toString()
        assert pairs(found) == pairs(matching.cross(*sides)) != set()
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_one_side_may_be_empty(spark: SparkSession) -> None:
    some, none = published(spark, [{"price": 1.0}]), published(spark, [])
    assert pairs(matching.matches(some, subscribed(spark, []), attributes_of(STOCKS))) == set()
    assert pairs(matching.matches(none, subscribed(spark, [[{}]]), attributes_of(STOCKS))) == set()


def test_samples_are_read_as_tables_are(spark: SparkSession) -> None:
    """What Python makes of a text is what Spark makes of it, but for flags that shapes are not chosen by."""
    filters: list[CompiledFilter] = [compile_filter(text, STOCKS) for text, _, _ in CASES]
    texts = [json.dumps([describe_region(STOCKS, region) for region in each.regions]) for each in filters]
    events = [json.dumps(event) for _, event, _ in CASES]
    of = attributes_of(STOCKS)
    asked = bounds.regions(table(spark, "regions string", *[(text,) for text in texts]), of)
    names = [name for name in bounds.columns(of) if name[:2] in ("lo", "hi", "ho")]
    spoken = bounds.PRESENT + bounds.ABSENT + bounds.ONE
    rows = [{name: row[name] & spoken if name[:3] == "how" else row[name] for name in names} for row in asked.collect()]
    found = [region for text in texts for region in bounds.sampled_regions(text, of)]
    assert sorted(map(repr, rows)) == sorted(repr({name: each[name] for name in names}) for each in found)
    told = bounds.points(table(spark, "attributes string", *[(text,) for text in events]), of).drop("attributes")
    points = [bounds.sampled_point(text, of) for text in events]
    assert sorted(repr(row.asDict()) for row in told.collect()) == sorted(map(repr, points))


def test_a_sample_may_hold_anything() -> None:
    of = attributes_of(STOCKS)
    nothing = {f"v{i}": None for i in range(len(of))}
    for text in ("", "{", "[]", "7", '{"price": "x", "symbol": 1}', '{"price": {}}'):
        assert bounds.sampled_point(text, of) == nothing
    assert bounds.sampled_point(f'{{"price": {"1" * 400}}}', of)["v2"] == float("inf")
    for text in ("", "{", "{}", "7"):
        assert bounds.sampled_regions(text, of) == []
    assert len(bounds.sampled_regions('[7, {"price": 7}, {"price": {"eq": "x"}}]', of)) == 3


def test_an_attribute_may_have_any_name(spark: SparkSession) -> None:
    name = "a 'quoted\\' \"name\" `x`.y"
    events = published(spark, [{name: 1.0}, {name: 3.0}, {}])
    filters = subscribed(spark, [[{name: {"gt": 1.0, "le": 3.0}}], [{name: {"null": True}}]])
    sides = events, filters, (Attribute(name, "float"),)
    assert pairs(matching.matches(*sides)) == pairs(matching.cross(*sides)) == {("e1", "s0"), ("e2", "s1")}
