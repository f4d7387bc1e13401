"""Waiting for something that will happen, or not in time: a list of futures, which whoever makes it happen settles."""

import asyncio
from typing import TypeAlias

Waiters: TypeAlias = list[asyncio.Future[bool]]


def settle(waiters: Waiters, result: bool) -> None:
    """Tell all who wait."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(result)
    waiters.clear()


async def wait(waiters: Waiters, seconds: float) -> bool:
    """What the waiters are told; False if nobody says anything for so long."""
    waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    waiters.append(waiter)
    try:
        async with asyncio.timeout(seconds):
            return await waiter
    except TimeoutError:
        return False
    finally:
        if waiter in waiters:
            waiters.remove(waiter)
