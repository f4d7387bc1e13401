"""Mean, percentiles and maximum. Percentiles are by nearest rank: elements of the data, the same wherever computed."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

SHARES: Final = {"p50": 0.5, "p99": 0.99}


def spread(values: DataFrame, keys: Sequence[str], column: str) -> DataFrame:
    """For each group: `count`, `mean`, `p50`, `p99` and `max` of a column; nulls do not count.

    Values are counted first, so only different ones are sorted.
    """
    counted = values.where(F.col(column).isNotNull()).groupBy(*keys, F.col(column).alias("value")).agg(
        F.count("*").alias("times")
    )  # fmt: skip
    group = Window.partitionBy(*keys)
    so_far = F.sum("times").over(group.orderBy("value").rowsBetween(Window.unboundedPreceding, 0))
    ranked = counted.withColumns({"so_far": so_far, "all": F.sum("times").over(group)})
    ranks = [
        F.min(F.when(F.col("so_far") >= F.ceil(F.lit(share) * F.col("all")), F.col("value"))).alias(name)
        for name, share in SHARES.items()
    ]
    return ranked.groupBy(*keys).agg(
        F.sum("times").alias("count"),
        (F.sum(F.col("value") * F.col("times")) / F.sum("times")).alias("mean"),
        *ranks,
        F.max("value").alias("max"),
    )
