"""From lines of text to records, and to what is none.

A line is kept aside, with a reason and never in silence, if it is not a JSON object, has a field of the wrong type,
lacks a field without which it says nothing, has a kind that nobody here knows, or was written by a newer version, whose
fields may mean something else. A line that was cut off when its writer died is not JSON any more. Everything else is a
record; fields that are not known are ignored, as the contract promises.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from analytics.schema import KINDS, NEEDED, RECORD, REQUIRED, VERSION

NOT_JSON: Final = "not a JSON object, or a field of the wrong type"
NEWER: Final = "a newer version of records"
UNKNOWN: Final = "an unknown kind"
LACKING: Final = "a field is missing"

_CORRUPT: Final = "_corrupt"
_PARSED: Final = StructType([*RECORD.fields, StructField(_CORRUPT, StringType())])
_OPTIONS: Final = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}


def read(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of files as rows with the columns of a record, `file`, and `why`: why it is none, or null."""
    scanned = spark.read.schema(_PARSED).options(**_OPTIONS).json(list(paths))
    return scanned.withColumn("file", F.col("_metadata.file_path")).withColumn("why", _why())


def parsed(lines: DataFrame) -> DataFrame:
    """The same for lines that have been read already (`text`, and whatever else stands beside it)."""
    # exploded, or Spark would parse the line again for each of the conditions that look at a field of it
    record = F.explode(F.array(F.from_json("text", _PARSED, _OPTIONS)))
    full = lines.where(F.length(F.trim("text")) > 0).withColumn("record", record)
    return full.select(*lines.columns, "record.*").withColumn("why", _why())


def records(rows: DataFrame) -> DataFrame:
    """The records among rows."""
    return rows.where(F.col("why").isNull()).select(*RECORD.names)


def aside(rows: DataFrame) -> DataFrame:
    """The rows that are no records, with `why`."""
    return rows.where(F.col("why").isNotNull())


def told(rows: DataFrame) -> list[str]:
    """How many rows are no records, by reason: a line for each."""
    counts = aside(rows).groupBy("why").count().orderBy("why").collect()
    return [f"{row['count']:,} lines are no records: {row['why']}" for row in counts]


def cut_off() -> Column:
    """Whether a line (`text`) was cut off: it could have been about anything."""
    return ~F.rtrim("text").endswith("}")


def _why() -> Column:
    kind = F.col("kind")
    return (
        F.when(F.col(_CORRUPT).isNotNull(), NOT_JSON)
        .when(F.col("v") > VERSION, NEWER)
        .when(_lacks(REQUIRED), LACKING)
        .when(~kind.isin(*KINDS), UNKNOWN)
        .when(reduce(Column.__or__, [(kind == each) & _lacks(NEEDED[each]) for each in KINDS]), LACKING)
    )


def _lacks(names: tuple[str, ...]) -> Column:
    return reduce(Column.__or__, [F.col(name).isNull() for name in names])
