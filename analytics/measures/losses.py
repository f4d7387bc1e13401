"""What the log itself lacks: numbers that no record has."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def by_peer(lives: DataFrame) -> DataFrame:
    """Lives some of whose records were lost, or are not among the segments that were read; most first."""
    lost = lives.where("lost > 0").select("run", "peer", "boot", "records", "lost")
    return lost.orderBy("run", F.desc("lost"), "peer", "boot")
