"""The report: its figures are the simulator's own, its page needs no network, and every table is in files."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics.ingest import NoLogs
from analytics.report import page, text
from analytics.report.build import Made, flagged, report
from tests.analytics.support import GUARD_S, Log, Reported, figures_of_both

pytestmark = [pytest.mark.slow, pytest.mark.timeout(GUARD_S)]


@pytest.mark.parametrize("run", ["calm", "mixed", "churn"])
def test_figures_are_those_of_the_simulator(reported: Reported, run: str) -> None:
    told, found = reported.summaries[run], reported.row(run)
    drops = {row["reason"]: row["dropped"] for row in reported.report.made["drops"].rows if row["run"] == found["run"]}
    ours, theirs = figures_of_both(found, drops, told)
    assert ours == theirs


def test_churn_was_there_to_be_seen(reported: Reported) -> None:
    assert reported.summaries["churn"]["at_risk"] > 0
    assert any(row["went"] for row in reported.report.made["churn_by_second"].rows)
    assert reported.report.made["convergence"].total > 0


def test_every_table_is_there_as_csv_and_parquet(reported: Reported) -> None:
    tables = reported.out / "tables"
    for name, made in reported.report.made.items():
        assert list((tables / f"{name}.parquet").glob("*.parquet")) or not made.total, name
        with (tables / f"{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == made.total, name
    assert (reported.out / "summary.json").exists()


def test_the_page_needs_no_network_and_holds_everything(reported: Reported) -> None:
    html = (reported.out / "report.html").read_text()
    assert not re.search(r"(src|href)=\"?(https?:)?//|url\(|@import|<script", html)
    assert html.count("<svg") >= 6
    for made in reported.report.made.values():
        assert f'id="{made.name}"' in html
    assert "nan" not in html.lower().replace("finance", "")


def test_two_runs_side_by_side(reported: Reported) -> None:
    rows = reported.report.summary[:2]
    names = [row["run"] for row in rows]
    shown = page.figures(rows, names)
    assert "change" in shown
    assert all(name in shown for name in names)
    printed = text.figures(rows).splitlines()
    assert all(name in printed[0] for name in names)
    assert any(line.startswith("routing false positives") and "%" in line for line in printed)


def test_who_compares_must_name_what_there_is(spark: SparkSession, reported: Reported, tmp_path: Path) -> None:
    logs, store = str(reported.logs), str(reported.out / "store")
    with pytest.raises(NoLogs, match="no run and no overlay 'nobody'"):
        report(spark, logs, str(tmp_path), store=store, compare=("nobody", "broadcast"))
    with pytest.raises(NoLogs, match="'broadcast' stands for several runs"):
        report(spark, logs, str(tmp_path), store=store, compare=("broadcast", "broadcast"))


# --- Logs that lack something -----------------------------------------------------------------------------------------


def test_what_was_not_written_down_reads_na_and_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """A run without a publisher, one that keeps deliveries only, and one with a clock an hour ahead."""
    quiet = Log("quiet")
    quiet.start("a", "b")
    quiet.alive(3, "a", "b")
    quiet.end(4)
    quiet.write(tmp_path / "logs")
    few = Log("few")
    few.start("a", "b", log_detail="deliveries", log_sample=0.5)
    few.subscribe(1, "b", "s", {})
    few.active(1, "b", "s")
    few.publish(2, "a", "e", price=1.0)
    few.deliver(2.005, "b", "e", "s")
    few.alive(20, "a", "b")
    few.end(21)
    few.write(tmp_path / "logs")
    skewed(tmp_path / "logs")
    orphaned().write(tmp_path / "logs")
    wanted = {"missing", "clocks", "duplicates"}
    made = report(spark, str(tmp_path / "logs"), str(tmp_path / "out"), wanted=wanted)
    rows = {row["run"]: row for row in made.summary}
    assert (rows["quiet"]["events"], rows["quiet"]["expected"], rows["quiet"]["peers"]) == (0, 0, 2)
    assert (rows["few"]["expected"], rows["few"]["delivered"], rows["few"]["fp_ratio"]) == (1, 1, None)
    assert not made.made["duplicates"].available
    assert (rows["skewed"]["expected"], rows["skewed"]["false_negatives"], rows["skewed"]["at_risk"]) == (4, 0, 0)
    assert rows["skewed"]["latency_ms_max"] == 5.0
    assert [(row["run"], row["peer"], row["offset_s"]) for row in made.made["clocks"].rows] == [("skewed", "c", 3600.0)]
    assert made.warnings == [
        "orphaned: left out, since there is no record of kind 'peer'",
        "1 peers have clocks that are off by more than 10 s: see Wrong clocks",
    ]


def test_a_run_of_which_no_peer_tells_is_told(spark: SparkSession, tmp_path: Path) -> None:
    orphaned().write(tmp_path / "logs")
    with pytest.raises(NoLogs, match="no peer has said that it lives"):
        report(spark, str(tmp_path / "logs"), str(tmp_path / "out"))


def orphaned() -> Log:
    """Only the end of a log is left."""
    log = Log("orphaned")
    log.publish(2, "a", "e", price=1.0)
    return log


def test_what_is_odd_about_a_run_is_told() -> None:
    def made(name: str, *rows: dict[str, Any]) -> Made:
        return Made(name, "", "", [], list(rows), list(rows), len(rows), True)

    fine = {"events": 1, "detail": "full", "sample": 1.0, "unjudged": 0}
    odd = {
        "quiet": {**fine, "events": 0},
        "short": {**fine, "detail": "deliveries", "sample": 0.5},
        "untyped": {**fine, "detail": None, "sample": None, "unjudged": 2},
        "fine": fine,
    }
    rows = [{"run": run, **row} for run, row in odd.items()]
    tables = {
        "summary": made("summary", *rows),
        "lost_records": made("lost_records", {"run": "fine"}),
        "convergence": made("convergence", {"run": "fine", "inferred": True}),
    }
    assert flagged(tables) == [
        "quiet: nothing was published, so nothing was owed",
        "short: log detail is 'deliveries'; measures that need more read n/a",
        "short: a sample of 0.5 of the events was logged; counts are of the sample",
        "untyped: no peer has said what it is (no 'started' record): types of attributes are not known",
        "untyped: 2 filters cannot be judged and are left out of the truth",
        "1 lives have gaps in their records: see Lost records",
        "some faults are inferred from peers that fell silent; events are at risk for 60 s after each",
    ]
    calm = {**tables, "summary": made("summary", {"run": "fine", **fine})}
    calm |= {name: made(name) for name in ("lost_records", "convergence")}
    assert flagged(calm) == []


def skewed(directory: Path) -> None:
    """Three peers; c's clock is an hour ahead, and so is all that it writes."""
    hour = 3_600
    log = Log("skewed", author=False)
    log.start("a", "b")
    log.start("c", at_s=hour)
    log.subscribe(1, "b", "s", {})
    log.active(1, "b", "s")
    log.subscribe(1 + hour, "c", "t", {})
    log.active(1 + hour, "c", "t")
    log.publish(5, "a", "e1", price=1.0)
    log.deliver(5.005, "b", "e1", "s")
    log.deliver(5.005 + hour, "c", "e1", "t", latency_us=hour * 1_000_000 + 5_000)
    log.publish(6 + hour, "c", "e2", price=1.0)
    log.deliver(6.005, "b", "e2", "s", latency_us=5_000 - hour * 1_000_000)
    log.alive(30, "a", "b")
    for second in range(1, 31):
        log.add(second + hour, "c", "peer", change="alive", about=None)
    log.deliver(6.005 + hour, "c", "e2", "t")
    log.write(directory, peer="all")
