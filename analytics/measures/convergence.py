"""How long the structure took to be whole again after each fault."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def after_faults(faults: DataFrame, runs: DataFrame) -> DataFrame:
    """Each fault with the second of the run in which it came and the seconds until convergence; null if never seen."""
    timed = faults.join(F.broadcast(runs.select("run", "first_us")), "run")
    return timed.select(
        "run",
        ((F.col("ts_us") - F.col("first_us")) / 1e6).alias("at_s"),
        "fault",
        "about",
        "inferred",
        ((F.col("converged_us") - F.col("ts_us")) / 1e6).alias("converged_s"),
    ).orderBy("run", "at_s", "about")
