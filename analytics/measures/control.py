"""What overlays say about themselves: repairs, splits, flow limits, cells."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

HISTORIES: Final = ("cell", "flow", "limit", "role")
"""A fact whose name begins with one of these words is part of the history of flow control and cells (paper 4)."""


def facts(control: DataFrame) -> DataFrame:
    """How often each fact was told, and what its values came to."""
    return control.groupBy("run", "fact").agg(
        F.count("*").alias("times"),
        F.count_distinct("peer").alias("peers"),
        F.sum("value").alias("sum"),
        F.min("value").alias("min"),
        F.max("value").alias("max"),
    ).orderBy("run", "fact")  # fmt: skip


def history(control: DataFrame, runs: DataFrame) -> DataFrame:
    """Flow control, roles and cell switches, one by one, in the order of time."""
    begins = F.col("fact").rlike(rf"^({'|'.join(HISTORIES)})\b")
    timed = control.where(begins).join(F.broadcast(runs.select("run", "first_us")), "run")
    at_s = (F.col("ts_us") - F.col("first_us")) / 1e6
    return timed.select("run", at_s.alias("at_s"), "peer", "participant", "fact", "value", "detail").orderBy(
        "run", "at_s"
    )
