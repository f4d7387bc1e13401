"""Messages and bytes: by type of message, and per useful delivery."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def by_message(traffic: DataFrame) -> DataFrame:
    """What each type of message came to, most bytes first."""
    found = traffic.groupBy("run", "message").agg(
        F.sum("sent").alias("sent"),
        F.sum("received").alias("received"),
        F.sum("sent_bytes").alias("sent_bytes"),
        F.sum("received_bytes").alias("received_bytes"),
    )
    return found.orderBy("run", F.desc("sent_bytes"), "message")


def by_run(by_message: DataFrame, arrivals: DataFrame) -> DataFrame:
    """`messages` and `bytes` sent, and bytes for each delivery that an application got."""
    sums = by_message.groupBy("run").agg(F.sum("sent").alias("messages"), F.sum("sent_bytes").alias("bytes"))
    useful = arrivals.groupBy("run").agg(F.count("*").alias("delivered"))
    joined = sums.join(useful, "run", "left").fillna(0, ["delivered"])
    per = F.when(F.col("delivered") > 0, F.col("bytes") / F.col("delivered")).otherwise(0.0)
    return joined.withColumn("bytes_per_delivery", per)
