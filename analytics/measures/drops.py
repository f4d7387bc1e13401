"""Copies of events that went no further, by reason."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def by_reason(drops: DataFrame) -> DataFrame:
    """How often each reason was told, and by how many peers."""
    found = drops.groupBy("run", "reason").agg(F.count("*").alias("dropped"), F.count_distinct("peer").alias("peers"))
    return found.orderBy("run", "reason")
