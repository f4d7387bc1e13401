"""Runs a paper's experiments in the simulator and has Spark analyse their logs.

All runs of a paper go into one directory of logs and are analysed together: one pass, one table of figures. A run that
is there already, made with the same settings, is not run again, so a long reproduction can be taken up where it was
broken off, and a run of another scale or seed is never taken for it.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from analytics.progress import Progress
from peerd.cli.papers.frame import Experiment, Figures, Paper
from peerd.sim import scenario
from peerd.sim.scenario import Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORD_EVERY_S: Final = 30
"""Peers of an experiment tell rarely that they live: nobody dies unseen there, and at 10,000 peers it would be most of
the log."""

Show = Callable[[str, float], None]


def run(paper: Paper, experiments: Sequence[Experiment], out: Path, show: Show) -> dict[str, dict[str, Any]]:
    """Run what has not been run yet; the simulator's own summaries, by run."""
    logs, kept = out / "logs", out / "summaries"
    kept.mkdir(parents=True, exist_ok=True)
    summaries = {}
    for number, experiment in enumerate(experiments, 1):
        file, fields = kept / f"{experiment.run}.json", json.loads(msgspec.json.encode(experiment.fields))
        done = json.loads(file.read_bytes()) if file.exists() else {}
        if done.get("fields") != fields:
            _clear(logs / f"run={experiment.run}")
            _clear(out / "report")  # what was made of other runs
            at = f"{number}/{len(experiments)} {experiment.run}"
            done = {"fields": fields, "summary": _made(paper, experiment, logs, at, show)}
            file.write_bytes(msgspec.json.encode(done))
        summaries[experiment.run] = done["summary"]
    return summaries


def _made(paper: Paper, experiment: Experiment, logs: Path, at: str, show: Show) -> Any:
    """Run an experiment; its summary, as JSON has it."""

    def shown(phase: str, share: float) -> None:
        show(f"{at} {phase}", share)

    fields = {**experiment.fields, "out": str(logs), "name": experiment.run, "record_every_s": RECORD_EVERY_S}
    summary = paper.special[experiment.special](fields) if experiment.special else _run(fields, shown)
    return json.loads(msgspec.json.encode(summary))


def _run(fields: dict[str, Any], shown: Show) -> Any:
    return scenario.run(msgspec.convert(fields, Scenario), shown)


def _clear(directory: Path) -> None:
    """Remove a directory with all that is in it, if it is there."""
    shutil.rmtree(directory, ignore_errors=True)


def analyse(
    spark: "SparkSession", paper: Paper, summaries: dict[str, dict[str, Any]], out: Path, progress: Progress
) -> dict[str, Figures]:
    """The figures of each run, from its logs. `simulator` holds the simulator's own summary."""
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
