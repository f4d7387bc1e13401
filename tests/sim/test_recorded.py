"""Workloads from logs, and what experiments ask of a scenario beside the usual."""

import json
from pathlib import Path
from random import Random

import pytest

from peerd.sim.scenario import Scenario, run
from peerd.sim.workloads import on_grid, workload
from protocols.model.schema import STOCKS

CONTENT = {
    "schema": STOCKS.to_dict(),
    "subscriptions": ["price > 5.001", "symbol = 'OTE' OR price < 1"],
    "events": [{"symbol": "OTE", "price": 5.0}, {"price": 5.0015}, {"symbol": "X", "price": 0.5}],
    "rate": 3.0,
}


@pytest.fixture
def name(tmp_path: Path) -> str:
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(CONTENT))
    return f"recorded:{path}"


def test_a_recorded_workload_is_what_was_recorded(name: str) -> None:
    found, rng = workload(name), Random(1)
    interests = found.subscriptions(rng, 3)
    assert [interest.filter for interest in interests] == [
        "price > 5.001",
        "symbol = 'OTE' OR price < 1",
        "price > 5.001",
    ]
    assert [len(interest.boxes) for interest in interests] == [1, 2, 1]
    assert found.events(rng, 4) == [*CONTENT["events"], CONTENT["events"][0]]  # type: ignore[misc, index]
    assert found.update(rng, interests[0]).filter == "symbol = 'OTE' OR price < 1"
    assert not on_grid(name)


def test_its_filters_decide_and_not_their_boxes(name: str) -> None:
    """5.0 falls into the step of 5.001, which is all that a box knows."""
    summary = run(Scenario(overlay="broadcast", peers=2, events=3, workload=name))
    assert (summary.expected, summary.delivered, summary.spurious) == (3, 3, 0)


@pytest.mark.parametrize("content", ["", "{}", '{"schema":{},"subscriptions":[],"events":[]}'])
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "workload.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"workload\.json"):
        workload(f"recorded:{path}")


def test_events_may_enter_at_the_top_of_a_tree(tmp_path: Path) -> None:
    fields = {"overlay": "rtree", "peers": 30, "events": 20, "workload": "zipf", "name": "top"}
    run(Scenario(**fields, publisher="root", workload_settings={"dimensions": 2}, out=str(tmp_path)))  # type: ignore[arg-type]
    [path] = (tmp_path / "run=top").rglob("*.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    published = [record for record in records if record["kind"] == "publish"]
    assert set(published[0]["attributes"]) == {"x01", "x02"}
    [publisher] = {record["peer"] for record in published}
    links: dict[str, set[str]] = {"child": set(), "parent": set()}
    for record in records:
        if record["kind"] == "link" and record["peer"] == publisher and record["link"] in links:
            (links[record["link"]].add if record["change"] == "up" else links[record["link"]].discard)(
                record["receiver"]
            )
    assert links["child"]
    assert not links["parent"]


def test_peers_may_tell_rarely_that_they_live(tmp_path: Path) -> None:
    fields = {"overlay": "broadcast", "peers": 3, "events": 3, "name": "rare"}
    often = run(Scenario(**fields))  # type: ignore[arg-type]
    rarely = run(Scenario(**fields, record_every_s=10, out=str(tmp_path)))  # type: ignore[arg-type]
    assert rarely.trace_sha256 == often.trace_sha256
    [path] = (tmp_path / "run=rare").rglob("*.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    alive = [record["ts_us"] for record in records if record.get("change") == "alive"]
    assert len(alive) <= 3 * 3
    assert max(alive) == records[-1]["ts_us"], "the last of them at the very end"
    assert sum(record["sent"] for record in records if record["kind"] == "traffic") == rarely.messages
