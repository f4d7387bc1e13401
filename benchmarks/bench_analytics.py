"""The analytics on this machine: ingest and report of millions of records, and the range join against the cross join.

`ANALYTICS_RECORDS` asks for another number of records than five million, `ANALYTICS_EVENTS` and
`ANALYTICS_SUBSCRIPTIONS` for another size of the join. Seconds of the processor are told beside those of the clock: a
busy machine has few of the former in many of the latter.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from json import dumps
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

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


def whole(directory: Path) -> Iterator[Figure]:
    records = invent(directory / "logs", RECORDS)
    scale = RECORDS / 5_000_000
    commands = {
        "ingested": ["ingest", "--store", str(directory / "store")],
        "reported": ["report", "--store", str(directory / "store"), "--out", str(directory / "out")],
    }
    for name, target in (("ingested", 60 * scale), ("reported", 180 * scale)):
        command = [
            sys.executable,
            "-m",
            "analytics",
            *commands[name],
            "--logs",
            str(directory / "logs"),
            "--master",
            "local[2]",
        ]
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds, after = perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield Figure(f"{records:,} records {name}, seconds of two cores", cpu / 2, "s", f"< {target:g}")
        yield Figure(f"{records:,} records {name}, seconds of the clock", seconds, "s")


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
