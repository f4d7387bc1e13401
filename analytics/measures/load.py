"""Load and noise of peers, and how unevenly load is spread.

Load is every copy of an event that a peer has received. Noise is what it did not want of them (first copies of unwanted
events), over the events of the run (paper 5, section 4). The Gini coefficient of load is 0 where all peers bear the
same and 1 where one bears all.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def by_peer(lives: DataFrame, publications: DataFrame, receptions: DataFrame) -> DataFrame:
    """`load`, `noise` and `noise_ratio` of each peer; one that has received nothing has none."""
    peers = lives.select("run", "peer").distinct()
    events = publications.groupBy("run").agg(F.count("*").alias("events"))
    counted = receptions.groupBy("run", "peer").agg(
        F.count_if(F.col("result") != "touched").alias("load"), F.count_if(F.col("result") == "unwanted").alias("noise")
    )
    joined = peers.join(counted, ["run", "peer"], "left").fillna(0, ["load", "noise"])
    with_events = joined.join(F.broadcast(events), "run")
    return with_events.withColumn("noise_ratio", F.col("noise") / F.col("events")).drop("events")


def noise_distribution(loads: DataFrame) -> DataFrame:
    """Which share of the peers has which noise, in steps of 0.08 % of all events (as in paper 5, Figure 3)."""
    step = F.floor(F.col("noise_ratio") / 0.0008) * 0.0008
    peers = Window.partitionBy("run")
    counted = loads.groupBy("run", step.alias("noise_ratio")).agg(F.count("*").alias("peers"))
    return counted.withColumn("share", F.col("peers") / F.sum("peers").over(peers)).orderBy("run", "noise_ratio")


def evenness(loads: DataFrame) -> DataFrame:
    """For each run: mean and maximum of load and noise, and the Gini coefficient of load."""
    ranked = loads.withColumn("rank", F.row_number().over(Window.partitionBy("run").orderBy("load", "peer")))
    found = ranked.groupBy("run").agg(
        F.count("*").alias("peers"),
        F.mean("load").alias("load_mean"),
        F.max("load").alias("load_max"),
        F.mean("noise_ratio").alias("noise_mean"),
        F.max("noise_ratio").alias("noise_max"),
        F.sum("load").alias("all"),
        F.sum(F.col("rank") * F.col("load")).alias("weighted"),
    )
    n = F.col("peers")
    gini = 2 * F.col("weighted") / (n * F.col("all")) - (n + 1) / n
    return found.withColumn("load_gini", F.when(F.col("all") > 0, gini)).drop("all", "weighted")
