"""The scenarios of conformance for settings other than the default: what every overlay owes, they owe too.

The similarity graph promises everything but completeness (`Kind.complete`); the tree as in the paper, and one with a
deep virtual root, promise that as well.
"""

from collections.abc import Callable
from functools import partial

import pytest

from tests.conformance import test_faults, test_graceful
from tests.conformance.support import Stage

SETTINGS = {
    "similarity": {"organisation": "similarity"},
    "paper": {"profile": "paper"},
    "chains": {"profile": "paper", "chain_above": "2"},
    "deep-root": {"root_degree": "2"},
}

SCENARIOS: dict[str, Callable[[str, int, int], None]] = {
    "crashes": lambda overlay, peers, seed: test_faults.test_a_fifth_crashes_at_once(overlay, True, peers, seed),
    "churn": test_faults.test_churn_of_one_percent_a_second,
    "partition": lambda overlay, peers, seed: test_faults.test_a_third_is_cut_off(overlay, 15, peers, seed),
    "restarts": lambda overlay, peers, seed: test_faults.test_restarts(overlay, False, peers, seed),
    "resets": test_faults.test_connections_are_reset_while_events_flow,
    "stalls": test_faults.test_a_stall_kills_nobody,
    "datagrams": test_faults.test_datagrams_are_safe,
    "graceful": lambda overlay, peers, seed: test_graceful.test_nothing_owed_is_missing(
        overlay, "mixed", 0, peers, seed
    ),
    "leavers": lambda overlay, peers, seed: test_graceful.test_most_leave_at_once(overlay, seed),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(
    "settings", [pytest.param(name, marks=pytest.mark.slow if name == "similarity" else ()) for name in SETTINGS]
)
def test_scenario(settings: str, scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_stage(monkeypatch, settings)
    SCENARIOS[scenario]("semantic", 20, 5)


def set_stage(monkeypatch: pytest.MonkeyPatch, settings: str) -> None:
    for module in (test_faults, test_graceful):
        monkeypatch.setattr(module, "Stage", partial(Stage, settings=SETTINGS[settings]))
