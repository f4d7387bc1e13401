"""Subscriptions: what each asked for, version by version."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def listed(versions: DataFrame) -> DataFrame:
    """Every version of every subscription."""
    found = versions.select("run", "peer", "subscription_id", "version", "filter", "regions", "judged")
    return found.orderBy("run", "peer", "subscription_id", "version")


def unjudged(versions: DataFrame) -> DataFrame:
    """Those whose filter boxes do not say exactly, or speak of attributes that are not known."""
    found = versions.where(~F.col("judged")).select("run", "peer", "subscription_id", "version", "filter")
    return found.orderBy("run", "peer", "subscription_id", "version")
