"""Copies that were one too many: of events on the way, and of deliveries to applications."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def by_run(receptions: DataFrame, arrivals: DataFrame) -> DataFrame:
    """`copies` received, the `duplicate` ones among them, and deliveries that were made again."""
    way = receptions.where(F.col("result") != "touched").groupBy("run").agg(
        F.count("*").alias("copies"), F.count_if(F.col("result") == "duplicate").alias("duplicate_copies")
    )  # fmt: skip
    again = arrivals.groupBy("run").agg(F.sum(F.col("copies") - 1).alias("duplicate_deliveries"))
    joined = way.join(again, "run", "full").fillna(0)
    share = F.when(F.col("copies") > 0, F.col("duplicate_copies") / F.col("copies"))
    return joined.withColumn("duplicate_share", share)
