"""Ten real peers with unequal upload budgets under overload: their logs show limits being set, kept and lifted."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from time import time

import pytest

from peerd.client import Peer
from peerd.testbed.bed import Bed, BedConfig
from peerd.testbed.place import Place
from tests.sub2sub.scene import SCHEMA
from tests.testbed.support import until

FILTERS = ["x BETWEEN 0 AND 100"] * 4 + ["x BETWEEN 0 AND 40", "x BETWEEN 30 AND 70", "x BETWEEN 60 AND 100"] * 2
BANDWIDTHS = (15e3, 15e3, 20e3, 20e3, 35e3, 35e3, 50e3, 50e3, 60e3, 60e3)
"""Bytes a second: those who want everything have the least."""
PARAMETERS = {"cycle_ms": "200", "rate_max": "3", "buffer_max": "60", "threshold": "30"}


def control_facts(log_dir: Path, since_us: int = 0) -> Counter[str]:
    """What peers have written about flow control so far, of what happened since then."""
    told: Counter[str] = Counter()
    for file in log_dir.rglob("*.jsonl*"):
        for line in file.read_text().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue  # the last line is being written
            if record["kind"] == "control" and record["ts_us"] >= since_us:
                told[record["fact"]] += 1
    return told


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_limits_are_set_kept_and_lifted(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    config = BedConfig(
        overlay="sub2sub",
        peers=len(FILTERS),
        schema=SCHEMA,
        parameters=PARAMETERS,
        bandwidths=BANDWIDTHS,
        log_dir=str(logs),
    )
    bed = Bed(Place(tmp_path / "bed"), config)
    await bed.up()
    try:
        peers = [Peer(f"http://{member.http}") for member in bed.members]
        subscriptions = [await peer.subscribe(filter_) for peer, filter_ in zip(peers, FILTERS)]
        assert len(subscriptions) == len(peers)
        stop = asyncio.Event()

        async def overload() -> None:
            number = 0
            while not stop.is_set():
                for peer in peers:
                    number += 1
                    await peer.publish({"x": number * 37 % 101}, payload="x" * 200)
                await asyncio.sleep(0.05)

        load = asyncio.create_task(overload())
        try:
            await until(lambda: control_facts(logs)["limit-set"], "a limit", 60.0)
            await until(lambda: control_facts(logs)["limit-kept"], "a limit to be kept", 60.0)
        finally:
            stop.set()
            await load
        ended_us = int(time() * 1e6)
        await until(lambda: control_facts(logs, ended_us)["limit-lifted"], "a limit to be lifted", 60.0)
        for peer in peers:
            await peer.close()
    finally:
        await bed.down(0.0)
