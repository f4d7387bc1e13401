"""The truth: what was owed, and what became of it.

An event is *owed* to a subscription whose filter matches it, was active before the publication, and stayed unchanged on
a living peer for 10 s after it. If it was published around a fault it is *at risk* instead, and counted apart. Times of
different peers are compared with a grace (`runs.grace_us`): what lies within it is not judged.

The rules are those of the simulator's own oracle, so both come to the same figures for the same run. What cannot be
judged (a filter that boxes do not say exactly) is left out and counted as such.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics import bounds
from analytics.bounds import Attribute
from analytics.faults import GRACE_US, faults, risks
from analytics.holding import Hold
from analytics.ingest import NoLogs
from analytics.lives import lives
from analytics.matching import matches
from analytics.receptions import receptions
from analytics.runs import CLOCK_GRACE_S, runs, until_the_end
from analytics.schema import LIFE, SUBSCRIPTION
from analytics.store import of_kind
from analytics.versions import versions


class Truth(NamedTuple):
    """Tables that measures start from. All have `run`."""

    records: DataFrame
    runs: DataFrame
    lives: DataFrame
    faults: DataFrame
    versions: DataFrame
    publications: DataFrame
    """`event_id`, `publisher`, `publisher_boot`, `at_us`, `grace_us`, `at_risk`, `participants`, `bytes`,
    `attributes`."""
    arrivals: DataFrame
    """First deliveries of known events: `event_id`, subscription, `arrived_us`, `hops`, `latency_us`, `copies`."""
    owed: DataFrame
    """Owed deliveries: `event_id`, subscription, `at_us`, `at_risk`, `arrived_us`, `missing`."""
    spurious: DataFrame
    """Arrivals that no filter asked for."""
    receptions: DataFrame
    """Copies of events that participants were sent; see `analytics.receptions`."""


def truth(records: DataFrame, hold: Hold, clock_grace_s: float = CLOCK_GRACE_S) -> Truth:
    """Everything that measures need, worked out once: each table is held before the next one is made from it. `NoLogs`
    if there is no run."""
    all_runs = hold("runs", runs(records, clock_grace_s))
    if all_runs.isEmpty():
        raise NoLogs("no peer has said that it lives: there is no record of kind 'peer' in the logs")
    all_lives = hold("lives", lives(records, all_runs))
    records = until_the_end(records, all_runs)
    all_faults = hold("faults", faults(records, all_lives))
    known = known_attributes(all_runs)
    all_versions = hold("subscriptions", _judged(versions(of_kind(records, "subscription"), all_lives), known))
    published = hold("publications", publications(records, all_runs, all_lives, all_faults))
    arrived = hold("arrivals", arrivals(of_kind(records, "deliver"), published))
    matching = hold("matching", _matching(published, all_versions, known))
    return Truth(
        records,
        all_runs,
        all_lives,
        all_faults,
        all_versions,
        published,
        arrived,
        hold("owed", owed(matching, arrived)),
        hold("spurious", spurious(matching, arrived, all_versions)),
        hold("receptions", receptions(records, published, all_lives)),
    )


def known_attributes(runs: DataFrame) -> dict[tuple[Attribute, ...], list[str]]:
    """Runs by their schemas; those in which no peer has told one have none."""
    found: dict[tuple[Attribute, ...], list[str]] = {}
    for row in runs.select("run", "attributes").collect():
        schema = tuple(Attribute(each["name"], each["type"]) for each in row["attributes"] or ())
        found.setdefault(schema, []).append(row["run"])
    return found


def _judged(all_versions: DataFrame, known: dict[tuple[Attribute, ...], list[str]]) -> DataFrame:
    parts = [
        bounds.judged(all_versions.where(F.col("run").isin(names)), schema) for schema, names in sorted(known.items())
    ]
    return _union(parts) if parts else all_versions.withColumn("judged", F.lit(False))


def _matching(
    published: DataFrame, all_versions: DataFrame, known: dict[tuple[Attribute, ...], list[str]]
) -> DataFrame:
    """Each schema has its own columns, so each gets its own join."""
    slim = published.select("run", "event_id", "at_us", "grace_us", "at_risk", "attributes")
    sides = all_versions.where("judged").drop("filter", "coarse", "judged", "overlay")
    parts = []
    for schema, names in sorted(known.items()):
        own = F.col("run").isin(names)
        parts.append(matches(slim.where(own), sides.where(own), schema))
    return _union(parts)


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


# --- Events -----------------------------------------------------------------------------------------------------------


def publications(records: DataFrame, runs: DataFrame, lives: DataFrame, faults: DataFrame) -> DataFrame:
    """Every publication, whether it was at risk, and how many participants stood."""
    told = of_kind(records, "publish").select(
        "run",
        "event_id",
        F.col("peer").alias("publisher"),
        F.col("boot").alias("publisher_boot"),
        F.col("ts_us").alias("at_us"),
        F.col("order").alias("at_order"),
        "attributes",
        "bytes",
    )
    counted = _with_participants(told, of_kind(records, "participant"), lives)
    placed = counted.join(F.broadcast(runs.select("run", "grace_us")), "run")
    risky = placed.join(F.broadcast(risks(faults)), "run", "left")
    at = F.col("at_us")
    hit = F.exists("windows", lambda w: (w["start_us"] <= at) & (w["end_us"].isNull() | (at <= w["end_us"])))
    return risky.withColumn("at_risk", F.coalesce(hit, F.lit(False))).drop("windows", "at_order")


def _with_participants(told: DataFrame, participants: DataFrame, lives: DataFrame) -> DataFrame:
    """A participant stands from its joining until it has left or its peer has ended."""
    when = F.struct("ts_us", F.coalesce("order", F.lit(0)).alias("order"))
    each = participants.groupBy(*LIFE, "participant").agg(
        F.min(F.when(F.col("change") == "joined", when)).alias("from"),
        F.min(F.when(F.col("change") == "left", when)).alias("until"),
    )
    ends = each.join(lives.select(*LIFE, "ended_us"), list(LIFE)).where(F.col("from").isNotNull())
    ended = F.when(
        F.col("ended_us").isNotNull(), F.struct(F.col("ended_us").alias("ts_us"), F.lit(0).cast("long").alias("order"))
    )
    stands = ends.select("run", "from", F.least("until", ended).alias("until"))
    ups = stands.select("run", "from.*", F.lit(1).alias("step"))
    downs = stands.where(F.col("until").isNotNull()).select("run", "until.*", F.lit(-1).alias("step"))
    asked = told.withColumns({"ts_us": F.col("at_us"), "order": F.coalesce("at_order", F.lit(0)), "step": F.lit(0)})
    steps = ups.unionByName(downs)
    in_order = Window.partitionBy("run").orderBy("ts_us", "order").rowsBetween(Window.unboundedPreceding, 0)
    counted = asked.unionByName(steps, allowMissingColumns=True).withColumn(
        "participants", F.sum("step").over(in_order)
    )
    return counted.where(F.col("event_id").isNotNull()).drop("ts_us", "order", "step")


def arrivals(deliveries: DataFrame, publications: DataFrame) -> DataFrame:
    """The first delivery of each known event to each subscription, and how many there were."""
    first = deliveries.groupBy("run", "event_id", "peer", "boot", "subscription_id").agg(
        F.min(F.struct("ts_us", "seq", "hops", "latency_us")).alias("first"), F.count("*").alias("copies")
    )
    known = publications.select("run", "event_id", "publisher")
    return first.join(known, ["run", "event_id"]).select(
        "run",
        "event_id",
        "publisher",
        "peer",
        "boot",
        "subscription_id",
        F.col("first.ts_us").alias("arrived_us"),
        F.col("first.hops").alias("hops"),
        F.col("first.latency_us").alias("latency_us"),
        "copies",
    )


# --- The verdict ------------------------------------------------------------------------------------------------------


def owed(matching: DataFrame, arrivals: DataFrame) -> DataFrame:
    """What was owed, and whether it came."""
    before = F.col("active_us") < F.col("at_us") - F.col("grace_us")
    after = F.col("ended_us") >= F.col("at_us") + F.col("grace_us") + GRACE_US
    due = matching.where(before & after).select("event_id", *SUBSCRIPTION, "at_us", "at_risk")
    came = arrivals.select("event_id", *SUBSCRIPTION, "arrived_us", "hops", "latency_us")
    joined = due.join(came, ["event_id", *SUBSCRIPTION], "left")
    return joined.withColumn("missing", F.col("arrived_us").isNull())


def spurious(matching: DataFrame, arrivals: DataFrame, versions: DataFrame) -> DataFrame:
    """Arrivals that no filter of the subscription asked for, of those that can be judged."""
    key = ["event_id", *SUBSCRIPTION]
    asked = matching.groupBy(*key).agg(F.min("added_us").alias("asked_us"))
    judged = versions.groupBy(*SUBSCRIPTION).agg(F.min("judged").alias("judged")).where("judged")
    found = arrivals.join(judged, list(SUBSCRIPTION), "left_semi").join(asked, key, "left")
    return found.where(F.col("asked_us").isNull() | (F.col("asked_us") > F.col("arrived_us"))).drop("asked_us")
