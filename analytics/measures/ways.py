"""Hops and latency of deliveries: their spread, and how they are distributed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spread import spread


def hops(arrivals: DataFrame) -> DataFrame:
    """Spread of the hops of deliveries."""
    return spread(arrivals, ["run"], "hops")


def hops_distribution(arrivals: DataFrame) -> DataFrame:
    """How many deliveries took so many hops."""
    counted = arrivals.groupBy("run", "hops").agg(F.count("*").alias("deliveries"))
    return counted.orderBy("run", "hops")


def latency(arrivals: DataFrame) -> DataFrame:
    """Spread of the time from publication to delivery, in milliseconds."""
    found = spread(arrivals, ["run"], "latency_us")
    return found.withColumns({name: F.col(name) / 1000 for name in ("mean", "p50", "p99", "max")})


def latency_distribution(arrivals: DataFrame) -> DataFrame:
    """How many deliveries took up to so many milliseconds (`upto_ms`), in steps that grow by a quarter."""
    ms = F.greatest(F.col("latency_us") / 1000, F.lit(0.1))
    step = F.ceil(F.log(ms) / F.log(F.lit(1.25)))
    binned = arrivals.where(F.col("latency_us").isNotNull()).groupBy("run", step.alias("step"))
    counted = binned.agg(F.count("*").alias("deliveries"))
    return counted.select("run", F.pow(F.lit(1.25), "step").alias("upto_ms"), "deliveries").orderBy("run", "upto_ms")


def by_event(publications: DataFrame, receptions: DataFrame, arrivals: DataFrame) -> DataFrame:
    """How far each event went: to its first delivery, or, where nobody wanted it, as far as it got."""
    delivered = arrivals.groupBy("run", "event_id").agg(F.min("hops").alias("delivered"))
    copies = receptions.where(F.col("result").isin("wanted", "unwanted"))
    furthest = copies.groupBy("run", "event_id").agg(F.max("hops").alias("furthest"))
    events = publications.select("run", "event_id")
    joined = events.join(delivered, ["run", "event_id"], "left").join(furthest, ["run", "event_id"], "left")
    return joined.select("run", "event_id", F.coalesce("delivered", "furthest", F.lit(0)).alias("hops"))
