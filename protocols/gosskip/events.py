"""Events on their way: to their home in every active list, and from there to those who want them.

    publish ──Hop──► … ──Hop──► home ──Serve──► the owners of the ranges that hold the event, one copy per peer

A copy that passes through a participant is delivered there if it is wanted, and goes on all the same. An event that
ends at its home unwanted is garbage (`proxies`).

**Sent again.** A place may leave while an event is on its way to it. If its whole peer is gone the connection says so
and brings the message back (`Undelivered`); if only the participant is gone its peer says so (`PeerLost`), and the
copies of the last seconds are still at hand here. Either way they are sent again: towards the home by another link, or
to another participant of the same peer, which had to be served as well but was not sent a copy of its own.

**Beside a gap.** Where a neighbour was lost and none has taken its part, an event that falls there is served to those
who are known to want it, and goes on as soon as there is a neighbour that it should have gone to.
"""

from collections import deque
from collections.abc import Callable
from sys import intern
from typing import Final

from protocols.gosskip.chain import GONE, JOINING, LEAVING, STANDING
from protocols.gosskip.desk import Desk
from protocols.gosskip.lists import Lists
from protocols.gosskip.messages import Hop, Proxy, Revoke, Serve, Vacant
from protocols.gosskip.order import is_raster
from protocols.gosskip.place import Place
from protocols.gosskip.proxies import Filters
from protocols.gosskip.routing import OVERSHOOT_HOPS
from protocols.model.box import Point, match
from protocols.model.event import Copy, Event, expired, onward
from protocols.model.ids import Address
from protocols.overlay import Dropped, Message, Rejected
from protocols.parts.recent import WINDOW_MS
from protocols.parts.seen import DUPLICATE, FULL, KEEP_MS, Seen

SENT_MAX: Final = 1_024
"""Copies kept in case their receiver turns out to be gone. A guess: half a second of 2,000 events."""
HELD_MAX: Final = 256
"""Events that wait until a place stands. A guess: what can come within one latency."""
GAP_MS: Final = 10_000
"""How long an event waits beside a gap that does not close: liveness' time until death, in which others find who is
dead between them. Measured with a fifth of 60 peers frozen again and again: twice as long reaches nobody more."""
RESENT_MS: Final = 1_000
"""What a copy ages by each time it is sent again, so that it is not sent again for ever."""

EVENT_MESSAGES: Final = frozenset({Hop, Serve, Proxy, Revoke})


class Events:
    """What one participant does about events."""

    __slots__ = ("_beside_gap", "_desk", "_filters", "_held", "_lists", "_out", "_places", "_seen", "_sent", "_wants")

    def __init__(self, desk: Desk, lists: Lists, places: dict[int, Place], wants: Callable[[Point], bool]) -> None:
        self._desk = desk
        self._out = desk.out
        self._lists = lists
        self._places = places
        self._wants = wants
        self._filters = Filters(desk)
        self._held: list[tuple[Address, Message]] = []
        self._beside_gap: list[tuple[int, int, Hop]] = []  # until when it waits, since when, and how it would go on
        self._sent: deque[tuple[int, Address, Hop | Serve]] = deque(maxlen=SENT_MAX)
        self._seen = Seen(KEEP_MS, desk.config.seen_max)

    def has_room(self, now_ms: int) -> bool:
        return self._seen.has_room(now_ms)

    def through(self) -> Place | None:
        """The own place through which to send: the newest that is in the chain, else one that lingers."""
        best: Place | None = None
        for place in self._places.values():
            if place.state != JOINING and (best is None or _rank(place) >= _rank(best)):
                best = place
        return best

    def receive(self, now_ms: int, sender: Address, message: Message) -> None:
        if isinstance(message, Hop):
            self._on_hop(now_ms, sender, message)
        elif isinstance(message, Serve):
            self._admit(now_ms, sender, message.copy)
        elif isinstance(message, Proxy):
            self._filters.on_proxy(now_ms, sender, message)
        elif isinstance(message, Revoke):
            self._filters.on_revoke(sender, message)

    def release_held(self, now_ms: int) -> None:
        """What came for a place that did not stand yet."""
        if self._held and not any(place.state == JOINING for place in self._places.values()):
            held, self._held = self._held, []
            for sender, message in held:
                self.receive(now_ms, sender, message)
        if self._beside_gap:
            waiting, self._beside_gap = self._beside_gap, []
            for until_ms, since_ms, message in waiting:
                self._close_gap(now_ms, until_ms, since_ms, message)

    # --- towards the home ---------------------------------------------------------------------------------------------

    def publish(self, now_ms: int, event: Event) -> None:
        if self._seen.admit(now_ms, event.id) is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
            return
        place = self.through()
        if place is None:
            self._out.report(Dropped(event.id, "not-joined"))
            return
        self._filters.published(now_ms, event)
        copy = Copy(event)
        for number in self._lists.active:
            key = self._desk.dictionary.event_key(number, event.point)
            if is_raster(number) or not self._filters.hold(now_ms, key):
                self._route(now_ms, place, number, self._desk.me, copy)

    def _on_hop(self, now_ms: int, sender: Address, message: Hop) -> None:
        place = self._places.get(message.at)
        if place is None:
            place = self.through()
            self._desk.send(sender, Vacant(max(0, message.at)))  # or it would come here again and again
        if place is None or place.state == JOINING:
            self._hold(sender, message)
            return
        copy = message.copy
        if not self._desk.dictionary.is_number(message.list):
            self._out.report(Rejected(sender, "there is no such list"))
        elif self._admit(now_ms, sender, copy):
            self._route(now_ms, place, message.list, message.origin, copy)

    def _admit(self, now_ms: int, sender: Address, copy: Copy) -> bool:
        """Note that a copy has come, and deliver it if it is ours. Returns whether it may go on."""
        event = copy.event
        admission = self._seen.admit(now_ms, intern(event.id))  # one string for all peers of a process
        if admission is DUPLICATE:
            if sender != self._desk.me:
                self._out.reception(event.id, sender, copy.hops, "duplicate")
        elif admission is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
            return False
        else:
            wanted = self._wants(event.point)
            self._out.reception(event.id, sender, copy.hops, "wanted" if wanted else "unwanted")
            if wanted:
                self._out.deliver(event, copy.hops)
        if copy.age_ms >= event.ttl_ms:  # `expired`, without the call
            self._out.report(Dropped(event.id, "expired"))
            return False
        return True

    def _route(self, now_ms: int, place: Place, number: int, origin: Address, copy: Copy) -> None:
        """Send a copy on towards its home in a list, or serve it from here."""
        config = self._desk.config
        key = self._desk.dictionary.event_key(number, copy.event.point)
        overshoot = config.routing == "overshoot" and copy.hops < OVERSHOOT_HOPS
        is_beside = not is_raster(number) and place.knows_left(key)
        to = None if is_beside else place.next_hop(key, overshoot)
        if to is not None:
            if copy.hops >= config.hops_max:
                self._out.report(Dropped(copy.event.id, "hops"))
            else:
                self._send_event(now_ms, to.address, Hop(to.version, number, origin, onward(copy)))
        elif not is_beside and place.is_beside_gap(key):
            self._serve(now_ms, place, number, origin, copy, is_home=False)
            self._wait(now_ms + GAP_MS, now_ms, Hop(place.version, number, origin, copy))
        elif is_beside or is_raster(number) or key > place.spot.key:
            self._serve(now_ms, place, number, origin, copy)
        # else nobody starts at or before it: garbage

    def _wait(self, until_ms: int, since_ms: int, message: Hop) -> None:
        if len(self._beside_gap) < HELD_MAX:
            self._beside_gap.append((until_ms, since_ms, message))
        else:
            self._out.report(Dropped(message.copy.event.id, "held-full"))

    def _close_gap(self, now_ms: int, until_ms: int, since_ms: int, message: Hop) -> None:
        """Send an event on that has been served beside a gap, if it turns out that there is somebody to send it to."""
        place, copy = self._places.get(message.at) or self.through(), message.copy
        if place is None or now_ms >= until_ms:
            return  # those who are known have got it
        key = self._desk.dictionary.event_key(message.list, copy.event.point)
        if place.is_beside_gap(key):
            self._wait(until_ms, since_ms, message)
        elif place.next_hop(key, overshoot=False) is not None:
            copy = Copy(copy.event, copy.hops, copy.age_ms + now_ms - since_ms)
            self._route(now_ms, place, message.list, message.origin, copy)

    def _serve(self, now_ms: int, place: Place, number: int, origin: Address, copy: Copy, is_home: bool = True) -> None:
        """The event has come home: one copy for each peer that wants it."""
        point = copy.event.point
        own = match(place.spot.descriptor.box, point)
        peers: dict[str, Address] = {}
        found = place.keeper.matching(number, point) if is_raster(number) else place.known.matching(point)
        for spot in found:
            peers.setdefault(spot.address.peer, spot.address)
        if own:
            peers.pop(self._desk.me.peer, None)  # whichever participant is reached serves all of its peer
        if peers:
            message = Serve(onward(copy))
            for to in peers.values():
                if to != self._desk.me:
                    self._sent.append((now_ms, to, message))
            self._out.send_all([to for to in peers.values() if to != self._desk.me], message)
        elif is_home and not own and not found and place.state == STANDING and not is_raster(number):
            self._unwanted(now_ms, place, number, origin, copy)

    def _unwanted(self, now_ms: int, place: Place, number: int, origin: Address, copy: Copy) -> None:
        """Nobody wants it. If that is so for all that falls right of it, its publisher may be told."""
        key = self._desk.dictionary.event_key(number, copy.event.point)
        is_behind = key > place.spot.key
        crossing = [*([place.spot] if is_behind else []), *place.known.spots()]
        if any(spot.number == number and key[1] < spot.end for spot in crossing):
            return
        if origin != self._desk.me and place.leases.missed(now_ms, origin):
            beyond = place.chain.right if is_behind else place.spot
            self._desk.send(origin, Proxy(copy.event.id, number, None if beyond is None else beyond.descriptor))
            place.chain.tell_beyond()

    def _send_event(self, now_ms: int, to: Address, message: Hop | Serve) -> None:
        if to != self._desk.me:
            self._sent.append((now_ms, to, message))
        self._desk.send(to, message)

    def _hold(self, sender: Address, message: Hop) -> None:
        if len(self._held) < HELD_MAX:
            self._held.append((sender, message))
        else:
            self._out.report(Dropped(message.copy.event.id, "held-full"))

    # --- sending again ------------------------------------------------------------------------------------------------

    def lost(self, now_ms: int, address: Address) -> None:
        """A participant is gone, and with it what it was sent in the last moments."""
        again = [m for at_ms, to, m in self._sent if to == address and now_ms - at_ms < WINDOW_MS]
        if again:
            self._sent = deque([each for each in self._sent if each[1] != address], maxlen=SENT_MAX)
        for message in again:
            self._send_otherwise(now_ms, address, message)

    def undelivered(self, now_ms: int, to: Address, message: Hop | Serve, refused: bool) -> None:
        if isinstance(message, Hop) or refused:
            self._send_otherwise(now_ms, to, message)
        else:
            self._serve_again(now_ms, to, message)

    def _send_otherwise(self, now_ms: int, lost: Address, message: Hop | Serve) -> None:
        """Send again what a participant that is gone was sent: by another way, or to another one of its peer."""
        copy = message.copy
        copy = Copy(copy.event, copy.hops, copy.age_ms + RESENT_MS)
        place = self.through()
        if place is None or expired(copy):
            self._out.report(Dropped(copy.event.id, "undelivered", lost))
        elif isinstance(message, Hop):
            self._route(now_ms, place, message.list, message.origin, copy)
        else:
            spots = (s for p in self._places.values() for s in p.serving(copy.event.point))
            others = [s.address for s in spots if s.address.peer == lost.peer and s.address != lost]
            if others:
                self._send_event(now_ms, others[0], Serve(copy))
            # else it has left in good order, and wants nothing any more

    def _serve_again(self, now_ms: int, to: Address, message: Serve) -> None:
        copy = Copy(message.copy.event, message.copy.hops, message.copy.age_ms + RESENT_MS)
        if expired(copy):
            self._out.report(Dropped(copy.event.id, "undelivered", to))
        else:
            self._send_event(now_ms, to, Serve(copy))


def _rank(place: Place) -> tuple[int, int]:
    return {STANDING: 2, LEAVING: 1, GONE: 0}.get(place.state, -1), place.version
