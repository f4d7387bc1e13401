"""Conformance with settings other than the default.

The similarity graph promises everything but completeness (`Kind.complete`); the tree as in the paper, and one with a
deep virtual root, promise that as well.
"""

import pytest

from tests.conformance.scenarios import SCENARIOS, set_stage

SETTINGS = {
    "similarity": {"organisation": "similarity"},
    "paper": {"profile": "paper"},
    "chains": {"profile": "paper", "chain_above": "2"},
    "deep-root": {"root_degree": "2"},
}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(
    "settings", [pytest.param(name, marks=() if name == "paper" else pytest.mark.slow) for name in SETTINGS]
)
def test_scenario(settings: str, scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_stage(monkeypatch, SETTINGS[settings])
    SCENARIOS[scenario]("semantic", 20, 5)
