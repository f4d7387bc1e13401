"""Advice: which overlay, with which parameters, would have cost least for what was logged.

The workload of a run, or a sample of it, is collected with Spark and replayed through each overlay in the simulator.
The simulator is called as a user calls it (`peerd sim --json`), each time in a process of its own, so nothing of it is
known here but its command line. What the caller asks to be tried is tried in any case. While there is time, so is every
overlay as it is and with each of its profiles, and then the best one with each number among its parameters halved and
doubled.

Cheapest is what sends the fewest bytes for each delivery, of those that kept their guarantees.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics import parse
from analytics.clocks import clocks, corrected, differences
from analytics.ingest import NoLogs, left_out, read_lines, segments
from analytics.places import Places
from analytics.progress import Progress
from analytics.recorded import Recorded, recorded
from analytics.report.text import aligned
from analytics.session import tune
from analytics.store import of_kind

PEERD: Final = (sys.executable, "-m", "peerd.cli")
NEEDED: Final = r'"kind"\s*:\s*"(peer|subscription|publish|deliver)"'
"""Deliveries only tell whose clock was wrong."""


class Candidate(NamedTuple):
    overlay: str
    settings: dict[str, str]

    @property
    def name(self) -> str:
        return " ".join([self.overlay, *[f"{key}={value}" for key, value in self.settings.items()]])


class Tried(NamedTuple):
    candidate: Candidate
    summary: dict[str, Any] | None
    """None: it did not run."""
    fault: str
    """Why it is out of the question; empty if it is not."""


def advise(spark: SparkSession, options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Collect, replay, rank."""
    found = segments(Places(spark), options.logs)
    files = [*found.closed, *(found.open if options.open else ())]
    tune(spark, sum(file.size for file in files))
    lines = read_lines(spark, files).where(F.col("text").rlike(NEEDED) | parse.cut_off())
    left = left_out(0 if options.open else len(found.open))
    with progress.step("collecting the workload"):
        workload, notes = collected(parse.parsed(lines).localCheckpoint(), options, left)
    known = _known_overlays()
    asked, others = _asked(options.tries, known), list(_plain(known, options.overlay))
    if not asked:
        asked, others = others[:1], others[1:]
    with TemporaryDirectory() as directory:
        file = Path(directory) / "workload.json"
        file.write_text(json.dumps(workload))
        tried = _try_all(file, workload, asked, others, known, options.seconds, progress)
    ranked = sorted(tried, key=_rank)
    sizes = {key: len(workload[key]) for key in ("subscriptions", "events")}
    about = {key: workload[key] for key in ("run", "peers", "peers_all", "events_all", "rate")}
    return {"workload": {**about, **sizes}, "tried": [_row(each) for each in ranked], "notes": notes}


def collected(rows: DataFrame, options: argparse.Namespace, known: Sequence[str] = ()) -> tuple[Recorded, list[str]]:
    """The workload, and what a reader should know about it, with what is known already."""
    notes = [*parse.told(rows), *known]
    try:
        return recorded(_timely(parse.records(rows)), options.run, options.peers, options.events), notes
    except NoLogs as error:
        raise NoLogs("; ".join([str(error), *notes])) from None


def _timely(records: DataFrame) -> DataFrame:
    """With right times: how many events there were in a second depends on them."""
    wrong = clocks(differences(of_kind(records, "deliver"), of_kind(records, "publish"))).localCheckpoint()
    return corrected(records, wrong) if wrong.count() else records


def _rank(tried: Tried) -> tuple[bool, float]:
    cost = tried.summary["bytes_per_delivery"] if tried.summary else float("inf")
    return bool(tried.fault), cost


# --- Candidates -------------------------------------------------------------------------------------------------------


def _known_overlays() -> dict[str, dict[str, Any]]:
    told = subprocess.run([*PEERD, "overlays", "--json"], capture_output=True, text=True, check=True).stdout
    return {each["name"]: each for each in json.loads(told)["overlays"]}


def _plain(known: dict[str, dict[str, Any]], only: Sequence[str]) -> Iterator[Candidate]:
    for name in only:
        if name not in known:
            raise ValueError(f"there is no overlay '{name}'; choose one of {', '.join(known)}")
    for name, overlay in known.items():
        if not only or name in only:
            yield Candidate(name, {})
            yield from (Candidate(name, {"profile": profile}) for profile in overlay["profiles"])


def _asked(tries: Sequence[str], known: dict[str, dict[str, Any]]) -> list[Candidate]:
    found = []
    for text in tries:
        name, _, settings = text.partition(":")
        pairs = [pair.partition("=") for pair in settings.split(",") if pair]
        if name not in known or any(not sign for _, sign, _ in pairs):
            raise ValueError(f"--try {text}: expected OVERLAY:KEY=VALUE,… with one of {', '.join(known)}")
        found.append(Candidate(name, {key: value for key, _, value in pairs}))
    return found


def _near(best: Candidate, overlay: dict[str, Any]) -> Iterator[Candidate]:
    """The candidate with one number halved or doubled, within its bounds."""
    for parameter in overlay["parameters"]:
        default, low, high = parameter["default"], parameter["min"], parameter["max"]
        if parameter["type"] not in ("int", "float") or not isinstance(default, int | float) or not default:
            continue
        for value in (default / 2, default * 2):
            fits = (low is None or value >= low) and (high is None or value <= high)
            text = str(round(value)) if parameter["type"] == "int" else f"{value:g}"
            if fits and text not in (str(default), "0"):
                yield Candidate(best.overlay, {**best.settings, parameter["name"]: text})


# --- Replaying --------------------------------------------------------------------------------------------------------


def _try_all(
    file: Path,
    workload: dict[str, Any],
    asked: list[Candidate],
    others: list[Candidate],
    known: dict[str, dict[str, Any]],
    seconds: float,
    progress: Progress,
) -> list[Tried]:
    end = time.monotonic() + seconds
    tried = [_try(file, workload, candidate, progress) for candidate in asked]
    tried += [_try(file, workload, candidate, progress) for candidate in others if time.monotonic() < end]
    fine = [each for each in tried if not each.fault]
    if fine:
        best = min(fine, key=_rank).candidate
        near = _near(best, known[best.overlay])
        more = [_try(file, workload, candidate, progress) for candidate in near if time.monotonic() < end]
        tried += [each for each in more if each.summary is not None]  # two of its parameters may not go together
    return tried


def _try(file: Path, workload: dict[str, Any], candidate: Candidate, progress: Progress) -> Tried:
    command = [
        *PEERD, "sim", "--json", "--overlay", candidate.overlay, "--workload", f"recorded:{file}",
        "--peers", str(workload["peers"]), "--subscriptions", str(len(workload["subscriptions"])),
        "--events", str(len(workload["events"])), "--rate", str(workload["rate"]),
    ]  # fmt: skip
    for key, value in candidate.settings.items():
        command += ["--set", f"{key}={value}"]
    with progress.step(f"replaying with {candidate.name}"):
        done = subprocess.run(command, capture_output=True, text=True)
    told = done.stdout.splitlines()
    complaint = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it failed")
    if done.returncode not in (0, 1) or not told:
        return Tried(candidate, None, complaint.removeprefix("peerd: "))
    fault = "" if done.returncode == 0 else complaint.removeprefix("peerd: ")
    return Tried(candidate, json.loads(told[-1]), fault)


def _row(tried: Tried) -> dict[str, Any]:
    row = {"overlay": tried.candidate.overlay, "settings": tried.candidate.settings, "fault": tried.fault}
    return row if tried.summary is None else {**row, "summary": tried.summary}


def told(found: dict[str, Any]) -> str:
    """For people."""
    workload, rows = found["workload"], found["tried"]
    head = (
        f"run {workload['run']}: {workload['subscriptions']:,} subscriptions of {workload['peers']:,} of "
        f"{workload['peers_all']:,} peers, {workload['events']:,} of {workload['events_all']:,} events, "
        f"{workload['rate']:g} a second"
    )
    table = [["", "bytes/delivery", "messages", "false pos.", "hops p50/max", "latency p99 ms", ""]]
    for row in rows:
        name, summary = Candidate(row["overlay"], row["settings"]).name, row.get("summary")
        if summary is None:
            table.append([name, *["n/a"] * 5, row["fault"]])
            continue
        hops, latency = summary["hops"], summary["latency_ms"]
        cells = [f"{summary['bytes_per_delivery']:,.0f}", f"{summary['messages']:,}", f"{summary['fp_ratio']:.2%}"]
        table.append([name, *cells, f"{hops['p50']:g}/{hops['max']:g}", f"{latency['p99']:g}", row["fault"]])
    return "\n".join([head, *[f"note: {note}" for note in found["notes"]], "", aligned(table), "", _advice(rows)])


def _advice(rows: Sequence[dict[str, Any]]) -> str:
    fine = [row for row in rows if not row["fault"]]
    if not fine:
        return "no overlay kept its guarantees with this workload"
    best = fine[0]
    cost = best["summary"]["bytes_per_delivery"]
    name = Candidate(best["overlay"], best["settings"]).name
    advice = f"{name} would have cost least: {cost:,.0f} bytes for each delivery"
    base = next((row for row in fine if row["overlay"] == "broadcast" and not row["settings"]), None)
    if base is None or base is best or not cost:
        return advice
    return f"{advice}, {base['summary']['bytes_per_delivery'] / cost:.1f} times less than broadcast"
