"""Whose clock was wrong.

A delivery tells how much later it was, by the subscriber's clock, than the publication by the publisher's: the time
that the event took plus the difference of the two clocks. Events take seconds at the most. So the middle one of all
deliveries between two peers tells how far their clocks are apart.

Differences are all that can be seen: where a lone publisher is ahead, each of its subscribers is behind. So clocks are
read against one peer, from partner to partner, and what most peers show is taken for the right time.

Peers that were delivered nothing, and none of whose events was delivered, are known by the copies that they received. A
copy may be as old as events get, so only what cannot be a late copy counts there.

A clock that is off by more than `OFF_S` is corrected by the difference, to the second, before times are compared; its
deliveries have no latency. The report names it.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

OFF_S: Final = 10.0
"""As long as the truth's own grace. Below it a slow delivery cannot be told from a wrong clock."""
LATE_S: Final = 120.0
"""Twice as long as an event lives (contract)."""
_OFF_US: Final = int(OFF_S * 1e6)


def differences(deliveries: DataFrame, publications: DataFrame) -> DataFrame:
    """How far each `peer` is ahead of each `partner` that it dealt with, from records: `run` and `difference` (µs)."""
    return _both_ways(_with_publisher(deliveries, publications).select("*", F.col("latency_us").alias("late_us")))


def of_relays(receptions: DataFrame, publications: DataFrame, known: DataFrame) -> DataFrame:
    """The same for peers that have no `known` differences, where these are large."""
    unknown = receptions.join(F.broadcast(known.select("run", "peer").distinct()), ["run", "peer"], "left_anti")
    late = _with_publisher(unknown, publications).withColumn("late_us", F.col("ts_us") - F.col("at_us"))
    return _both_ways(late).where(F.abs("difference") > int(LATE_S * 1e6))


def _with_publisher(records: DataFrame, publications: DataFrame) -> DataFrame:
    known = publications.select("run", "event_id", F.col("peer").alias("publisher"), F.col("ts_us").alias("at_us"))
    return records.join(known, ["run", "event_id"]).where(F.col("publisher") != F.col("peer"))


def _both_ways(late: DataFrame) -> DataFrame:
    pairs = late.groupBy("run", "publisher", "peer").agg(F.percentile_approx("late_us", 0.5).alias("difference"))
    ahead = pairs.select("run", "peer", F.col("publisher").alias("partner"), "difference")
    behind = pairs.select("run", F.col("publisher").alias("peer"), F.col("peer").alias("partner"), -F.col("difference"))
    return ahead.union(behind)


def clocks(differences: DataFrame) -> DataFrame:
    """Peers whose clock was off: `run`, `peer`, `offset_s` (positive: ahead), `partners`."""
    odd = differences.where(F.abs("difference") > _OFF_US).select("run").distinct()
    pairs = differences.join(odd, "run", "left_semi").localCheckpoint()
    theirs = _by_the_right_time(_readings(pairs)).select("run", F.col("peer").alias("partner"), "ahead")
    seen = F.col("difference") + F.col("ahead")
    own = pairs.join(theirs, ["run", "partner"]).groupBy("run", "peer").agg(
        F.percentile_approx(seen, [0.499, 0.501]).alias("middle"), F.count_distinct("partner").alias("partners")
    )  # fmt: skip
    told = own.withColumn("offset", _nearer_to_zero(F.col("middle")[0], F.col("middle")[1]))
    off = told.where(F.abs("offset") > _OFF_US)
    return off.select("run", "peer", F.round(F.col("offset") / 1e6).alias("offset_s"), "partners")


def _readings(pairs: DataFrame) -> DataFrame:
    """What each clock shows (`at`) when that of the peer with the most partners shows 0, as far as partners reach."""
    partners = pairs.groupBy("run", "peer").agg(F.count_distinct("partner").alias("n"))
    hubs = partners.groupBy("run").agg(F.max_by("peer", F.struct("n", "peer")).alias("peer"))
    found = new = hubs.withColumn("at", F.lit(0).cast("long")).localCheckpoint()
    while not new.isEmpty():
        last = new.select("run", F.col("peer").alias("partner"), "at")
        at = F.percentile_approx(F.col("difference") + F.col("at"), 0.5).alias("at")
        reached = pairs.join(last, ["run", "partner"]).groupBy("run", "peer").agg(at)
        new = reached.join(found, ["run", "peer"], "left_anti").localCheckpoint()
        found = found.union(new).localCheckpoint()
    return found


def _by_the_right_time(readings: DataFrame) -> DataFrame:
    """How far each clock is `ahead` of what most show; where two are as many, of what the busiest peer is with."""
    near = Window.partitionBy("run").orderBy("at").rangeBetween(-_OFF_US, _OFF_US)
    agreed = readings.withColumn("agree", F.count("*").over(near))
    right = agreed.groupBy("run").agg(F.max_by("at", F.struct("agree", -F.abs("at"))).alias("right"))
    return readings.join(right, "run").withColumn("ahead", F.col("at") - F.col("right"))


def _nearer_to_zero(a: Column, b: Column) -> Column:
    """Of two in the middle: a peer that agrees with half of the others is not the one that is wrong."""
    return F.when(F.abs(a) <= F.abs(b), a).otherwise(b)


def corrected(records: DataFrame, clocks: DataFrame) -> DataFrame:
    """Records with the times that a right clock would have told, and no latencies across a wrong one."""
    off = F.broadcast(clocks.select("run", "peer", "offset_s"))
    wrong = F.coalesce(F.col("offset_s"), F.lit(0.0))
    right = records.join(off, ["run", "peer"], "left").withColumns(
        {
            "ts_us": F.col("ts_us") - (wrong * 1_000_000).cast("long"),
            "latency_us": F.when(wrong == 0, F.col("latency_us")),
        }
    )
    publishers = records.where(F.col("kind") == "publish").select("run", "event_id", "peer")
    theirs = publishers.join(off, ["run", "peer"]).select("run", "event_id", F.lit(True).alias("misdated"))
    dated = right.join(F.broadcast(theirs), ["run", "event_id"], "left")
    return dated.withColumn("latency_us", F.when(F.col("misdated").isNull(), F.col("latency_us"))).select(
        *records.columns
    )
