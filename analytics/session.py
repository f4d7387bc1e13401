"""The Spark session: on this machine unless a master is named, with the settings that this code relies on.

Whoever submits with spark-submit has chosen a master already, and it is left alone. Settings that only concern speed
are set where nobody else has.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from types import MappingProxyType
from typing import Final

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

JAVA_MIN: Final = 17
SPARK_MIN: Final = (4, 2)
"""The first that takes a sample by one aggregation (`min_by` of several values; see `analytics.matching`)."""

SETTINGS: Final = {
    "spark.sql.ansi.enabled": "false",  # a value that does not fit is null, not the end of a job
    "spark.sql.caseSensitive": "true",  # as names of attributes are
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # a run called 007 is no number
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}
"""What results or output depend on."""

SPEED: Final = {
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",  # batch work: nobody waits for a pause
    "spark.sql.shuffle.partitions": "16",
}
"""For two cores; whoever has more sets them himself (spark-submit, spark-defaults.conf). Adaptive execution joins
partitions that turn out small."""

BRIEFLY: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For little input, where compiling well may cost more than it saves. Not measured."""

ROW_GROUP: Final = {"parquet.block.size": str(16 * 2**20)}
"""For writing Parquet. A row group is read by one core, and our columns compress to a few bytes a row (4.6 million
receptions to 30 MB): with the default of 128 MiB there may be too few for all cores. Not measured."""


SMALL_BYTES: Final = 64 * 2**20
"""Logs below this size are small: a segment, about 200,000 records. A guess."""


MASTERS: Final = r"local$|local\[.+\]$|local-cluster\[|spark://.+|yarn$|k8s://.+"


class NoSpark(RuntimeError):
    """Spark cannot be started; one line says what to do."""


def session(
    master: str | None = None, settings: Mapping[str, str] = MappingProxyType({}), *, small: bool = False
) -> SparkSession:
    """The session of this process. `small`: it will not have much to do."""
    _check_master(master)
    _check_spark()
    _check_java()
    builder = SparkSession.builder.appName("peerd analytics")
    submitted = "SPARK_ENV_LOADED" in os.environ or "spark.master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if master is not None or not submitted:
        builder = builder.master(master or "local[*]")
    if (master or "local").startswith("local") and not submitted:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else has to reach it
    speed = {} if submitted else {**SPEED, **(BRIEFLY if small else {})}
    for key, value in {**speed, **SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    try:
        with _quiet():
            spark = builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        raise NoSpark(f"Spark does not start on {master or 'this machine'}: {_why(str(error), master)}") from None
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _check_master(master: str | None) -> None:
    """Java would end without a word to us."""
    if master is not None and not re.match(MASTERS, master):
        raise NoSpark(f"{master!r} is no Spark master: that is local[*], spark://HOST:PORT, yarn or k8s://…")


def _check_spark() -> None:
    """Whoever submits to a cluster brings its own Spark, which nobody has asked for a version."""
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < SPARK_MIN:
        least = ".".join(map(str, SPARK_MIN))
        raise NoSpark(f"the analytics need Spark {least} or newer, and this is {pyspark.__version__}")


def _why(told: str, master: str | None) -> str:
    """The reason, from what Java tells. That a cluster does not answer is said only in Spark's log."""
    if "stopped SparkContext" in told and (master or "").startswith("spark://"):
        return "no master answers there"
    lines = told.splitlines()
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


def is_small(size: int) -> bool:
    """Whether logs of that many bytes are small."""
    return size < SMALL_BYTES


def tune(spark: SparkSession, size: int) -> None:
    """For little input it costs more to compile queries, and to spread them, than to run them."""
    small = is_small(size)
    spark.conf.set("spark.sql.codegen.wholeStage", str(not small).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if small else "FALLBACK")
    spark.conf.set("spark.sql.adaptive.coalescePartitions.parallelismFirst", str(not small).lower())
    partitions = "2" if small else spark.sparkContext.getConf().get("spark.sql.shuffle.partitions")
    if partitions is not None:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)


@contextmanager
def _quiet() -> Iterator[None]:
    """What Java says on standard error while it starts, and later, goes to a file: users look for one clear line."""
    log = os.open(Path(gettempdir()) / f"peerd-spark-{os.getuid()}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    stderr = os.dup(2)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(log)


def java_version() -> int | None:
    """The major version of the Java that Spark would use; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    quoted = told.split('"')
    first = quoted[1].split(".")[0] if len(quoted) > 1 else ""
    return int(first) if first.isdecimal() else None


def _check_java() -> None:
    found = java_version()
    if found is None:
        raise NoSpark(f"Spark needs Java {JAVA_MIN} or newer, and there is none; install one, or set JAVA_HOME")
    if found < JAVA_MIN:
        raise NoSpark(f"Spark needs Java {JAVA_MIN} or newer, and this is {found}; set JAVA_HOME to another one")
