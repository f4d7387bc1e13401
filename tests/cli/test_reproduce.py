"""Papers: every experiment is a scenario, claims judge what they should, and what is missing is said in one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from peerd import registry
from peerd.cli import main, reproduce
from peerd.cli.papers import NAMES, laboratory, paper
from peerd.cli.papers.frame import (
    Claim,
    Experiment,
    Figures,
    Results,
    falls,
    number,
    percent,
    plain,
    range_length,
    shape,
)
from peerd.cli.papers.verdicts import markdown, page, rows
from peerd.sim.scenario import Scenario


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_every_experiment_is_a_scenario(name: str, scale: float) -> None:
    found = paper(name)
    experiments = found.experiments(scale)
    assert len({each.run for each in experiments}) == len(experiments), "each run has a name of its own"
    for each in experiments:
        fields = {key: value for key, value in each.fields.items() if key in Scenario.__struct_fields__}
        scenario = msgspec.convert({**fields, "name": each.run}, Scenario)
        assert scenario.overlay == found.overlay
        registry.parameters(scenario.overlay, scenario.settings)
        assert set(each.fields) <= set(Scenario.__struct_fields__)


@pytest.mark.parametrize("name", NAMES)
def test_claims_bear_with_runs_that_are_not_there(name: str) -> None:
    """A smaller scale runs fewer points: what was not measured is n/a, and nothing fails."""
    found = paper(name)
    claims = found.claims(Results({}, 0.1))
    assert {claim.verdict for claim in claims} <= {"n/a"}
    assert "<table>" in page(found, claims, found.figures(Results({}, 0.1)), "command")


def test_drtree_judges_sizes_splits_and_degrees() -> None:
    def figures(ratio: float, degrees: list[int]) -> Figures:
        kinds = '{"child":3,"parent":1}'
        tables = {
            "degree_by_peer": [{"degree": degree, "kinds": kinds} for degree in degrees]
            + [{"degree": 1, "kinds": "{}"}]
        }
        sizes = {"expected": 100 * ratio, "peers": 10, "events": 10}
        return {"fp_ratio": ratio, "false_negatives": 0, **sizes, "tables": tables}

    runs = {
        "n1000-paper": figures(0.02, []),
        "d2-paper": figures(0.02, []),
        "equal-d2-paper": figures(0.005, []),
        "equal-d6-paper": figures(0.02, []),
        "m5-quadratic-paper": figures(0.03, []),
        "m20-quadratic-paper": figures(0.006, []),
        "m40-quadratic-paper": figures(0.005, []),
        "n10000-paper": figures(0.01, [7, 9]),
        "n1000-ours": figures(0.005, []),
        "n10000-ours": figures(0.004, []),
        "split-rstar-paper": figures(0.008, []),
        "split-linear-paper": figures(0.009, []),
    }
    claims = {claim.what: claim for claim in paper("drtree").claims(Results(runs, 1.0))}
    assert claims["false positives, worst size"].verdict == "holds"
    assert claims["they fall slightly with the number of subscriptions"].verdict == "holds"
    assert claims["R* best, linear worst"].verdict == "differs"  # quadratic is worst here
    degree = claims["degree max/avg/var, quadratic (5,10)"]
    assert (degree.paper, degree.verdict) == ("9 / 8.00 / 1.00", "holds")
    assert claims["fewer nodes are interested with more dimensions"].paper == "2.00% 1.00%"
    assert claims["at an equal hit ratio they rise with the dimensions"].verdict == "holds"
    assert claims["M = 20 is a good compromise"].verdict == "holds"
    assert claims["they fall with the degree, quadratic"].verdict == "holds"
    assert claims["children of the root of a containment tree"].verdict == "holds"
    smaller = {claim.what: claim for claim in paper("drtree").claims(Results(runs, 0.1))}
    assert smaller["degree max/avg/var, quadratic (5,10)"].verdict == "smaller"


def test_gosskip_judges_hops_and_noise() -> None:
    hops = [{"hops": 4}] * 640 + [{"hops": 5}] * 600 + [{"hops": 3}] * 1260
    loads = [{"noise_ratio": 0.0048}] * 10 + [{"noise_ratio": 0.001}] * 89 + [{"noise_ratio": 0.012}]
    tables = {"event_hops": hops, "load_by_peer": loads, "noise_distribution": [], "hops_distribution": []}
    claims = {claim.what: claim for claim in paper("gosskip").claims(Results({"real-paper": {"tables": tables}}, 1.0))}
    assert claims["most events take, real trace"].verdict == "differs"  # 3 hops are most here
    assert claims["noise of the most loaded peers, real trace"].verdict == "holds"
    assert claims["peers with 0.48 % noise, real trace"].verdict == "holds"
    assert claims["hops are bounded by the logarithm of the subscriptions"].verdict == "holds"


def test_semantic_judges_accuracy_by_size_join_and_rho() -> None:
    def figures(fp: float, fn: float = 0.0, delivered: int = 250) -> Figures:
        simulator = {"fn_ratio": fn}
        return {"fp_ratio": fp, "delivered": delivered, "events": 10, "peers": 100, "simulator": simulator}

    runs = {
        "tree500-paper": figures(0.15),
        "tree2500-paper": figures(0.09),
        "tree2500-ours": figures(0.005),
        "join-periodic-paper": figures(0.12),
        "join-never-paper": figures(0.16),
        "elsewhere-paper": figures(0.095),
        "graph500-rho1-paper": figures(0.25, 0.04),
        "graph2500-rho1-paper": figures(0.22, 0.05),
        "graph500-rho0.5-paper": figures(0.14, 0.08),
        "graph2500-rho0.5-paper": figures(0.12, 0.06),
        "graph2500-ours": figures(0.001, 0.01),
    }
    claims = {claim.what: claim for claim in paper("semantic").claims(Results(runs, 0.5))}
    assert claims["they fall with the size of the network"].verdict == "holds"
    assert claims["joins that reorganise more are better, by little"].verdict == "holds"
    assert claims["the differences between them are very small"].verdict == "differs"  # seven points
    assert claims["false positives do not depend on where documents enter"].verdict == "holds"
    assert claims["that does not depend on how many there are"].verdict == "holds"
    assert claims["similarity graph, rho = 1: false positives fall with size"].verdict == "holds"
    assert claims["similarity graph, rho = 1: false negatives fall with size"].verdict == "differs"
    assert claims["and more false negatives"].verdict == "holds"
    assert claims["similarity graph, rho = 0.5: false negatives"].verdict == "smaller"
    assert claims["similarity graph, rho = 0.5: false negatives"].ours == "1.00%"


@contextmanager
def unwatched(_: str) -> Iterator[laboratory.Show]:
    yield lambda phase, share: None


def test_a_run_is_taken_up_only_where_it_was_made_with_the_same_settings(tmp_path: Path) -> None:
    ran: list[int] = []

    def special(fields: dict[str, Any]) -> dict[str, int]:
        ran.append(fields["peers"])
        return {"peers": fields["peers"]}

    found = paper("gosskip")._replace(special={"counted": special})

    def reproduced(peers: int) -> dict[str, dict[str, Any]]:
        (tmp_path / "report").mkdir(exist_ok=True)
        experiment = Experiment("a", "paper", {"peers": peers, "uploads": (1.0,)}, "counted")
        return laboratory.run(found, [experiment], tmp_path, unwatched).summaries

    assert reproduced(5) == {"a-paper": {"peers": 5}}
    assert not (tmp_path / "report").exists(), "what was made of other runs is gone"
    assert reproduced(5) == {"a-paper": {"peers": 5}}
    assert (tmp_path / "report").exists()
    assert reproduced(6) == {"a-paper": {"peers": 6}}
    assert ran == [5, 6]


def test_a_run_that_fails_takes_nothing_else_with_it(tmp_path: Path) -> None:
    def special(fields: dict[str, Any]) -> dict[str, int]:
        (Path(fields["out"]) / f"run={fields['name']}").mkdir(parents=True)
        if fields["peers"] == 13:
            raise RuntimeError("a bad\nnumber")
        return {"peers": fields["peers"]}

    found = paper("gosskip")._replace(special={"counted": special})
    experiments = [Experiment(str(peers), "paper", {"peers": peers}, "counted") for peers in (12, 13, 14)]
    ran = laboratory.run(found, experiments, tmp_path, unwatched)
    assert ran.summaries == {"12-paper": {"peers": 12}, "14-paper": {"peers": 14}}
    assert ran.failed == {"13-paper": "RuntimeError: a bad number"}
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["run=12-paper", "run=14-paper"]
    assert "in special" in (tmp_path / "summaries" / "13-paper.traceback").read_text()


@pytest.mark.parametrize(("failed", "code", "runs"), [({}, 0, "6"), ({"real-paper": "it broke"}, 1, "5 of 6")])
def test_it_ends_with_a_table_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failed: dict[str, str], code: int, runs: str
) -> None:
    """1 only where something could not be run: what differs from the paper is no failure of the command."""
    monkeypatch.setattr(reproduce, "_spark", lambda master, small: None)
    monkeypatch.setattr(reproduce, "_progress", lambda spark: None)
    (tmp_path / "gosskip").mkdir()

    def run(*_: Any) -> laboratory.Ran:
        return laboratory.Ran({}, failed)

    monkeypatch.setattr(laboratory, "run", run)
    result = CliRunner().invoke(main, ["reproduce", "gosskip", "--scale", "0.1", "--out", str(tmp_path)])
    assert result.exit_code == code
    assert ("gosskip: real-paper failed: it broke" in result.stderr) == bool(failed)
    heads, row = result.stdout.splitlines()[-2:]
    assert heads.split() == ["paper", "runs", "claims", "holds", "differs", "smaller", "n/a", "took"]
    assert re.match(rf"gosskip +{runs} +9 +0 +0 +0 +9 ", row)


def test_verdicts() -> None:
    full, small = Results({}, 1.0), Results({}, 0.5)
    assert [number(full, value, 1.0, 2.0) for value in (None, 1.5, 2.5)] == ["n/a", "holds", "differs"]
    assert number(small, 1.5, 1.0, 2.0) == "smaller"
    assert [shape(value) for value in (None, True, False)] == ["n/a", "holds", "differs"]
    assert [falls(values) for values in ([3, 2, 1], [3, 1, 2], [1, 2], [1], [2, None, 1])] == [
        True,
        False,
        False,
        None,
        True,
    ]
    assert (percent(0.1234), percent(None), plain(1234.5), plain(2.0), plain(None)) == (
        "12.34%",
        "n/a",
        "1,234.5",
        "2",
        "n/a",
    )
    assert range_length({"regions": '[{"value":{"ge":3,"le":10}}]'}) == 7.0
    assert range_length({"regions": '[{"value":{"le":10}}]'}) == 10.0
    assert range_length({"regions": '[{"value":{"eq":10}}]'}) == 0.0


def test_claims_as_tables() -> None:
    claim = Claim("Figure 1", "a | b", "5 %", "4 %", "3 %", "±1", "holds", "a note")
    assert rows([claim]) == [("a | b (Figure 1)", "5 %", "4 %", "3 %", "±1", "holds")]
    assert "| a / b, Figure 1 | 5 % | 4 % | 3 % | ±1 | holds (a note) |" in markdown(paper("drtree"), [claim])


def test_papers_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(main, ["reproduce", "nothing"])
    assert result.exit_code == 2
    assert "opchord" in result.output
