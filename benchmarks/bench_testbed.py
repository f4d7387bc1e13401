"""What 200 real peers on this machine cost: to start, to hold, and to let alone.

The peers are those of `peerd testbed up`, of the baseline, with nothing to do. Memory is PSS: what the processes share
counts once. The share of a core is measured when they have been up for a while, and counts all of their maintenance.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from benchmarks.figure import Figure
from peerd.testbed.bed import Bed, BedConfig
from peerd.testbed.place import Place
from protocols.model.schema import STOCKS

PEERS = 200
SETTLE_S = 15.0
IDLE_S = 20.0


async def measure(peers: int, directory: Path) -> tuple[float, float, float]:
    """Seconds until all are ready, bytes in all, and the share of one core that they take when idle."""
    bed = Bed(Place(directory), BedConfig(overlay="broadcast", peers=peers, schema=STOCKS))
    start = monotonic()
    await bed.up()
    try:
        ready_s = monotonic() - start
        await asyncio.sleep(SETTLE_S)
        before, start = bed.usage(), monotonic()
        await asyncio.sleep(IDLE_S)
        after, seconds = bed.usage(), monotonic() - start
        return ready_s, after.memory_bytes, (after.cpu_s - before.cpu_s) / seconds
    finally:
        await bed.down(1.0)


def run() -> Iterator[Figure]:
    with TemporaryDirectory(prefix="peerd-bench-") as directory:
        ready_s, memory_bytes, share = asyncio.run(measure(PEERS, Path(directory)))
    yield Figure(f"testbed: {PEERS} peers ready", ready_s, "s", "< 20")
    yield Figure(f"testbed: memory of {PEERS} peers (PSS)", memory_bytes / 2**30, "GB", "< 3")
    yield Figure(f"testbed: {PEERS} idle peers, share of a core", share, "cores", "< 0.5")
