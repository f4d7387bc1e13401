"""The analytics on this machine: ingest and report of millions of records, and the range join against the cross join.

`ANALYTICS_RECORDS` asks for another number of records than five million, `ANALYTICS_EVENTS` and
`ANALYTICS_SUBSCRIPTIONS` for another size of the join. Targets are for seconds of the clock, on two cores that have
nothing else to do; seconds of the processor stand beside them: a busy machine has few of these in many of those.

The Python driver should need the same memory whatever the input, so the report is also made from a tenth of it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
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
WARMING = 20
"""Small joins of each kind before any is read."""
READINGS = 3
"""Of each join."""


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
[most] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(own.ru_utime + own.ru_stime + ticks / os.sysconf('SC_CLK_TCK'), int(most) / 1024)
sys.exit(code)
"""
"""A command of the analytics that ends with the processor's seconds, Java's included, and the driver's memory in MB at
its peak (not `ru_maxrss`, which begins with what the process had that started this one)."""


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


class Sides(NamedTuple):
    attributes: list[Any]
    events: Any
    versions: Any


def boxes(spark: Any, share: float = 1.0) -> Sides:
    """Uniform points, and boxes that are up to 0.4 of the domain wide in every attribute."""
    from analytics.bounds import Attribute

    rng, names = Random(5), [f"x{i}" for i in range(ATTRIBUTES)]
    events = [{name: rng.randrange(1_000) for name in names} for _ in range(int(EVENTS * share))]
    regions = []
    for _ in range(int(SUBSCRIPTIONS * share)):
        origins = {name: rng.randrange(1_000) for name in names}
        regions.append([{name: {"ge": low, "le": low + rng.randrange(400)} for name, low in origins.items()}])
    return Sides([Attribute(name, "int") for name in names], *tables(spark, events, regions))


def stocks(spark: Any, share: float = 1.0) -> Sides:
    """Quotes, and what people ask for: a symbol, a price range of it, a market."""
    from analytics.bounds import Attribute
    from peerd.sim.workloads import workload
    from protocols.model.describe import describe_region
    from protocols.model.lint import compile_filter

    drawn, rng = workload("stocks"), Random(5)
    interests = drawn.subscriptions(rng, int(SUBSCRIPTIONS * share))
    filters = [compile_filter(interest.filter, drawn.schema) for interest in interests]
    regions = [[describe_region(drawn.schema, region) for region in each.regions] for each in filters]
    attributes = [Attribute(each.name, each.type) for each in drawn.schema.attributes]
    events = [dict(event) for event in drawn.events(rng, int(EVENTS * share), interests)]
    return Sides(attributes, *tables(spark, events, regions))


def tables(spark: Any, events: list[Any], regions: list[Any]) -> tuple[Any, Any]:
    """As the truth has them, in memory."""
    published = "run string, event_id string, at_us long, grace_us long, attributes string"
    versions = (
        "run string, peer string, boot long, subscription_id string, version int, added_us long, active_us long, "
        "ended_us long, served_us long, regions string"
    )
    left = [("r", f"e{number}", 10, 0, dumps(event)) for number, event in enumerate(events)]
    right = [("r", "p", 1, f"s{number}", 1, 0, 1, 90, 100, dumps(each)) for number, each in enumerate(regions)]
    made = spark.createDataFrame(left, published).persist(), spark.createDataFrame(right, versions).persist()
    for table in made:
        table.count()
    return made


def joined() -> Iterator[Figure]:
    from analytics import matching
    from analytics.session import session

    spark = session("local[2]")
    for make in (stocks, boxes):
        small = make(spark, 0.02)
        for _ in range(WARMING):  # until Java has compiled what Spark plans with, too
            for join in (matching.matches, matching.cross):
                join(small.events, small.versions, small.attributes).count()
        yield from compared(make.__name__, make(spark))
    spark.stop()


def compared(name: str, sides: Sides) -> Iterator[Figure]:
    """The truth's join and the cross join, in the same run: in turn, and of each the best of as many readings, since
    Java is still compiling during the first."""
    from analytics import matching

    best, found = dict.fromkeys(("matches", "cross"), float("inf")), set[int]()
    for _ in range(READINGS):
        for join in (matching.matches, matching.cross):
            started = perf_counter()
            found.add(join(sides.events, sides.versions, sides.attributes).count())
            best[join.__name__] = min(best[join.__name__], perf_counter() - started)
    [matches] = found
    size = f"{EVENTS:,} events x {SUBSCRIPTIONS:,} {name}, {matches:,} matches"
    yield Figure(f"range join, {size}", best["matches"], "s")
    yield Figure(f"cross join, {size}", best["cross"], "s")
    yield Figure(f"cross join over range join, {name}", best["cross"] / best["matches"], "times", ">= 10")
