"""Subscriptions: what each asked for, version by version."""

from pyspark.sql import DataFrame


def listed(versions: DataFrame) -> DataFrame:
    """Every version of every subscription."""
    found = versions.select("run", "peer", "subscription_id", "version", "filter", "regions", "judged")
    return found.orderBy("run", "peer", "subscription_id", "version")
