"""Advice: what is tried, what ranks first, and what is said of it."""

from typing import Any

import pytest

from analytics import advise
from analytics.advise import Candidate, Tried
from analytics.cli import main

BEST = Candidate("tree", {"width": "4"})


def parameter(name: str, default: object, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    kind = type(default).__name__
    return {"name": name, "type": kind, "default": default, "min": low, "max": high}


def summary(cost: float) -> dict[str, Any]:
    spread = {"p50": 2, "p99": 30.5, "max": 4}
    return {"bytes_per_delivery": cost, "messages": 1_000, "fp_ratio": 0.125, "hops": spread, "latency_ms": spread}


def tried(name: str, cost: float | None, fault: str = "", **settings: str) -> Tried:
    return Tried(Candidate(name, settings), None if cost is None else summary(cost), fault)


def test_each_number_near_the_best_is_halved_and_doubled_within_its_bounds() -> None:
    numbers = [parameter("depth", 3, 2, 10), parameter("share", 0.5, 0.3, 0.9), parameter("copies", 1, 1)]
    others = [parameter("name", "x"), parameter("off", 0), parameter("brief", True)]
    found = [each.settings for each in advise._near(BEST, {"parameters": [*numbers, *others]})]
    assert found == [{"width": "4", "depth": "6"}, {"width": "4", "copies": "2"}]


def test_every_overlay_is_tried_as_it_is_and_with_each_profile() -> None:
    known: dict[str, dict[str, Any]] = {"flood": {"profiles": []}, "tree": {"profiles": ["paper"]}}
    assert [each.name for each in advise._plain(known, [])] == ["flood", "tree", "tree profile=paper"]
    assert [each.name for each in advise._plain(known, ["flood"])] == ["flood"]
    assert [each.name for each in advise._asked(["tree:a=1,b=2", "flood"], known)] == ["tree a=1 b=2", "flood"]
    with pytest.raises(ValueError, match="there is no overlay 'wood'; choose one of flood, tree"):
        list(advise._plain(known, ["wood"]))
    for wrong in ("wood:a=1", "tree:a"):
        with pytest.raises(ValueError, match=f"--try {wrong}: expected OVERLAY:KEY=VALUE"):
            advise._asked([wrong], known)


def test_what_kept_its_guarantees_ranks_first_and_then_what_cost_less() -> None:
    found = [tried("a", 1.0, "lost one"), tried("b", 300.0), tried("c", None, "no such parameter"), tried("d", 200.0)]
    assert [each.candidate.name for each in sorted(found, key=advise._rank)] == ["d", "b", "a", "c"]


def about(*rows: Tried) -> str:
    workload = {"run": "r", "peers": 5, "peers_all": 9, "rate": 2.5, "subscriptions": 7, "events": 10, "events_all": 20}
    return advise.told({"workload": workload, "tried": [advise._row(each) for each in rows], "notes": ["one note"]})


def test_what_is_said() -> None:
    lines = about(tried("tree", 200.0, width="8"), tried("broadcast", 300.0), tried("ring", None, "broke")).splitlines()
    assert lines[0] == "run r: 7 subscriptions of 5 of 9 peers, 10 of 20 events, 2.5 a second"
    assert lines[1] == "note: one note"
    assert lines[-1] == "tree width=8 would have cost least: 200 bytes for each delivery, 1.5 times less than broadcast"
    [row] = [line.split() for line in lines if line.startswith("tree width=8 ") and "would" not in line]
    assert row == ["tree", "width=8", "200", "1,000", "12.50%", "2/4", "30.5"]
    assert [line.split() for line in lines if line.startswith("ring")] == [["ring", *["n/a"] * 5, "broke"]]
    assert about(tried("broadcast", 300.0)).endswith("broadcast would have cost least: 300 bytes for each delivery")
    assert about(tried("tree", 1.0, "lost one")).endswith("no overlay kept its guarantees with this workload")


@pytest.mark.parametrize("option", ["--peers", "--events"])
@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_a_sample_of_nothing(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--logs", "nowhere", option, value]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"expected a whole number of at least 1, not '{value}'" in line
