"""Runs a paper's experiments in the simulator and has Spark analyse their logs.

All runs of a paper go into one directory of logs and are analysed together: one pass, one table of figures. A run that
is there already, made with the same settings, is not run again, so a long reproduction can be taken up where it was
broken off, and a run of another scale or seed is never taken for it.

A run that fails takes nothing else with it: its traceback is kept, what its claims ask for reads n/a, and whoever asked
for it is told.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from traceback import format_exc
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from analytics.progress import Progress
from peerd.cli.errors import one_line
from peerd.cli.papers.frame import Experiment, Figures, Paper
from peerd.sim import scenario
from peerd.sim.scenario import Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORD_EVERY_S: Final = 30
"""Peers of an experiment tell rarely that they live: nobody dies unseen there, and at 10,000 peers it would be most of
the log."""

Show = Callable[[str, float], None]
"""Is told which phase a run is in, and how much of it is done."""
Watch = Callable[[str], AbstractContextManager[Show]]
"""Is told which run begins; its context lasts as long as the run."""


class Ran(NamedTuple):
    summaries: dict[str, dict[str, Any]]
    """By run, what the simulator itself says."""
    failed: dict[str, str]
    """By run that failed, why, in one line."""


def run(paper: Paper, experiments: Sequence[Experiment], out: Path, watch: Watch) -> Ran:
    """Run what has not been run yet."""
    logs, kept = out / "logs", out / "summaries"
    kept.mkdir(parents=True, exist_ok=True)
    ran = Ran({}, {})
    for number, experiment in enumerate(experiments, 1):
        file, fields = kept / f"{experiment.run}.json", json.loads(msgspec.json.encode(experiment.fields))
        done = json.loads(file.read_bytes()) if file.exists() else {}
        if done.get("fields") != fields:
            _clear(logs / f"run={experiment.run}")
            _clear(out / "report")  # what was made of other runs
            try:
                with watch(f"{paper.name} {number}/{len(experiments)} {experiment.run}") as show:
                    done = {"fields": fields, "summary": _made(paper, experiment, logs, show)}
            except Exception as error:
                _clear(logs / f"run={experiment.run}")
                file.with_suffix(".traceback").write_text(format_exc(), "utf-8")
                ran.failed[experiment.run] = one_line(f"{type(error).__name__}: {error}")
                continue
            file.write_bytes(msgspec.json.encode(done))
        ran.summaries[experiment.run] = done["summary"]
    return ran


def _made(paper: Paper, experiment: Experiment, logs: Path, show: Show) -> Any:
    """Run an experiment; its summary, as JSON has it."""
    fields = {**experiment.fields, "out": str(logs), "name": experiment.run, "record_every_s": RECORD_EVERY_S}
    if experiment.special:
        summary = paper.special[experiment.special](fields)
    else:
        summary = scenario.run(msgspec.convert(fields, Scenario), show)
    return json.loads(msgspec.json.encode(summary))


def _clear(directory: Path) -> None:
    """Remove a directory with all that is in it, if it is there."""
    shutil.rmtree(directory, ignore_errors=True)


def analyse(
    spark: "SparkSession", paper: Paper, summaries: dict[str, dict[str, Any]], out: Path, progress: Progress
) -> dict[str, Figures]:
    """The figures of each run, from its logs. `simulator` holds the simulator's own summary."""
    if not summaries:
        return {}
    from analytics.report.build import report

    made = report(
        spark,
        str(out / "logs"),
        str(out / "report"),
        only=list(summaries),
        wanted=paper.tables,
        rows_max=500_000,
        progress=progress,
    )
    found: dict[str, Figures] = {}
    for row in made.summary:
        tables = {name: [each for each in made.made[name].rows if each["run"] == row["run"]] for name in paper.tables}
        found[row["run"]] = {**row, "tables": tables, "simulator": summaries[row["run"]]}
    return found
