"""Slow links: how long events take from one peer to the next.

The time of a hop is from the sender's first sight of the event (its publication, or its first copy) to the receiver's
first copy. It holds the sender's own delay, and, between hosts, the difference of their clocks.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

EVENTS_MAX: Final = 2_000
"""Events that are followed: each is looked at with all who received it, so a sample has to do. A guess."""
HOPS_MIN: Final = 3
"""Links that fewer events took say little."""


def hop_times(receptions: DataFrame, publications: DataFrame) -> DataFrame:
    """`sender`, `receiver` and `hop_us` for first copies of a sample of the events, the same in every run."""
    counts = publications.groupBy("run").agg(F.count("*").alias("events"))
    sampled = publications.join(F.broadcast(counts), "run").where(
        F.pmod(F.xxhash64("event_id"), F.greatest(F.ceil(F.col("events") / EVENTS_MAX), F.lit(1))) == 0
    )
    begun = sampled.select("run", "event_id", F.col("publisher").alias("sender"), F.col("at_us").alias("seen_us"))
    first = receptions.where(F.col("result").isin("wanted", "unwanted"))
    first = first.join(F.broadcast(begun.select("run", "event_id")), ["run", "event_id"], "left_semi")
    had = first.groupBy("run", "event_id", F.col("peer").alias("sender")).agg(F.min("ts_us").alias("seen_us"))
    sight = had.unionByName(begun).groupBy("run", "event_id", "sender").agg(F.min("seen_us").alias("seen_us"))
    hops = first.select("run", "event_id", "sender", F.col("peer").alias("receiver"), "ts_us")
    joined = hops.where(F.col("sender") != F.col("receiver")).join(sight, ["run", "event_id", "sender"])
    return joined.select("run", "sender", "receiver", (F.col("ts_us") - F.col("seen_us")).alias("hop_us"))


def slowest(hop_times: DataFrame) -> DataFrame:
    """Links by the middle one of their hops' times, slowest first."""
    found = hop_times.groupBy("run", "sender", "receiver").agg(
        F.count("*").alias("hops"),
        (F.percentile_approx("hop_us", 0.5) / 1000).alias("median_ms"),
        (F.max("hop_us") / 1000).alias("max_ms"),
    )
    return found.where(F.col("hops") >= HOPS_MIN).orderBy("run", F.desc("median_ms"), "sender", "receiver")
