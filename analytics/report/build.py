"""Builds a report: ingest, truth, tables, page.

    OUT/report.html             the page
    OUT/summary.json            the figures of each run
    OUT/tables/NAME.csv         every table (a directory of part files where it is large)
    OUT/tables/NAME.parquet     the same
    OUT/truth/NAME.parquet      what they are made from: lives, publications, what was owed …
    OUT/store/                  the records, unless the caller keeps them elsewhere

Tables are written one by one and then forgotten. Of a large one only its first rows come to the driver, so its memory
does not depend on how much was logged.
"""

import csv
import io
import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics import store as stores
from analytics.clocks import clocks, corrected, differences, of_relays
from analytics.holding import on_disk
from analytics.ingest import Ingested, NoLogs, ingest, left_out, mixed, segments
from analytics.places import Places, located
from analytics.progress import Progress, silent
from analytics.report import page
from analytics.report.tables import SHOWN, Sources, Table, tables
from analytics.runs import CLOCK_GRACE_S
from analytics.session import tune
from analytics.store import of_kind
from analytics.truth import truth

COLLECTED: Final = 5_000
"""Rows of a table that the driver holds at the most: enough for plots, and for a CSV file in one piece."""

DETAILS: Final = ("summary", "deliveries", "full")


class Made(NamedTuple):
    """A table that has been written: its first rows, and how many there are."""

    name: str
    title: str
    says: str
    columns: list[str]
    rows: list[dict[str, Any]]
    shown: list[dict[str, Any]]
    total: int
    available: bool
    """Whether every run has the log detail that it needs; where not, those runs are not in it."""


class Report(NamedTuple):
    out: str
    made: dict[str, Made]
    warnings: list[str]

    @property
    def summary(self) -> list[dict[str, Any]]:
        return self.made["summary"].rows


def report(
    spark: SparkSession,
    logs: str,
    out: str,
    *,
    store: str | None = None,
    only: Sequence[str] = (),
    compare: tuple[str, str] | None = None,
    take_open: bool = False,
    clock_grace_s: float = CLOCK_GRACE_S,
    wanted: Collection[str] = (),
    rows_max: int = COLLECTED,
    progress: Progress = silent,
) -> Report:
    """Make the report about all runs in the logs, or about some of them.

    With `wanted` only these tables are made, those that others need, and no page; `rows_max` is how many rows of a
    table come to the driver.
    """
    store = store or f"{out}/store"
    places = Places(spark)
    found = segments(places, logs)
    tune(spark, sum(file.size for file in [*found.closed, *(found.open if take_open else ())]))
    ingested = ingest(spark, logs, store, take_open, progress)
    records = stores.records(spark, store, logs, left_out(ingested.left_open))
    names = _chosen(records, only, compare)
    if names is not None:
        records = records.where(F.col("run").isin(names))
    sources, warnings = _sources(records, stores.aside(spark, store), out, clock_grace_s, progress)
    warnings = [*_told(ingested, stores.reasons(places, store)), *_not_one(mixed(places, store)), *warnings]
    made = _made(spark, sources, out, wanted, rows_max, progress)
    spark.catalog.clearCache()
    if wanted:
        return Report(out, made, warnings)
    warnings += flagged(made)
    result = Report(out, made, warnings)
    with progress.step("page"):
        places.write(f"{out}/summary.json", json.dumps({"runs": result.summary, "warnings": warnings}, indent=1))
        made_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        places.write(f"{out}/report.html", page.page(made, warnings, logs, made_at, names if compare else None))
    return result


def _chosen(records: DataFrame, only: Sequence[str], compare: tuple[str, str] | None) -> list[str] | None:
    """The runs that are asked for, by their names or by their overlays; None: all."""
    if not only and compare is None:
        return None
    found = {row["run"]: row["overlay"] for row in records.select("run", "overlay").distinct().collect()}
    asked = compare or only
    chosen = []
    for name in asked:
        matching = [run for run, overlay in sorted(found.items()) if name in (run, overlay)]
        if not matching:
            raise NoLogs(f"there is no run and no overlay {name!r} in the logs; there are {', '.join(sorted(found))}")
        if compare is not None and len(matching) > 1:
            raise NoLogs(f"{name!r} stands for several runs, name one: {', '.join(matching)}")
        chosen += matching
    return list(dict.fromkeys(chosen))


def _sources(
    records: DataFrame, aside: DataFrame, out: str, clock_grace_s: float, progress: Progress
) -> tuple[Sources, list[str]]:
    hold = on_disk(f"{out}/truth", progress)
    published = of_kind(records, "publish")
    known = hold("clock_differences", differences(of_kind(records, "deliver"), published))
    wrong = hold("clocks", clocks(known.union(of_relays(of_kind(records, "receive"), published, known))))
    off = wrong.count()
    if off:
        records = corrected(records, wrong)
    found = truth(records, hold, clock_grace_s)
    warnings = [] if not off else [f"{off} peers have clocks that are off by more than 10 s: see Wrong clocks"]
    return Sources(found, aside, wrong), [*_without_peers(records, found.runs), *warnings]


def _without_peers(records: DataFrame, runs: DataFrame) -> list[str]:
    """Runs that nothing can be said about."""
    told = {row["run"] for row in runs.select("run").collect()}
    silent_runs = sorted({row["run"] for row in records.select("run").distinct().collect()} - told)
    return [f"{run}: left out, since there is no record of kind 'peer'" for run in silent_runs]


# --- Tables -----------------------------------------------------------------------------------------------------------


def _made(
    spark: SparkSession, sources: Sources, out: str, wanted: Collection[str], rows_max: int, progress: Progress
) -> dict[str, Made]:
    """Each table once: those that are wanted and those that they are made of, or all."""
    places, details = Places(spark), _details(sources)
    known = {table.name: table for table in tables(sources)}
    made: dict[str, Made] = {}
    frames: dict[str, DataFrame] = {}

    def finished(name: str) -> DataFrame:
        make(name)
        return frames[name]

    def make(name: str) -> None:
        if name in made:
            return
        frame = known[name].make(finished)
        with progress.step(f"table {name}"):
            made[name], frames[name] = _write(places, known[name], frame, out, details, rows_max)

    for name in (*wanted, "summary") if wanted else known:
        make(name)
    return {name: made[name] for name in known if name in made}


def _details(sources: Sources) -> dict[str, str]:
    """By run, the least that a peer has written down."""
    return {row["run"]: row["detail"] or "full" for row in sources.truth.runs.select("run", "detail").collect()}


def _write(
    places: Places, table: Table, frame: DataFrame, out: str, details: dict[str, str], rows_max: int
) -> tuple[Made, DataFrame]:
    """The table in its files: what the page shows of it, and the table as it is read back."""
    enough = [run for run, detail in details.items() if DETAILS.index(detail) >= DETAILS.index(table.needs)]
    available = len(enough) == len(details)
    if not available and "run" in frame.columns:
        frame = frame.where(F.col("run").isin(enough))
    target = f"{located(out)}/tables/{table.name}"
    frame.write.mode("overwrite").parquet(f"{target}.parquet")
    written = frame.sparkSession.read.schema(frame.schema).parquet(f"{target}.parquet")
    rows = [row.asDict() for row in written.limit(rows_max + 1).collect()]
    count = len(rows)
    if count <= rows_max:
        places.remove(f"{target}.csv")
        places.write(f"{target}.csv", _csv(frame.columns, rows))
        first = _largest(rows, table.sort, frame.columns)[:SHOWN] if table.sort else rows[:SHOWN]
    else:
        count = written.count()
        written.coalesce(1).write.mode("overwrite").option("header", True).csv(f"{target}.csv")
        sorted_ = written.orderBy(F.desc(table.sort), *frame.columns[:2]) if table.sort else written
        first = [row.asDict() for row in sorted_.limit(SHOWN).collect()]
    made = Made(table.name, table.title, table.says, frame.columns, rows[:rows_max], first, count, available)
    return made, written


def _largest(rows: Sequence[dict[str, Any]], by: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """As Spark orders them: largest first, those without a value last, equal ones by the first two columns."""

    def key(row: dict[str, Any]) -> tuple[bool, float, Any, Any]:
        value = row[by]
        return value is None, -(value or 0), row[columns[0]], row[columns[1]]

    return sorted(rows, key=key)


def _csv(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# --- What a reader should know ----------------------------------------------------------------------------------------


def _told(ingested: Ingested, aside: dict[str, int]) -> list[str]:
    told = [f"{count:,} lines are no records: {reason}" for reason, count in aside.items()]
    told += left_out(ingested.left_open)
    if ingested.grown:
        told.append(
            f"{len(ingested.grown)} segments have changed since they were ingested; what is new in them is left out"
        )
    return told


def _not_one(runs: Sequence[str]) -> list[str]:
    return [
        f"{run}: segments of it were added when none of the former ones was there any more; if these are two runs of"
        " one name, the figures are of neither: take another --out"
        for run in runs
    ]


def flagged(made: dict[str, Made]) -> list[str]:
    """What is odd about the runs: where a figure is not what it seems, the page says so."""
    told = []
    for row in made["summary"].rows:
        run = row["run"]
        if row["events"] == 0:
            told.append(f"{run}: nothing was published, so nothing was owed")
        if row["detail"] is None:
            told.append(f"{run}: no peer has said what it is (no 'started' record): types of attributes are not known")
        elif row["detail"] != "full":
            told.append(f"{run}: log detail is {row['detail']!r}; measures that need more read n/a")
        if row["sample"] is not None and row["sample"] < 1.0:
            told.append(f"{run}: a sample of {row['sample']:g} of the events was logged; counts are of the sample")
        if row["unjudged"]:
            told.append(f"{run}: {row['unjudged']} filters cannot be judged and are left out of the truth")
    if made["lost_records"].total:
        told.append(f"{made['lost_records'].total} lives have gaps in their records: see Lost records")
    if any(row["inferred"] for row in made["convergence"].rows):
        told.append("some faults are inferred from peers that fell silent; events are at risk for 60 s after each")
    return told
