"""A collected workload: what subscribers wanted and what was published in a run, as a file that the simulator replays.

The file is one JSON object: `schema`, `peers`, `rate` (events a second), `subscriptions` (filters, in the order in
which they came) and `events` (attributes, in the order of time).
"""

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.ingest import NoLogs
from analytics.store import of_kind

Recorded = dict[str, Any]


def recorded(records: DataFrame, run: str | None, peers_max: int, events_max: int) -> Recorded:
    """The workload of a run, or a sample of it: some of its peers with their subscriptions, and some of its events."""
    name = _run(records, run)
    own = records.where(F.col("run") == name)
    schema = (
        own.where((F.col("kind") == "peer") & F.col("schema").isNotNull())
        .orderBy(F.desc("ts_us"))
        .select("schema")
        .first()
    )
    if schema is None:
        raise NoLogs(f"{name}: no peer has said what the attributes are (no 'started' record in these logs)")
    peers = own.where(F.col("kind") == "peer").select("peer").distinct().orderBy(F.xxhash64("peer"), "peer")
    total = peers.count()
    chosen = peers.limit(peers_max)
    subscriptions = of_kind(own, "subscription").where(
        F.col("change").isin("added", "updated") & F.col("filter").isNotNull()
    )
    last = subscriptions.groupBy("peer", "subscription_id").agg(
        F.max_by("filter", "ts_us").alias("filter"), F.min("ts_us").alias("at")
    )
    filters = last.join(F.broadcast(chosen), "peer").orderBy("at", "peer", "subscription_id").select("filter").collect()
    published = of_kind(own, "publish")
    about = published.agg(F.count("*").alias("n"), F.min("ts_us").alias("first"), F.max("ts_us").alias("last")).first()
    assert about is not None
    if not filters or not about["n"]:
        raise NoLogs(f"{name}: there is nothing to replay: {len(filters)} subscriptions, {about['n']} events")
    stride = max(1, about["n"] // events_max)
    share = F.pmod(F.xxhash64("event_id"), F.lit(stride)) == 0
    events = published.where(share).orderBy("ts_us", "event_id").limit(events_max).select("attributes").collect()
    seconds = max(1.0, (about["last"] - about["first"]) / 1e6)
    return {
        "run": name,
        "schema": json.loads(schema["schema"]),
        "peers": min(total, peers_max),
        "peers_all": total,
        "events_all": about["n"],
        "rate": max(1.0, round(about["n"] / seconds, 3)),
        "subscriptions": [row["filter"] for row in filters],
        "events": [json.loads(row["attributes"]) for row in events],
    }


def _run(records: DataFrame, run: str | None) -> str:
    names = sorted(row["run"] for row in records.select("run").distinct().collect())
    if run is not None:
        if run not in names:
            raise NoLogs(f"there is no run {run!r} in the logs; there are {', '.join(names)}")
        return run
    if len(names) != 1:
        raise NoLogs(
            f"there are several runs, choose one with --run: {', '.join(names)}" if names else "no records were found"
        )
    return str(names[0])
