"""Along the rings: how a member spreads an event, and how events wait for budget.

A member sends an event that it has not spread yet

- `both` (paper, section III): to its upper and lower ring links for that value and to a random interest neighbour that
  matches, never back to whom it came from;
- `upward`: to its upper link only, and over shortcuts that lead upward, with budget that nothing else needs. One copy
  to each member is enough for completeness, all others are duplicates sooner or later, so they come last. What comes
  from above, which only repair sends, goes down as well.

Where there is a budget, events wait in a buffer, first in first out. In the paper's simulations all of them leave at
the end of the cycle; otherwise each as soon as there is enough for all its copies.
"""

from collections import deque
from collections.abc import Collection
from random import Random
from sys import intern
from typing import TypeAlias

from protocols.model.box import match
from protocols.model.event import Copy, onward
from protocols.model.ids import Address, EventId
from protocols.overlay import Dropped, Outbox
from protocols.parts.seen import DUPLICATE, FULL, KEEP_MS, Seen
from protocols.sub2sub.budget import Budget
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.flow import Flow
from protocols.sub2sub.messages import Ring, Want
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.order import Coordinate, coordinate_at
from protocols.sub2sub.repair import Repair
from protocols.sub2sub.ring import Climb
from protocols.sub2sub.ring import Ring as RingView

Receivers: TypeAlias = dict[Address, Climb | None]
"""-> into which higher cell that leads, if it does."""


class Waiting:
    """An event in the buffer: what came, from whom, since when, and whether it was marked."""

    __slots__ = ("copy", "dropped", "senders", "since_ms")

    def __init__(self, copy: Copy, sender: Address, since_ms: int, dropped: bool) -> None:
        self.copy = copy
        self.senders: tuple[Address, ...] = (sender,)
        self.since_ms = since_ms
        self.dropped = dropped


class Spreading:
    """`passed`: events that were received on the way to a ring or down in it."""

    __slots__ = (
        "_budget",
        "_buffer",
        "_by_id",
        "_config",
        "_flow",
        "_hood",
        "_lacking",
        "_out",
        "_passed",
        "_repair",
        "_rng",
        "_upward",
        "copies_received",
        "copies_sent",
        "marked",
        "seen",
    )

    def __init__(
        self,
        hood: Neighbourhood,
        config: Sub2SubConfig,
        budget: Budget,
        flow: Flow | None,
        repair: Repair,
        passed: Seen,
        out: Outbox,
        rng: Random,
    ) -> None:
        self._hood = hood
        self._config = config
        self._budget = budget
        self._flow = flow
        self._repair = repair
        self._passed = passed
        self._out = out
        self._rng = rng
        self._upward = config.variant == "cells" and config.dissemination == "upward"
        self.seen = Seen(KEEP_MS, config.seen_max)  # what was spread
        self._buffer: deque[Waiting] = deque()
        self._by_id: dict[EventId, Waiting] = {}
        self._lacking = 0.0  # the budget that the first of them waits for
        self.copies_received = 0  # along rings and over shortcuts
        self.copies_sent = 0
        self.marked = 0  # copies of this cycle that came with the paper's bit set

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    def start(self, now_ms: int, copy: Copy) -> None:
        """Spread an event from here, unless that was done already."""
        admission = self.seen.admit(now_ms, copy.event.id)
        if admission is FULL:
            self._out.report(Dropped(copy.event.id, "seen-full"))
        elif admission is not DUPLICATE:
            self._spread(now_ms, copy, self._hood.me, False)

    def on_ring(self, now_ms: int, sender: Address, message: Ring) -> None:
        copy = message.copy
        event = copy.event
        self.copies_received += 1
        id_ = intern(event.id)  # one string for all peers of a process
        admission = self.seen.admit(now_ms, id_)
        if admission is DUPLICATE:
            self._out.reception(id_, sender, copy.hops, "duplicate")
            waiting = self._by_id.get(id_)
            if waiting is not None and len(waiting.senders) < 8:
                waiting.senders += (sender,)
            return
        if admission is FULL:
            self._out.report(Dropped(id_, "seen-full"))
            return
        if copy.age_ms >= event.ttl_ms:  # `expired`, without the call
            self._out.report(Dropped(id_, "expired"))
            return
        if id_ in self._passed:
            self._out.reception(id_, sender, copy.hops, "duplicate")
        else:
            wanted = match(self._hood.own.box, event.point)
            self._out.reception(id_, sender, copy.hops, "wanted" if wanted else "unwanted")
            if wanted:
                self._out.deliver(event, copy.hops)
            self._repair.keep(now_ms, copy)
        flow = self._flow
        if flow is not None:  # it has to know how much comes, and whether more would
            self.marked += message.dropped
            for ring in self._hood.rings.values():
                flow.count(ring, coordinate_at(event.point, ring.place), sender)
        self._spread(now_ms, copy, sender, message.dropped)

    def _spread(self, now_ms: int, copy: Copy, sender: Address, dropped: bool) -> None:
        buffer, at_once = self._buffer, not self._config.buffered
        if at_once and not buffer and self._pass_on(now_ms, copy, (sender,), dropped, 0):
            return
        if len(buffer) >= self._config.buffer_max:
            self._out.report(Dropped(copy.event.id, "buffer-full"))
            return
        waiting = Waiting(copy, sender, now_ms, dropped)
        buffer.append(waiting)
        self._by_id[copy.event.id] = waiting
        if at_once and len(buffer) == 1:  # else there is a timer
            self._wait(now_ms)

    def flush(self, now_ms: int) -> None:
        """Send what waits, first in first out, all copies of an event together, as far as the budget goes."""
        buffer = self._buffer
        while buffer:
            waiting = buffer[0]
            if not self._pass_on(now_ms, waiting.copy, waiting.senders, waiting.dropped, now_ms - waiting.since_ms):
                break
            buffer.popleft()
            self._by_id.pop(waiting.copy.event.id, None)
        if buffer and not self._config.buffered:
            self._wait(now_ms)

    def _wait(self, now_ms: int) -> None:
        """Until there may be the budget for what waits."""
        self._out.timer("flush", self._budget.ready_ms(now_ms, self._lacking))

    def _pass_on(self, now_ms: int, copy: Copy, senders: tuple[Address, ...], dropped: bool, held_ms: int) -> bool:
        """Send an event to whom it concerns. Returns False if there is not the budget for it."""
        event = copy.event
        if copy.age_ms + held_ms >= event.ttl_ms:
            self._out.report(Dropped(event.id, "expired"))
            return True
        receivers: Receivers = {}
        rings: list[tuple[RingView, Coordinate]] = []  # in which it falls into our span
        for ring in self._hood.rings.values():
            x = coordinate_at(event.point, ring.place)
            if ring.lo <= x < ring.hi:
                rings.append((ring, x))
                self._choose(ring, x, senders, receivers)
            for to in ring.fading(now_ms, x):
                receivers.setdefault(to, ring.climb(x, to))
        for to in senders:
            receivers.pop(to, None)
        if not receivers and not self._upward:
            return True
        budget = self._budget
        cost = budget.of_event(len(event.body))
        needed = cost * budget.remote(receivers)
        if needed and not budget.take(now_ms, needed):
            self._lacking = needed
            return False
        if self._upward and self._budget.has_spare(cost):
            for ring, x in rings:
                for to, climb in self._shortcuts_above(ring, x):
                    if to in receivers or to in senders:
                        continue
                    if self._budget.spare(now_ms, cost * budget.remote((to,))):
                        receivers[to] = climb
        if receivers:
            sent = self._deliver_to(copy, receivers, dropped, held_ms)
            self.copies_sent += len(sent)
            if len(sent) < len(receivers):
                budget.give_back(cost * (budget.remote(receivers) - budget.remote(sent)))
        return True

    def _deliver_to(self, copy: Copy, receivers: Receivers, dropped: bool, held_ms: int) -> Collection[Address]:
        """Send the copies. Into a higher cell only what its limits admit, and marked if some are held back. Returns to
        whom they were sent."""
        onwards = onward(copy, held_ms)
        flow = self._flow
        if flow is None or not any(receivers.values()):
            self._out.send_all(tuple(receivers), Ring(onwards, dropped))
            return receivers
        above: list[Address] = []
        fellows = [to for to, climb in receivers.items() if climb is None]
        for climb in dict.fromkeys(filter(None, receivers.values())):
            into = [to for to, its in receivers.items() if its == climb]
            if flow.admits(*climb):
                above += into
            else:
                self._out.report(Dropped(copy.event.id, "limit", into[0]))
        if dropped or (len(self._buffer) <= self._config.threshold and not flow.held_back):
            self._out.send_all(fellows + above, Ring(onwards, dropped))
        else:
            self._out.send_all(fellows, Ring(onwards))
            self._out.send_all(above, Ring(onwards, True))
        return fellows + above

    def _choose(
        self,
        ring: RingView,
        x: Coordinate,
        senders: tuple[Address, ...],
        receivers: Receivers,
    ) -> None:
        """Who is to get an event in a ring."""
        upper, lower, climb = ring.next_hops(x)
        if upper is not None:
            receivers[upper] = climb
        if self._upward:
            if lower is not None and self._is_above(ring, senders[0]):
                receivers[lower] = None
            return
        if lower is not None:
            receivers[lower] = None
        config = self._config
        if config.shortcuts and self._rng.random() < config.shortcut_probability:
            # with cells an event leaves its cell through feeders only (paper, section IV.B)
            matching = [to for to in self._hood.ways_within(ring.place, x) if to not in senders]
            if matching:
                receivers[matching[int(self._rng.random() * len(matching))]] = None

    def _shortcuts_above(self, ring: RingView, x: Coordinate) -> list[tuple[Address, Climb | None]]:
        """Shortcuts that lead upward, and the higher cells into which they do."""
        above, count, flow = self._hood.ways_above(ring.place, x), self._config.shortcuts, self._flow
        if flow is not None and flow.closing.closed:
            above = [way for way in above if way[1] is None or flow.is_open(*way[1])]
        if len(above) <= count:
            return above
        return [above[int(self._rng.random() * len(above))]] if count == 1 else self._rng.sample(above, count)

    def _is_above(self, ring: RingView, sender: Address) -> bool:
        link = ring.get((sender.peer, sender.slot))
        return link is not None and link.rank > ring.rank

    def on_want(self, now_ms: int, sender: Address, message: Want) -> None:
        """Repair is for what was lost by accident: where there is not the budget for it, it waits for another time."""
        if self._buffer:
            return  # what waits comes first
        for copy in self._repair.wanted(now_ms, message):
            cost = self._budget.of_event(len(copy.event.body)) * self._budget.remote((sender,))
            if cost and not self._budget.take(now_ms, cost):
                break
            if self._may_have(sender, copy):
                self._out.send(sender, Ring(onward(copy)))
            else:
                self._budget.give_back(cost)

    def _may_have(self, other: Address, copy: Copy) -> bool:
        """Whether the limits let somebody have what it has missed: perhaps that was held back."""
        flow = self._flow
        if flow is None:
            return True
        for ring in self._hood.rings.values():
            climb = ring.climb(coordinate_at(copy.event.point, ring.place), other)
            if climb is not None and not flow.lets_through(*climb):
                return False
        return True

    def abandon(self) -> None:
        """We go: what still waits for budget is not sent any more."""
        for waiting in self._buffer:
            self._out.report(Dropped(waiting.copy.event.id, "left"))
        self._buffer.clear()
        self._by_id.clear()
