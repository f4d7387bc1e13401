"""A testbed of some size, with kills."""

import json
from pathlib import Path

import pytest

from tests.testbed.test_command import testbed as command


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_fifty_peers_and_five_kills(tmp_path: Path) -> None:
    options = ("--overlay", "broadcast", "--peers", "50", "--events", "1000", "--kill", "5", "--seed", "1", "--json")
    done = command("run", *options, "--dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert (summary["peers"], summary["killed"], summary["events"]) == (45, 5, 1_000)
    assert summary["false_negatives"] == summary["spurious"] == summary["duplicates"] == 0
    assert summary["expected"] > 100
    assert summary["at_risk"] > 0
