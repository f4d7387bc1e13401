"""One measured run of the testbed: `python -m deploy.measure --overlay rtree --peers 199 --rate 50 --seconds 120`.

Brings the testbed up, waits until all take part, lets events flow, asks the driver and Prometheus what came of it,
takes everything down, and prints one JSON object: a row of the table in docs/testbed.md.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from deploy.containers import Containers, compose_command, run

SERVICES: Final = ("seed", "peer", "workload", "prometheus")
READY_S: Final = 900.0
WINDOW: Final = "2m"
UNITS_MB: Final = {"B": 1 / 2**20, "KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}

FIGURES: Final = {
    "events_per_s": f"sum(rate(peerd_events_published_total[{WINDOW}]))",
    "deliveries_per_s": f"sum(rate(peerd_deliveries_total[{WINDOW}]))",
    "hops_p50": f"histogram_quantile(0.5, sum by (le) (rate(peerd_hops_bucket[{WINDOW}])))",
    "hops_p99": f"histogram_quantile(0.99, sum by (le) (rate(peerd_hops_bucket[{WINDOW}])))",
    "latency_p50_s": f"histogram_quantile(0.5, sum by (le) (rate(peerd_delivery_latency_seconds_bucket[{WINDOW}])))",
    "latency_p99_s": f"histogram_quantile(0.99, sum by (le) (rate(peerd_delivery_latency_seconds_bucket[{WINDOW}])))",
    "messages_per_s": f'sum(rate(peerd_messages_total{{direction="sent"}}[{WINDOW}]))',
    "bytes_per_s": f'sum(rate(peerd_message_bytes_total{{direction="sent"}}[{WINDOW}]))',
    "unwanted_per_s": f'sum(rate(peerd_receptions_total{{result="unwanted"}}[{WINDOW}]))',
    "links_mean": "avg(sum by (instance) (peerd_links))",
    "cores_of_peers": f'sum(rate(process_cpu_seconds_total{{job="peers"}}[{WINDOW}]))',
    "resident_mb_mean": 'avg(process_resident_memory_bytes{job="peers"}) / 1048576',
    "dropped": "sum(peerd_dropped_total) or vector(0)",
}

COUNTED: Final = (
    "published",
    "expected_deliveries",
    "missing_deliveries",
    "spurious_deliveries",
    "duplicate_deliveries",
    "at_risk_deliveries",
    "pushed_back",
    "faults",
)
"""What the driver counted."""


def memory_mb(testbed: Containers) -> float:
    """What the engine says that the containers use, page cache left out, and what its shims keep for them."""
    names = [each["Name"].lstrip("/") for each in testbed.containers()]
    shown = run("docker", "stats", "--no-stream", "--format", "{{.MemUsage}}", *names, seconds=300).stdout
    used = sum(float(number) * UNITS_MB[unit] for number, unit in re.findall(r"^([0-9.]+)(\w+) /", shown, re.MULTILINE))
    shims = [status for status in _statuses() if status.get("Name", "").strip() == "containerd-shim"]
    return used + sum(int(status["RssAnon"].split()[0]) for status in shims) / 1024


def _statuses() -> Iterator[dict[str, str]]:
    """The status of every process."""
    for path in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it has ended
            yield dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)


def neighbours() -> int:
    """Entries in the machine's neighbour table, those of all containers included."""
    return int(Path("/proc/net/stat/arp_cache").read_text().splitlines()[1].split()[0], 16)


def measure(testbed: Containers, peers: int, seconds: float, say: Callable[[str], object]) -> dict[str, Any]:
    """The figures of one run. The testbed stays up."""
    start = time.monotonic()
    outcome = testbed.up(*SERVICES, seconds=READY_S)
    if outcome.returncode:
        raise RuntimeError(outcome.stderr + testbed.compose("logs", "preflight").stdout)
    found: dict[str, Any] = {"peers": peers + 1, "started_s": round(time.monotonic() - start, 1)}
    say(f"containers started after {found['started_s']} s")
    _wait(lambda: (testbed.value("sum(peerd_ready)") or 0) > peers, "all peers to stand", start, say)
    found["ready_s"] = round(time.monotonic() - start, 1)
    _wait(lambda: testbed.workload()["peers"] > peers, "all peers to take part", start, say)
    found["taking_part_s"] = round(time.monotonic() - start, 1)
    first = testbed.workload()
    time.sleep(seconds)
    found["memory_mb"] = round(memory_mb(testbed))
    found["neighbours"] = neighbours()
    ledger = testbed.workload()
    found |= {name: _rounded(testbed.value(expression)) for name, expression in FIGURES.items()}
    found |= {key: ledger[key] for key in COUNTED}
    found["published_per_s"] = round((ledger["published"] - first["published"]) / seconds, 1)
    return found


def _wait(condition: Callable[[], bool], what: str, start: float, say: Callable[[str], object]) -> None:
    told = start
    while True:
        try:
            if condition():
                return
        except OSError:
            pass  # not there yet
        if time.monotonic() - start > READY_S:
            raise RuntimeError(f"waited {READY_S:g} s for {what}")
        if time.monotonic() - told > 20:
            told = time.monotonic()
            say(f"waiting for {what}")
        time.sleep(1.0)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure one run of the testbed.")
    parser.add_argument("--overlay", required=True)
    parser.add_argument("--peers", type=int, default=199, help="beside the seed [199]")
    parser.add_argument("--rate", type=float, default=50.0, help="events a second [50]")
    parser.add_argument("--seconds", type=float, default=150.0, help="how long events flow [150]")
    parser.add_argument("--after", metavar="COMMAND", help="run this in a shell before it is taken down")
    options = parser.parse_args()
    command = compose_command()
    if command is None:
        parser.error("neither 'docker compose' nor docker-compose is here")
    variables = {"OVERLAY": options.overlay, "PEERS": str(options.peers), "RATE": f"{options.rate:g}"}
    testbed = Containers(command, f"measure-{options.overlay}", **variables)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    found: dict[str, Any] = {"overlay": options.overlay, "rate": options.rate}
    failure = None
    try:
        found |= measure(testbed, options.peers, options.seconds, say)
        if options.after:
            os.environ["PROMETHEUS_URL"] = f"http://127.0.0.1:{testbed.ports['PROMETHEUS']}"
            os.environ["COMPOSE_PROJECT_NAME"] = testbed.project
            os.system(options.after)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    finally:
        say(json.dumps(found))  # whatever becomes of taking it down
        found["removed_s"] = round(testbed.down(), 1)
    if failure is not None:
        say(f"measure: {failure}")
        return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
