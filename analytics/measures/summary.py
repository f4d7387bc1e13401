"""The figures of a run in one row: those that the simulator prints, computed from its records alone.

Where not every peer has written everything down, what depends on it is null: receptions need `--log-detail full`,
deliveries all but `summary`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

NEEDS_EVENTS: Final = (
    "events", "subscriptions", "expected", "delivered", "false_negatives", "fn_ratio", "at_risk", "at_risk_missing",
    "spurious", "duplicates", "bytes_per_delivery", "hops_mean", "hops_p50", "hops_p99", "hops_max",
    "latency_ms_mean", "latency_ms_p50", "latency_ms_p99", "latency_ms_max", "unjudged",
)  # fmt: skip


def by_run(
    runs: DataFrame,
    accuracy: DataFrame,
    deliveries: DataFrame,
    hops: DataFrame,
    latency: DataFrame,
    traffic: DataFrame,
    churn: DataFrame,
    subscriptions: DataFrame,
) -> DataFrame:
    """One row for each run, from tables that have one row for each run."""
    found = runs.select("run", "overlay", "parameters", "detail", "sample", "converged_s")
    for table in (
        accuracy.drop("overlay", "duplicate_copies", "touched"),
        deliveries,
        churn.select("run", "lives", F.col("alive").alias("peers")),
        subscriptions,
        _renamed(hops, "hops"),
        _renamed(latency, "latency_ms"),
        traffic.select("run", "messages", "bytes", "bytes_per_delivery"),
    ):
        found = found.join(table, "run", "left")
    counts = ["delivered", "duplicates", "spurious", "lives", "peers", "subscriptions", "unjudged", "messages", "bytes"]
    spreads = [f"{what}_{name}" for what in ("hops", "latency_ms") for name in ("mean", "p50", "p99", "max")]
    return _as_far_as_written(found.fillna(0, counts).fillna(0.0, [*spreads, "bytes_per_delivery"]))


def deliveries(arrivals: DataFrame, spurious: DataFrame) -> DataFrame:
    """Deliveries made, made again, and made though nobody had asked for them."""
    made = arrivals.groupBy("run").agg(F.count("*").alias("delivered"), F.sum(F.col("copies") - 1).alias("duplicates"))
    unasked = spurious.groupBy("run").agg(F.count("*").alias("spurious"))
    return made.join(unasked, "run", "left").fillna(0, ["spurious"])


def subscriptions(versions: DataFrame, publications: DataFrame) -> DataFrame:
    """Subscriptions that were there when publishing began, and filters that cannot be judged."""
    begun = publications.groupBy("run").agg(F.min("at_us").alias("begun_us"))
    joined = versions.join(F.broadcast(begun), "run", "left")
    there = F.col("begun_us").isNull() | (F.col("added_us") < F.col("begun_us"))
    return joined.groupBy("run").agg(
        F.count_if((F.col("version") == 1) & there).alias("subscriptions"),
        F.count_if(~F.col("judged")).alias("unjudged"),
    )


def _renamed(spread: DataFrame, prefix: str) -> DataFrame:
    return spread.select("run", *[F.col(name).alias(f"{prefix}_{name}") for name in ("mean", "p50", "p99", "max")])


def _as_far_as_written(table: DataFrame) -> DataFrame:
    events = F.col("detail").isNull() | (F.col("detail") != "summary")
    known: dict[str, Column] = {name: F.when(events, F.col(name)) for name in NEEDS_EVENTS}
    return table.withColumns(known)
