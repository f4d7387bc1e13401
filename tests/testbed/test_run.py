"""Small runs: what they come to, and that what is missing is found."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from peerd.testbed.bed import Member
from peerd.testbed.lines import Batch
from peerd.testbed.place import Place, TestbedError
from peerd.testbed.run import Plan, Run


@pytest.fixture(autouse=True)
def calm_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peerd.testbed.structure.CALM_CYCLES", 1)


async def test_calm(tmp_path: Path) -> None:
    log_dir = str(tmp_path / "logs")
    plan = Plan(overlay="broadcast", peers=4, subscriptions=12, events=60, rate=60, readers=True, log_dir=log_dir)
    summary = await Run(plan, Place(tmp_path / "bed")).run()
    assert (summary.peers, summary.killed, summary.subscriptions, summary.events) == (4, 0, 12, 60)
    assert summary.expected == summary.delivered > 0
    assert (summary.false_negatives, summary.at_risk, summary.spurious, summary.duplicates) == (0, 0, 0, 0)
    assert summary.unread == 0
    assert summary.converged_s is not None
    assert summary.touched_ratio == pytest.approx(1.0, abs=0.26)  # a flood reaches all but the publisher
    assert 0 <= summary.hops.p50 <= 3
    assert 0.0 <= summary.latency_ms.p50 < 1_000.0
    assert summary.messages > 60
    assert summary.bytes_per_delivery > 0
    assert summary.peak_rss_mb > 20.0
    assert (summary.invariant_violations, summary.trace_sha256) == (None, None)
    written = records(tmp_path / "logs")
    kinds = [record["kind"] for record in written]
    sent = sum(record["sent"] for record in written if record["kind"] == "traffic")
    assert sent >= summary.messages  # the interval that had begun when peers were told to leave among them
    assert kinds.count("publish") == 60
    assert kinds.count("deliver") == summary.delivered
    assert "fault" not in kinds


@pytest.mark.slow
async def test_kills(tmp_path: Path) -> None:
    plan = Plan(peers=5, events=60, rate=40, kill=2, workload="ranges", log_dir=str(tmp_path / "logs"))
    run = Run(plan, Place(tmp_path / "bed"))
    summary = await run.run()
    assert (summary.peers, summary.killed, summary.events) == (3, 2, 60)
    assert summary.false_negatives == 0
    assert summary.at_risk > 0
    assert summary.converged_s is not None
    assert summary.unread is None
    faults = [record for record in records(tmp_path / "logs") if record["kind"] == "fault"]
    killed = sorted(member.peer for member in run.bed.members if member.state == "killed")
    assert sorted(record["about"] for record in faults) == killed
    assert {record["fault"] for record in faults} == {"crash"}


class Forgetful(Run):
    """A run in which one delivery is lost on its way."""

    lost = False

    def _heard(self, member: Member, batch: Batch) -> None:
        if batch.delivered and not self.lost:
            self.lost = True
            batch.delivered.pop()
        super()._heard(member, batch)


async def test_a_missing_delivery_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peerd.testbed.run.DRAIN_MS", 1_000)
    summary = await Forgetful(Plan(peers=2, events=20, rate=50, workload="ranges"), Place(tmp_path)).run()
    assert summary.false_negatives == 1
    assert summary.delivered == summary.expected - 1


class Repeating(Run):
    """A run in which somebody delivers twice, and somebody what nobody has asked for."""

    def _heard(self, member: Member, batch: Batch) -> None:
        if batch.delivered:
            event_id, _, hops, at_us = batch.delivered[0]
            batch.delivered += [batch.delivered[0], (event_id, ("s999",), hops, at_us)]
        super()._heard(member, batch)


async def test_what_should_not_come_is_found(tmp_path: Path) -> None:
    summary = await Repeating(Plan(peers=2, events=20, rate=50, workload="ranges"), Place(tmp_path)).run()
    assert summary.duplicates > 0
    assert summary.spurious > 0


async def test_a_peer_that_ends_by_itself_ends_the_run(tmp_path: Path) -> None:
    class Sabotaged(Run):
        async def _drain(self) -> None:
            from signal import SIGKILL

            from peerd.testbed.processes import send_signal

            send_signal(self.bed.members[1].process, SIGKILL)
            await super()._drain()

    with pytest.raises(TestbedError, match="peer p1 has ended by itself"):
        await Sabotaged(Plan(peers=2, events=5), Place(tmp_path)).run()
    assert Place(tmp_path).read() is None


@pytest.mark.slow
async def test_a_run_of_some_seconds(tmp_path: Path) -> None:
    run = Run(Plan(peers=2, seconds=4.0, rate=40, workload="ranges"), Place(tmp_path))
    summary = await run.run()
    assert summary.events > 10
    assert 3.0 < summary.wall_s < 30.0
    shown = run.snapshot()
    assert (shown.published, shown.expected, shown.delivered) == (summary.events, summary.expected, summary.delivered)
    assert shown.latest[-1].filter
    assert shown.latest[-1].attributes


@pytest.mark.parametrize(("key", "value"), [("peers", 0), ("peers", 5_000), ("rate", 0.0), ("kill", -1), ("odd", 1)])
def test_options_are_checked(key: str, value: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({key: value}, Plan)


def records(directory: Path) -> list[dict[str, Any]]:
    paths = sorted(directory.rglob("*.jsonl*"))
    return [msgspec.json.decode(line) for path in paths for line in path.read_bytes().splitlines()]
