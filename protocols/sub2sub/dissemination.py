"""The way of an event: into its rings, down, and along them.

    publish ──> enter ──> (descend) ──> spread

**Enter.** Somebody may stand in a ring on any attribute, so an event has to enter one ring for every place that is
claimed (`claims`): the ring of the value that the event has there. Whoever stands in it already starts there; otherwise
the event goes to somebody who is known to stand in it, by way of the views or of a claim. The publisher stays
responsible until a member of the ring has acknowledged it (`Entered`): see `entry`.

**Descend** (with cells; paper, section IV.B). Each member passes the event to the smallest in the order that it knows
and that matches, until there is none smaller: dissemination starts at the bottom.

**Spread.** A member sends an event that it has not spread yet

- `both` (paper, section III): to its upper and lower ring links for that value and to a random interest neighbour that
  matches, never back to whom it came from;
- `upward`: to its upper link only, and over shortcuts that lead upward as far as there is budget. One copy to each
  member is enough for completeness, all others are duplicates sooner or later, so they come last. What comes from
  above, which only repair sends, goes down as well.

A member that has received an event on its way down delivers it at once, and still spreads it when it comes by again.

What went missing all the same is for `repair`.
"""

from collections import deque
from random import Random
from sys import intern
from typing import Final

from protocols.model.box import match
from protocols.model.event import Copy, Event, onward
from protocols.model.ids import Address, EventId
from protocols.overlay import Dropped, Message, Outbox
from protocols.parts.seen import DUPLICATE, FULL, KEEP_MS, Seen
from protocols.sub2sub.budget import Budget
from protocols.sub2sub.claiming import Claiming
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.entry import Entry, Seeking
from protocols.sub2sub.flow import Flow
from protocols.sub2sub.messages import (
    Descend,
    Enter,
    Entered,
    Ring,
    RingHello,
    Want,
)
from protocols.sub2sub.neighbourhood import Neighbourhood, Shortcut
from protocols.sub2sub.order import Coordinate, coordinate_at
from protocols.sub2sub.repair import Repair
from protocols.sub2sub.ring import Ring as RingView

DESCENT_MAX: Final = 32
"""Hops after which an event spreads from wherever it is: two that are about to leave could hand it to and fro."""
DESCENT_MS: Final = 10_000
DESCENDED_MAX: Final = 256
"""Events that were handed down lately, should whoever took them turn out to be gone: as long as liveness takes."""


class Waiting:
    """An event in the buffer: what came, from whom, since when, and whether it was marked."""

    __slots__ = ("copy", "dropped", "senders", "since_ms")

    def __init__(self, copy: Copy, sender: Address, since_ms: int, dropped: bool) -> None:
        self.copy = copy
        self.senders: tuple[Address, ...] = (sender,)
        self.since_ms = since_ms
        self.dropped = dropped


class Dissemination:
    __slots__ = (
        "_budget",
        "_buffer",
        "_by_id",
        "_cells",
        "_config",
        "_descended",
        "_flow",
        "_hood",
        "_out",
        "_passed",
        "_rng",
        "_seen",
        "_upward",
        "copies_received",
        "copies_sent",
        "entry",
        "leaving",
        "marked",
        "repair",
    )

    def __init__(
        self,
        hood: Neighbourhood,
        config: Sub2SubConfig,
        budget: Budget,
        flow: Flow | None,
        claiming: Claiming,
        out: Outbox,
        rng: Random,
    ) -> None:
        self._hood = hood
        self._flow = flow
        self._config = config
        self._budget = budget
        self._out = out
        self._rng = rng
        self._cells = config.variant == "cells"
        self._upward = self._cells and config.dissemination == "upward"
        self._seen = Seen(KEEP_MS, config.seen_max)  # spread
        self._passed = Seen(KEEP_MS, config.seen_max)  # received on the way to a ring or down
        self._buffer: deque[Waiting] = deque()
        self._by_id: dict[EventId, Waiting] = {}
        self.entry = Entry(hood, config, claiming, self._send, out, rng)
        self._descended: deque[tuple[int, Address, Copy]] = deque(maxlen=DESCENDED_MAX)  # when, to whom, what
        self.repair = Repair(config, budget, out)
        self.copies_received = 0  # along rings and over shortcuts
        self.copies_sent = 0
        self.marked = 0  # copies of this cycle that came with the paper's bit set
        self.leaving = False  # others do not count on us any more: what comes is passed on to those who stay

    def has_room(self, now_ms: int) -> bool:
        return self._seen.has_room(now_ms) and self._passed.has_room(now_ms)

    @property
    def is_seeking(self) -> bool:
        """Whether an event of ours is not in its ring yet."""
        return self.entry.is_seeking

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    # --- into the rings -----------------------------------------------------------------------------------------------

    def publish(self, now_ms: int, event: Event) -> None:
        copy = Copy(event)
        if self._passed.admit(now_ms, event.id) is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
            return
        self.repair.keep(now_ms, copy)
        if match(self._hood.own.box, event.point):
            self._out.deliver(event, 0)
        for place in dict.fromkeys([*self._hood.rings, *self._hood.claims.places()]):
            self._enter(now_ms, copy, place)

    def _enter(self, now_ms: int, copy: Copy, place: int) -> None:
        """Bring an event into the ring of a place."""
        ring = self._member_of(place, copy)
        if ring is not None:
            self._start(now_ms, copy, ring)
        else:
            self.entry.seek(now_ms, Seeking(copy, place))

    def _member_of(self, place: int, copy: Copy) -> RingView | None:
        """The ring in which we stand where the event falls, if we do and mean to stay."""
        ring = self._hood.rings.get(place)
        inside = ring is not None and not self.leaving and ring.holds(coordinate_at(copy.event.point, place))
        return ring if inside else None

    def lost(self, now_ms: int, address: Address) -> None:
        """Whoever was to bring an event into its ring, or down in it, is gone."""
        self.entry.lost(now_ms, address)
        handed = [copy for at_ms, to, copy in self._descended if to == address and now_ms - at_ms < DESCENT_MS]
        if handed:
            self._descended = deque([each for each in self._descended if each[1] != address], DESCENDED_MAX)
            for copy in handed:
                self._again(now_ms, copy)

    def on_enter(self, now_ms: int, sender: Address, message: Enter) -> None:
        copy, place = message.copy, message.place
        if copy.age_ms >= copy.event.ttl_ms:
            self._out.report(Dropped(copy.event.id, "expired"))
            return
        ring = self._member_of(place, copy)
        if ring is not None:
            self._send(now_ms, [message.origin], Entered(message.req_id))
            if self._received(now_ms, copy, sender):
                self._start(now_ms, copy, ring, (sender, message.origin))
        elif message.flood:
            if self._passed.admit(now_ms, (copy.event.id, place)) == "new":
                self._received(now_ms, copy, sender)
                self.entry.flood_on(now_ms, sender, message)
        else:
            self._received(now_ms, copy, sender)
            if self.leaving:
                self._send(now_ms, [sender], RingHello(place, self._hood.own, (), True))
            self.entry.relay(now_ms, sender, message)

    # --- down ---------------------------------------------------------------------------------------------------------

    def _start(self, now_ms: int, copy: Copy, ring: RingView, besides: tuple[Address, ...] = ()) -> None:
        """An event is in its ring: let it spread from here, or with cells from further down."""
        if self._cells and copy.hops < DESCENT_MAX:
            below = self._below(ring, copy, besides)
            if below is not None:
                self._descended.append((now_ms, below, copy))
                self._send(now_ms, [below], Descend(onward(copy)))
                return
        if self._seen.admit(now_ms, copy.event.id) == "new":
            self._spread(now_ms, copy, self._hood.me, False)

    def _below(self, ring: RingView, copy: Copy, besides: tuple[Address, ...]) -> Address | None:
        """The smallest in the order that we know and that matches, if it is smaller than we are."""
        x = coordinate_at(copy.event.point, ring.place)
        lowest, best = None, ring.rank
        for part in ring.lower:
            if part.lo <= x < part.hi and part.who.address not in besides:
                lowest, best = part.who.address, part.who.rank
        for lo, hi, its_rank, address in self._hood.shortcuts(ring.place):
            if its_rank < best and lo <= x < hi and address not in besides:
                lowest, best = address, its_rank
        return lowest

    def on_descend(self, now_ms: int, sender: Address, message: Descend) -> None:
        copy = message.copy
        if copy.age_ms >= copy.event.ttl_ms:
            self._out.report(Dropped(copy.event.id, "expired"))
            return
        self._received(now_ms, copy, sender)
        if self.leaving:
            self._send(now_ms, [sender], RingHello(0, self._hood.own, (), True))
        if copy.event.id in self._seen:
            return
        for ring in self._hood.rings.values():
            if ring.holds(coordinate_at(copy.event.point, ring.place)) and not self.leaving:
                self._start(now_ms, copy, ring)
                return
        for place in self._hood.rings or self._hood.claims.places():
            self._enter(now_ms, copy, place)  # we stood there until a moment ago

    def _received(self, now_ms: int, copy: Copy, sender: Address) -> bool:
        """Take note of a copy that came outside of the rings, and deliver it. Returns False if there is no room."""
        id_ = intern(copy.event.id)
        admission = self._passed.admit(now_ms, id_)
        if admission is FULL:
            self._out.report(Dropped(id_, "seen-full"))
            return False
        if admission is DUPLICATE or id_ in self._seen:
            self._out.reception(id_, sender, copy.hops, "duplicate")
            return True
        wanted = match(self._hood.own.box, copy.event.point)
        self._out.reception(id_, sender, copy.hops, "wanted" if wanted else "unwanted")
        self.repair.keep(now_ms, copy)
        if wanted:
            self._out.deliver(copy.event, copy.hops)
        return True

    # --- along the rings ----------------------------------------------------------------------------------------------

    def on_ring(self, now_ms: int, sender: Address, message: Ring) -> None:
        copy = message.copy
        event = copy.event
        self.copies_received += 1
        id_ = intern(event.id)  # one string for all peers of a process
        admission = self._seen.admit(now_ms, id_)
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
            self.repair.keep(now_ms, copy)
        if self._flow is not None and self._budget.limit is not None:
            self._notice(copy, message.dropped)
        self._spread(now_ms, copy, sender, message.dropped)

    def _notice(self, copy: Copy, dropped: bool) -> None:
        """For flow control: how much comes, and whether more would."""
        assert self._flow is not None
        self.marked += dropped
        for place in self._hood.rings:
            self._flow.received.count(self._flow.units(place).of(coordinate_at(copy.event.point, place)))

    def _spread(self, now_ms: int, copy: Copy, sender: Address, dropped: bool) -> None:
        if self._budget.limit is None and not self._config.buffered:
            self._pass_on(now_ms, copy, (sender,), dropped, 0)
            return
        if len(self._buffer) >= self._config.buffer_max:
            self._out.report(Dropped(copy.event.id, "buffer-full"))
            return
        waiting = Waiting(copy, sender, now_ms, dropped)
        self._buffer.append(waiting)
        self._by_id[copy.event.id] = waiting
        if not self._config.buffered:
            self.flush(now_ms)

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
            cost = self._budget.of_event(len(buffer[0].copy.event.body))
            self._out.timer("flush", self._budget.ready_ms(now_ms, 2 * cost))

    def _pass_on(self, now_ms: int, copy: Copy, senders: tuple[Address, ...], dropped: bool, held_ms: int) -> bool:
        """Send an event to whom it concerns. Returns False if there is not the budget for it."""
        event = copy.event
        if copy.age_ms + held_ms >= event.ttl_ms:
            self._out.report(Dropped(event.id, "expired"))
            return True
        receivers: dict[Address, bool] = {}  # -> whether it stands in a higher cell
        optional: list[tuple[Address, bool]] = []
        for ring in self._hood.rings.values():
            x = coordinate_at(event.point, ring.place)
            if ring.lo <= x < ring.hi:
                self._choose(ring, x, senders, receivers, optional)
            for to in ring.fading(now_ms, x):
                receivers.setdefault(to, False)
        for to in senders:
            receivers.pop(to, None)
        cost = self._budget.of_event(len(event.body))
        if not self._budget.take(now_ms, cost * len(receivers)):
            return False
        for to, higher in optional:
            if to not in receivers and to not in senders and self._budget.take(now_ms, cost):
                receivers[to] = higher
        if receivers:
            self._deliver_to(copy, receivers, dropped, held_ms)
        return True

    def _deliver_to(self, copy: Copy, receivers: dict[Address, bool], dropped: bool, held_ms: int) -> None:
        """Send the copies. Into a higher cell only what its limits admit, and marked if some are held back."""
        onwards = onward(copy, held_ms)
        self.copies_sent += len(receivers)
        flow = self._flow
        if flow is None or self._budget.limit is None or True not in receivers.values():
            self._out.send_all(tuple(receivers), Ring(onwards, dropped))
            return
        above = [to for to, higher in receivers.items() if higher]
        fellows = [to for to, higher in receivers.items() if not higher]
        place = next(iter(self._hood.rings))
        if not flow.admits(place, coordinate_at(copy.event.point, place)):
            self.copies_sent -= len(above)
            self._out.report(Dropped(copy.event.id, "limit", above[0]))
            above = []
        marked = dropped or len(self._buffer) > self._config.threshold or flow.held_back > 0
        self._out.send_all(fellows, Ring(onwards, dropped))
        self._out.send_all(above, Ring(onwards, marked))

    def _choose(
        self,
        ring: RingView,
        x: Coordinate,
        senders: tuple[Address, ...],
        receivers: dict[Address, bool],
        optional: list[tuple[Address, bool]],
    ) -> None:
        """Who is to get an event in a ring: surely, and if there is budget left."""
        upper, lower = ring.next_hops(x)
        mine, config = ring.rank, self._config
        if upper is not None:
            receivers[upper] = self._cells and ring.is_higher(upper)
        if self._upward:
            if lower is not None and self._is_above(ring, senders[0]):
                receivers[lower] = False
            above = [(to, its[0] > mine[0]) for lo, hi, its, to in self._shortcuts(ring, x) if its > mine]
            if above:
                optional += above if len(above) <= config.shortcuts else self._rng.sample(above, config.shortcuts)
            return
        if lower is not None:
            receivers[lower] = False
        if config.shortcuts and self._rng.random() < config.shortcut_probability:
            # with cells an event leaves its cell through feeders only (paper, section IV.B)
            matching = [
                to
                for _, _, its, to in self._shortcuts(ring, x)
                if to not in senders and (not self._cells or its[0] == mine[0])
            ]
            if matching:
                receivers[matching[int(self._rng.random() * len(matching))]] = False

    def _shortcuts(self, ring: RingView, x: Coordinate) -> list[Shortcut]:
        return [each for each in self._hood.shortcuts(ring.place) if each[0] <= x < each[1]]

    def _is_above(self, ring: RingView, sender: Address) -> bool:
        link = ring.get((sender.peer, sender.slot))
        return link is not None and link.rank > ring.rank

    def undelivered(self, now_ms: int, to: Address, message: Message, refused: bool) -> None:
        """A broken connection is made anew by sending again; whoever refused is gone already."""
        if isinstance(message, Ring):
            linked = any((to.peer, to.slot) in ring.links for ring in self._hood.rings.values())
            if linked and not refused:
                self._send(now_ms, [to], message)
            else:
                self._out.report(Dropped(message.copy.event.id, "undelivered", to))
        elif isinstance(message, Descend):
            if refused:
                self._again(now_ms, message.copy)
            else:
                self._send(now_ms, [to], message)
        elif isinstance(message, Enter):
            self.entry.undelivered(now_ms, to, message, refused)

    def _again(self, now_ms: int, copy: Copy) -> None:
        """The next one down is gone: look again."""
        for place in list(self._hood.rings):
            self._enter(now_ms, copy, place)

    def _send(self, now_ms: int, receivers: list[Address], message: Message) -> None:
        """Send what does not wait for budget: copies on the way to a ring, or again, and answers."""
        if receivers:
            self._budget.charge(self._budget.of_message(message) * len(receivers))
            self._out.send_all(receivers, message)

    def on_want(self, now_ms: int, sender: Address, message: Want) -> None:
        """Repair is for what was lost by accident: where there is not the budget for it, it waits for another time."""
        for copy in self.repair.wanted(now_ms, message):
            if not self._budget.take(now_ms, self._budget.of_event(len(copy.event.body))):
                break
            self._out.send(sender, Ring(onward(copy)))
