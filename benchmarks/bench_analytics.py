"""The analytics on this machine: ingest and report of millions of records, and the range join against the cross join.

`ANALYTICS_RECORDS` asks for another number of records than five million, `ANALYTICS_EVENTS` and
`ANALYTICS_SUBSCRIPTIONS` for another size of the join. Targets are for seconds of the clock, on two cores that have
nothing else to do; seconds of the processor stand beside them: a busy machine has few of these in many of those.

The Python driver should need the same memory whatever the input, so the report is also made from a tenth of it.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from json import dumps
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.figure import Figure
from benchmarks.logs import invent

RECORDS = int(os.environ.get("ANALYTICS_RECORDS", "5000000"))
EVENTS = int(os.environ.get("ANALYTICS_EVENTS", "100000"))
SUBSCRIPTIONS = int(os.environ.get("ANALYTICS_SUBSCRIPTIONS", "10000"))
ATTRIBUTES = 4


def run() -> Iterator[Figure]:
    with TemporaryDirectory() as directory:
        yield from whole(Path(directory))
    yield from joined()


# --- Ingest and report ------------------------------------------------------------------------------------------------


MEASURED = """
import os, resource, sys
from analytics.cli import main
from pyspark.sql import SparkSession

code = main(sys.argv[1:])
java = SparkSession.getActiveSession().sparkContext._gateway.proc.pid
ticks = sum(map(int, open(f"/proc/{java}/stat").read().rsplit(")", 1)[1].split()[11:13]))
own = resource.getrusage(resource.RUSAGE_SELF)
print(own.ru_utime + own.ru_stime + ticks / os.sysconf('SC_CLK_TCK'), own.ru_maxrss / 1024)
sys.exit(code)
"""
"""A command of the analytics that ends with the processor's seconds, Java's included, and the driver's memory in MB."""


class Cost(NamedTuple):
    clock_s: float
    processor_s: float
    driver_mb: float


def whole(directory: Path) -> Iterator[Figure]:
    driver = {}
    for records, is_main in ((RECORDS // 10, False), (RECORDS, True)):
        place = directory / str(records)
        written = invent(place / "logs", records)
        store = ["--store", str(place / "store")]
        ingested = cost(["ingest", "--logs", str(place / "logs"), *store])
        reported = cost(["report", "--logs", str(place / "logs"), *store, "--out", str(place / "out")])
        driver[records] = reported.driver_mb
        if is_main:
            yield from times(written, "ingested", ingested, 60.0)
            yield from times(written, "reported", reported, 180.0)
    for records, size in driver.items():
        yield Figure(f"memory of the Python driver, report of {records:,} records", size, "MB")
    yield Figure(
        "ten times the records: the driver's memory", driver[RECORDS] / driver[RECORDS // 10], "times", "< 1.1"
    )


def times(records: int, what: str, found: Cost, target_s: float) -> Iterator[Figure]:
    target = f"< {target_s * RECORDS / 5_000_000:g}"
    yield Figure(f"{records:,} records {what}, clock", found.clock_s, "s", target)
    yield Figure(f"{records:,} records {what}, processor", found.processor_s, "s")


def cost(arguments: list[str]) -> Cost:
    command = [sys.executable, "-c", MEASURED, *arguments, "--master", "local[2]"]
    started = perf_counter()
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    seconds = perf_counter() - started
    processor_s, driver_mb = told.splitlines()[-1].split()
    return Cost(seconds, float(processor_s), float(driver_mb))


# --- The join ---------------------------------------------------------------------------------------------------------


def sides(spark: Any) -> tuple[Any, Any]:
    """Uniform points, and boxes that are up to 0.4 of the domain wide in every attribute."""
    rng = Random(5)
    events = [
        ("r", f"e{number}", 10, 0, dumps({f"x{i}": rng.randrange(1_000) for i in range(ATTRIBUTES)}))
        for number in range(EVENTS)
    ]
    boxes = []
    for number in range(SUBSCRIPTIONS):
        origins = [rng.randrange(1_000) for _ in range(ATTRIBUTES)]
        region = {f"x{i}": {"ge": origin, "le": origin + rng.randrange(400)} for i, origin in enumerate(origins)}
        boxes.append(("r", "p", 1, f"s{number}", 1, 0, 1, 90, 100, dumps([region])))
    published = "run string, event_id string, at_us long, grace_us long, attributes string"
    versions = (
        "run string, peer string, boot long, subscription_id string, version int, added_us long, active_us long, "
        "ended_us long, served_us long, regions string"
    )
    return spark.createDataFrame(events, published).persist(), spark.createDataFrame(boxes, versions).persist()


def joined() -> Iterator[Figure]:
    from analytics import matching
    from analytics.bounds import Attribute
    from analytics.session import session

    spark = session("local[2]")
    events, boxes = sides(spark)
    attributes = [Attribute(f"x{i}", "int") for i in range(ATTRIBUTES)]
    found = {}

    def seconds(join: Callable[..., Any]) -> float:
        started = perf_counter()
        found[join.__name__] = join(events, boxes, attributes).count()
        return perf_counter() - started

    matching.matches(events.limit(100), boxes.limit(100), attributes).count()  # Java has to warm up
    bucketed = seconds(matching.matches)
    crossed = seconds(matching.cross)
    assert found["matches"] == found["cross"], found
    size = f"{EVENTS:,} events x {SUBSCRIPTIONS:,} subscriptions"
    yield Figure(f"range join, {size}", bucketed, "s")
    yield Figure(f"cross join, {size}", crossed, "s")
    yield Figure("cross join over range join", crossed / bucketed, "times", ">= 10")
    spark.stop()
