"""Scenarios of conformance for settings other than an overlay's default: what every overlay owes, they owe too."""

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from tests.conformance import test_faults, test_graceful
from tests.conformance.support import Stage

SCENARIOS: Final[dict[str, Callable[[str, int, int], None]]] = {
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
    "leavers": test_graceful.test_most_leave_at_once,
}
"""Each with the overlay, the number of peers and the seed."""


def set_stage(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    """From now on scenarios play with these settings."""
    for module in (test_faults, test_graceful):
        monkeypatch.setattr(module, "Stage", partial(Stage, settings=settings))
