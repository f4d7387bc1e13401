"""The lives of peers: a life begins with a start and ends in one of these ways.

| `how` | |
|---|---|
| `left` | it was told to leave; from that moment on nothing is owed to it |
| `crashed` | the author of the run says that it was killed |
| `silent` | its records end while the run goes on: it was killed, and nobody has said so |
| `lived` | it lived to the end of the run; `ended_us` is null |
| `cut off` | the log ends, and nobody has said that the run was over: what it did later is not known |

A living peer says so every second, so one that was silent for `SILENT_S` at the end of its log is dead.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.schema import LIFE

SILENT_S: Final = 5.0
"""Five of the seconds that a living peer counts (contract)."""

CRASH: Final = "crash"


def lives(records: DataFrame, runs: DataFrame) -> DataFrame:
    """One row for each life: `first_us`, `stood_us` (its first participant), `ended_us`, `how`, `records`, `lost`.

    From all records of a peer, also those of its being taken down: without them their numbers would seem to be lost.
    """
    found = _told(records).join(F.broadcast(runs.select("run", "last_us", "end_us")), "run")
    crashes = _crashes(records, found)
    found = found.join(crashes, list(LIFE), "left")
    before_end = F.col("end_us").isNull() | (F.col("leaving_us") <= F.col("end_us"))
    leaving = F.when(before_end, F.col("leaving_us"))
    silent = F.col("life_last_us") < F.coalesce("end_us", "last_us") - int(SILENT_S * 1e6)
    how = (
        F.when(leaving.isNotNull() & (F.col("crashed_us").isNull() | (leaving < F.col("crashed_us"))), "left")
        .when(F.col("crashed_us").isNotNull(), "crashed")
        .when(silent, "silent")
        .when(F.col("end_us").isNotNull(), "lived")
        .otherwise("cut off")
    )
    ended = F.coalesce(F.least(leaving, "crashed_us"), F.when(silent | F.col("end_us").isNull(), F.col("life_last_us")))
    return found.select(
        *LIFE,
        "first_us",
        "stood_us",
        "joined_us",
        ended.alias("ended_us"),
        how.alias("how"),
        "records",
        F.greatest(F.col("last_seq") - F.col("first_seq") + 1 - F.col("records"), F.lit(0)).alias("lost"),
    )


def _told(records: DataFrame) -> DataFrame:
    peer = F.col("kind") == "peer"
    participant = F.col("kind") == "participant"
    leaves = peer & F.col("change").isin("leaving", "left")
    return (
        records.groupBy(*LIFE)
        .agg(
            F.min("ts_us").alias("first_us"),
            F.max("ts_us").alias("life_last_us"),
            F.min(F.when(leaves, F.col("ts_us"))).alias("leaving_us"),
            F.min(F.when(peer & (F.col("change") == "joined"), F.col("ts_us"))).alias("joined_us"),
            F.min(F.when(participant & F.col("change").isin("joined", "active"), F.col("ts_us"))).alias("stood_us"),
            F.count("*").alias("records"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
            F.count_if(peer).alias("told"),
        )
        .where("told > 0")  # the author of a run is no peer
        .drop("told")
    )


def _crashes(records: DataFrame, told: DataFrame) -> DataFrame:
    """When a life was ended: the latest that had begun when its peer was killed."""
    killed = records.where((F.col("kind") == "fault") & (F.col("fault") == CRASH)).select(
        "run", F.col("about").alias("peer"), F.col("ts_us").alias("crashed_us")
    )
    known = told.select(*LIFE, "first_us", "end_us")
    meant = F.col("end_us").isNull() | (F.col("crashed_us") <= F.col("end_us"))
    begun = killed.join(known, ["run", "peer"]).where((F.col("first_us") <= F.col("crashed_us")) & meant)
    latest = begun.groupBy("run", "peer", "crashed_us").agg(F.max("boot").alias("boot"))
    return latest.groupBy(*LIFE).agg(F.min("crashed_us").alias("crashed_us"))
