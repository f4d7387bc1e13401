"""The clock of a peer: timers never fire before their time."""

import asyncio
from collections.abc import Callable
from math import floor
from typing import Any

import pytest

from peerd import clock
from peerd.clock import LoopClock
from peerd.net import loop

NS_PER_MS = 1_000_000


class Moment:
    """Wall time and monotonic time, and a loop that counts as uvloop does, in whole milliseconds of the latter."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, phase_ns: int) -> None:
        self.monotonic_ns = 5_000 * NS_PER_MS + phase_ns
        self.fires_at_ms = 0
        monkeypatch.setattr(clock, "monotonic_ns", lambda: self.monotonic_ns)
        monkeypatch.setattr(clock, "time_ns", lambda: 1_767_225_600_000 * NS_PER_MS)
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def time(self) -> float:
        return floor(self.monotonic_ns / NS_PER_MS) / 1000

    def call_at(self, when: float, call: Callable[..., None], *args: Any) -> None:
        self.fires_at_ms = round(when * 1000)


@pytest.mark.parametrize("phase_ns", range(0, NS_PER_MS, 90_909))
def test_no_timer_fires_before_its_time_wherever_milliseconds_begin(
    monkeypatch: pytest.MonkeyPatch, phase_ns: int
) -> None:
    moment = Moment(monkeypatch, phase_ns)
    ours = LoopClock()
    at_ms = ours.now_ms() + 20
    ours.call_at(at_ms, lambda: None)
    moment.monotonic_ns = moment.fires_at_ms * NS_PER_MS  # the loop is idle: at once when that has begun
    assert at_ms <= ours.now_ms() <= at_ms + 2


async def fired() -> list[int]:
    """By how much timers of many clocks are late."""
    late_ms: list[int] = []
    all_fired = asyncio.Event()

    def fire(ours: LoopClock, at_ms: int) -> None:
        late_ms.append(ours.now_ms() - at_ms)
        if len(late_ms) == 40:
            all_fired.set()

    for number in range(40):
        await asyncio.sleep(0.0003)
        ours = LoopClock()
        at_ms = ours.now_ms() + 20 + number % 7
        ours.call_at(at_ms, fire, ours, at_ms)
    await all_fired.wait()
    return late_ms


@pytest.mark.parametrize("fast", [False, True])
def test_nor_on_a_real_loop(fast: bool) -> None:
    if fast:
        pytest.importorskip("uvloop")
    assert min(loop.run(fired(), fast=fast)) >= 0
