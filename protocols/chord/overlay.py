"""One node of the ring: content-based publish/subscribe over Chord (paper 1, "OPChord").

**Idea.** Subscription ids are stored on a ring of nodes, at the owners of keys that are hashed from the values of an
attribute; an event asks the owners of the keys of its own values. What a node is made of, each with its theory at the
head of its module:

    ids, keys        the circle; from values to keys                        (paper, sections 3.1 and 4.1)
    ring             predecessor, successors, the arc that one answers for  (Zave's correct Chord)
    entrance         coming in, and letting newcomers in
    fingers, lookup  the way to a key's owner
    rows, storage    what is stored here, and who answers for it; copies, leases
    transfers        arcs of rows on their way to other nodes
    bequests         who inherits the arc of a node that leaves
    ranges           how a row finds all its nodes: walk, jump, multicast   (sections 4.1 and 4.3)
    placements       own subscriptions: storing, updating, renewing         (sections 3.1.1 and 3.1.2)
    coverage, sides  which of their values are stored; boxes by attribute
    publications     own events: asking and counting                        (section 3.2)
    notices          events on their last hop, to the subscribers           (section 3.2)
    broken           what comes back from broken connections

There is one participant per peer, with all subscriptions of the peer and its share of the ring (`individual`). This
module only hands inputs to the parts, and their effects on.

**States.** new -> joining -> standing -> leaving -> left. A joiner looks for its successor through a contact (`Enter`)
and stands when that has accepted it. A leaver answers for its own events and arc until its successor has everything.

**Invariants** (`peerd/sim/invariants/chord/`). The successors are the next r nodes in order, the predecessor is the one
before; arcs follow each other without a gap or an overlap; fingers are exact; every row stands at the owner of each of
its keys and at that one's copies, and elsewhere no longer than its lease.
"""

from functools import partial
from random import Random
from typing import Any, Final

from protocols.chord.config import ChordConfig
from protocols.chord.entrance import CONTACTS_MAX, Entrance
from protocols.chord.fingers import Fingers, Locations
from protocols.chord.ids import Circle
from protocols.chord.keys import Keys
from protocols.chord.lookup import Answer, Lookups
from protocols.chord.mailbox import Mailbox
from protocols.chord.messages import (
    Accepted,
    Chain,
    Differs,
    Digest,
    Enter,
    Find,
    Held,
    Leaving,
    Match,
    Matched,
    Meet,
    Nearer,
    Neighbours,
    Notify,
    Owner,
    Refresh,
    Refreshed,
    Replicate,
    Stabilise,
    Step,
    Store,
    Stored,
    Taken,
    Transfer,
)
from protocols.chord.notices import Notices
from protocols.chord.placements import Placements
from protocols.chord.publications import Publications
from protocols.chord.ranges import Ranges
from protocols.chord.ring import Ring
from protocols.chord.storage import Storage
from protocols.model.box import EMPTY, is_empty
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import (
    OWN_BOX,
    Dropped,
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
from protocols.parts.seen import FULL

NEW: Final = "new"
JOINING: Final = "joining"
STANDING: Final = "standing"
LEAVING: Final = "leaving"
LEFT: Final = "left"

SETTLED: Final = 4
"""How much longer a round of fingers takes while none of them changes. A guess: a round at 1,000 nodes within 30 s."""
AGAIN: Final = (Enter, Accepted, Leaving, Store, Stored, Replicate, Held, Transfer, Taken, Matched, Refresh, Refreshed)
"""What is sent once more after a broken connection (`broken`). Everything else is outdated by then."""
ROUTED: Final = (Match, Chain, Find, Store, Enter, Meet)
"""What finds another way when the next hop is gone."""


class Chord:
    __slots__ = (
        "_broken",
        "_config",
        "_due",
        "_entrance",
        "_handlers",
        "_keys",
        "_locations",
        "_me",
        "_notices",
        "_out",
        "_own_version",
        "_publications",
        "_ranges",
        "_rng",
        "_sampled",
        "circle",
        "fingers",
        "lookups",
        "placements",
        "ring",
        "state",
        "storage",
    )

    def __init__(self, me: Address, config: ChordConfig, schema: Schema, rng: Random) -> None:
        self._me = me
        self._config = config
        self._rng = rng
        self._out = Mailbox(me)
        self.state = NEW
        self.circle = Circle(config.bits)
        self._keys = Keys(schema, config, self.circle)
        self.ring = Ring(me, config, self.circle, self._out)
        self.fingers = Fingers(self.ring, self.circle, self._out)
        self._entrance = Entrance(self.ring, self.fingers, self._keys.circle, self._out)
        self._locations = Locations(self.circle, config.cache)
        self.lookups = Lookups(self.ring, self.fingers, self._locations, config, self.circle, self._out)
        self.storage = Storage(self.ring, config, self._keys, self.circle, self._out)
        self._ranges = Ranges(self.ring, self.fingers, self.lookups, self.storage, self._keys, config, self._out)
        self.placements = Placements(self.ring, self._ranges, self._keys, config, self._out)
        self._publications = Publications(
            self.ring, self.fingers, self._locations, self.lookups, self.storage.rows, config, self.circle, self._out
        )
        self._notices = Notices(me, self.lookups, self.placements, self.storage.rows, config, self.circle, self._out)
        self._broken = Broken(config.rpc_ms)
        self._sampled: list[Address] = []
        self._own_version = 0
        self._handlers = self._message_handlers()
        self._due: dict[str, int] = {}  # what else a tick may have to do -> when

    # --- interface ----------------------------------------------------------------------------------------------------

    def _message_handlers(self) -> dict[type[Message], Any]:
        """Who takes which message: this module, or the part that it concerns."""
        return {
            Enter: self._entrance.on_enter,
            Accepted: self._on_accepted,
            Stabilise: self.ring.on_stabilise,
            Neighbours: self.ring.on_neighbours,
            Meet: self._on_meet,
            Leaving: self._on_leaving,
            Find: self.lookups.on_find,
            Owner: self._on_owner,
            Step: self.lookups.on_step,
            Nearer: self.lookups.on_nearer,
            Store: self._ranges.on_store,
            Stored: self._on_stored,
            Replicate: self.storage.on_replicate,
            Held: self.storage.on_held,
            Transfer: self.storage.on_transfer,
            Taken: self._on_taken,
            Digest: self.storage.on_digest,
            Differs: self.storage.on_differs,
            Refresh: self.storage.on_refresh,
            Refreshed: self.placements.on_refreshed,
            Match: self._on_match,
            Matched: self._on_matched,
            Chain: self._on_chain,
            Notify: self._notices.on_notify,
        }

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        if type(item) is Received:
            self._broken.heard(item.sender)
            handler = self._handlers.get(type(item.message))
            if handler is None:
                self._out.report(Rejected(item.sender, f"{type(item.message).__name__} is not for a participant"))
            elif self.state != LEFT:
                handler(now_ms, item.sender, item.message)
        else:
            self._INPUTS[type(item)](self, now_ms, item)
        self.storage.settle(now_ms)
        while self._out.own:
            message = self._out.own.popleft()
            self._handlers[type(message)](now_ms, self._me, message)
            self.storage.settle(now_ms)
        return self._out.drain()

    def descriptor(self) -> Descriptor:
        return Descriptor(self._me, EMPTY, self._own_version)

    def links(self) -> list[Link]:
        ring = self.ring
        found = [] if ring.predecessor is None else [Link("predecessor", ring.predecessor)]
        found += [Link("successor", to) for to in ring.successors]
        return found + [Link("finger", to) for to in self.fingers.nodes()]

    def has_room(self, now_ms: int) -> bool:
        return not self._publications.full and self._notices.seen.has_room(now_ms)

    # --- joining and leaving ------------------------------------------------------------------------------------------

    def _join(self, now_ms: int, item: Join) -> None:
        if self.state != NEW:
            raise ValueError(f"participant {self._me} joins twice")
        for key, period_ms in self._periods().items():
            self._due[key] = now_ms + int(period_ms * self._rng.uniform(0.1, 1.0))
        self._out.timer("tick", now_ms + self._jittered(self._config.stabilise_ms))
        if not item.contacts:
            self.ring.begin()
            self._stand(now_ms)
            return
        self.state = JOINING
        self._entrance.add_contacts(item.contacts)
        self._enter(now_ms)

    def _periods(self) -> dict[str, int]:
        config = self._config
        return {
            "fix": config.fix_ms,
            "unify": config.unify_ms,
            "digest": config.digest_ms,
            "refresh": config.refresh_ms,
        }

    def _enter(self, now_ms: int) -> None:
        self._out.timer("enter", now_ms + self._jittered(self._config.rpc_ms))
        self._entrance.ask()

    def _on_accepted(self, now_ms: int, sender: Address, message: Accepted) -> None:
        if self.state == JOINING and self._entrance.on_accepted(now_ms, sender, message):
            self._stand(now_ms)

    def _stand(self, now_ms: int) -> None:
        self.state = STANDING
        self._out.cancel("enter")
        self._out.report(Joined())
        self._entrance.let_in(now_ms)
        self.storage.settle(now_ms)
        self.placements.begin(now_ms)
        self._out.active(OWN_BOX, self._own_version)

    def _leave(self, now_ms: int, item: Leave) -> None:
        if self.state in (NEW, JOINING) or self.ring.alone:
            self._leave_now()
            return
        self.state = LEAVING
        self._entrance.closed = True
        for id_ in list(self.placements.subscribed):
            self.placements.unsubscribe(now_ms, id_)
        self.placements.again(now_ms)
        self._bequeath(now_ms)

    def _bequeath(self, now_ms: int) -> None:
        """Leave as soon as our own events are on their last hop and our successor has our rows."""
        busy = len(self._publications) or len(self.lookups)
        if self.ring.alone or (not busy and self.storage.bequests.bequeath(now_ms)):
            self._leave_now()

    def _on_taken(self, now_ms: int, sender: Address, message: Taken) -> None:
        self.storage.on_taken(now_ms, sender, message)
        if self.state == LEAVING:
            self._bequeath(now_ms)

    def _leave_now(self) -> None:
        if self.ring.standing:
            self.ring.leave(self.storage.bequests.heir)
        self.state = LEFT
        for key in ("tick", "enter"):
            self._out.cancel(key)
        self._out.report(Left())

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _subscribe(self, now_ms: int, item: Subscribe | Update) -> None:
        if not is_empty(item.box):
            self.placements.subscribe(now_ms, item.id, item.box, item.version)
            return
        self._own_version = item.version
        if self.state in (STANDING, LEAVING):
            self._out.active(item.id, item.version)

    def _unsubscribe(self, now_ms: int, item: Unsubscribe) -> None:
        self.placements.unsubscribe(now_ms, item.id)
        self.placements.again(now_ms)

    def _on_stored(self, now_ms: int, sender: Address, message: Stored) -> None:
        if sender != self._me:
            self._locations.learn(sender, self.circle.decode(message.low))
        self.placements.on_stored(now_ms, sender, message)

    # --- lookups ------------------------------------------------------------------------------------------------------

    def _on_owner(self, now_ms: int, sender: Address, message: Owner) -> None:
        self.lookups.on_owner(now_ms, sender, message)
        if self.state == LEAVING:
            self._bequeath(now_ms)

    def _fix(self, now_ms: int) -> None:
        """See to one finger."""
        if self.state != STANDING:
            return
        number = self.fingers.next_to_fix()
        if number is not None:
            start, current = self.fingers.start(number), self.fingers.table.get(number)
            self.lookups.begin(now_ms, start, partial(self._fixed, number), current)
        if self.fingers.settled:
            self._due["fix"] = now_ms + self._jittered(SETTLED * self._config.fix_ms)

    def _fixed(self, number: int, now_ms: int, answer: Answer) -> None:
        if answer.owner is None:
            self.fingers.skip()
        else:
            self.fingers.fixed(number, answer.owner, answer.low)

    # --- events -------------------------------------------------------------------------------------------------------

    def _publish(self, now_ms: int, item: Publish) -> None:
        event = item.event
        if self._publications.full:
            self._out.report(Dropped(event.id, "publications-full"))
            return
        if self._notices.seen.admit(now_ms, event.id) is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
            return
        rotation = self._rng.choice(self._keys.rotations) if len(self._keys.rotations) > 1 else 0
        keys = self._keys.asked(event.point, rotation)
        self._notices.tell(now_ms, self._publications.publish(now_ms, event, keys))

    def _on_match(self, now_ms: int, sender: Address, message: Match) -> None:
        self._notices.touched(now_ms, sender, message.event_id, message.hops)
        self._publications.on_match(now_ms, sender, message)

    def _on_chain(self, now_ms: int, sender: Address, message: Chain) -> None:
        self._notices.touched(now_ms, sender, message.event_id, message.hops)
        self._notices.tell(now_ms, self._publications.on_chain(now_ms, sender, message))

    def _on_matched(self, now_ms: int, sender: Address, message: Matched) -> None:
        self._notices.tell(now_ms, self._publications.on_matched(now_ms, sender, message))
        if self.state == LEAVING:
            self._bequeath(now_ms)

    # --- who comes and goes -------------------------------------------------------------------------------------------

    def _sampled_(self, now_ms: int, item: Sampled) -> None:
        self._sampled = [d.address for d in item.descriptors if d.address != self._me][:CONTACTS_MAX]
        if self.state == JOINING:
            self._entrance.add_contacts(self._sampled)
        elif self.state == STANDING:
            for address in self._sampled:
                self.ring.consider(now_ms, address)

    def _unify(self, now_ms: int) -> None:
        """Look for somebody in the ring whom peer sampling has shown."""
        if self._sampled and self.state == STANDING:
            self._on_meet(now_ms, self._me, Meet(self._rng.choice(self._sampled)))

    def _on_meet(self, now_ms: int, sender: Address, message: Meet) -> None:
        standing = self.state in (STANDING, LEAVING)  # a leaver wants to know its heir
        if standing and not self.ring.on_meet(now_ms, sender, message):
            self.fingers.pass_on(self.circle.node(message.other), message)

    def _on_leaving(self, now_ms: int, sender: Address, message: Leaving) -> None:
        self.storage.bequests.on_leaving(sender)
        self.ring.on_leaving(now_ms, sender, message)
        self._forget(now_ms, sender)

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        self._forget(now_ms, item.address)

    def _forget(self, now_ms: int, address: Address) -> None:
        """Somebody is gone for good."""
        self.ring.lost(now_ms, address)
        self.fingers.lost(address)
        self._locations.forget(address)
        self.storage.lost(address)
        self.placements.lost(address)
        self._entrance.contacts = [contact for contact in self._entrance.contacts if contact != address]
        self._sampled = [other for other in self._sampled if other != address]
        if self.state == LEAVING:
            self._bequeath(now_ms)

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        """Send it again, or another way; whether a peer is dead is for liveness to say, unless nobody listens there."""
        message = item.message
        gone = item.refused or self.state == LEFT
        broken_ms = self._broken.returned(now_ms, item.to)
        if isinstance(message, Notify):
            self._notices.undelivered(item.to, message, gone, broken_ms)
        if self.state == LEFT:
            return
        self._locations.forget(item.to)
        if item.refused:
            self._forget(now_ms, item.to)
        if isinstance(message, Step):
            self.lookups.undelivered(item.to, message)
        elif not (item.refused or self._broken.is_worth_it(now_ms, item.to)):
            return
        elif isinstance(message, ROUTED):
            self._reroute(now_ms, message)
        elif isinstance(message, AGAIN) and not item.refused:
            self._out.send(item.to, message)

    def _reroute(self, now_ms: int, message: Message) -> None:
        """Handle a routed message as if it had come here again, and go around whoever brings messages back."""
        if isinstance(message, Enter) and message.newcomer == self._me:
            return  # asked again soon
        self.fingers.around = self._broken.silent()
        self._handlers[type(message)](now_ms, self._me, message)
        self.fingers.around = []

    # --- time ---------------------------------------------------------------------------------------------------------

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.key == "enter" and self.state == JOINING:
            self._enter(now_ms)
        elif item.key == "tick" and self.state != LEFT:
            self._tick(now_ms)

    def _tick(self, now_ms: int) -> None:
        """Once a second: stabilise, ask again what was not answered, and what else is due."""
        self._out.timer("tick", now_ms + self._jittered(self._config.stabilise_ms))
        if self.state not in (STANDING, LEAVING):
            return
        self.ring.round(now_ms)
        self.lookups.again(now_ms)
        self.storage.again(now_ms)
        self.placements.again(now_ms)
        self.placements.refresh_again(now_ms)
        for matches in self._publications.again(now_ms):
            self._notices.tell(now_ms, matches)
        for key, period_ms in self._periods().items():
            if self._due[key] <= now_ms:
                self._due[key] = now_ms + self._jittered(period_ms)
                self._DUE[key](self, now_ms)
        if self.state == LEAVING:
            self._bequeath(now_ms)

    def _compare(self, now_ms: int) -> None:
        self.storage.compare(now_ms)

    def _refresh(self, now_ms: int) -> None:
        if self.state == STANDING:
            self.placements.refresh(now_ms)

    def _jittered(self, period_ms: int) -> int:
        return int(period_ms * self._rng.uniform(0.9, 1.1))

    # --- dispatch -----------------------------------------------------------------------------------------------------

    _DUE: Final[dict[str, Any]] = {"fix": _fix, "unify": _unify, "digest": _compare, "refresh": _refresh}

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
        Sampled: _sampled_,
    }
