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
    ("settings", "peers"), [("narrowest", 15), *(pytest.param(name, 25, marks=pytest.mark.slow) for name in SETTINGS)]
)
def test_scenario(settings: str, peers: int, scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_stage(monkeypatch, SETTINGS[settings])
    SCENARIOS[scenario]("rtree", peers, 5)
