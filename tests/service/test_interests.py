"""Filters that take long do not keep the event loop from its work."""

import asyncio

import pytest

from peerd.documents import NewSubscription
from peerd.service.interests import SHORT
from protocols.model.filter import FilterError
from tests.support.memory import MemorySwarm

LONG = " OR ".join(f"(symbol = 'S{n}' AND price = {n % 20} AND high = {n % 19})" for n in range(300))


async def turns_while(task: asyncio.Task[object]) -> int:
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


async def test_the_loop_goes_on_while_a_long_filter_is_compiled(swarm: MemorySwarm) -> None:
    service = swarm.peers[0].service
    wanted = NewSubscription(filter=LONG)
    task = asyncio.create_task(service.subscriptions.compile(wanted))
    assert await turns_while(task) > 10  # two, if it were compiled in the loop
    made = service.subscriptions.add(wanted, compiled=await task)
    assert service.subscriptions.shown(made.id).filter == LONG


async def test_a_short_filter_is_compiled_on_the_spot(swarm: MemorySwarm) -> None:
    wanted = NewSubscription(filter="price > 8")
    assert len("price > 8") <= SHORT
    assert await turns_while(asyncio.create_task(swarm.peers[0].service.subscriptions.compile(wanted))) <= 2


async def test_a_long_filter_that_is_wrong_is_refused_with_its_place(swarm: MemorySwarm) -> None:
    text = f"{LONG} OR colour = 'red'"
    with pytest.raises(FilterError) as refused:
        await swarm.peers[0].service.subscriptions.compile(NewSubscription(filter=text))
    assert refused.value.position == text.index("colour")
