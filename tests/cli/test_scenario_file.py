"""Scenario files: what they say reaches the run, options win over them, and what is wrong is told with file and key."""

import json
from pathlib import Path
from textwrap import dedent

import pytest

from peerd.cli import scenario_file
from peerd.sim import scenario
from peerd.sim.faults import Fault
from peerd.sim.scenario import Scenario
from peerd.sim.summary import Summary
from tests.cli.running import peerd, process, refused

STORMY = """
overlay = "broadcast"
peers = 12
events = 40
rate = 10
seed = 4

[settings]
links = 4

[[faults]]
fault = "restart"
at_s = 1
for_s = 1.5
count = 2

[[faults]]
fault = "partition"
at_s = 2.0
for_s = 2.0
share = 0.25
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "scenario.toml"


def test_a_scenario_with_faults(file: Path) -> None:
    file.write_text(STORMY)
    done = process("sim", "--scenario", str(file), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert (summary["peers"], summary["events"], summary["seed"]) == (12, 40, 4)
    assert summary["parameters"]["links"] == 4
    assert summary["at_risk"] > 0  # the faults did happen


def test_the_scenario_of_the_docs_runs(file: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    first, _, rest = docs.partition("This is the `storm.toml` from above:\n")[2].lstrip("\n").partition("\n\n|")
    assert rest, "the docs show no storm.toml"
    file.write_text(dedent(first))
    result = peerd("sim", "--scenario", str(file), "--peers", "8", "--events", "1", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout.splitlines()[-1])["parameters"]["links"] == 4


def test_options_win_over_the_file(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    asked: list[Scenario] = []
    summary = scenario.run(Scenario(peers=3, events=1))

    def run(chosen: Scenario, progress: object) -> Summary:
        asked.append(chosen)
        return summary

    monkeypatch.setattr(scenario, "run", run)
    file.write_text(STORMY)
    assert peerd("sim", "--peers", "5", "--scenario", str(file), "--set", "links_max=20").exit_code == 0
    chosen = asked[0]
    assert (chosen.peers, chosen.events, chosen.rate) == (5, 40, 10.0)
    assert chosen.settings == {"links": "4", "links_max": "20"}
    assert chosen.faults == (
        Fault(fault="restart", at_s=1.0, for_s=1.5, count=2),
        Fault(fault="partition", at_s=2.0, for_s=2.0, share=0.25),
    )
    assert peerd("sim", "--scenario", str(file), "--set", "links=5").exit_code == 0
    assert asked[1].settings == {"links": "5"}


def test_settings_may_be_written_as_toml_writes_them(file: Path) -> None:
    file.write_text("[settings]\na = 3\nb = 0.5\nc = true\nd = 'x'\n")
    assert scenario_file.read(str(file))["settings"] == {"a": "3", "b": "0.5", "c": "true", "d": "x"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("peers = ", "not TOML: Invalid value (at end of document)"),
        ("peers = 1\npeers = 2", "not TOML: Cannot overwrite a value"),
        ("peer = 3", "key 'peer': unknown, expected one of overlay, peers, "),
        ("peers = 'x'", "key 'peers': expected int, got str"),
        ("peers = 2.5", "key 'peers': expected int, got float"),
        ("peers = 0", "key 'peers': expected int >= 1"),
        ("subscriptions = 'x'", "key 'subscriptions': expected int, got str"),
        ("rate = nan", "key 'rate': expected float >= 0.001"),
        ("link = 'udp'", "key 'link': expected one of tcp, datagram"),
        ("liveness = 'none'", "key 'liveness': expected one of oracle, protocol"),
        ("overlay = 'nope'", "key 'overlay': there is no overlay 'nope'; choose one of broadcast"),
        ("workload = 'nope'", "key 'workload': unknown workload 'nope'; choose one of "),
        (
            "overlay = 'broadcast'\nworkload = 'xml-news'",
            "key 'workload': broadcast takes no XPath, in which workload xml-news has its interests",
        ),
        (
            "[workload_settings]\nnope = 1",
            "key 'workload_settings': workload stocks has no parameter 'nope'; it has: symbols, alpha",
        ),
        (
            "[workload_settings]\nsymbols = 'many'",
            "key 'workload_settings': workload stocks: symbols: expected int, got str",
        ),
        (
            "workload = 'zipf'\n[workload_settings]\ndimensions = 0",
            "key 'workload_settings': workload zipf: dimensions must be 1 to 32, not 0",
        ),
        ("workload = 'nope'\n[workload_settings]\nalpha = 1", "key 'workload': unknown workload 'nope'"),
        ("latency = 'slow'", "key 'latency': latency 'slow' is not one of constant:MS"),
        ("settings = 3", "key 'settings': expected table, got int"),
        ("[settings]\nlinks = [3]", "key 'settings': expected str, got array"),
        (
            "overlay = 'broadcast'\n[settings]\nlinks = 0",
            "key 'settings': overlay 'broadcast': links: expected int >= 1",
        ),
        (
            "overlay = 'broadcast'\n[settings]\nnope = 0",
            "key 'settings': overlay 'broadcast' has no parameter 'nope'; it has links,",
        ),
        ("faults = 3", "key 'faults': expected array, got int"),
        ("[[faults]]\nshare = 0.5", "key 'faults', table 1: key 'fault' is missing"),
        ("[[faults]]\nfault = 'boom'", "key 'faults', table 1, key 'fault': expected one of churn, corrupt, "),
        (
            "[[faults]]\nfault = 'crash'\nwhen = 3",
            "key 'faults', table 1, key 'when': unknown, expected one of fault, ",
        ),
        (
            "[[faults]]\nfault = 'crash'\n[[faults]]\nfault = 'leave'\nshare = 1.5",
            "key 'faults', table 2, key 'share': expected float <= 1.0",
        ),
        ("[[faults]]\nfault = 'crash'\nat_s = inf", "key 'faults', table 1, key 'at_s': expected float <= 86400.0"),
    ],
)
def test_a_wrong_file_is_one_line_with_the_key(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    assert refused("sim", "--scenario", str(file)).startswith(f"{file}: {says}")


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, file: Path) -> None:
    assert refused("sim", "--scenario", str(file)) == f"{file}: no such file or directory"
    assert refused("sim", "--scenario", str(tmp_path)) == f"{tmp_path}: is a directory"
    file.write_bytes(b"workload = '\xff'")
    assert refused("sim", "--scenario", str(file)) == f"{file}: not UTF-8 text"


def test_an_option_does_not_hide_what_is_wrong_in_the_file(file: Path) -> None:
    file.write_text("peers = 0")
    assert "key 'peers'" in refused("sim", "--scenario", str(file), "--peers", "3")


def test_a_fault_is_blamed_on_where_it_comes_from(file: Path) -> None:
    file.write_text("overlay = 'broadcast'\nlatency = 'constant:5'\n[settings]\nlinks = 4\n")
    path = str(file)
    assert refused("sim", "--scenario", path, "--overlay", "nope").startswith("--overlay: ")
    assert refused("sim", "--scenario", path, "--latency", "slow").startswith("--latency: ")
    assert refused("sim", "--scenario", path, "--set", "links_max=0").startswith("--set: ")
