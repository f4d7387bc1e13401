"""Receptions: every copy of an event that a participant was sent, and what came of it.

| `result` | |
|---|---|
| `wanted`, `unwanted` | the first copy, by whether the participant wants the event |
| `duplicate` | a further copy |
| `touched` | a message about the event that did not bring it along |
| `late` | a first copy, replayed to a peer that did not stand yet when the event was published |
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.schema import LIFE
from analytics.store import of_kind


def receptions(records: DataFrame, publications: DataFrame, lives: DataFrame) -> DataFrame:
    """`run`, `event_id`, `peer`, `boot`, `participant`, `sender`, `hops`, `bytes`, `ts_us`, `result`."""
    columns = ["run", "peer", "boot", "participant", "event_id", "sender", "hops", "ts_us"]
    matched = F.when(F.col("duplicate"), "duplicate").when(F.col("matched"), "wanted").otherwise("unwanted")
    received = of_kind(records, "receive").select(*columns, "bytes", matched.alias("told"))
    touched = of_kind(records, "touch").select(
        *columns, F.lit(None).cast("long").alias("bytes"), F.lit("touched").alias("told")
    )
    told = received.unionByName(touched)
    known = told.join(publications.select("run", "event_id", "at_us"), ["run", "event_id"], "left")
    stood = known.join(F.broadcast(lives.select(*LIFE, "stood_us")), list(LIFE), "left")
    came_later = F.col("at_us").isNotNull() & (F.col("stood_us").isNull() | (F.col("stood_us") > F.col("at_us")))
    late = (F.col("told") != "duplicate") & came_later
    return stood.select(*columns, "bytes", "at_us", F.when(late, "late").otherwise(F.col("told")).alias("result"))
