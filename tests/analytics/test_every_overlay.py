"""The report says what the simulator says, whatever the overlay: in calm, and while peers come and go.

All runs are analysed together, which also shows that they are kept apart.
"""

import json
from typing import Any, Final, NamedTuple

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from peerd.cli import main
from peerd.registry import NAMES
from tests.analytics.support import figures_of_both

CALM: Final = "--workload mixed --peers 20 --events 40 --seed 1"
CHURN: Final = "--workload mixed --peers 24 --events 120 --rate 8 --churn 0.1 --seed 2"
SIMILAR: Final = "--workload mixed --peers 20 --events 40 --seed 3 --set profile=paper-similarity"
LOSSY: Final = "--workload mixed --peers 20 --events 60 --seed 4 --link datagram --loss 0.1 --duplication 0.1"
"""Links that really lose and repeat: deliveries are missing here, and made once all the same."""

RUNS: Final = {
    **{f"{overlay} in calm": f"--overlay {overlay} {CALM}" for overlay in NAMES},
    **{f"{overlay} in churn": f"--overlay {overlay} {CHURN}" for overlay in NAMES},
    "semantic, similarity graph": f"--overlay semantic {SIMILAR}",
    "chord over lossy links": f"--overlay chord {LOSSY}",
}


class Both(NamedTuple):
    simulator: dict[str, dict[str, Any]]
    report: dict[tuple[str, int], dict[str, Any]]
    """By overlay and seed."""
    drops: list[dict[str, Any]]


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Both:
    from analytics.report.build import report

    logs, out = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("report")
    summaries = {}
    for name, options in RUNS.items():
        result = CliRunner().invoke(main, ["sim", *options.split(), "--out", str(logs), "--json"])
        assert result.exit_code in (0, 1), (name, result.output)  # kept guarantees are asserted elsewhere
        summaries[name] = json.loads(result.output.splitlines()[-1])
    made = report(spark, str(logs), str(out), wanted={"drops"})
    rows = {(row["overlay"], int(row["run"].rsplit("-", 1)[1])): row for row in made.summary}
    assert len(rows) == len(RUNS)
    return Both(summaries, rows, made.made["drops"].rows)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("run", RUNS)
def test_figures_are_those_of_the_simulator(both: Both, run: str) -> None:
    told = both.simulator[run]
    found = both.report[told["overlay"], told["seed"]]
    drops = {row["reason"]: row["dropped"] for row in both.drops if row["run"] == found["run"]}
    ours, theirs = figures_of_both(found, drops, told)
    assert ours == theirs
    assert told["delivered"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_there_was_something_to_be_seen(both: Both) -> None:
    assert all(both.simulator[f"{overlay} in churn"]["at_risk"] > 0 for overlay in NAMES)
    assert both.simulator["chord over lossy links"]["false_negatives"] > 0
