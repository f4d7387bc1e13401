"""Conformance with nodes so narrow that a small swarm has a tree of some height, which it has not by default."""

import pytest

from tests.conformance.scenarios import SCENARIOS, set_stage
from tests.rtree.swarms import NARROW, PAPER

SETTINGS = {
    "narrow": NARROW,
    "narrowest": {"children_min": "2", "children_max": "4"},
    "paper": PAPER,
}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(
    "settings", [pytest.param(name, marks=() if name == "narrow" else pytest.mark.slow) for name in SETTINGS]
)
def test_scenario(settings: str, scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_stage(monkeypatch, SETTINGS[settings])
    SCENARIOS[scenario]("rtree", 25, 5)
