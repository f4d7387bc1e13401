"""One participant of GosSkip (paper 5): a place in a sorted list of subscriptions, which gossip makes a skip list.

**Structure.** All boxes stand in one chain, sorted by the dictionary (`order`): level 0 (`chain`). Gossip between
neighbours adds links to the places k^l further at level l (`levels`), which make a lookup take O(log N) hops
(`routing`). Which ranges reach to a place flows along level 0 (`ranges`), and which lists are active is known to all
(`lists`).

**The way of an event.** The publisher sends a copy into every active list (`Hop`). Each goes to its *home* there, the
last place at or before it. The home knows all ranges that hold the event, and sends it to their owners directly
(`Serve`), one copy per peer however many of its participants want it. An event that ends at its home unwanted is
garbage; if that happens often its publisher is told (`proxies`).

**Nothing owed is lost** in calm and through graceful change:

- a place changes hands in one step of one place, and whoever gets an event that is not his passes it on (`chain`);
- a participant that moves keeps the former place for `overlap_ms`: an event under way finds the one or the other;
- what was sent to a participant that has just gone is sent again by another way: the connection says so
  (`Undelivered`), or its peer does (`PeerLost`), and then the copies of the last seconds are still at hand (`_sent`).

**Places.** A participant has one place, or while it moves two and more: `places`, by the version of the box. `Active`
is said for a version when its place is (`place`); then the older ones leave, in their time.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from protocols.gosskip.chain import GONE, JOINING, STANDING
from protocols.gosskip.config import GosSkipConfig
from protocols.gosskip.desk import Desk
from protocols.gosskip.dispatch import LINKED, OF_PLACE, ROUTED, STILL_PASSED_ON
from protocols.gosskip.events import EVENT_MESSAGES, Events
from protocols.gosskip.lists import Lists
from protocols.gosskip.messages import ANY, Gossip, Hop, Insert, Serve, Vacant, is_sound
from protocols.gosskip.order import Dictionary, PlaceId, Spot
from protocols.gosskip.place import Place
from protocols.gosskip.strangers import Strangers
from protocols.model.box import EMPTY, Box, Point, match
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import (
    OWN_BOX,
    Effect,
    Input,
    Join,
    Joined,
    Leave,
    Left,
    Link,
    Message,
    PeerLost,
    Publish,
    Received,
    Rejected,
    Sampled,
    Subscribe,
    TimerFired,
    Undelivered,
    Unsubscribe,
    Update,
)
from protocols.parts.broken import Broken

NEW: Final = "new"
IN: Final = "in"
LEAVING_ALL: Final = "leaving"
LEFT: Final = "left"

PLACES_MAX: Final = 6
"""Places that overlap while a box changes again and again; then the oldest goes at once."""


class GosSkip:
    __slots__ = (
        "_box",
        "_broken",
        "_desk",
        "_events",
        "_joined",
        "_later_ms",
        "_lists",
        "_out",
        "_soon_ms",
        "_strangers",
        "_version",
        "places",
        "state",
    )

    def __init__(self, me: Address, config: GosSkipConfig, schema: Schema, rng: Random) -> None:
        dictionary = Dictionary(schema, config.first_names, config.cells, config.broad)
        self._desk = Desk(me, config, dictionary, rng)
        self._out = self._desk.out
        self._lists = Lists(self._desk)
        self.places: dict[int, Place] = {}
        self._events = Events(self._desk, self._lists, self.places, self.wants)
        self.state = NEW
        self._joined = False
        self._box: Box = EMPTY
        self._version = 0
        self._strangers = Strangers(self._desk)
        self._broken = Broken(config.rpc_ms)
        self._soon_ms: int | None = None
        self._later_ms: int | None = None

    # --- interface ----------------------------------------------------------------------------------------------------

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        self._desk.now_ms = now_ms
        if type(item) is Received:
            self._broken.heard(item.sender)
            self._receive(now_ms, item.sender, item.message)
        else:
            self._INPUTS[type(item)](self, now_ms, item)
        local = self._desk.local
        while local:
            self._receive(now_ms, self._desk.me, local.popleft())
        return self._out.drain()

    def descriptor(self) -> Descriptor:
        """The newest place that stands; before there is one, the one that is wanted."""
        standing = [version for version, place in self.places.items() if place.state == STANDING]
        if standing:
            return self.places[max(standing)].spot.descriptor
        return Descriptor(self._desk.me, self._box, self._version)

    def links(self) -> list[Link]:
        me = self._desk.me
        found = {(link.kind, link.to): link for place in self.places.values() for link in place.links()}
        return [link for link in found.values() if link.to != me]

    def has_room(self, now_ms: int) -> bool:
        return self._events.has_room(now_ms)

    @property
    def version(self) -> int:
        """Of the box that is wanted."""
        return self._version

    def lists(self) -> tuple[int, ...]:
        """The lists that this participant takes for active."""
        return self._lists.active

    # --- joining, moving, leaving -------------------------------------------------------------------------------------

    def _join(self, now_ms: int, item: Join) -> None:
        if self.state != NEW:
            raise ValueError(f"participant {self._desk.me} joins twice")
        self.state = IN
        self._strangers.meet(item.contacts)
        self._out.timer("tick", self._desk.jittered(now_ms, self._desk.config.t_ms))
        place = self._open()
        if item.contacts:
            self._ask(now_ms, place)
        else:
            place.begin(now_ms)
        self._review(now_ms)

    def _open(self) -> Place:
        """A place for the box that is wanted."""
        spot = self._desk.dictionary.spot(Descriptor(self._desk.me, self._box, self._version))
        place = self.places[self._version] = Place(self._desk, self._lists, spot)
        return place

    def _ask(self, now_ms: int, place: Place) -> None:
        """Ask for the place through an own one that stands, else through a contact, each in turn."""
        own = self._events.through()
        if own is not None and own is not place:
            place.join(now_ms, self._desk.me, own.version)
            return
        contact = self._strangers.next_contact()
        if contact is not None:
            place.join(now_ms, contact, ANY)

    def _subscribe(self, now_ms: int, item: Subscribe | Update) -> None:
        self._box, self._version = item.box, item.version
        self._review(now_ms)

    def _unsubscribe(self, now_ms: int, item: Unsubscribe) -> None:
        self._box, self._version = EMPTY, self._version + 1
        self._review(now_ms)

    def _leave(self, now_ms: int, item: Leave) -> None:
        if self.state == NEW:
            self._left()
            return
        self.state = LEAVING_ALL
        self._review(now_ms)

    def _left(self) -> None:
        self.state = LEFT
        for key in ("tick", "soon", "later"):
            self._out.cancel(key)
        self._out.report(Left())

    def _review(self, now_ms: int) -> None:
        """Which places are there, which should be: say what has become active, move on, let go."""
        self._desk.changed = False
        if self.state not in (IN, LEAVING_ALL):
            return
        for version in [v for v, place in self.places.items() if _is_over(place, now_ms)]:
            del self.places[version]
            self._forget_place(now_ms, (self._desk.me, version))
        if not self._joined and any(place.state != JOINING for place in self.places.values()):
            self._joined = True
            self._out.report(Joined())
        if self.state == LEAVING_ALL:
            for place in self.places.values():
                place.leave(now_ms)
            if not self.places:
                self._left()
                return
        else:
            self._move(now_ms)
        self._events.release_held(now_ms)
        self._set_soon(now_ms)
        self._set_later()

    def _move(self, now_ms: int) -> None:
        """Towards one place, for the box that is wanted."""
        active = [v for v, place in self.places.items() if place.active]
        best = max(active, default=-1)
        if best >= 0 and not self.places[best].told:
            self.places[best].told = True
            self._out.active(OWN_BOX, best)
        if self._version not in self.places and not any(p.state == JOINING for p in self.places.values()):
            self._ask(now_ms, self._open())
        standing = [v for v, place in self.places.items() if place.state == STANDING]
        for version in standing:
            place = self.places[version]
            if version < best:
                if place.leave_at_ms is None:
                    place.leave_at_ms = now_ms + self._desk.config.overlap_ms
                if now_ms >= place.leave_at_ms or len(standing) > PLACES_MAX:
                    place.leave(now_ms)
            elif version not in (best, self._version):
                place.leave(now_ms)  # overtaken before it was active

    # --- events, lost and undelivered ---------------------------------------------------------------------------------

    def _publish(self, now_ms: int, item: Publish) -> None:
        self._events.publish(now_ms, item.event)

    def wants(self, point: Point) -> bool:
        """Whether a point falls into the box that is wanted, or into one that is still served."""
        return match(self._box, point) or any(match(p.spot.descriptor.box, point) for p in self.places.values())

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        self._lost(now_ms, lambda spot: spot.address == item.address, surely=False)
        self._strangers.forget(item.address)
        self._events.lost(now_ms, item.address)
        self._review(now_ms)

    def _lost(self, now_ms: int, is_gone: Callable[[Spot], bool], surely: bool = True) -> None:
        self._strangers.lost(is_gone)
        for place in self.places.values():
            place.lost(now_ms, is_gone, surely)

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        """The connection broke: send again, for a while. Nobody listens there any more: that boot is dead."""
        message = item.message
        self._broken.returned(now_ms, item.to)
        if item.refused:
            peer, boot = item.to.peer, item.to.boot
            self._lost(now_ms, lambda spot: spot.address.peer == peer and spot.address.boot <= boot)
        if isinstance(message, Hop | Serve):
            self._events.undelivered(now_ms, item.to, message, item.refused)
        elif isinstance(message, Insert) and item.refused:
            self._strangers.forget(item.to)
            for place in self.places.values():
                if place.state == JOINING:
                    self._ask(now_ms, place)
        elif not (item.refused or isinstance(message, Gossip)) and self._broken.is_worth_it(now_ms, item.to):
            self._desk.send(item.to, message)
        self._review(now_ms)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.key == "soon":
            self._soon_ms = None
            for place in self.places.values():
                place.gossip.emit_due(now_ms)
        elif item.key == "tick":
            self._out.timer("tick", self._desk.jittered(now_ms, self._desk.config.t_ms))
            self._tick(now_ms)
        self._review(now_ms)

    def _tick(self, now_ms: int) -> None:
        self._lists.expire(now_ms)
        for place in list(self.places.values()):
            if place.must_ask_again(now_ms):
                self._ask(now_ms, place)
            place.tick(now_ms)
        self._strangers.seek(now_ms, self.places)

    def _sample(self, now_ms: int, item: Sampled) -> None:
        self._strangers.sample(item.descriptors)

    def _set_soon(self, now_ms: int) -> None:
        """One timer for the news of all places."""
        due = [at_ms for place in self.places.values() if (at_ms := place.gossip.pace.next_due_ms()) is not None]
        if due and (self._soon_ms is None or min(due) < self._soon_ms):
            self._soon_ms = max(min(due), now_ms + 1)
            self._out.timer("soon", self._soon_ms)

    def _set_later(self) -> None:
        """One timer for the next place that has to leave, or has lingered long enough."""
        times = [place.linger_until_ms for place in self.places.values() if place.state == GONE]
        times += [p.leave_at_ms for p in self.places.values() if p.leave_at_ms is not None and p.state == STANDING]
        later_ms = min(times, default=None)
        if later_ms is not None and later_ms != self._later_ms:
            self._out.timer("later", later_ms)
        self._later_ms = later_ms

    # --- messages -----------------------------------------------------------------------------------------------------

    def _receive(self, now_ms: int, sender: Address, message: Message) -> None:
        kind = type(message)
        if self.state == LEFT:
            return
        if kind in EVENT_MESSAGES:
            self._events.receive(now_ms, sender, message)
            return
        if kind is Vacant:
            self._on_vacant(now_ms, sender, message)
            return
        handler = OF_PLACE.get(kind)
        if handler is None:
            self._out.report(Rejected(sender, f"{kind.__name__} is not for a participant"))
            return
        if not is_sound(message):
            self._out.report(Rejected(sender, f"{kind.__name__} names a place of nobody"))
            return
        at: int = message.at  # type: ignore[attr-defined]
        place = self.places.get(at)
        if place is None or (place.state == GONE and kind not in STILL_PASSED_ON):
            place = self._instead(sender, at, kind)
        if place is not None:
            handler(place, now_ms, sender, message)
            if self._desk.changed:
                self._review(now_ms)

    def _instead(self, sender: Address, at: int, kind: type) -> Place | None:
        """The place that takes a message for one that is not there (any more)."""
        if kind in ROUTED:
            joining = [place for place in self.places.values() if place.state == JOINING]
            return self._events.through() or (joining[0] if joining else None)
        if at >= 0 and kind in LINKED:
            self._desk.send(sender, Vacant(at))  # also to itself: somebody may have lied to it about its own places
        return None

    def _on_vacant(self, now_ms: int, sender: Address, message: Any) -> None:
        self._forget_place(now_ms, (sender, message.version))
        self._review(now_ms)

    def _forget_place(self, now_ms: int, id_: PlaceId) -> None:
        self._lost(now_ms, lambda spot: spot.id == id_)

    _INPUTS: Final[dict[type, Any]] = {
        Join: _join,
        Leave: _leave,
        Subscribe: _subscribe,
        Update: _subscribe,
        Unsubscribe: _unsubscribe,
        Publish: _publish,
        TimerFired: _timer,
        Undelivered: _undelivered,
        PeerLost: _peer_lost,
        Sampled: _sample,
    }


def _is_over(place: Place, now_ms: int) -> bool:
    return place.state == GONE and now_ms >= place.linger_until_ms


def own_places(overlays: Iterable[object]) -> list[Place]:
    """All places of these participants; for those who look at a whole swarm."""
    return [place for overlay in overlays if isinstance(overlay, GosSkip) for place in overlay.places.values()]
