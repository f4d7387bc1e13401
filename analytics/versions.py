"""Which filter a subscription had, and when.

Every `added` and `updated` record begins a *version*. It is active from the first `active` record after it, and *owed*
until the next change, its removal or the end of its peer. It is *served* a little longer: after an update the old
filter goes on until the new one is active.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.schema import LIFE, SUBSCRIPTION

FOREVER: Final = 2**62
"""A time that never comes."""

_BEGINS: Final = ("added", "updated")


def versions(subscriptions: DataFrame, lives: DataFrame) -> DataFrame:
    """Records of subscriptions as versions: `added_us`, `active_us`, `ended_us`, `served_us`, `filter`, `regions`."""
    alive = subscriptions.join(lives.select(*LIFE, F.col("ended_us").alias("life_us")), list(LIFE))
    told = alive.where(F.col("life_us").isNull() | (F.col("ts_us") <= F.col("life_us")))
    begins = F.col("change").isin(*_BEGINS)
    in_order = Window.partitionBy(*SUBSCRIPTION).orderBy("ts_us", "seq")
    numbered = told.withColumn("version", F.count_if(begins).over(in_order)).where("version > 0")
    each = numbered.groupBy(*SUBSCRIPTION, "version").agg(
        F.first("overlay").alias("overlay"),
        F.first("life_us").alias("life_us"),
        F.min(F.when(begins, F.col("ts_us"))).alias("added_us"),
        F.min(F.when(F.col("change") == "active", F.col("ts_us"))).alias("active_us"),
        F.min(F.when(F.col("change") == "removed", F.col("ts_us"))).alias("removed_us"),
        F.max(F.when(begins, F.col("filter"))).alias("filter"),
        F.max(F.when(begins, F.coalesce("regions", "boxes"))).alias("regions"),
        F.max(F.when(begins, F.coalesce("coarse", F.lit(False)))).alias("coarse"),
    )
    following = Window.partitionBy(*SUBSCRIPTION).orderBy("version")
    later = following.rowsBetween(1, Window.unboundedFollowing)
    ended = F.least("removed_us", F.lead("added_us").over(following), "life_us")
    activated = F.first("active_us", ignorenulls=True).over(later)
    removed = F.coalesce("removed_us", F.first("removed_us", ignorenulls=True).over(later))
    return each.select(
        *SUBSCRIPTION,
        "version",
        "overlay",
        "added_us",
        F.coalesce("active_us", F.lit(FOREVER)).alias("active_us"),
        F.coalesce(ended, F.lit(FOREVER)).alias("ended_us"),
        F.coalesce(F.least(activated, removed), F.lit(FOREVER)).alias("served_us"),
        "filter",
        "regions",
        "coarse",
    )
