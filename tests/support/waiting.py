"""Waiting for something in a test: never a sleep of a guessed length, always a condition and a deadline."""

import asyncio
from collections.abc import Callable

PATIENCE_S = 10.0


async def until(condition: Callable[[], object], what: str = "a condition", seconds: float = PATIENCE_S) -> None:
    """Let the loop run until the condition holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        assert loop.time() < end, f"waited {seconds} s for {what}"
        await asyncio.sleep(0.002)
