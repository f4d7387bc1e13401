"""The way of an event: into its rings, down, and along them.

    publish ──> enter ──> (descend) ──> spread

**Enter.** Somebody may stand in a ring on any attribute, so an event has to enter one ring for every place that is
claimed (`claims`): the ring of the value that the event has there. Whoever stands in it already starts there; otherwise
the event goes to somebody who is known to stand in it, by way of the views or of a claim. The publisher stays
responsible until a member of the ring has acknowledged it (`Entered`): see `entry`.

**Descend** (with cells; paper, section IV.B). Each member passes the event to the smallest in the order that it knows
and that matches, until there is none smaller: dissemination starts at the bottom. Views may be out of date: whoever is
handed an event down a ring that it has left gives it back, and says what it is now. An event is on its way down in
several rings at once, and that it has gone by in one of them says nothing about another.

**Spread.** See `spreading`.

A member that has received an event on its way down delivers it at once, and still spreads it when it comes by again.

What went missing all the same is for `repair`.
"""

from collections import deque
from random import Random
from sys import intern
from typing import Final

from protocols.model.box import match
from protocols.model.event import Copy, Event, onward
from protocols.model.ids import Address
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
)
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.order import coordinate_at
from protocols.sub2sub.repair import Repair
from protocols.sub2sub.ring import Ring as RingView
from protocols.sub2sub.spreading import Spreading

DESCENT_MAX: Final = 32
"""Hops after which an event spreads from wherever it is: two that are about to leave could hand it to and fro."""
DESCENT_MS: Final = 10_000
DESCENDED_MAX: Final = 256
"""Events that were handed down lately, should whoever took them turn out to be gone: as long as liveness takes."""


class Dissemination:
    __slots__ = (
        "_budget",
        "_cells",
        "_config",
        "_descended",
        "_hood",
        "_out",
        "_passed",
        "copies_guided",
        "entry",
        "leaving",
        "repair",
        "spreading",
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
        self._config = config
        self._budget = budget
        self._out = out
        self._cells = config.variant == "cells"
        self._passed = Seen(KEEP_MS, config.seen_max)  # received on the way to a ring or down
        self.entry = Entry(hood, config, claiming, self._send, out, rng)
        self._descended: deque[tuple[int, Address, Descend]] = deque(maxlen=DESCENDED_MAX)  # when, to whom, what
        self.repair = Repair(config, budget, out)
        self.spreading = Spreading(hood, config, budget, flow, self.repair, self._passed, out, rng)
        self.copies_guided = 0  # received on the way to a ring or down
        self.leaving = False  # others do not count on us any more: what comes is passed on to those who stay

    def has_room(self, now_ms: int) -> bool:
        return self.entry.has_room and self.spreading.seen.has_room(now_ms) and self._passed.has_room(now_ms)

    @property
    def is_seeking(self) -> bool:
        """Whether an event of ours is not in its ring yet."""
        return self.entry.is_seeking

    def abandon(self) -> None:
        """We go, and say what we leave undone."""
        self.entry.abandon()
        self.spreading.abandon()

    # --- into the rings -----------------------------------------------------------------------------------------------

    def publish(self, now_ms: int, event: Event) -> None:
        copy = Copy(event)
        if self._passed.admit(now_ms, event.id) is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
            return
        self.repair.keep(now_ms, copy)
        if match(self._hood.own.box, event.point):
            self._out.deliver(event, 0)
        if self._hood.claims.may_lack(now_ms):
            self.entry.flood(now_ms, copy)
            return
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
        handed = [message for at_ms, to, message in self._descended if to == address and now_ms - at_ms < DESCENT_MS]
        if handed:
            self._descended = deque([each for each in self._descended if each[1] != address], DESCENDED_MAX)
            for message in handed:
                self._enter(now_ms, message.copy, message.place)

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
            admission = self._passed.admit(now_ms, (copy.event.id, place))
            if admission is FULL:
                self._out.report(Dropped(copy.event.id, "seen-full"))
            elif admission is not DUPLICATE:
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
                message = Descend(ring.place, onward(copy))
                self._descended.append((now_ms, below, message))
                self._send(now_ms, [below], message)
                return
        self.spreading.start(now_ms, copy)

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
        ring = self._member_of(message.place, copy)
        if ring is not None:
            self._start(now_ms, copy, ring)
        else:
            self._send(now_ms, [sender], RingHello(message.place, self._hood.own, (), self.leaving))
            self.entry.seek(now_ms, Seeking(copy, message.place), sender)

    def _received(self, now_ms: int, copy: Copy, sender: Address) -> bool:
        """Take note of a copy that came outside of the rings, and deliver it. Returns False if there is no room."""
        self.copies_guided += 1
        id_ = intern(copy.event.id)
        admission = self._passed.admit(now_ms, id_)
        if admission is FULL:
            self._out.report(Dropped(id_, "seen-full"))
            return False
        if admission is DUPLICATE or id_ in self.spreading.seen:
            self._out.reception(id_, sender, copy.hops, "duplicate")
            return True
        wanted = match(self._hood.own.box, copy.event.point)
        self._out.reception(id_, sender, copy.hops, "wanted" if wanted else "unwanted")
        self.repair.keep(now_ms, copy)
        if wanted:
            self._out.deliver(copy.event, copy.hops)
        return True

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
                self._enter(now_ms, message.copy, message.place)
            else:
                self._send(now_ms, [to], message)
        elif isinstance(message, Enter):
            self.entry.undelivered(now_ms, to, message, refused)

    def _send(self, now_ms: int, receivers: list[Address], message: Message) -> None:
        """Send what does not wait for budget: copies on the way to a ring, or again, and answers."""
        if receivers:
            self._budget.pay(receivers, message)
            self._out.send_all(receivers, message)
