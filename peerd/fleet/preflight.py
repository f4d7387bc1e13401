"""Whether this machine can hold so many containers: what fails otherwise in the middle, and without saying why.

    neighbour table   every container keeps the hardware addresses of those it talks to, and the kernel has one table
                      for all of them together. Beyond `gc_thresh3` connections fail at random, and only the kernel's
                      log says so; beyond `gc_thresh2` each new entry throws others out, beyond `gc_thresh1` those that
                      rested a minute go: each has to be asked for again, with a shout that every container hears
    memory            of the peers, and of what the engine keeps for each container
    open files        of all processes together
    processes         threads of all containers together
    bridge            a bridge of the kernel has 1023 ports

Nothing is changed: each finding says what to do. It has to run in the machine's own network namespace, since others do
not see the neighbour table's limit.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

PEER_MB: Final = 55
"""A peer with what the engine keeps for it. Measured: 41 to 56 MB with 200 peers, driver and Prometheus included."""
REST_MB: Final = 2_048
"""Workload driver, Prometheus and Grafana, as their limits in docker-compose.yml say."""
FEW_NEIGHBOURS: Final = 1_024
"""So few entries are asked for again at little cost; a kernel keeps as many unless it is told otherwise."""
FILES: Final = 128
"""Of one container: connections, logs, and the engine's own pipes for it."""
THREADS: Final = 24
"""Of one container: a peer's own three or four, and those of its shim."""
BRIDGE_PORTS: Final = 1_023
OTHER_PORTS: Final = 16


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `advice` is empty if it is as it should be."""

    what: str
    found: str
    advice: str = ""

    @property
    def fine(self) -> bool:
        return not self.advice


def findings(peers: int, proc: Path = Path("/proc")) -> Iterator[Finding]:
    yield _neighbours(peers, proc)
    yield _memory(peers, proc)
    yield _files(peers, proc)
    yield _threads(peers, proc)
    ports = peers + OTHER_PORTS
    advice = f"ask for at most {BRIDGE_PORTS - OTHER_PORTS} peers on one machine" if ports > BRIDGE_PORTS else ""
    yield Finding("bridge", f"{ports} of {BRIDGE_PORTS} ports", advice)


def _neighbours(peers: int, proc: Path) -> Finding:
    wanted = neighbours_wanted(peers)
    names = ("gc_thresh3",) if wanted <= FEW_NEIGHBOURS else ("gc_thresh3", "gc_thresh2", "gc_thresh1")
    limits = [_number(proc / "sys/net/ipv4/neigh/default" / name) for name in names]
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(names):
        return Finding("neighbour table", "its limits are not visible from here; run this in the machine's own network")
    words = " ".join(f"net.ipv4.neigh.default.{name}={wanted}" for name in names)
    advice = f"run: sysctl -w {words}" if min(known) < wanted else ""
    return Finding("neighbour table", f"{min(known):,} entries, {wanted:,} wanted", advice)


def neighbours_wanted(peers: int) -> int:
    """Each container comes to know all others, the seed, the driver, Prometheus and the gateway: sampling talks to
    everybody. Measured: 40,812 entries with 199 peers and a seed."""
    return (peers + 4) ** 2


def _memory(peers: int, proc: Path) -> Finding:
    wanted_mb = peers * PEER_MB + REST_MB
    lines = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines() if ":" in line)
    available_mb = int(lines["MemAvailable"].split()[0]) // 1024
    advice = f"ask for at most {max(0, (available_mb - REST_MB) // PEER_MB)} peers" if available_mb < wanted_mb else ""
    return Finding("memory", f"{available_mb:,} MB available, {wanted_mb:,} MB wanted", advice)


def _files(peers: int, proc: Path) -> Finding:
    wanted = peers * FILES
    used, _, limit = map(int, (proc / "sys/fs/file-nr").read_text().split())
    advice = f"run: sysctl -w fs.file-max={used + wanted}" if limit - used < wanted else ""
    return Finding("open files", f"{limit - used:,} free, {wanted:,} wanted", advice)


def _threads(peers: int, proc: Path) -> Finding:
    wanted = peers * THREADS
    limits = {name: _number(proc / f"sys/kernel/{name}") or 0 for name in ("pid_max", "threads-max")}
    name, limit = min(limits.items(), key=lambda item: item[1])
    advice = f"run: sysctl -w kernel.{name}={wanted * 2}" if limit < wanted else ""
    return Finding("processes", f"{limit:,} at most, {wanted:,} wanted", advice)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
