"""The run second by second."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

COUNTS = ("published", "delivered", "missing", "receptions", "unwanted", "sent", "sent_bytes", "dropped")


def by_second(
    runs: DataFrame,
    publications: DataFrame,
    arrivals: DataFrame,
    owed: DataFrame,
    receptions: DataFrame,
    records: DataFrame,
) -> DataFrame:
    """What happened in each second of a run; what is missing counts where the event was published."""
    traffic, drops = F.col("kind") == "traffic", F.col("kind") == "drop"
    parts = [
        _counted(publications, "at_us", published=F.count("*")),
        _counted(arrivals, "arrived_us", delivered=F.count("*")),
        _counted(owed.where("missing"), "at_us", missing=F.count("*")),
        _counted(
            receptions, "ts_us", receptions=F.count("*"), unwanted=F.count_if(F.col("result") == "unwanted")
        ),
        _counted(
            records.where(traffic | drops), "ts_us",
            sent=F.sum("sent"), sent_bytes=F.sum("sent_bytes"), dropped=F.count_if(drops),
        ),
    ]  # fmt: skip
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part, allowMissingColumns=True)
    summed = whole.groupBy("run", "at_s").agg(*[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in COUNTS])
    timed = summed.join(F.broadcast(runs.select("run", "first_us")), "run")
    second = (F.col("at_s") - F.floor(F.col("first_us") / 1e6)).cast("long")
    return timed.select("run", second.alias("second"), *COUNTS).orderBy("run", "second")


def _counted(table: DataFrame, column: str, **counts: Column) -> DataFrame:
    second = F.floor(F.col(column) / 1e6)
    return table.groupBy("run", second.alias("at_s")).agg(*[each.alias(name) for name, each in counts.items()])
