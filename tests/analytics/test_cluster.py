"""The same functions on a cluster: a standalone master and two workers on loopback, through spark-submit."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from analytics.session import JAVA_MIN, java_version
from tests.analytics.support import Log
from tests.eventlog.support import until
from tests.net.support import free_port

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    if (java_version() or 0) < JAVA_MIN:
        pytest.skip(f"the analytics are NOT TESTED: Spark needs Java {JAVA_MIN} or newer")
    port, page = free_port(), free_port()
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path),
    }
    log = (tmp_path / "cluster.log").open("wb")
    run = [str(SPARK_HOME / "bin" / "spark-class")]
    classes = "org.apache.spark.deploy"
    url = f"spark://127.0.0.1:{port}"
    commands = [
        [*run, f"{classes}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)],
        *[
            [
                *run,
                f"{classes}.worker.Worker",
                "--host",
                "127.0.0.1",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                "0",
                url,
            ]
            for _ in range(2)
        ],
    ]
    processes = [subprocess.Popen(each, env=environment, stdout=log, stderr=log) for each in commands]
    try:
        registered = "Registering worker"
        until(lambda: (tmp_path / "cluster.log").read_text().count(registered) == 2, 100.0)
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)
        log.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_report_by_spark_submit_on_two_workers(master: str, tmp_path: Path) -> None:
    log = Log()
    log.start("a", "b")
    log.subscribe(1, "b", "s", {"price": {"ge": 1.0}})
    log.active(2, "b", "s")
    log.publish(5, "a", "e1", price=2.0)
    log.publish(6, "a", "e2", price=2.0)
    log.receive(5.005, "b", "e1", "a")
    log.deliver(5.005, "b", "e1", "s")
    log.alive(20, "a", "b")
    log.end(21)
    log.write(tmp_path / "logs")
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--conf", "spark.executor.memory=512m",
        "--conf", "spark.sql.shuffle.partitions=2", str(ROOT / "analytics" / "__main__.py"),
        "report", "--logs", str(tmp_path / "logs"), "--out", str(tmp_path / "out"), "--json", "--quiet",
    ]  # fmt: skip
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK_HOME),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert '"expected": 2, "false_negatives": 1' in done.stdout
    assert (tmp_path / "out" / "report.html").exists()
