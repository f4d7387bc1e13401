"""A simulated run as log records: their fields, their numbers, their files, and figures computed from them alone.

The twin at the end knows nothing of the simulator: it reads JSON lines, decides by the filters in them what was owed,
and has to come to the same figures as the summary.
"""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from peerd.registry import DEFAULT
from peerd.sim.faults import Fault
from peerd.sim.oracle import GRACE_MS
from peerd.sim.recorder import Recording
from peerd.sim.scenario import Scenario, run
from peerd.sim.summary import Summary
from peerd.sim.swarm import EPOCH_MS, Swarm, SwarmConfig
from peerd.sim.workloads import workload
from protocols.model.lint import compile_filter
from protocols.model.schema import Schema

Record = dict[str, Any]

COMMON = {"v", "ts_us", "seq", "order", "run", "peer", "boot", "participant", "overlay", "kind"}
AUTHOR = "sim"
FIELDS = {
    "peer": {"change", "about"},
    "subscription": {"change", "subscription_id", "filter", "boxes"},
    "participant": {"change", "box"},
    "fault": {"fault", "about", "detail"},
    "publish": {"event_id", "attributes", "bytes"},
    "receive": {"event_id", "sender", "hops", "matched", "duplicate", "bytes"},
    "touch": {"event_id", "sender", "hops"},
    "deliver": {"event_id", "subscription_id", "hops", "latency_us"},
    "drop": {"event_id", "reason", "receiver"},
    "link": {"change", "link", "receiver"},
    "traffic": {"message", "sent", "received", "sent_bytes", "received_bytes"},
    "control": {"fact", "value", "detail"},
}
CHANGES = {
    "peer": {"started", "joined", "alive", "leaving", "left", "suspected", "lost"},
    "subscription": {"added", "active", "updated", "removed"},
    "participant": {"joined", "active", "moved", "left"},
    "link": {"up", "down"},
}
STARTED = {"schema", "version", "parameters", "log_detail", "log_sample"}
BOUNDS = {"eq", "ge", "gt", "le", "lt", "prefix", "null"}

SCENARIOS = {
    "calm": Scenario(peers=15, subscriptions=40, events=80, workload="mixed", seed=1, participants_max=2),
    "churn": Scenario(peers=20, events=80, rate=5, churn=0.05, workload="mixed", seed=2),
    "faults": Scenario(
        peers=20,
        events=80,
        rate=10,
        workload="mixed",
        seed=3,
        faults=(
            Fault(fault="crash", at_s=2, count=2),
            Fault(fault="restart", at_s=3, count=2, for_s=1),
            Fault(fault="leave", at_s=3, count=2),
            Fault(fault="vanish", at_s=4, count=1),
        ),
    ),
}


class Log:
    def __init__(self, directory: Path, scenario: Scenario) -> None:
        self.directory = directory
        self.summary: Summary = run(scenario)
        lines = [line for path in sorted(directory.rglob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
        self.records: list[Record] = [json.loads(line) for line in lines]

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["kind"] == kind]


@pytest.fixture(scope="module", params=list(SCENARIOS))
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Log:
    directory = tmp_path_factory.mktemp("log")
    scenario = SCENARIOS[request.param]
    fields = {name: getattr(scenario, name) for name in scenario.__struct_fields__}
    return Log(directory, Scenario(**{**fields, "out": str(directory)}))


# --- The contract -----------------------------------------------------------------------------------------------------


def test_every_record_has_the_fields_of_its_kind(log: Log) -> None:
    for record in log.records:
        expected = COMMON | FIELDS[record["kind"]]
        if record.get("change") == "started":
            expected |= STARTED
        assert expected <= set(record) <= expected | {"regions"}, record
        if record["kind"] in CHANGES:
            assert record["change"] in CHANGES[record["kind"]]


def test_every_field_has_its_type(log: Log) -> None:
    kinds: dict[str, Any] = {
        "v": int, "ts_us": int, "seq": int, "run": str, "peer": str, "boot": int, "participant": int | None,
        "overlay": str, "about": str | None, "subscription_id": str, "filter": str | None, "boxes": list,
        "box": dict | None, "event_id": str, "attributes": dict, "bytes": int, "sender": str, "hops": int,
        "matched": bool, "duplicate": bool, "latency_us": int, "reason": str, "link": str, "message": str,
        "sent": int, "received": int, "sent_bytes": int, "received_bytes": int, "value": int | float, "fact": str,
        "detail": dict,
    }  # fmt: skip
    for record in log.records:
        for name, value in record.items():
            if name in kinds:
                assert isinstance(value, kinds[name]), (name, record)


def test_boxes_are_written_as_the_contract_says(log: Log) -> None:
    boxes = [box for record in log.of("subscription") for box in (*record["boxes"], *record.get("regions", ()))]
    boxes += [record["box"] for record in log.of("participant") if record["box"]]
    assert boxes
    for box in boxes:
        for bounds in box.values():
            assert set(bounds) <= BOUNDS


def test_numbers_have_no_gaps(log: Log) -> None:
    lives: dict[tuple[str, int], list[int]] = {}
    for record in log.records:
        lives.setdefault((record["peer"], record["boot"]), []).append(record["seq"])
    assert len(lives) >= 15
    for numbers in lives.values():
        assert numbers == list(range(1, len(numbers) + 1))


def test_the_order_of_all_records_is_told(log: Log) -> None:
    assert [record["order"] for record in log.records] == list(range(1, len(log.records) + 1))


def test_when_the_swarm_has_converged_is_told(log: Log) -> None:
    converged = [record["value"] for record in log.of("control") if record["fact"] == "run.converged"]
    assert converged[-1] == log.summary.converged_s
    assert len(converged) == (2 if log.of("fault") else 1)


def test_a_life_begins_with_its_start_and_time_does_not_run_backwards(log: Log) -> None:
    lives: dict[tuple[str, int], list[Record]] = {}
    for record in log.records:
        lives.setdefault((record["peer"], record["boot"]), []).append(record)
    author = [key for key in lives if key[0] == AUTHOR]
    assert [record["fact"] for record in lives.pop(author[0])][-1] == "run.end"
    for records in lives.values():
        assert records[0]["change"] == "started"
        assert sum(record.get("change") == "started" for record in records) == 1
        times = [record["ts_us"] for record in records]
        assert times == sorted(times)
        assert times[0] >= EPOCH_MS * 1000
    assert Schema.from_dict(log.records[0]["schema"]).names == workload("mixed").schema.names


def test_a_living_peer_says_so_every_second(log: Log) -> None:
    alive: dict[str, list[int]] = {}
    for record in log.of("peer"):
        if record["change"] == "alive":
            alive.setdefault(record["peer"] + str(record["boot"]), []).append(record["ts_us"])
    for times in alive.values():
        assert all(later - earlier == 1_000_000 for earlier, later in pairwise(times))


def test_closed_files_are_renamed(log: Log) -> None:
    names = [path.name for path in log.directory.rglob("*") if path.is_file()]
    assert names == ["000000.jsonl"]
    [directory] = {path.parent for path in log.directory.rglob("*.jsonl")}
    assert directory.name == "peer=sim"
    assert directory.parent.name.startswith(f"run=sim-{DEFAULT}-mixed-")


def test_no_file_is_closed_before_the_run_is(tmp_path: Path) -> None:
    config = SwarmConfig(overlay="broadcast", schema=workload("stocks").schema)
    swarm = Swarm(config, Recording(str(tmp_path), "r"))
    swarm.start()
    swarm.run(5_500)
    assert list(tmp_path.rglob("*.jsonl")) == []
    swarm.close()
    [path] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path.name == "000000.jsonl"
    kinds = Counter(json.loads(line)["kind"] for line in path.read_text("utf-8").splitlines())
    assert kinds["peer"] == 1 + 1 + 5  # started, joined, and alive every second
    assert kinds["control"] == 1  # the run is over


def test_another_run_in_the_same_place_does_not_write_over_the_first(tmp_path: Path) -> None:
    for _ in range(2):
        run(Scenario(peers=2, events=2, out=str(tmp_path)))
    files = sorted(tmp_path.rglob("*.jsonl"))
    assert [path.name for path in files] == ["000000.jsonl", "000001.jsonl"]
    assert files[0].read_bytes() == files[1].read_bytes()  # the same seed did the same


# --- The twin ---------------------------------------------------------------------------------------------------------


class Interval:
    """One filter of one subscription, as its records tell: owed from `active` to `ended`."""

    def __init__(self, peer: str, boot: int, record: Record, schema: Schema) -> None:
        self.key = (peer, boot, record["subscription_id"])
        self.matcher = compile_filter(record["filter"], schema).matcher
        self.active: float = float("inf")
        self.ended: float = float("inf")


class Twin:
    """The figures of a run, from its records."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records
        self._schema = workload("mixed").schema
        self.intervals: list[Interval] = []
        self.published = {r["event_id"]: r for r in records if r["kind"] == "publish"}
        self.deliveries = [r for r in records if r["kind"] == "deliver"]
        self._follow_subscriptions()

    def _follow_subscriptions(self) -> None:
        current: dict[tuple[str, int, str], Interval] = {}
        for record in self._records:
            life = record["peer"], record["boot"]
            if record["kind"] == "subscription":
                key = (*life, record["subscription_id"])
                if record["change"] == "active":
                    current[key].active = min(current[key].active, record["ts_us"])
                    continue
                if key in current:
                    current[key].ended = record["ts_us"]
                if record["change"] != "removed":
                    current[key] = Interval(*life, record, self._schema)
                    self.intervals.append(current[key])
            elif (record["kind"] == "fault" and record["fault"] == "crash") or record.get("change") == "leaving":
                self._end(life, record["ts_us"])

    def _end(self, life: tuple[str, int], at_us: int) -> None:
        for interval in self.intervals:
            if interval.key[:2] == life:
                interval.ended = min(interval.ended, at_us)

    def owed(self) -> set[tuple[str, tuple[str, int, str]]]:
        """Event and subscription of every delivery that was owed, at risk or not."""
        owed = set()
        for id_, publication in self.published.items():
            at_us = publication["ts_us"]
            for interval in self.intervals:
                lasts = interval.active < at_us and interval.ended >= at_us + GRACE_MS * 1000
                if lasts and interval.matcher(publication["attributes"]):
                    owed.add((id_, interval.key))
        return owed

    def delivered(self) -> list[tuple[str, tuple[str, int, str]]]:
        return [(r["event_id"], (r["peer"], r["boot"], r["subscription_id"])) for r in self.deliveries]


def test_figures_from_the_records_alone(log: Log) -> None:
    twin, summary = Twin(log.records), log.summary
    delivered = twin.delivered()
    assert len(twin.published) == summary.events
    assert len(set(delivered)) == summary.delivered
    assert len(delivered) - len(set(delivered)) == summary.duplicates
    hops = [record["hops"] for record in twin.deliveries]
    assert round(sum(hops) / len(hops), 6) == summary.hops.mean
    assert max(hops) == summary.hops.max
    latencies = [record["latency_us"] / 1000 for record in twin.deliveries]
    assert round(sum(latencies) / len(latencies), 6) == summary.latency_ms.mean
    assert max(latencies) == summary.latency_ms.max
    dropped = Counter(record["reason"] for record in log.of("drop"))
    assert dict(dropped) == summary.dropped


def test_what_was_owed_from_the_records_alone(log: Log) -> None:
    twin, summary = Twin(log.records), log.summary
    owed = twin.owed()
    assert len(owed) == summary.expected + summary.at_risk
    assert len(owed - set(twin.delivered())) == summary.false_negatives + summary.at_risk_missing
    if not log.of("fault"):
        assert summary.at_risk == 0


def test_traffic_adds_up(log: Log) -> None:
    traffic = log.of("traffic")
    assert sum(record["sent"] for record in traffic) == log.summary.messages
    assert sum(record["sent_bytes"] for record in traffic) == log.summary.bytes
    assert 0 < sum(record["received"] for record in traffic) <= log.summary.messages


def test_receptions_tell_what_was_in_vain(log: Log) -> None:
    first = [record for record in log.of("receive") if not record["duplicate"]]
    unwanted = sum(not record["matched"] for record in first)
    copies = Counter((r["peer"], r["boot"], r["participant"], r["event_id"]) for r in first)
    assert max(copies.values()) == 1
    assert all(record["bytes"] > 0 for record in first)
    assert (unwanted > 0) is (log.summary.fp_ratio > 0)


def test_faults_are_written_down(log: Log) -> None:
    faults = Counter(record["fault"] for record in log.of("fault"))
    if "crash" in faults:
        assert all(record["about"] == record["peer"] for record in log.of("fault"))
    silent = [record for record in log.of("fault") if record["detail"].get("silent") == "true"]
    assert len(silent) in (0, 1)
