"""The way into a ring.

Somebody may stand in a ring on any attribute, so an event has to enter one ring for every place that is claimed
(`claims`): the ring of the value that the event has there. It goes to somebody who is known to stand in it, by way of
the views (the paper's greedy step, section III: with overlapping interests in view it mostly takes one hop) or of a
claim. The publisher stays responsible until a member of the ring has acknowledged it:

    Enter ──> Entered            in the ring
          ──> (passed on) ──>    the one that was asked has moved, but knows another
          ──> NotHere            and knows nobody: the claim goes, the next one is tried

Without an answer within `rpc_ms` the next one is tried as well. A slow peer is not a dead peer: when nobody else is
left to be tried, the first one is reminded, ever more seldom, until somebody answers, says no, or turns out to be gone.
(Whoever flooded the swarm because answers are late would make them later still.) Only when all have said no, though
claims said that there is somebody, does the event flood the swarm: the only match must not be missed. Where there are
too many claims to know them all, every event does, and looks for no rings.
"""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from protocols.model.event import Copy, onward
from protocols.model.ids import Address
from protocols.overlay import Dropped, Message, Outbox
from protocols.parts.pending import Pending
from protocols.sub2sub.claiming import FLOOD_RANDOM, FLOOD_RING, Claiming
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.messages import ANYWHERE, Enter, Entered, NotHere
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.order import coordinate_at

SEEKING_MAX: Final = 1_024
"""Events that are on their way to a ring. A guess: two seconds of 500 a second."""
WAITS_MAX: Final = 6
"""Each wait is twice the one before it; the sixth ends after the life of an event."""

Sending: TypeAlias = Callable[[int, list[Address], Message], None]


class Seeking:
    """An event on its way to a ring, for which this participant is responsible."""

    __slots__ = ("asked", "copy", "flooded", "place", "through", "tried", "waits")

    def __init__(self, copy: Copy, place: int) -> None:
        self.copy = copy
        self.place = place
        self.tried: dict[Address, None] = {}
        self.asked: dict[Address, None] = {}  # of those the ones that have not said no
        self.through: Address | None = None  # who was asked last; None: everybody
        self.waits = 0  # how often all of them were late
        self.flooded = False


class Entry:
    """Events that look for their rings. `send` charges what it sends."""

    __slots__ = ("_claiming", "_config", "_hood", "_out", "_rng", "_seeking", "_send")

    def __init__(
        self,
        hood: Neighbourhood,
        config: Sub2SubConfig,
        claiming: Claiming,
        send: Sending,
        out: Outbox,
        rng: Random,
    ) -> None:
        self._hood = hood
        self._config = config
        self._claiming = claiming
        self._send = send
        self._out = out
        self._rng = rng
        self._seeking: Pending[Seeking] = Pending(config.rpc_ms, 0, SEEKING_MAX)

    @property
    def is_seeking(self) -> bool:
        return bool(len(self._seeking))

    @property
    def has_room(self) -> bool:
        """A tenth is left for events of others, which have lost their way."""
        return 10 * len(self._seeking) < 9 * SEEKING_MAX

    def seek(self, now_ms: int, seeking: Seeking, member: Address | None = None) -> None:
        """The next attempt: a `member` of the ring that has just spoken as one, somebody known, somebody who claims it,
        who was asked already, at last everybody."""
        copy, hood, wait_ms = seeking.copy, self._hood, self._config.rpc_ms
        flooding = False
        to = member or self._next(seeking)
        if to is not None:
            seeking.tried[to] = seeking.asked[to] = None
            receivers = [to]
        elif seeking.asked:
            seeking.waits += 1
            wait_ms <<= min(seeking.waits, WAITS_MAX)
            if wait_ms > copy.event.ttl_ms:
                self._out.report(Dropped(copy.event.id, "no-answer", next(iter(seeking.asked))))
                return
            receivers = list(seeking.asked)[:1]
        elif seeking.flooded or not seeking.tried:
            return  # nobody is there
        else:
            seeking.flooded = flooding = True
            receivers = hood.circle(FLOOD_RANDOM, FLOOD_RING)
        seeking.through = None if flooding else receivers[0]
        req_id = self._seeking.open(now_ms, seeking, wait_ms)
        if req_id is None:
            self._out.report(Dropped(copy.event.id, "seeking-full", seeking.through))
            req_id = 0  # it is sent all the same, but nobody will see whether it arrives
        enter = Enter(seeking.place, onward(copy), hood.me, req_id, self._config.entry_ttl, flooding)
        self._send(now_ms, receivers, enter)
        self._set_timer()

    def _next(self, seeking: Seeking) -> Address | None:
        """Somebody who should stand in the ring and was not asked yet."""
        place, hood = seeking.place, self._hood
        x = coordinate_at(seeking.copy.event.point, place)
        to = hood.member(place, x, seeking.tried)
        if to is None:
            claimed = [d.address for d in hood.claims.covering(place, x) if d.address not in seeking.tried]
            claimed = [address for address in claimed if address != hood.me]
            to = claimed[int(self._rng.random() * len(claimed))] if claimed else None
        return to

    def _set_timer(self) -> None:
        if self._seeking.next_ms is not None:
            self._out.timer("seek", self._seeking.next_ms)

    def overdue(self, now_ms: int) -> None:
        """Attempts that were not answered in time."""
        for _, seeking in self._seeking.due(now_ms)[1]:
            self.seek(now_ms, seeking)
        self._set_timer()

    def lost(self, now_ms: int, address: Address) -> None:
        """Whoever was to bring an event into its ring is gone."""
        for req_id, seeking in self._seeking.items():
            if address in seeking.asked:
                self._seeking.close(req_id)
                self._denied(now_ms, seeking, address)

    def abandon(self) -> None:
        """We go: nobody looks after these any more. What was sent a moment ago is not late yet, and will arrive."""
        for req_id, seeking in self._seeking.items():
            self._seeking.close(req_id)
            if seeking.waits and not seeking.flooded:
                self._out.report(Dropped(seeking.copy.event.id, "left", seeking.through))

    def _denied(self, now_ms: int, seeking: Seeking, by: Address) -> None:
        seeking.asked.pop(by, None)
        self.seek(now_ms, seeking)

    def on_entered(self, now_ms: int, sender: Address, message: Entered) -> None:
        self._seeking.close(message.req_id)

    def on_not_here(self, now_ms: int, sender: Address, message: NotHere) -> None:
        seeking = self._seeking.get(message.req_id)
        if seeking is not None and seeking.through is not None:
            self._seeking.close(message.req_id)
            x = coordinate_at(seeking.copy.event.point, seeking.place)
            if any(holder.address == sender for holder in self._hood.claims.covering(seeking.place, x)):
                self._claiming.disprove(now_ms, sender, seeking.place)
            # whoever was asked may have passed it on: its answer is that of the one at the end of the way
            self._denied(now_ms, seeking, seeking.through)

    def relay(self, now_ms: int, sender: Address, message: Enter) -> None:
        """Pass an event on that was thought to be for us."""
        hood, place = self._hood, message.place
        x = coordinate_at(message.copy.event.point, place)
        besides = (sender, message.origin, hood.me)
        to = hood.member(place, x, besides) if message.ttl else None
        if to is None and message.ttl:
            to = next((d.address for d in hood.claims.covering(place, x) if d.address not in besides), None)
        if to is None:
            self._send(now_ms, [message.origin], NotHere(message.req_id))
            return
        ttl = message.ttl - 1
        self._send(now_ms, [to], Enter(place, onward(message.copy), message.origin, message.req_id, ttl))

    def flood(self, now_ms: int, copy: Copy) -> None:
        """Take an event to everybody: there is no telling where somebody stands who wants it."""
        enter = Enter(ANYWHERE, onward(copy), self._hood.me, 0, 0, True)
        self._send(now_ms, self._hood.circle(FLOOD_RANDOM, FLOOD_RING), enter)

    def flood_on(self, now_ms: int, sender: Address, message: Enter) -> None:
        relayed = Enter(message.place, onward(message.copy), message.origin, message.req_id, 0, True)
        circle = self._hood.circle(FLOOD_RANDOM, FLOOD_RING)
        self._send(now_ms, [to for to in circle if to not in (sender, message.origin)], relayed)

    def undelivered(self, now_ms: int, to: Address, message: Enter, refused: bool) -> None:
        if message.flood:
            return  # others were told as well
        if not refused:
            self._send(now_ms, [to], message)
        elif message.origin == self._hood.me:
            self.lost(now_ms, to)
        else:
            self.relay(now_ms, to, message)
