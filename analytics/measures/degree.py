"""Degree of the overlay: how many neighbours peers have, at the end of their lives or of the run.

A link is there when the last thing that was said about it is that it is up. A peer's degree counts the different peers
that it has links to, over all its participants, itself left out.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.schema import LIFE


def links(records: DataFrame, lives: DataFrame) -> DataFrame:
    """The links that stood at the end, of peers that lived to it: `peer`, `participant`, `link`, `receiver`."""
    last = records.groupBy(*LIFE, "participant", "link", "receiver").agg(
        F.max_by("change", F.struct("ts_us", "seq")).alias("last")
    )
    standing = last.where((F.col("last") == "up") & (F.col("receiver") != F.col("peer")))
    living = lives.where(F.col("how").isin("lived", "cut off")).select(*LIFE)
    return standing.join(F.broadcast(living), list(LIFE), "left_semi").drop("last")


def by_peer(links: DataFrame) -> DataFrame:
    """`degree`: different neighbours; `links`: links of all kinds; `kinds`: how many of each."""
    counted = links.groupBy("run", "peer", "link").agg(F.count("*").alias("n"))
    kinds = counted.groupBy("run", "peer").agg(
        F.sum("n").alias("links"),
        F.map_from_entries(F.sort_array(F.collect_list(F.struct("link", "n")))).alias("kinds"),
    )
    degrees = links.groupBy("run", "peer").agg(F.count_distinct("receiver").alias("degree"))
    return degrees.join(kinds, ["run", "peer"]).withColumn("kinds", F.to_json("kinds"))


def by_run(degrees: DataFrame) -> DataFrame:
    """Mean, maximum and variance of the degree."""
    return degrees.groupBy("run").agg(
        F.count("*").alias("peers"),
        F.mean("degree").alias("mean"),
        F.max("degree").alias("max"),
        F.var_pop("degree").alias("variance"),
    )


def distribution(degrees: DataFrame) -> DataFrame:
    """How many peers have so many neighbours."""
    return degrees.groupBy("run", "degree").agg(F.count("*").alias("peers")).orderBy("run", "degree")
