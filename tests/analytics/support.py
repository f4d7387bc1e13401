"""What the tests of the analytics share: records written by hand."""

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from analytics.report.build import Report

SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
}
"""For tests: next to no data, so compiling anything, by Java or by Spark, costs more than it saves."""

GUARD_S: Final = 600
"""When a test counts as hanging whose fixture starts Spark and analyses whole runs: 125 s were seen at load 16."""

S: Final = 1_000_000
SCHEMA: Final = {
    "attributes": [
        {"name": "symbol", "type": "string"},
        {"name": "price", "type": "float", "min": 0.0, "max": 20.0, "precision": 0.01},
        {"name": "halted", "type": "bool"},
    ]
}


class Reported(NamedTuple):
    logs: Path
    out: Path
    summaries: dict[str, dict[str, Any]]
    report: "Report"

    def row(self, name: str) -> dict[str, Any]:
        """The report's figures for one of the runs."""
        seed = self.summaries[name]["seed"]
        [found] = [row for row in self.report.summary if row["run"].endswith(f"-{seed}")]
        return found


COUNTS: Final = (
    "overlay", "peers", "subscriptions", "events", "expected", "delivered", "false_negatives", "at_risk",
    "at_risk_missing", "spurious", "duplicates", "messages", "bytes", "converged_s",
)  # fmt: skip
RATIOS: Final = ("fp_ratio", "touched_ratio", "fn_ratio", "bytes_per_delivery")


def figures_of_both(
    found: dict[str, Any], drops: dict[str, int], told: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every figure that both know, from a row of the report's summary and from the simulator's own.

    Ratios and means are as far as the simulator writes them out; the rest is equal to the last digit.
    """
    ours = {name: found[name] for name in COUNTS} | {name: round(found[name], 9) for name in RATIOS}
    theirs = {name: told[name] for name in (*COUNTS, *RATIOS)}
    for what in ("hops", "latency_ms"):
        ours[what] = {name: found[f"{what}_{name}"] for name in ("p50", "p99", "max")}
        ours[what]["mean"] = round(found[f"{what}_mean"], 6)
        theirs[what] = {name: told[what][name] for name in ours[what]}
    return {**ours, "dropped": drops}, {**theirs, "dropped": told["dropped"]}


def table(spark: "SparkSession", columns: str, *rows: tuple[Any, ...]) -> "DataFrame":
    """A table with columns as in SQL: `run string, hops int`.

    Spark makes it while it plans and sees how small it is: rows handed to it would be shuffled for every join.
    """
    names = [each.split()[0] for each in columns.split(", ")]
    told = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
    schema = f"array<struct<{columns}>>"
    return spark.sql("SELECT inline(from_json(:rows, :schema))", {"rows": told, "schema": schema})


def rows(frame: "DataFrame", *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a table in order."""
    return sorted(tuple(row[name] for name in columns or frame.columns) for row in frame.collect())


class Log:
    """Records of one run, written by hand. Times are in seconds since the start of the run."""

    def __init__(self, run: str = "r", start_s: int = 1_000, author: bool = True) -> None:
        self.run = run
        self.lines: list[str] = []
        self._start_s = start_s
        self._author = author
        self._seq: dict[str, int] = {}

    def add(self, at_s: float, peer: str, kind: str, **fields: Any) -> None:
        self._seq[peer] = self._seq.get(peer, 0) + 1
        record = {
            "v": fields.pop("v", 1),
            "ts_us": round((self._start_s + at_s) * S),
            "seq": self._seq[peer],
            "run": self.run,
            "peer": peer,
            "boot": fields.pop("boot", 1),
            "overlay": "broadcast",
            "participant": fields.pop("participant", None),
            "kind": kind,
            **fields,
        }
        if self._author:
            record["order"] = len(self.lines) + 1
        self.lines.append(json.dumps(record))

    def start(self, *peers: str, at_s: float = 0.0, **fields: Any) -> None:
        told = {"schema": SCHEMA, "parameters": {}, "version": "0", "log_detail": "full", "log_sample": 1.0, **fields}
        for peer in peers:
            self.add(at_s, peer, "peer", change="started", about=None, **told)
            self.add(at_s, peer, "participant", change="joined", box=None, participant=0)

    def subscribe(
        self, at_s: float, peer: str, id_: str, *boxes: dict[str, Any], change: str = "added", **fields: Any
    ) -> None:
        self.add(
            at_s, peer, "subscription", change=change, subscription_id=id_, filter="…", boxes=list(boxes), **fields
        )

    def active(self, at_s: float, peer: str, id_: str) -> None:
        self.add(at_s, peer, "subscription", change="active", subscription_id=id_, filter=None, boxes=[])

    def publish(self, at_s: float, peer: str, id_: str, **attributes: Any) -> None:
        self.add(at_s, peer, "publish", event_id=id_, attributes=attributes, bytes=10)

    def receive(self, at_s: float, peer: str, id_: str, sender: str, matched: bool = True, **fields: Any) -> None:
        told = {"hops": 1, "duplicate": False, "bytes": 100, "participant": 0, **fields}
        self.add(at_s, peer, "receive", event_id=id_, sender=sender, matched=matched, **told)

    def deliver(
        self, at_s: float, peer: str, id_: str, subscription: str, latency_us: int = 5_000, hops: int = 1
    ) -> None:
        told = {"subscription_id": subscription, "hops": hops, "latency_us": latency_us}
        self.add(at_s, peer, "deliver", event_id=id_, **told)

    def alive(self, until_s: int, *peers: str) -> None:
        for second in range(1, until_s + 1):
            for peer in peers:
                self.add(second, peer, "peer", change="alive", about=None)

    def end(self, at_s: float) -> None:
        self.add(at_s, "sim", "control", fact="run.end", value=0.0, detail={})

    def write(self, directory: Path, name: str = "000000.jsonl", peer: str = "sim", tail: str = "") -> Path:
        place = directory / f"run={self.run}" / f"peer={peer}"
        place.mkdir(parents=True, exist_ok=True)
        path = place / name
        content = ("".join(f"{line}\n" for line in self.lines) + tail).encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path
