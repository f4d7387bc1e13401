"""Faults, and when they put events at risk: from 10 s before a fault until the structure has converged again.

The simulator and the testbed write down what they do to a swarm and when it has converged. Logs of peers that nobody
watched have neither. There a fault is a peer that fell silent, and convergence is taken to be over after
`CONVERGED_S`, the bound that overlays promise; the report says that this is an estimate.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

GRACE_US: Final = 10_000_000
"""How far a fault reaches back, and how long a subscription must stay unchanged after a publication (design)."""

CONVERGED_S: Final = 60
"""The asserted bound on convergence at 200 peers (design)."""

HARMLESS: Final = ("stall",)
"""A slow peer is not a dead peer."""


def faults(records: DataFrame, lives: DataFrame) -> DataFrame:
    """Every fault: `run`, `fault`, `about`, `ts_us`, `inferred`, `converged_us` (null: not yet, or nobody watched)."""
    told = records.where(F.col("kind") == "fault").select(
        "run", "fault", "about", "ts_us", F.lit(False).alias("inferred")
    )
    silent = lives.where(F.col("how") == "silent").select(
        "run", F.lit("silence").alias("fault"), F.col("peer").alias("about"), F.col("ended_us").alias("ts_us"),
        F.lit(True).alias("inferred"),
    )  # fmt: skip
    converged = records.where((F.col("kind") == "control") & (F.col("fact") == "run.converged"))
    times = converged.groupBy("run").agg(F.sort_array(F.collect_list("ts_us")).alias("times"))
    later = F.element_at(F.filter("times", lambda time: time >= F.col("ts_us")), 1)
    watched = F.col("times").isNotNull()
    found = told.unionByName(silent).join(F.broadcast(times), "run", "left")
    return found.select(
        "run", "fault", "about", "ts_us", "inferred", watched.alias("watched"), later.alias("converged_us")
    )


def risks(faults: DataFrame) -> DataFrame:
    """For each run that had faults, when events were at risk: `windows`, an array of `start_us` and `end_us`."""
    harmful = faults.where(~F.col("fault").isin(*HARMLESS))
    end = F.when(F.col("watched"), F.col("converged_us")).otherwise(F.col("ts_us") + int(CONVERGED_S * 1e6))
    starts = harmful.select("run", (F.col("ts_us") - GRACE_US).alias("start_us"), end.alias("end_us"))
    merged = starts.groupBy("run", "end_us").agg(F.min("start_us").alias("start_us"))
    return merged.groupBy("run").agg(F.collect_list(F.struct("start_us", "end_us")).alias("windows"))
