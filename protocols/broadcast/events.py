"""Events: flooded, and what was missed asked for.

An event is sent over every link but the one it came by, once per participant. On a connected graph that is complete.
Two things cover the moments when it is not, or when a copy was lost with a broken connection: whoever gets a new link
replays what is recent over it (`neighbours`), and every `repair_ms` a participant tells somebody, a neighbour or a
stranger, the digests of what it received lately, and is asked for what the other one lacks
(`RecentIds` -> `Want` -> `Flood`).
"""

from sys import intern
from typing import Any, Final

from protocols.broadcast.messages import DIGESTS_MAX, Flood, RecentIds, Want
from protocols.broadcast.neighbours import Neighbours
from protocols.broadcast.own import STANDING, Own
from protocols.model.box import match
from protocols.model.event import Copy, Event, onward
from protocols.model.ids import Address
from protocols.overlay import Dropped, Repaired
from protocols.parts.digests import Digests, digest
from protocols.parts.recent import Recent
from protocols.parts.seen import DUPLICATE, FULL, Seen

SETTLED_MS: Final = 1_000
"""Before that an event may still be on its way by itself, and asking for it would only double it. A guess."""


class Events:
    __slots__ = ("_digests", "_neighbours", "_own", "_recent", "_seen", "_wanted")

    def __init__(self, own: Own, neighbours: Neighbours, recent: Recent, seen: Seen) -> None:
        self._own = own
        self._neighbours = neighbours
        self._recent = recent
        self._seen = seen
        self._wanted: dict[int, None] = {}  # what was last found to be missing, and asked for
        self._digests = Digests(2 * own.config.recent_ms, 2 * own.config.recent_max)

    # --- the flood ----------------------------------------------------------------------------------------------------

    def publish(self, now_ms: int, event: Event) -> None:
        own = self._own
        if self._seen.admit(now_ms, event.id) is FULL:
            own.out.report(Dropped(event.id, "seen-full"))
            return
        self._take(now_ms, Copy(event), own.me, match(own.box, event.point))

    def on_flood(self, now_ms: int, sender: Address, message: Flood) -> None:
        own, copy = self._own, message.copy
        event = copy.event
        admission = self._seen.admit(now_ms, intern(event.id))  # one string for all peers of a process
        if admission is DUPLICATE:
            own.out.reception(event.id, sender, copy.hops, "duplicate")
        elif admission is FULL:
            own.out.report(Dropped(event.id, "seen-full"))
        elif copy.age_ms >= event.ttl_ms:  # `expired`, without the call
            own.out.report(Dropped(event.id, "expired"))
        else:
            wanted = match(own.box, event.point)
            own.out.reception(event.id, sender, copy.hops, "wanted" if wanted else "unwanted")
            self._take(now_ms, copy, sender, wanted)

    def _take(self, now_ms: int, copy: Copy, sender: Address, wanted: bool) -> None:
        """Keep it, deliver it if it is ours, pass it on."""
        out = self._own.out
        self._recent.add(now_ms, copy)
        self._digests.add(now_ms, copy.event.id)
        if self._wanted and (digest_ := digest(copy.event.id)) in self._wanted:
            del self._wanted[digest_]
            out.report(Repaired("event"))
        if wanted:
            out.deliver(copy.event, copy.hops)
        to = self._neighbours.beyond(sender)
        if to:
            out.send_all(to, Flood(onward(copy)))

    def undelivered(self, to: Address, flood: Flood, refused: bool) -> None:
        """A broken connection is made anew by sending again; whether the peer is dead is for liveness to say."""
        if to in self._neighbours.linked and not refused:
            self._own.out.send(to, flood)
        else:
            self._own.out.report(Dropped(flood.copy.event.id, "undelivered", to))

    # --- repair -------------------------------------------------------------------------------------------------------

    def repair(self, now_ms: int) -> None:
        """Tell a neighbour or a stranger what we have received lately."""
        own = self._own
        own.out.timer("repair", own.jittered(now_ms, own.config.repair_ms))
        digests = self._digests.received(now_ms, own.config.recent_ms, SETTLED_MS)[-DIGESTS_MAX:]
        if not digests or own.state != STANDING:
            return
        known = self._neighbours.candidates.known()
        circle = known if known and own.rng.random() < 0.5 else list(self._neighbours.linked)
        if circle:
            own.out.send(own.rng.choice(circle), RecentIds(digests))

    def _on_recent_ids(self, now_ms: int, sender: Address, message: RecentIds) -> None:
        missing = self._digests.missing(message.digests)
        if missing and self._own.state == STANDING:
            self._wanted = dict.fromkeys(missing)
            self._own.out.send(sender, Want(missing))

    def _on_want(self, now_ms: int, sender: Address, message: Want) -> None:
        wanted = dict.fromkeys(message.digests)
        for copy in self._recent.all(now_ms):
            if digest(copy.event.id) in wanted:
                self._own.out.send(sender, Flood(onward(copy)))

    MESSAGES: Final[dict[type, Any]] = {RecentIds: _on_recent_ids, Want: _on_want}
