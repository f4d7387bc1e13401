"""The events of the last few seconds, for whoever joined a moment too late.

Make-before-break alone still loses events: a child may attach to a parent that has forwarded an event already, and
leave one that has not received it yet. So whoever adopts a child, a neighbour or a range replays to it the events of
the last 5 s that fall into it (specification, section 1). Repair (`IHAVE`, pull) asks for single events by id and may
be given a longer window.

Like `seen`, this keeps two generations and drops the older one whole. A generation ends when it has been open for the
window, or when it holds half the capacity; only in the second case can an event be lost to replay before its time.

A copy that is handed out again carries the time that it was held here in its `age_ms`, and one that has outlived its
event's `ttl_ms` is not handed out at all.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from protocols.model.box import Box, match
from protocols.model.event import Copy, expired
from protocols.model.ids import EventId

WINDOW_MS: Final = 5_000
"""5 s of replay (specification, section 1)."""

CAPACITY: Final = 4_096
"""A guess: 400 events a second for two windows."""

_Held: TypeAlias = tuple[int, Copy]


def _held_for(copy: Copy, held_ms: int) -> Copy:
    return Copy(copy.event, copy.hops, copy.age_ms + held_ms) if held_ms else copy


class Recent:
    __slots__ = ("_old", "_opened_ms", "_young", "capacity", "window_ms")

    def __init__(self, window_ms: int = WINDOW_MS, capacity: int = CAPACITY) -> None:
        if capacity < 2:
            raise ValueError(f"two generations need a capacity of 2 or more, not {capacity}")
        self.window_ms = window_ms
        self.capacity = capacity
        self._opened_ms = 0
        self._young: dict[EventId, _Held] = {}
        self._old: dict[EventId, _Held] = {}

    def __len__(self) -> int:
        """How many copies take up room, expired ones included."""
        return len(self._young) + len(self._old)

    def add(self, now_ms: int, copy: Copy) -> None:
        """Keep the copy as it arrived. A second copy of the same event changes nothing."""
        if now_ms - self._opened_ms >= self.window_ms or 2 * len(self._young) >= self.capacity:
            self._turn(now_ms)
        id_ = copy.event.id
        if id_ not in self._young and id_ not in self._old:
            self._young[id_] = (now_ms, copy)

    def get(self, now_ms: int, id_: EventId) -> Copy | None:
        """The event's copy with the held time added, unless it fell out of the window or outlived its time."""
        held = self._young.get(id_) or self._old.get(id_)
        if held is None:
            return None
        at_ms, copy = held
        held_ms = now_ms - at_ms
        return None if held_ms >= self.window_ms or expired(copy, held_ms) else _held_for(copy, held_ms)

    def falling_into(self, now_ms: int, box: Box, window_ms: int | None = None) -> list[Copy]:
        """What to replay to a newcomer with this box, oldest first."""
        within = self._within(now_ms, window_ms)
        return [_held_for(copy, held_ms) for held_ms, copy in within if match(box, copy.event.point)]

    def held(self, now_ms: int, from_ms: int, to_ms: int) -> list[Copy]:
        """What came `from_ms` ago or earlier, but less than `to_ms` ago; oldest first."""
        return [_held_for(copy, held_ms) for held_ms, copy in self._within(now_ms, to_ms) if held_ms >= from_ms]

    def all(self, now_ms: int, window_ms: int | None = None) -> list[Copy]:
        """What to replay to somebody who is owed everything, oldest first."""
        return [_held_for(copy, held_ms) for held_ms, copy in self._within(now_ms, window_ms)]

    def _within(self, now_ms: int, window_ms: int | None) -> Iterator[_Held]:
        """Held time and copy of each event in the window."""
        longest_ms = self.window_ms if window_ms is None else min(window_ms, self.window_ms)
        # What is in the old generation came before the young one was opened.
        generations = (self._young,) if now_ms - self._opened_ms >= longest_ms else (self._old, self._young)
        for generation in generations:
            for at_ms, copy in generation.values():
                held_ms = now_ms - at_ms
                if held_ms < longest_ms and copy.age_ms + held_ms < copy.event.ttl_ms:  # `expired`, without the call
                    yield held_ms, copy

    def _turn(self, now_ms: int) -> None:
        open_ms = now_ms - self._opened_ms
        self._old = self._young if open_ms < 2 * self.window_ms else {}
        self._young = {}
        self._opened_ms = now_ms
