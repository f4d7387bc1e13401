"""Ingest: closed segments of log records, plain or gzip, into Parquet partitioned by run and kind.

    STORE/records/run=R/kind=K/*.parquet    the records
    STORE/aside/*.parquet                   lines that are no records: their file, line, reason and text
    STORE/ingested/ID.json                  one file for each time something was ingested: which segments, how much

Running it again adds what is new: a segment that a note in `ingested/` names is not read again. The note is written
last, and rows carry the id of the ingestion that wrote them, so what an interrupted one has left behind is never read.

Segments are shuffled once, by run and kind, into files of about 128 MiB, or smaller ones where there is so little that
some cores would have nothing to write. A segment that is still open is left out,
unless the caller knows that its writer is dead; a note then names it by the name that it will have when closed.
"""

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from analytics import parse
from analytics.places import File, Places, located, unquoted
from analytics.progress import Progress, silent
from analytics.session import ROW_GROUP

FILE_BYTES: Final = 128 * 2**20
SHUFFLED: Final = 5
"""A record takes about so many times the room in a shuffle that it takes in Parquet (measured: 182 MiB and 33)."""
TEXT: Final = 8
"""And its text about so many times the room that it takes in a shuffle (measured: 1,578 MiB and 182)."""
COMPRESSED: Final = 10
"""Text by the room that it takes with gzip. A guess."""
PIECE_MIN: Final = 16 * 2**20
"""Less than this of a shuffle is not worth a file of its own. A guess."""

PATTERNS: Final = ("run=*/peer=*/*.jsonl*", "*/run=*/peer=*/*.jsonl*")
"""Where segments are; below a directory of logs, or of one such directory for each host."""
CLOSED: Final = (".jsonl", ".jsonl.gz")
OPEN: Final = ".open"
TEXT_KEPT: Final = 1_000
"""Characters of a line that is kept aside."""


class NoLogs(ValueError):
    """There is nothing to analyse; one line says why."""


class Segments(NamedTuple):
    """What a directory of logs holds."""

    closed: list[File]
    open: list[File]


def left_out(opened: int) -> list[str]:
    """What is told of segments that are still open."""
    return [f"{opened:,} segments are still open and were left out; --open takes them in"] if opened else []


class Ingested(NamedTuple):
    """What one ingestion came to."""

    id: str
    files: list[File]
    skipped: int
    """Segments that had been ingested before."""
    left_open: int
    grown: list[str]
    """Segments that have changed since they were ingested: what they have grown by is not in the store."""
    records: int
    aside: dict[str, int]
    """By reason, how many lines are no records."""


def segments(places: Places, logs: str) -> Segments:
    """The segments below a directory; `NoLogs` if there are none."""
    if not places.is_directory(logs):
        raise NoLogs(f"{logs}: no such directory")
    found = [file for pattern in PATTERNS for file in places.matching(f"{logs}/{pattern}")]
    closed = [file for file in found if file.path.endswith(CLOSED)]
    opened = [file for file in found if file.path.endswith(OPEN)]
    if not closed and not opened:
        raise NoLogs(f"{logs}: no log records there; they are in DIR/run=NAME/peer=ID/NNNNNN.jsonl (--log-dir, --out)")
    return Segments(closed, opened)


def read_lines(spark: SparkSession, files: Sequence[File]) -> DataFrame:
    """The lines of segments, with the file that each stands in."""
    lines = spark.read.text([file.path for file in files])
    return lines.select(F.col("value").alias("text"), F.col("_metadata.file_path").alias("file"))


def ingest(
    spark: SparkSession, logs: str, store: str, take_open: bool = False, progress: Progress = silent
) -> Ingested:
    """Add to the store whatever below `logs` is not in it yet."""
    places = Places(spark)
    found = segments(places, logs)
    known = {final: size for note in notes(places, store) for final, size in note["files"]}
    wanted = [*found.closed, *(found.open if take_open else ())]
    new = [file for file in wanted if _final(file.path) not in known]
    grown = [file.path for file in wanted if known.get(_final(file.path), file.size) != file.size]
    left_open = 0 if take_open else len(found.open)
    id_ = uuid4().hex
    if not new:
        return Ingested(id_, [], len(wanted), left_open, grown, 0, {})
    with progress.step(f"reading {len(new):,} segments, {sum(file.size for file in new) / 2**20:,.0f} MiB"):
        count, reasons = _write(spark, new, store, id_)
    mixed = _mixed([file.path for file in new], known, {_final(file.path) for file in [*found.closed, *found.open]})
    files = [(_final(file.path), file.size) for file in new]
    note = {"files": files, "records": count, "aside": reasons, "mixed": mixed}
    places.write(f"{store}/ingested/{id_}.json", json.dumps(note))
    return Ingested(id_, new, len(wanted) - len(new), left_open, grown, count, reasons)


def notes(places: Places, store: str) -> list[dict[str, Any]]:
    """What the store says about earlier ingestions."""
    found = []
    for file in places.matching(f"{store}/ingested/*.json"):
        note = json.loads(places.read(file.path))
        found.append({**note, "id": file.path.rsplit("/", 1)[1].removesuffix(".json")})
    return found


def mixed(places: Places, store: str) -> list[str]:
    """Runs that may be several of the same name: when more of them came, nothing that was known stood in the logs."""
    return sorted({run for note in notes(places, store) for run in note.get("mixed", ())})


def _mixed(new: Iterable[str], known: Iterable[str], present: Container[str]) -> list[str]:
    former: dict[str, bool] = {}  # run -> whether any of its known segments is still there
    for path in known:
        run = _run_of(path)
        former[run] = former.get(run, False) or path in present
    return sorted({run for run in map(_run_of, new) if not former.get(run, True)})


def _run_of(path: str) -> str:
    return path.rsplit("/run=", 1)[1].split("/", 1)[0]


def _final(path: str) -> str:
    return path.removesuffix(OPEN)


def _write(spark: SparkSession, new: Sequence[File], store: str, id_: str) -> tuple[int, dict[str, int]]:
    lines = parse.read(spark, [file.path for file in new])
    observed, observation = _observed(lines)
    written = parse.records(observed).withColumn("ingestion", F.lit(id_))
    balanced = written.hint("rebalance", "run", "kind")
    with _pieces_of(spark, piece_bytes(new, spark.sparkContext.defaultParallelism)):
        writer = balanced.write.partitionBy("run", "kind").mode("append").options(**ROW_GROUP)
        writer.parquet(f"{located(store)}/records")
    counts = _counted(lines, observation)
    count = counts.pop(FINE, 0)
    if counts:
        _write_aside(spark, new, store, id_)
    return count, counts


def piece_bytes(files: Iterable[File], cores: int) -> int:
    """How much of a shuffle one core should write: a whole file's worth, but for so little that others would wait."""
    text = sum(file.size * (COMPRESSED if ".gz" in file.path else 1) for file in files)
    return min(SHUFFLED * FILE_BYTES, max(PIECE_MIN, text // TEXT // cores))


@contextmanager
def _pieces_of(spark: SparkSession, size: int) -> Iterator[None]:
    """Adaptive execution cuts and joins what was shuffled into pieces of about this size."""
    settings = {
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(size),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    }
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


REASONS: Final = (parse.NOT_JSON, parse.NEWER, parse.UNKNOWN, parse.LACKING)
FINE: Final = ""
"""In place of a reason: it is a record."""


def _observed(lines: DataFrame) -> tuple[DataFrame, Any]:
    """Counts what passes, on its way into Parquet: no second pass over the text."""
    from pyspark.sql import Observation

    observation = Observation()
    reason = F.coalesce("why", F.lit(FINE))
    counts = [F.count_if(reason == each).alias(f"r{number}") for number, each in enumerate((FINE, *REASONS))]
    return lines.observe(observation, *counts), observation


def _counted(lines: DataFrame, observation: Any) -> dict[str, int]:
    """By reason, how many lines there were. Where not one is a record Spark drops the query once it knows, what was
    observed with it, and they are counted again."""
    try:
        seen = observation.get
    except Py4JJavaError:
        return {row["why"] or FINE: row["count"] for row in lines.groupBy("why").count().collect()}
    return {reason: seen[f"r{n}"] for n, reason in enumerate((FINE, *REASONS)) if seen[f"r{n}"]}


# --- What is no record ------------------------------------------------------------------------------------------------


def _write_aside(spark: SparkSession, new: Iterable[File], store: str, id_: str) -> None:
    """A second pass, over the files only that have such lines: numbering lines costs a sort of each file."""
    bad = parse.aside(parse.read(spark, [file.path for file in new])).select("file").distinct()
    affected = [unquoted(row["file"]) for row in bad.collect()]
    numbered = numbered_lines(spark.read.text(affected))
    kept = parse.aside(parse.parsed(numbered)).select(
        F.lit(id_).alias("ingestion"),
        "file",
        "line",
        F.col("why").alias("reason"),
        F.substring("text", 1, TEXT_KEPT).alias("text"),
    )
    kept.coalesce(1).write.mode("append").parquet(f"{located(store)}/aside")


def numbered_lines(lines: DataFrame) -> DataFrame:
    """Lines with the file that each stands in and its number there, from 1.

    A large file is read in blocks, and rows of a block in order: so block and row tell the place in the file.
    """
    placed = lines.select(
        F.col("value").alias("text"),
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("row"),
    )
    number: Column = F.row_number().over(Window.partitionBy("file").orderBy("block", "row"))
    return placed.withColumn("line", number).drop("block", "row")
