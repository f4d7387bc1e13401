"""`peerd testbed` as users run it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from peerd.cli import live
from peerd.sim.summary import Spread
from peerd.testbed.place import BedRecord, Place
from peerd.testbed.processes import Process
from peerd.testbed.run import Snapshot
from tests.cli.running import ROOT, peerd, refused


def testbed(*args: str) -> "subprocess.CompletedProcess[str]":
    command = (sys.executable, "-m", "peerd.cli", "testbed", *args)
    env = {key: value for key, value in os.environ.items() if not key.startswith("PEERD_")}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100, check=False)


testbed.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.slow
def test_up_status_down(tmp_path: Path) -> None:
    where = ("--dir", str(tmp_path))
    try:
        up = testbed("up", "--overlay", "broadcast", "--peers", "3", *where)
        assert (up.returncode, up.stderr) == (0, "")
        assert up.stdout.startswith("3 peers of broadcast are up; the first is at http://127.0.0.1:")
        status = testbed("status", *where)
        assert status.returncode == 0
        assert "3 ready" in status.stdout
        found = json.loads(testbed("status", "--json", *where).stdout)
        assert found["conditions"] == {"ready": 3}
        assert found["memory_mb"] > 20
        assert [peer["name"] for peer in found["peers"]] == ["p0", "p1", "p2"]
        again = testbed("up", *where)
        assert again.returncode == 1
        assert "already; 'peerd testbed down' ends it" in again.stderr
    finally:
        down = testbed("down", *where)
    assert (down.returncode, down.stdout) == (0, "3 peers were taken down\n")
    assert testbed("status", *where).returncode == 1
    assert testbed("down", *where).stdout == f"no testbed was up in {tmp_path}\n"


@pytest.mark.slow
def test_run_ends_with_the_summary(tmp_path: Path) -> None:
    done = testbed("run", "--peers", "3", "--events", "30", "--workload", "ranges", "--json", "--dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert (summary["overlay"], summary["peers"], summary["events"]) == ("rtree", 3, 30)
    assert summary["expected"] == summary["delivered"] > 0
    assert summary["trace_sha256"] is None
    assert set(summary["hops"]) == set(summary["latency_ms"]) == {"mean", "p50", "p99", "max"}


@pytest.mark.slow
def test_demo_ends_with_the_table(tmp_path: Path) -> None:
    done = testbed("demo", "--peers", "3", "--seconds", "9", "--workload", "ranges", "--dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "deliveries made" in done.stdout
    heads = [line[:25].rstrip() for line in done.stdout.splitlines()[-9:]]
    assert heads == [
        "overlay",
        "peers",
        "published",
        "expected",
        "delivered",
        "false negatives",
        "routing false positives",
        "hops p50/max",
        "latency p50/p99",
    ]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--peers", "0"), "--peers: expected int >= 1"),
        (("--peers", "4", "--kill", "4"), "--kill: expected fewer than --peers: somebody has to be left"),
        (("--overlay", "star"), "--overlay: there is no overlay 'star'; choose one of broadcast"),
        (("--workload", "none"), "--workload: unknown workload 'none'"),
        (("--set", "links"), "--set links: expected KEY=VALUE"),
        (("--overlay", "broadcast", "--set", "links=0"), "--set: overlay 'broadcast': links: expected int >= 1"),
        (("--rate", "0"), "--rate: expected float > 0.0"),
    ],
)
def test_wrong_options(options: tuple[str, ...], complaint: str) -> None:
    assert refused("testbed", "run", *options).startswith(complaint)


def test_status_of_a_testbed_that_was_killed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make()
    place.write(BedRecord(overlay="broadcast", server=Process(2**22 + 1, "b/1", 1), started_at="2026-01-01T00:00:00Z"))
    result = peerd("testbed", "status", "--dir", str(tmp_path))
    assert result.exit_code == 0
    assert "has ended; 'peerd testbed down' cleans up" in result.output


def test_a_picture_for_terminals() -> None:
    from rich.console import Console

    from peerd.testbed.run import Delivered

    seen = Delivered({"symbol": "[bold]", "price": 1.5}, "price > 1 AND " * 9, "p3", 2, 1.25)
    none = Spread(0.0, 0.0, 0.0, 0.0)
    now = Snapshot(
        phase="calm",
        seconds=3.0,
        peers=5,
        published=10,
        expected=4,
        delivered=3,
        hops=none,
        latency_ms=none,
        latest=[seen],
    )
    console = Console(width=120, force_terminal=False)
    with console.capture() as capture:
        console.print(live._picture(now))
    text = capture.get()
    assert "5 peers, 10 events published, 3 of 4 deliveries made" in text
    assert "symbol=[bold] price=1.5" in text
    assert "…" in text
