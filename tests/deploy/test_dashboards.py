"""The dashboards: as generated, as Grafana wants them, and about metrics that there are."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from deploy.grafana.__main__ import path, text
from deploy.grafana.boards import BOARDS
from deploy.grafana.panels import SOURCE, WIDTH, Dashboard, document
from peerd import registry
from peerd.fleet.ledger import Exporter, Ledger
from tests.deploy.grafana_model import faults
from tests.deploy.support import DEPLOY, ROOT

boards = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)


def panels(board: Dashboard) -> Iterator[dict[str, Any]]:
    """All panels but rows, those of folded rows included."""
    for panel in document(board)["panels"]:
        if panel["type"] != "row":
            yield panel
        yield from panel.get("panels", ())


@boards
def test_the_file_is_up_to_date(board: Dashboard) -> None:
    assert path(board).read_text("utf-8") == text(board), "run: python -m deploy.grafana"


@boards
def test_it_is_what_grafanas_model_says(board: Dashboard) -> None:
    assert faults(json.loads(text(board))) == []


def test_the_model_finds_what_is_wrong() -> None:
    wrong = json.loads(text(BOARDS[0]))
    wrong["nonsense"] = 1
    wrong["title"] = 7
    del wrong["schemaVersion"]
    panel = next(panel for panel in wrong["panels"] if panel["type"] == "timeseries")
    panel["options"]["legend"]["displayMode"] = "loud"
    panel["targets"][0]["exprs"] = panel["targets"][0].pop("expr")
    panel["fieldConfig"]["defaults"]["custom"]["drawStyle"] = "scribble"
    panel["gridPos"]["x"] = "0"
    found = "\n".join(faults(wrong))
    for fault in (
        "$.nonsense",
        "$.title",
        "schema_version: missing",
        "displayMode",
        "exprs",
        "expr: missing",
        "drawStyle",
    ):
        assert fault in found
    assert ".gridPos.x" in found


@boards
def test_every_panel_says_what_it_shows_and_in_what_unit(board: Dashboard) -> None:
    for panel in panels(board):
        assert len(panel["description"]) > 15
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == SOURCE
        assert panel["targets"]
        assert all(target["datasource"] == SOURCE for target in panel["targets"])


def test_the_data_source_is_the_one_that_is_provisioned() -> None:
    provisioned = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text())
    assert [(each["type"], each["uid"]) for each in provisioned["datasources"]] == [(SOURCE["type"], SOURCE["uid"])]


@boards
def test_panels_have_numbers_and_places_of_their_own(board: Dashboard) -> None:
    found = [*panels(board), *(each for each in document(board)["panels"] if each["type"] == "row")]
    assert len({panel["id"] for panel in found}) == len(found)
    taken: set[tuple[int, int]] = set()
    for panel in found:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= WIDTH
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_overlay_has_a_row() -> None:
    overlay = next(board for board in BOARDS if board.uid == "peerd-overlay")
    assert set(registry.NAMES) <= {row.overlay for row in overlay.rows}


@boards
def test_every_metric_exists(board: Dashboard) -> None:
    """Those of peers are in docs/metrics.md, those of the driver in its exporter, the others in the recording rules."""
    known = set(re.findall(r"`(peerd_\w+)`", (ROOT / "docs/metrics.md").read_text()))
    known |= {f"{family.name}{'_total' * (family.type == 'counter')}" for family in Exporter(Ledger()).collect()}
    rules = yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())
    known |= {rule["record"] for group in rules["groups"] for rule in group["rules"] if "record" in rule}
    for panel in panels(board):
        for target in panel["targets"]:
            for name in re.findall(r"\b(?:peerd_|swarm:|workload:)[\w:]+", target["expr"]):
                assert re.sub(r"_(bucket|sum|count)$", "", name) in known or name in known, (panel["title"], name)
