"""What a run was: its overlay, schema and parameters, how much of it was written down, and when it ended.

A run that has an *author* (the simulator, the testbed) is told to have ended (`run.end`) before its peers are taken
down: what they do from then on means nothing. A simulated run has one clock, which shows in records that are numbered
throughout (`order`). Otherwise every peer has its own clock, and two times of different peers are only compared with a
grace.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

CLOCK_GRACE_S: Final = 1.0
"""How far the clocks of two hosts may be apart and still be believed. A guess: far more than NTP leaves."""

ATTRIBUTES: Final = StructType(
    [
        StructField(
            "attributes",
            ArrayType(StructType([StructField("name", StringType()), StructField("type", StringType())])),
        )
    ]
)
"""Of a schema, as much as is needed to read attributes and boxes."""


def runs(records: DataFrame, clock_grace_s: float = CLOCK_GRACE_S) -> DataFrame:
    """One row for each run that has a peer.

    | column | |
    |---|---|
    | `first_us`, `last_us` | its first and last record |
    | `end_us` | when its author says that it was over; null without one |
    | `grace_us` | how far two peers' clocks may be apart |
    | `attributes` | the longest schema that a peer has told: names and types; null if none has |
    | `detail`, `sample` | the least that a peer has written down; null where none has said how much |
    | `converged_s` | how long the last convergence took; null if a fault came after it, or nobody watched |
    """
    peer, control = F.col("kind") == "peer", F.col("kind") == "control"
    attributes = F.from_json("schema", ATTRIBUTES)["attributes"]
    level = F.element_at(F.create_map(*[F.lit(x) for pair in _LEVELS.items() for x in pair]), F.col("log_detail"))
    converged = control & (F.col("fact") == "run.converged")
    found = records.groupBy("run").agg(
        F.first("overlay").alias("overlay"),
        F.min("ts_us").alias("first_us"),
        F.max("ts_us").alias("last_us"),
        F.min(F.when(control & (F.col("fact") == "run.end"), F.col("ts_us"))).alias("end_us"),
        F.count_if(F.col("order").isNull()).alias("unnumbered"),
        F.max_by(attributes, F.size(attributes)).alias("attributes"),
        F.max(F.when(peer, F.col("parameters"))).alias("parameters"),
        F.min(F.when(peer, level)).alias("level"),
        F.min(F.when(peer, F.col("log_sample"))).alias("sample"),
        F.max(F.when(converged, F.struct("ts_us", "value"))).alias("converged"),
        F.max(F.when(F.col("kind") == "fault", F.col("ts_us"))).alias("fault_us"),
        F.count_if(peer).alias("told"),
    )
    names = F.create_map(*[F.lit(x) for name, number in _LEVELS.items() for x in (number, name)])
    late = F.col("fault_us") > F.col("converged.ts_us")
    return found.where("told > 0").select(
        "run",
        "overlay",
        "first_us",
        "last_us",
        "end_us",
        F.when(F.col("unnumbered") == 0, 0).otherwise(int(clock_grace_s * 1e6)).cast("long").alias("grace_us"),
        "attributes",
        "parameters",
        F.element_at(names, F.col("level")).alias("detail"),
        "sample",
        F.when(~F.coalesce(late, F.lit(False)), F.col("converged.value")).alias("converged_s"),
    )


def until_the_end(records: DataFrame, runs: DataFrame) -> DataFrame:
    """Records without what peers did while they were taken down: they leave one after the other, their links fall, and
    those who take over are sent again what has been published. Traffic is summed by intervals and stays."""
    late = runs.where(F.col("last_us") > F.col("end_us")).select("run", "end_us")
    if late.isEmpty():
        return records
    ended = records.join(F.broadcast(late), "run", "left")
    within = F.col("end_us").isNull() | (F.col("ts_us") <= F.col("end_us")) | (F.col("kind") == "traffic")
    return ended.where(within).select(*records.columns)


_LEVELS: Final = {"summary": 0, "deliveries": 1, "full": 2}
"""How much a peer writes down (`--log-detail`), from little to much."""
