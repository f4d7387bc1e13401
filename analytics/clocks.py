"""Whose clock was wrong.

A delivery tells how much later it was, by the subscriber's clock, than the publication by the publisher's: the time
that the event took plus the difference of the two clocks. Events take seconds at the most. So where the middle one of
all deliveries between two peers is far from zero, one of the two clocks is off; whose, is told by the other peers that
each of them has dealt with: a peer whose difference to most others is the same has that difference itself.

A clock that is off by more than `OFF_S` is corrected by the difference, to the second, before times are compared; its
deliveries have no latency. The report names it.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

OFF_S: Final = 10.0
"""As long as the truth's own grace. Below it a slow delivery cannot be told from a wrong clock."""


def clocks(deliveries: DataFrame, publications: DataFrame) -> DataFrame:
    """Peers whose clock was off, from records: `run`, `peer`, `offset_s` (positive: ahead), `partners`."""
    known = publications.select("run", "event_id", F.col("peer").alias("publisher"))
    pairs = (
        deliveries.join(known, ["run", "event_id"])
        .where(F.col("publisher") != F.col("peer"))
        .groupBy("run", "publisher", "peer")
        .agg(F.percentile_approx("latency_us", 0.5).alias("difference"))
    )
    ahead = pairs.select("run", "peer", F.col("publisher").alias("partner"), "difference")
    behind = pairs.select("run", F.col("publisher").alias("peer"), F.col("peer").alias("partner"), -F.col("difference"))
    middle = F.percentile_approx("difference", [0.499, 0.501])
    partners = F.count_distinct("partner")
    own = ahead.union(behind).groupBy("run", "peer").agg(middle.alias("middle"), partners.alias("partners"))
    own = own.withColumn("offset", _nearer_to_zero(F.col("middle")[0], F.col("middle")[1]))
    off = own.where(F.abs("offset") > int(OFF_S * 1e6))
    return off.select("run", "peer", F.round(F.col("offset") / 1e6).alias("offset_s"), "partners")


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
