"""What tests of the testbed share."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic, sleep

from peerd.testbed.bed import Bed, BedConfig, Heard
from peerd.testbed.place import Place
from peerd.testbed.processes import Process, is_alive
from protocols.model.schema import STOCKS

PATIENCE_S = 20.0


@asynccontextmanager
async def bed_of(peers: int, directory: Path, heard: Heard | None = None) -> AsyncIterator[Bed]:
    """A small testbed that stands, and is gone afterwards."""
    bed = Bed(Place(directory), BedConfig(overlay="broadcast", peers=peers, schema=STOCKS), heard)
    await bed.up()
    try:
        yield bed
    finally:
        await bed.down(0.0)


async def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, f"waited {seconds} s for {what}"
        await asyncio.sleep(0.02)


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, f"waited {seconds} s for {what}"
        sleep(0.02)


def processes(bed: Bed) -> list[Process]:
    """All processes of a testbed: the fork server and the peers."""
    record = bed.place.read()
    assert record is not None
    return [record.server, *(member.process for member in record.members)]


def any_alive(processes: list[Process]) -> bool:
    return any(map(is_alive, processes))
