"""One Spark session for all tests of the analytics, and one report that many of them look at.

Without Java, or without pyspark, they are skipped, and the reason is told. `make test` runs them after the others, in
one process: Spark takes all cores by itself.
"""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from peerd.cli import main
from tests.analytics.support import SETTINGS, Reported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS = {
    "calm": "--workload stocks --peers 12 --subscriptions 30 --events 40 --seed 1",
    "mixed": "--overlay broadcast --workload mixed --peers 12 --events 60 --seed 2",
    "churn": "--overlay broadcast --workload mixed --peers 16 --events 80 --rate 10 --churn 0.05 --seed 3",
}

collect_ignore_glob = [] if find_spec("pyspark") else ["test_[!i]*.py", "test_ingest.py"]
"""`test_is_installed.py` stays, and says why."""


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    from analytics.session import JAVA_MIN, java_version, session

    found = java_version()
    if found is None or found < JAVA_MIN:
        pytest.skip(f"the analytics are NOT TESTED: Spark needs Java {JAVA_MIN} or newer, and this is {found}")
    started = session("local[2]", SETTINGS)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def reported(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """Three simulated runs, what the simulator says about them, and the report."""
    from analytics.report.build import report

    logs, out = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("report")
    summaries = {}
    for name, options in RUNS.items():
        result = CliRunner().invoke(main, ["sim", *options.split(), "--out", str(logs), "--json"])
        assert result.exit_code == 0, result.output
        summaries[name] = json.loads(result.output.splitlines()[-1])
    return Reported(logs, out, summaries, report(spark, str(logs), str(out)))
