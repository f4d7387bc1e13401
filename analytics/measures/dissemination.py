"""Message dissemination ratio: copies of events that a peer has sent, over those that it has received (paper 4, section
V).

A copy counts as sent when it was received. Ratios near 1 mean that a peer passes on what it gets.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def ratio_by_peer(receptions: DataFrame) -> DataFrame:
    """`received`, `sent` and `mdr` of each peer that received a copy."""
    copies = receptions.where(F.col("result") != "touched")
    received = copies.groupBy("run", "peer").agg(F.count("*").alias("received"))
    sent = copies.groupBy("run", F.col("sender").alias("peer")).agg(F.count("*").alias("sent"))
    joined = received.join(sent, ["run", "peer"], "left").fillna(0, ["sent"])
    return joined.withColumn("mdr", F.col("sent") / F.col("received"))
