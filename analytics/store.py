"""What stands in a store: the records of completed ingestions, and the lines kept aside."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from analytics.ingest import NoLogs, notes
from analytics.places import Places, located
from analytics.schema import RECORD, columns_of

ASIDE = StructType(
    [
        StructField("file", StringType()),
        StructField("line", LongType()),
        StructField("reason", StringType()),
        StructField("text", StringType()),
    ]
)


def records(spark: SparkSession, store: str, logs: str = "", known: Sequence[str] = ()) -> DataFrame:
    """All records; `NoLogs` if there are none, which tells what else is `known` of these logs."""
    places = Places(spark)
    ids = [note["id"] for note in notes(places, store) if note["records"]]
    if not ids or not places.exists(f"{store}/records"):
        bad = [f"{count:,} lines are none: {reason}" for reason, count in reasons(places, store).items()]
        raise NoLogs("; ".join([f"{logs or store}: no records were found in the logs", *bad, *known]))
    fields = [*RECORD.fields, StructField("ingestion", StringType())]
    stored = spark.read.schema(StructType(fields)).parquet(f"{located(store)}/records")
    return stored.where(F.col("ingestion").isin(ids)).select(*RECORD.names)


def aside(spark: SparkSession, store: str) -> DataFrame:
    """The lines that are no records."""
    places = Places(spark)
    ids = [note["id"] for note in notes(places, store) if note["aside"]]
    if not ids:
        return spark.range(0).select(*[F.lit(None).cast(field.dataType).alias(field.name) for field in ASIDE])
    kept = spark.read.parquet(f"{located(store)}/aside")
    return kept.where(F.col("ingestion").isin(ids)).select(*ASIDE.names)


def reasons(places: Places, store: str) -> dict[str, int]:
    """How many lines are no records, by reason, over all ingestions: a report is about the store, not the last one."""
    found: dict[str, int] = {}
    for note in notes(places, store):
        for reason, count in note["aside"].items():
            found[reason] = found.get(reason, 0) + count
    return found


def of_kind(records: DataFrame, kind: str) -> DataFrame:
    """The records of one kind, with its columns."""
    return records.where(F.col("kind") == kind).select(*columns_of(kind))
