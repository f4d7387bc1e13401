"""Who came and went."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def by_run(lives: DataFrame) -> DataFrame:
    """Lives that began and how they ended; peers that lived more than once; the mean length of a life that ended."""
    lasted = F.when(F.col("how").isin("left", "crashed", "silent"), (F.col("ended_us") - F.col("first_us")) / 1e6)
    joining = (F.col("joined_us") - F.col("first_us")) / 1e6
    each = lives.groupBy("run", "peer").agg(F.count("*").alias("lives"))
    again = each.groupBy("run").agg(F.count_if(F.col("lives") > 1).alias("restarted"))
    found = lives.groupBy("run").agg(
        F.count("*").alias("lives"),
        F.count_if(F.col("how").isin("lived", "cut off")).alias("alive"),
        F.count_if(F.col("how") == "left").alias("left"),
        F.count_if(F.col("how").isin("crashed", "silent")).alias("crashed"),
        F.mean(lasted).alias("life_s_mean"),
        F.mean(joining).alias("join_s_mean"),
        F.max(joining).alias("join_s_max"),
    )
    return found.join(again, "run")


def steps(lives: DataFrame, runs: DataFrame) -> DataFrame:
    """For each second of the run in which somebody came or went: how many."""
    begun = lives.select("run", F.col("first_us").alias("ts_us"), F.lit(1).alias("came"), F.lit(0).alias("went"))
    gone = lives.where(F.col("how").isin("left", "crashed", "silent")).select(
        "run", F.col("ended_us").alias("ts_us"), F.lit(0).alias("came"), F.lit(1).alias("went")
    )
    timed = begun.unionByName(gone).join(F.broadcast(runs.select("run", F.col("first_us").alias("start_us"))), "run")
    second = F.floor((F.col("ts_us") - F.col("start_us")) / 1e6).cast("long")
    return timed.groupBy("run", second.alias("second")).agg(F.sum("came").alias("came"), F.sum("went").alias("went"))
