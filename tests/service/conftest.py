"""A swarm of three living peers in memory."""

from collections.abc import AsyncIterator

import pytest

from tests.support.memory import MemorySwarm


@pytest.fixture
async def swarm() -> AsyncIterator[MemorySwarm]:
    made = MemorySwarm()
    for _ in range(3):
        made.add()
    await made.ready()
    yield made
    made.close()
