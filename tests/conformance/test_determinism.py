"""The same seed gives the same run, whatever order the process happens to give to its sets and hashes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.support import seeds

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from peerd.sim.scenario import Scenario, run
overlay, seed = sys.argv[1], int(sys.argv[2])
for link, loss in (("tcp", 0.02), ("datagram", 0.05)):
    summary = run(
        Scenario(
            overlay=overlay, seed=seed, link=link, loss=loss, peers=15, subscriptions=30, events=80, churn=0.1,
            rate=20, workload="mixed", participants_max=2,
        )
    )
    print(link, summary.messages, summary.delivered, summary.trace_sha256)
"""


def traces(overlay: str, seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT, overlay, str(seed)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@seeds(1, 2)
def test_the_trace_depends_on_the_seed_alone(overlay: str, seed: int) -> None:
    first = traces(overlay, seed, "1")
    assert len(first.splitlines()) == 2
    assert first == traces(overlay, seed, "2")


@pytest.mark.slow
def test_another_seed_is_another_run(overlay: str) -> None:
    assert traces(overlay, 1, "0") != traces(overlay, 2, "0")
