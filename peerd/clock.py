"""The clock of a living peer: wall time at the start, and monotonic time since, so that it never runs backwards.

No timer fires before its time, by this clock: a state machine that is told that its time is up, and finds that it is
not, may well wait for ever. Loops count in milliseconds of their own, which begin at other moments than ours (uvloop in
whole ones), so without care a timer would come up to one too early.
"""

import asyncio
from collections.abc import Callable
from time import monotonic_ns, time_ns
from typing import Any, Final

LATE_MS: Final = 1
"""How much later than reckoned the loop is asked to call: what our milliseconds and the loop's may differ by."""


class LoopClock:
    """Time and timers of an event loop. Made inside the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._start_ns = time_ns() - monotonic_ns()
        self._loop_offset_ms = self.now_ms() - self._loop.time() * 1000

    def now_us(self) -> int:
        return (self._start_ns + monotonic_ns()) // 1_000

    def now_ms(self) -> int:
        return (self._start_ns + monotonic_ns()) // 1_000_000

    def call_at(self, at_ms: int, call: Callable[..., None], *args: Any) -> asyncio.TimerHandle:
        return self._loop.call_at((at_ms + LATE_MS - self._loop_offset_ms) / 1000, call, *args)
