"""`peerd sim`: options, the summary, exit codes, and that a run can be repeated."""

import json
import re
from pathlib import Path

import click
import msgspec
import pytest

from peerd import registry
from peerd.cli import sim as sim_module
from peerd.sim import scenario
from peerd.sim.network import NetworkConfig
from peerd.sim.scenario import Scenario
from peerd.sim.summary import Summary
from tests.cli.running import only_line, peerd, process, refused

SMALL = ("sim", "--peers", "8", "--events", "20")

FIELDS = [
    "overlay",
    "parameters",
    "seed",
    "peers",
    "subscriptions",
    "events",
    "expected",
    "delivered",
    "false_negatives",
    "at_risk",
    "at_risk_missing",
    "spurious",
    "duplicates",
    "fp_ratio",
    "touched_ratio",
    "fn_ratio",
    "hops",
    "latency_ms",
    "messages",
    "bytes",
    "bytes_per_delivery",
    "dropped",
    "invariant_violations",
    "converged_s",
    "wall_s",
    "messages_per_s",
    "peak_rss_mb",
    "trace_sha256",
]
"""What outsiders rely on, in the contract's order."""

IN_FILES_ONLY = ("workload_settings", "publisher", "faults", "name", "record_every_s")
"""Keys of a scenario that have no option."""


@pytest.fixture(scope="module")
def good() -> Summary:
    return scenario.run(Scenario(peers=4, events=4))


def given_scenario(monkeypatch: pytest.MonkeyPatch, summary: Summary, *args: str) -> Scenario:
    """The scenario that a command line asks for; it is not run."""
    asked: list[Scenario] = []

    def run(chosen: Scenario, progress: object) -> Summary:
        asked.append(chosen)
        return summary

    monkeypatch.setattr(scenario, "run", run)
    assert peerd("sim", *args).exit_code == 0
    return asked[0]


# --- What is printed --------------------------------------------------------------------------------------------------


def test_json_has_exactly_the_promised_fields() -> None:
    result = peerd(*SMALL, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("\n") == 1
    summary = json.loads(result.stdout)
    assert list(summary) == FIELDS
    assert list(summary["hops"]) == list(summary["latency_ms"]) == ["mean", "p50", "p99", "max"]
    assert (summary["peers"], summary["events"], summary["false_negatives"]) == (8, 20, 0)
    assert summary["expected"] == summary["delivered"] > 0


def test_the_table_has_the_same_figures() -> None:
    args = (*SMALL, "--seed", "3")
    summary = json.loads(peerd(*args, "--json").stdout)
    result = peerd(*args)
    assert (result.exit_code, result.stderr) == (0, "")
    table = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in result.stdout.splitlines() if line[0] != " ")
    assert table["overlay"] == "rtree"
    assert table["deliveries expected"] == str(summary["expected"])
    assert table["messages"] == f"{summary['messages']:,}"
    assert table["trace sha256"] == summary["trace_sha256"]
    assert result.stdout.isascii()  # plain text, since nobody looks


# --- Options ----------------------------------------------------------------------------------------------------------


def test_every_option_reaches_the_scenario(monkeypatch: pytest.MonkeyPatch, good: Summary, tmp_path: Path) -> None:
    wanted = Scenario(
        overlay="broadcast",
        peers=7,
        subscriptions=9,
        events=11,
        rate=5.5,
        workload="zipf-25:75",
        seed=-3,
        churn=0.25,
        loss=0.125,
        link="datagram",
        duplication=0.1,
        reordering_ms=30,
        bandwidth=5000,
        uploads=(100.0, 250.5),
        latency="constant:7",
        liveness="oracle",
        sampling="oracle",
        participants_max=2,
        settings={"links": "4", "links_max": "8"},
        out=str(tmp_path / "logs"),
    )
    args: list[str] = []
    for key, value in msgspec.to_builtins(wanted).items():
        if key == "uploads":
            args += ["--uploads", "100,250.5"]
        elif key not in ("settings", *IN_FILES_ONLY):
            args += [f"--{key.replace('_', '-')}", str(value)]
    args += ["--set", "links=4", "--set", "links_max=9", "--set", "links_max=8"]
    assert given_scenario(monkeypatch, good, *args) == wanted
    unnoticed = [key for key in Scenario.__struct_fields__ if getattr(wanted, key) == getattr(Scenario(), key)]
    assert unnoticed == list(IN_FILES_ONLY)


def test_without_options_the_scenario_is_the_default_one(monkeypatch: pytest.MonkeyPatch, good: Summary) -> None:
    assert given_scenario(monkeypatch, good) == Scenario()


def test_help_states_the_defaults() -> None:
    defaults = msgspec.to_builtins(Scenario())
    stated = {}
    for option in sim_module.sim.params:
        assert isinstance(option, click.Option)
        found = re.search(r"\[(.*)\]\.$", option.help or "")
        if found and option.name in defaults:
            stated[option.name] = found[1]
    assert stated.pop("subscriptions") == "one for each peer"
    assert stated == {key: _short(defaults[key]) for key in stated}
    assert set(defaults) - set(stated) == {"subscriptions", "uploads", "settings", "out", *IN_FILES_ONLY}


@pytest.mark.parametrize("text", ["", "100,", "fast", "-5"])
def test_uploads_are_numbers_above_zero(text: str) -> None:
    result = peerd("sim", "--overlay", "sub2sub", "--uploads", text)
    assert result.exit_code == 2
    assert result.stderr.startswith("peerd: --uploads")


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_uploads_that_have_no_effect_are_told() -> None:
    result = peerd(*SMALL, "--overlay", "broadcast", "--uploads", "5")
    assert result.exit_code == 0
    assert "overlay broadcast keeps to no upload budget: --uploads has no effect" in result.stderr


def test_choices_are_those_of_the_simulator() -> None:
    info = msgspec.inspect.type_info(NetworkConfig)
    assert isinstance(info, msgspec.inspect.StructType)
    links = next(field.type for field in info.fields if field.name == "link")
    assert isinstance(links, msgspec.inspect.LiteralType)
    assert sorted(sim_module.LINKS) == sorted(map(str, links.values))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--peers", "x"), "Invalid value for '--peers': 'x' is not a valid integer"),
        (("--peers", "0"), "--peers: expected int >= 1"),
        (("--peers", "2.5"), "'2.5' is not a valid integer"),
        (("--peers",), "'--peers' requires an argument"),
        (("--subscriptions", "-1"), "--subscriptions: expected int >= 0"),
        (("--events", "-1"), "--events: expected int >= 0"),
        (("--rate", "0"), "--rate: expected float >= 0.001"),
        (("--rate", "nan"), "--rate: expected float >= 0.001"),
        (("--rate", "inf"), "--rate: expected float <= 1000000.0"),
        (("--churn", "0.6"), "--churn: expected float <= 0.5"),
        (("--loss", "1"), "--loss: expected float < 1.0"),
        (("--participants-max", "5000"), "--participants-max: expected int <= 4096"),
        (("--link", "udp"), "'udp' is not one of 'tcp', 'datagram'"),
        (("--liveness", "none"), "'none' is not one of 'protocol', 'oracle'"),
        (("--sampling", "none"), "'none' is not one of 'protocol', 'oracle'"),
        (("--latency", "slow"), "--latency: latency 'slow' is not one of constant:MS, uniform:LOW:HIGH or"),
        (("--latency", "constant:inf"), "--latency: latency 'constant:inf' is not one of"),
        (("--latency", "uniform:1:nan"), "--latency: latency 'uniform:1:nan' is not one of"),
        (("--overlay", "nope"), "--overlay: there is no overlay 'nope'; choose one of broadcast"),
        (("--workload", "nope"), "--workload: unknown workload 'nope'; choose one of uniform,"),
        (
            ("--overlay", "broadcast", "--workload", "xml-news"),
            "--workload: broadcast takes no XPath, in which workload",
        ),
        (("--set", "links"), "--set links: expected KEY=VALUE"),
        (("--set", "=3"), "--set =3: expected KEY=VALUE"),
        (
            ("--overlay", "broadcast", "--set", "nope=3"),
            "--set: overlay 'broadcast' has no parameter 'nope'; it has links,",
        ),
        (("--overlay", "broadcast", "--set", "links=many"), "--set: overlay 'broadcast': links: expected int, got str"),
        (("--overlay", "broadcast", "--set", "links=0"), "--set: overlay 'broadcast': links: expected int >= 1"),
        (("--overlay", "broadcast", "--set", "profile=nope"), "--set: overlay 'broadcast' has no profile 'nope'"),
    ],
)
def test_wrong_options_are_one_line(args: tuple[str, ...], says: str) -> None:
    assert says in refused("sim", *args)


# --- Records ----------------------------------------------------------------------------------------------------------


def test_out_holds_the_records(tmp_path: Path) -> None:
    assert peerd(*SMALL, "--out", str(tmp_path / "new" / "logs")).exit_code == 0
    files = list(tmp_path.rglob("*.*"))
    assert [str(file.relative_to(tmp_path)) for file in files] == [
        "new/logs/run=sim-rtree-stocks-0/peer=sim/000000.jsonl"
    ]
    kinds = {json.loads(line)["kind"] for line in files[0].read_text().splitlines()}
    assert {"peer", "subscription", "publish", "receive", "deliver"} <= kinds


def test_a_run_is_never_mixed_with_an_older_one(tmp_path: Path) -> None:
    args = (*SMALL, "--out", str(tmp_path))
    assert peerd(*args).exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    run = tmp_path / "run=sim-rtree-stocks-0"
    assert refused(*args) == f"--out: {run} holds a run already; remove it or name another directory"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")} == before
    assert peerd(*args, "--seed", "1").exit_code == 0  # another run may stand beside it
    assert len(list(tmp_path.rglob("*.jsonl"))) == 2


def test_an_out_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refused("sim", "--out", str(tmp_path / "file" / "logs")).endswith(": not a directory")


def test_wrong_options_leave_nothing_behind(tmp_path: Path) -> None:
    refused("sim", "--out", str(tmp_path / "logs"), "--set", "links=0")
    refused("sim", "--out", str(tmp_path / "logs"), "--latency", "slow")
    assert list(tmp_path.iterdir()) == []


# --- Guarantees -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"false_negatives": 1}, "owed deliveries missing: 1"),
        ({"spurious": 2}, "deliveries that do not match: 2"),
        ({"duplicates": 3}, "deliveries made twice: 3"),
        ({"invariant_violations": 4}, "invariants violated: 4"),
        ({"converged_s": None}, "not converged in time"),
    ],
)
def test_a_broken_guarantee_exits_1(
    monkeypatch: pytest.MonkeyPatch, good: Summary, broken: dict[str, object], says: str
) -> None:
    monkeypatch.setattr(scenario, "run", lambda chosen, progress: msgspec.structs.replace(good, **broken))
    result = peerd("sim", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout.splitlines()[-1])["overlay"] == "rtree"
    assert only_line(result.stderr) == f"rtree broke its guarantees: {says}"


def test_what_is_at_risk_may_be_missing(monkeypatch: pytest.MonkeyPatch, good: Summary) -> None:
    risky = msgspec.structs.replace(good, at_risk=5, at_risk_missing=5)
    monkeypatch.setattr(scenario, "run", lambda chosen, progress: risky)
    assert peerd("sim").exit_code == 0


def test_missing_deliveries_break_only_what_was_promised(monkeypatch: pytest.MonkeyPatch, good: Summary) -> None:
    lossy = msgspec.structs.replace(good, false_negatives=1)
    monkeypatch.setattr(scenario, "run", lambda chosen, progress: lossy)
    assert peerd("sim").exit_code == 1
    assert peerd("sim", "--link", "datagram").exit_code == 0
    incomplete = msgspec.structs.replace(registry.kind("rtree"), complete=lambda config: False)
    monkeypatch.setattr(registry, "kind", lambda name: incomplete)
    assert peerd("sim").exit_code == 0


# --- Repetition -------------------------------------------------------------------------------------------------------


def trace(stdout: str) -> str:
    digest = json.loads(stdout)["trace_sha256"]
    assert re.fullmatch("[0-9a-f]{64}", digest)
    return str(digest)


def test_the_same_seed_gives_the_same_trace_in_any_process() -> None:
    args = (*SMALL, "--churn", "0.1", "--seed", "5", "--json")
    runs = [process(*args, PYTHONHASHSEED=seed) for seed in ("1", "2")]
    assert [(run.returncode, run.stderr) for run in runs] == [(0, "")] * 2
    traces = {trace(run.stdout) for run in runs} | {trace(peerd(*args).stdout)}
    assert len(traces) == 1
    assert trace(peerd(*args, "--seed", "6").stdout) not in traces
