"""The clock of a living peer: wall time at the start, and monotonic time since, so that it never runs backwards."""

import asyncio
import time
from collections.abc import Callable
from typing import Any


class LoopClock:
    """Time and timers of an event loop. Made inside the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._start_us = time.time_ns() // 1000 - int(time.monotonic() * 1_000_000)
        self._loop_offset_ms = self.now_ms() - self._loop.time() * 1000

    def now_us(self) -> int:
        return self._start_us + int(time.monotonic() * 1_000_000)

    def now_ms(self) -> int:
        return self.now_us() // 1000

    def call_at(self, at_ms: int, call: Callable[..., None], *args: Any) -> asyncio.TimerHandle:
        return self._loop.call_at((at_ms - self._loop_offset_ms) / 1000, call, *args)
