"""The same seed gives the same run, whatever order the process happens to give to its sets and hashes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.support import choices, sizes

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from peerd.sim.scenario import Scenario, run
overlay, link, peers, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
summary = run(
    Scenario(
        overlay=overlay, seed=seed, link=link, loss=0.02 if link == "tcp" else 0.05, peers=peers,
        subscriptions=2 * peers, events=80, churn=0.1, rate=20, workload="mixed", participants_max=2,
    )
)
print(summary.messages, summary.delivered, summary.trace_sha256)
"""


def trace(overlay: str, link: str, peers: int, seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT, overlay, link, str(peers), str(seed)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@choices("link", "tcp", "datagram")
@sizes([(10, 1), (15, 2)])
def test_the_trace_depends_on_the_seed_alone(overlay: str, link: str, peers: int, seed: int) -> None:
    first = trace(overlay, link, peers, seed, "1")
    assert len(first.split()[-1]) == 64
    assert first == trace(overlay, link, peers, seed, "2")


@pytest.mark.slow
@pytest.mark.parametrize("link", ["tcp", "datagram"])
def test_another_seed_is_another_run(overlay: str, link: str) -> None:
    assert trace(overlay, link, 15, 1, "0") != trace(overlay, link, 15, 2, "0")
