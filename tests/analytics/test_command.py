"""The command line: one clear line and an exit code for everything that a user can put right."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from analytics import session as sessions
from analytics.cli import main
from peerd.cli import main as peerd
from tests.analytics.support import Log


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("command", ["ingest --store {tmp}/s", "report --out {tmp}/o", "explain --event x", "advise"])
def test_no_logs(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for logs, complaint in ((tmp_path / "nowhere", "no such directory"), (tmp_path, "no log records there")):
        arguments = [*command.format(tmp=tmp_path).split(), "--logs", str(logs), "--quiet"]
        assert main(arguments) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert complaint in line


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_ingest_tells_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Log()
    log.start("a")
    log.add(1, "a", "weather")
    log.write(tmp_path)
    log.write(tmp_path, "000001.jsonl.open")
    assert main(["ingest", "--logs", str(tmp_path), "--store", str(tmp_path / "store")]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "2 records from 1 segments; 0 were there already",
        "1 lines kept aside: an unknown kind",
        "1 segments are still open and were left out; --open takes them in",
    ]
    assert "reading 1 segments" in told.err


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_compressed_segment_that_was_cut_off_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody can tell how much of it is gone: rather no report than one that is silently short."""
    log = Log()
    log.start(*[f"peer-{number}" for number in range(100)])
    path = log.write(tmp_path, "000000.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-100])
    assert main(["ingest", "--logs", str(tmp_path), "--store", str(tmp_path / "store"), "--quiet"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"analytics: {path} cannot be read to its end")


@pytest.mark.usefixtures("spark")
def test_logs_that_are_all_open_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Log()
    log.start("a")
    log.write(tmp_path / "logs", "000000.jsonl.open")
    for command in (["report", "--out", str(tmp_path / "out")], ["explain", "--event", "x"], ["advise"]):
        assert main([*command, "--logs", str(tmp_path / "logs"), "--quiet"]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.endswith("; 1 segments are still open and were left out; --open takes them in")


def test_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sessions, "java_version", lambda: None)
    assert main(["report", "--logs", str(tmp_path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("Spark needs Java 17 or newer, and there is none; install one, or set JAVA_HOME")
    monkeypatch.setattr(sessions, "java_version", lambda: 11)
    assert main(["report", "--logs", str(tmp_path)]) == 2
    assert "this is 11" in capsys.readouterr().err


def test_a_spark_that_is_too_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.1.2")
    assert main(["report", "--logs", str(tmp_path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("the analytics need Spark 4.2 or newer, and this is 4.1.2")


@pytest.mark.parametrize("master", ["nonsense", "local[", "spark://", "http://127.0.0.1:7077", ""])
def test_a_master_that_is_none(master: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--logs", str(tmp_path), "--master", master]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(f"{master!r} is no Spark master: that is local[*], spark://HOST:PORT, yarn or k8s://…")


def test_why_spark_does_not_start() -> None:
    called = "An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.\n: "
    silent = f"{called}java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
    assert sessions._why(silent, "spark://127.0.0.1:1") == "no master answers there"
    assert sessions._why(f"{called}java.net.BindException: in use\n\tat x", None) == "java.net.BindException: in use"
    assert sessions._why("plain words", None) == "plain words"


@pytest.mark.usefixtures("spark")
def test_peerd_has_front_ends(tmp_path: Path) -> None:
    for command in ("report", "explain", "advise"):
        helped = CliRunner().invoke(peerd, [command, "--help"])
        assert helped.exit_code == 0
        assert "--logs DIR" in helped.output
    refused = CliRunner().invoke(peerd, ["explain", "--logs", str(tmp_path), "--event", "x"])
    assert refused.exit_code == 2


@pytest.mark.slow
def test_advice(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = [
        "sim",
        "--overlay",
        "broadcast",
        "--peers",
        "20",
        "--events",
        "60",
        "--workload",
        "mixed",
        "--out",
        str(tmp_path),
    ]
    assert CliRunner().invoke(peerd, run).exit_code == 0
    tries = ["--overlay", "broadcast", "--try", "broadcast:links=4", "--seconds", "0"]
    assert main(["advise", "--logs", str(tmp_path), "--json", *tries]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["workload"]["subscriptions"], found["workload"]["events"]) == (20, 60)
    assert [row["overlay"] for row in found["tried"]] == ["broadcast"]
    assert found["tried"][0]["settings"] == {"links": "4"}
    assert found["tried"][0]["summary"]["false_negatives"] == 0
