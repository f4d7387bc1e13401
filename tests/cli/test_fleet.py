"""`peerd fleet`: what can be said without a fleet."""

import json
from pathlib import Path

import pytest

from peerd.fleet.preflight import Finding
from peerd.sim.workloads import workload
from protocols.model.schema import Schema
from tests.cli.conftest import StartDaemon
from tests.cli.running import peerd, process, refused


@pytest.mark.parametrize("name", ["stocks", "ranges", "mixed", "zipf"])
def test_the_schema_of_a_workload_is_one_that_a_peer_takes(name: str) -> None:
    assert Schema.from_toml(peerd("fleet", "schema", "--workload", name).stdout) == workload(name).schema


def test_an_unknown_workload_is_one_line() -> None:
    assert "choose one of" in refused("fleet", "schema", "--workload", "nonsense")
    assert "choose one of" in refused("fleet", "workload", "--at", "localhost:1", "--workload", "nonsense")


def test_wrong_options_are_one_line() -> None:
    assert "--at" in refused("fleet", "workload")
    assert "rate" in refused("fleet", "workload", "--at", "localhost:1", "--rate", "0")
    assert "--at" in refused("fleet", "workload", "--at", "localhost")
    assert "'kill', 'stop'" in refused("fleet", "chaos", "--action", "sulk")


def test_chaos_without_an_engine_is_one_line(tmp_path: Path) -> None:
    line = refused("fleet", "chaos", "--socket", str(tmp_path / "none"), "--project", "p", "--pause", "0", code=1)
    assert "does not answer" in line


def test_preflight_writes_the_schema_when_all_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peerd.fleet.preflight.findings", lambda peers: [Finding("memory", "much")])
    file = tmp_path / "schema.toml"
    result = peerd("fleet", "preflight", "--workload", "ranges", "--schema-out", str(file))
    assert result.exit_code == 0
    assert "memory" in result.stdout
    assert Schema.from_toml(file.read_text()) == workload("ranges").schema


def test_preflight_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peerd.fleet.preflight.findings", lambda peers: [Finding("memory", "little", "buy some")])
    file = tmp_path / "schema.toml"
    assert refused("fleet", "preflight", "--schema-out", str(file), code=1) == "memory: buy some"
    assert not file.exists()


def test_preflight_looks_at_the_settings_of_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERD_OVERLAY", "nonsense")
    assert refused("fleet", "preflight").startswith("variable PEERD_OVERLAY: ")


@pytest.mark.slow
def test_a_workload_to_its_end(daemon: StartDaemon) -> None:
    """As users do: a real peer, a few events, one JSON object, exit code 0."""
    at = daemon("--overlay", "broadcast").up().url.removeprefix("http://")
    words = ("--at", at, "--rate", "100", "--events", "20", "--subscriptions", "2", "--http", "127.0.0.1:0")
    result = process("fleet", "workload", *words, "--json")
    assert result.returncode == 0, result.stderr
    counted = json.loads(result.stdout)
    assert (counted["published"], counted["peers"], counted["missing_deliveries"]) == (20, 1, 0)
