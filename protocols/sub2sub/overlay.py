"""One participant of Sub-2-Sub.

**Structure.** Participants whose boxes overlap on their ring attribute stand in rings: for every value x, all whose
span holds x form one line in the order of ranks (`order`), each linked with the next above and the next below (`ring`).
Views of gossip supply candidates and shortcuts (`neighbourhood`), claims lead publishers to the rings (`claims`).

**States.** new -> joining -> standing -> leaving -> left. A joiner asks a contact for what it knows, and stands when it
has the answer; the first participant of a swarm stands at once. A joiner that asks one that is joining itself waits.
Standing, it takes its places in the rings:

    hello to each new ring link ──> reply: itself, and who is nearer ──> other links, hello to those … until all of them
    know us as we are, nothing has changed for `quiet_ms`, and where we know nobody at all, nobody has claimed anything

and then its box is active. That is more than the specification's "mutual and unchanged for 3 cycles": a ring neighbour
that stands at its exact place answers with ours, so we need not wait and hope.

**Moving.** A new box is served before the old one is given up: first the participant presents the box that encloses
both, in the rings of both; when all of that is settled the new box is active, and it presents only that.

**Leaving.** It tells its ring links, with those that are best for them without it, goes on forwarding for `linger_ms`,
and ends its claims at last.

**Invariants.** For every x of a participant's span, its upper link is the next standing participant in the order whose
span holds x, and its lower link the one before; claims cover every span.
"""

from math import log2
from random import Random
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from protocols.model.box import EMPTY, Box, enclosing, is_empty
from protocols.model.descriptor import Descriptor
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import Schema
from protocols.overlay import (
    OWN_BOX,
    Control,
    Effect,
    Input,
    Join,
    Joined,
    Leave,
    Left,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Outbox,
    PeerLost,
    Publish,
    Received,
    Rejected,
    Repaired,
    Sampled,
    SetBudget,
    Subscribe,
    TimerFired,
    Undelivered,
    Unsubscribe,
    Update,
)
from protocols.parts.vicinity import VicinityReply, VicinityRequest
from protocols.sub2sub.budget import Budget
from protocols.sub2sub.claiming import Claiming
from protocols.sub2sub.claims import Claims as ClaimsKnown
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.dissemination import Dissemination
from protocols.sub2sub.flow import Flow, Limit
from protocols.sub2sub.messages import (
    CellSwitch,
    Claims,
    ClaimsDigest,
    Descend,
    Enter,
    Entered,
    FlowEvent,
    FlowLimit,
    FlowQuery,
    FlowRate,
    JoinReply,
    JoinRequest,
    NotHere,
    RecentIds,
    Ring,
    RingHello,
    RingReply,
    SwitchOk,
    Want,
)
from protocols.sub2sub.neighbourhood import SAMPLES_MAX, Neighbourhood
from protocols.sub2sub.order import CELL_MAX, best_place, first_cell, length, places
from protocols.sub2sub.ring import VERSION_MAX, Candidate
from protocols.sub2sub.ring import Ring as RingView
from protocols.sub2sub.switching import Switching

NEW: Final = "new"
JOINING: Final = "joining"
STANDING: Final = "standing"
LEAVING: Final = "leaving"
LEFT: Final = "left"

ENTRIES: Final = 64
"""Entries of a reply in a ring: as many as a message takes, for exact links may be many."""
WAITING_MAX: Final = 1_024
"""Joiners that wait until this participant stands itself."""
REFRESH_CYCLES: Final = 10
"""Every ring link is greeted about once in so many cycles. A guess: views are renewed in 20."""
GUIDES_MAX: Final = 4
"""Holders of claims that are asked at a time for the way into a ring. A guess."""
RANDOM_SHOWN: Final = 3
"""Random links that are shown: of all that CYCLON holds, those heard of last, which are alive almost surely."""
NEVER_MS: Final = 1 << 62

VicinityMessage = TypeVar("VicinityMessage", VicinityRequest, VicinityReply)


class Sub2Sub:
    __slots__ = (
        "_active",
        "_asked",
        "_budget",
        "_cells",
        "_changed_ms",
        "_claiming",
        "_config",
        "_contacts",
        "_count",
        "_events",
        "_flow",
        "_greeted",
        "_hood",
        "_me",
        "_moving",
        "_out",
        "_rng",
        "_round",
        "_space",
        "_switching",
        "_unrest_ms",
        "_waiting",
        "_watched",
        "state",
    )

    def __init__(self, me: Address, config: Sub2SubConfig, schema: Schema, rng: Random) -> None:
        self._me = me
        self._config = config
        self._space = schema.space
        self._rng = rng
        self._out = Outbox(me.slot)
        self._cells = config.variant == "cells"
        self._hood = Neighbourhood(me, config, schema.space, rng)
        self._budget = Budget(config)
        self._claiming = Claiming(self._hood, config.claim_ms, self._send_all, self._out)
        limiting = self._cells and config.flow_control
        self._flow = Flow(self._hood, config, self._out, self._send) if limiting else None
        moving = self._cells and config.switching
        self._switching = Switching(self._hood, config, self._budget, self._out, self._send) if moving else None
        self._events = Dissemination(self._hood, config, self._budget, self._flow, self._claiming, self._out, rng)
        self.state = NEW
        self._moving: tuple[Box, int] | None = (EMPTY, 0)  # the box and version that are to become active
        self._active = -1  # the last version that did
        self._count = 0  # the version of our descriptor: boxes and cells change it
        self._changed_ms = 0  # when a ring last changed
        self._unrest_ms = 0  # until then gossip is quick
        self._greeted: dict[Address, int] = {}  # ring links and guides that owe us an answer
        self._watched: dict[Address, None] = {}
        self._contacts: list[Address] = []
        self._asked = 0
        self._round = 0
        self._waiting: dict[Address, None] = {}

    # --- interface ----------------------------------------------------------------------------------------------------

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        if type(item) is Received:
            handler = self._MESSAGES.get(type(item.message))
            if handler is None:
                self._out.report(Rejected(item.sender, f"{type(item.message).__name__} is not for a participant"))
            elif self.state != LEFT:
                handler(self, now_ms, item.sender, item.message)
        else:
            self._INPUTS[type(item)](self, now_ms, item)
        return self._out.drain()

    def descriptor(self) -> Descriptor:
        return self._hood.own

    def links(self) -> list[Link]:
        found = [
            Link(kind, part.who.address)
            for ring in self._hood.rings.values()
            for kind, parts in (("ring-upper", ring.upper), ("ring-lower", ring.lower))
            for part in parts
        ]
        found += [Link("interest", d.address) for d in self._hood.interest.neighbours()]
        found += [Link("random", address) for address in self._hood.youngest(RANDOM_SHOWN)]
        return list({(link.kind, link.to): link for link in found}.values())

    def has_room(self, now_ms: int) -> bool:
        return self._events.has_room(now_ms)

    @property
    def rings(self) -> dict[int, RingView]:
        """For those who check the rings from outside."""
        return self._hood.rings

    @property
    def claims(self) -> ClaimsKnown:
        """The same, for claims."""
        return self._hood.claims

    def limits(self) -> list[Limit]:
        """What flow control lets us send into higher cells."""
        return [] if self._flow is None else list(self._flow.limits.values())

    @property
    def budget(self) -> Budget:
        return self._budget

    @property
    def copies_received(self) -> int:
        """Copies of events that came along rings and over shortcuts."""
        return self._events.copies_received

    @property
    def copies_sent(self) -> int:
        return self._events.copies_sent

    # --- joining and leaving ------------------------------------------------------------------------------------------

    def _join(self, now_ms: int, item: Join) -> None:
        if self.state != NEW:
            raise ValueError(f"participant {self._me} joins twice")
        self._out.timer("cycle", now_ms + self._rng.randrange(1, self._config.cycle_ms + 1))
        if self._config.repair_ms:
            self._out.timer("repair", self._jittered(now_ms, self._config.repair_ms))
        if not item.contacts:
            self._stand(now_ms)
            return
        self.state = JOINING
        self._contacts = list(item.contacts)
        self._ask(now_ms)

    def _ask(self, now_ms: int) -> None:
        """Ask the next contact for what it knows."""
        known = dict.fromkeys((*self._contacts, *(d.address for d in self._hood.alive(self._hood.samples))))
        known.pop(self._me, None)
        contacts = list(known) or self._contacts
        contact = contacts[self._asked % len(contacts)]
        self._asked += 1
        self._out.send(contact, JoinRequest(self._hood.own))
        self._out.timer("join", self._jittered(now_ms, self._config.rpc_ms))

    def _on_join_request(self, now_ms: int, sender: Address, message: JoinRequest) -> None:
        if not self._speaks_for_itself(sender, message.own):
            return
        if self.state in (NEW, JOINING):
            if len(self._waiting) < WAITING_MAX:
                self._waiting[sender] = None
            else:
                self._out.report(Rejected(sender, "too many joiners wait already"))
        else:
            self._welcome(now_ms, sender)

    def _welcome(self, now_ms: int, joiner: Address) -> None:
        known = {d.address: d for d in self._hood.everyone() if d.address != joiner}
        entries = list(known.values())
        if len(entries) > ENTRIES // 2:
            entries = self._rng.sample(entries, ENTRIES // 2)
        self._claiming.tell(now_ms, joiner, False)  # before it stands: it would claim everything itself
        self._send(joiner, JoinReply(self._hood.own, tuple(self._hood.alive(entries))))

    def _on_join_reply(self, now_ms: int, sender: Address, message: JoinReply) -> None:
        if not self._speaks_for_itself(sender, message.own):
            return
        self._hood.heard(now_ms, message.own)
        self._consider(now_ms, (message.own, *message.entries))
        if self.state == JOINING:
            self._out.cancel("join")
            self._hood.samples = (message.own, *message.entries)[:SAMPLES_MAX]
            self._stand(now_ms)

    def _stand(self, now_ms: int) -> None:
        self.state = STANDING
        self._out.report(Joined())
        for joiner in self._waiting:
            self._welcome(now_ms, joiner)
        self._waiting = {}
        self._unrest(now_ms)
        self._tend(now_ms)

    def _leave(self, now_ms: int, item: Leave) -> None:
        linked = any(ring.links for ring in self._hood.rings.values())
        if self.state in (NEW, JOINING) or not (linked or self._events.is_seeking):
            self._leave_now(now_ms)
            return
        self.state = LEAVING
        self._events.leaving = True
        for ring in self._hood.rings.values():
            self._take_leave(now_ms, ring)
        self._out.timer("linger", now_ms + self._config.linger_ms)

    def _take_leave(self, now_ms: int, ring: RingView) -> None:
        """Tell the links of a ring that we go, and who is next to them then."""
        for link in ring.links.values():
            entries = ring.best_for(now_ms, link.descriptor, ENTRIES)
            self._send(link.address, RingHello(ring.place, self._hood.own, entries, True))

    def _leave_now(self, now_ms: int) -> None:
        self._claiming.withdraw_all(now_ms)
        self.state = LEFT
        for address in list(self._watched):
            self._unwatch(address)
        for key in ("cycle", "repair", "join", "seek", "flush", "linger", "settle", "claims"):
            self._out.cancel(key)
        self._out.report(Left())

    # --- the box ------------------------------------------------------------------------------------------------------

    def _subscribe(self, now_ms: int, item: Subscribe | Update) -> None:
        """Make for a box: present it together with the present one, until it is active."""
        self._moving = (item.box, item.version)
        mine = self._hood.own.box
        box = item.box if is_empty(mine) else enclosing(mine, item.box)
        wanted = best_place(self._space, item.box)
        present = places(self._hood.own)[:1]  # a second one was on its way at most
        self._present(now_ms, box, tuple(dict.fromkeys((*present, wanted))) if wanted is not None else present)
        self._settle(now_ms)

    def _unsubscribe(self, now_ms: int, item: Unsubscribe) -> None:
        self._moving = None
        self._present(now_ms, EMPTY, ())

    def _cell(self, box: Box, at: tuple[int, ...]) -> int:
        """Where a box belongs: by its length, by the budget if that counts, and by how far we have moved since."""
        if not self._cells or not at:
            return 0
        cell = first_cell(length(self._space, box, at[-1]))
        if self._switching is not None:
            cell -= self._switching.shift
        if self._config.reference and self._budget.limit is not None:
            cell += round(log2(self._config.reference / self._budget.limit))
        return max(1, min(CELL_MAX, cell))

    def _present(self, now_ms: int, box: Box, at: tuple[int, ...]) -> None:
        """Be known by this box, in the rings of these places, from now on."""
        if not at:
            box = EMPTY
        cell = self._cell(box, at)
        former = self._hood.own
        if (box, (cell, *at)) == (former.box, former.ext):
            return
        self._count += 1
        self._hood.own = own = Descriptor(self._me, box, self._count, 0, (cell, *at))
        self._hood.interest_is_stale = True
        told: list[tuple[RingView, list[Candidate]]] = []
        for place, ring in list(self._hood.rings.items()):
            told.append((ring, list(ring.links.values())))
            if place in at:
                ring.present(own)
            else:
                del self._hood.rings[place]
                self._claiming.give_up(now_ms, place)
        for place in at:
            if place not in self._hood.rings:
                config = self._config
                ring = RingView(place, own, config.cycle_ms, config.ring_links_max, config.linger_ms)
                ring.learn(now_ms, self._hood.alive(self._hood.everyone()))
                self._hood.rings[place] = ring
        self._hood.offer_interest(self._hood.samples)
        for ring, links in told:
            self._announce(now_ms, ring, links)
        self._unrest(now_ms)
        self._tend(now_ms)

    def _announce(self, now_ms: int, ring: RingView, links: list[Candidate]) -> None:
        """Show the links that a ring had our new descriptor, with those that are best for them now."""
        if self.state not in (STANDING, LEAVING):
            return
        gone = ring.place not in self._hood.rings
        for link in links:
            self._greeted[link.address] = now_ms + self._config.rpc_ms
            entries = ring.best_for(now_ms, link.descriptor, ENTRIES)
            self._send(link.address, RingHello(ring.place, self._hood.own, entries))
            if gone:
                self._drop_link(ring.kind(link), link)

    def _settle(self, now_ms: int) -> None:
        """Say that the box is active, once it is."""
        if self._moving is None or self.state not in (STANDING, LEAVING):
            return
        if not is_empty(self._hood.own.box):
            since_ms = max([self._changed_ms + self._config.quiet_ms, *map(self._standing_since, self._hood.rings)])
            if not all(ring.is_settled() for ring in self._hood.rings.values()):
                return
            if since_ms > now_ms:
                if since_ms < NEVER_MS:
                    self._out.timer("settle", since_ms)
                return
        (box, version), self._moving = self._moving, None
        if version > self._active:
            self._active = version
            self._out.active(OWN_BOX, version)
        place = best_place(self._space, box)
        self._present(now_ms, box, () if place is None else (place,))

    def _standing_since(self, place: int) -> int:
        """From when on events find the ring of a place in all of our span: claims must lead everywhere in it."""
        ring, claims = self._hood.rings[place], self._hood.claims
        free = ring.unserved()
        if free and claims.guides(place, free, 1):
            return NEVER_MS  # somebody is there, whom we have not met yet
        if claims.complete and claims.uncovered(place, ring.lo, ring.hi):
            return NEVER_MS
        return self._claiming.claimed_ms.get(place, -self._config.claim_ms) + self._config.claim_ms if free else 0

    # --- rings --------------------------------------------------------------------------------------------------------

    def _tend(self, now_ms: int) -> None:
        """Bring everything into line with what was learned: links, greetings, claims, and whether the box is active."""
        if self.state != STANDING:
            if self.state == LEAVING:
                for ring in self._hood.rings.values():
                    if ring.changed:
                        self._relink(now_ms, ring)
            return
        for ring in self._hood.rings.values():
            if ring.changed:
                self._relink(now_ms, ring)
            self._greet(now_ms, ring)
        self._claiming.cover(now_ms)
        if self._moving is not None:
            self._settle(now_ms)

    def _relink(self, now_ms: int, ring: RingView) -> None:
        added, removed = ring.resweep(now_ms)
        if not (added or removed):
            return
        self._changed_ms = now_ms
        self._unrest(now_ms)
        for kind, link in removed:
            self._drop_link(kind, link)
        for kind, link in added:
            self._out.report(LinkUp(kind, link.address))
            if link.address not in self._watched:
                self._watched[link.address] = None
                self._out.watch(link.address)
        if ring.overflow:
            self._out.report(Control("ring-links-overflow", ring.overflow))

    def _drop_link(self, kind: str, link: Candidate) -> None:
        self._out.report(LinkDown(kind, link.address))
        if not any(link.key in other.links for other in self._hood.rings.values()):
            self._unwatch(link.address)

    def _unwatch(self, address: Address) -> None:
        if address in self._watched:
            del self._watched[address]
            self._out.unwatch(address)

    def _greet(self, now_ms: int, ring: RingView) -> None:
        """Show ourselves to links that do not know us as we are, and to those who claim what we serve alone."""
        wanted = [link.descriptor for link in ring.unconfirmed()]
        if ring.upper_left and ring.lower_left and (free := ring.unserved()):
            wanted += self._hood.claims.guides(ring.place, free, GUIDES_MAX)
        for descriptor in wanted:
            if self._greeted.get(descriptor.address, 0) <= now_ms:
                self._hello(now_ms, ring, descriptor)

    def _hello(self, now_ms: int, ring: RingView, to: Descriptor) -> None:
        if len(self._greeted) > 2 * self._config.ring_links_max:
            self._greeted = {address: until for address, until in self._greeted.items() if until > now_ms}
        self._greeted[to.address] = now_ms + self._config.rpc_ms
        entries = ring.best_for(now_ms, to, self._config.gossip_length)
        self._send(to.address, RingHello(ring.place, self._hood.own, entries))

    def _on_ring_hello(self, now_ms: int, sender: Address, message: RingHello) -> None:
        own = message.own
        if not self._speaks_for_itself(sender, own):
            return
        hood = self._hood
        ring = hood.rings.get(message.place)
        if message.leaving:
            if ring is not None:
                self._learn(now_ms, message.entries)
            hood.forget(now_ms, sender)
            hood.claims.disprove(now_ms, sender)  # it will tell the others itself
            self._tend(now_ms)
            return
        if self.state == LEAVING and ring is not None:
            entries = ring.best_for(now_ms, own, ENTRIES)
            self._send(sender, RingHello(message.place, hood.own, entries, True))
            return
        hood.heard(now_ms, own)
        hood.claims.correct(now_ms, message.place, own)
        self._learn(now_ms, message.entries)
        if ring is not None and ring.changed:
            self._relink(now_ms, ring)
        entries = ()
        if ring is not None:
            entries = ring.best_for(now_ms, own, ENTRIES, self._known_beside(ring, own))
            self._agreed(now_ms, ring, own)
        self._send(sender, RingReply(message.place, hood.own, entries, own.version))
        self._tend(now_ms)

    def _known_beside(self, ring: RingView, target: Descriptor) -> list[Descriptor]:
        """For a newcomer far from its place also those whom we know otherwise: they may be nearer to it."""
        if (target.address.peer, target.address.slot) in ring.links:
            return []
        return self._hood.alive((*self._hood.interest.neighbours(), *self._hood.samples))

    def _on_ring_reply(self, now_ms: int, sender: Address, message: RingReply) -> None:
        own = message.own
        if not self._speaks_for_itself(sender, own):
            return
        self._hood.heard(now_ms, own)
        self._hood.claims.correct(now_ms, message.place, own)
        self._learn(now_ms, message.entries)
        ring = self._hood.rings.get(message.place)
        if ring is not None:
            if ring.changed:
                self._relink(now_ms, ring)
            if message.version == self._hood.own.version:
                self._agreed(now_ms, ring, own)
        self._tend(now_ms)

    def _agreed(self, now_ms: int, ring: RingView, other: Descriptor) -> None:
        """A participant knows us as we are."""
        key = (other.address.peer, other.address.slot)
        if key in ring.links:
            self._greeted.pop(other.address, None)
            fresh = key not in ring.confirmed
            ring.confirmed[key] = self._hood.own.version
            if fresh:
                self._events.repair.compare(now_ms, ring, other.address, 0)

    def _learn(self, now_ms: int, descriptors: tuple[Descriptor, ...]) -> None:
        """Take in what others say, but for what they say of us."""
        for descriptor in descriptors:
            if descriptor.address == self._me and self._hood.own.version < descriptor.version <= VERSION_MAX:
                self._count = descriptor.version  # somebody pretends to be us: speak louder
                self._refute(now_ms)
        self._hood.learn(now_ms, descriptors)

    def _refute(self, now_ms: int) -> None:
        own = self._hood.own
        self._count += 1
        self._hood.own = Descriptor(self._me, own.box, self._count, 0, own.ext)
        for ring in self._hood.rings.values():
            ring.present(self._hood.own)

    def _speaks_for_itself(self, sender: Address, own: Descriptor) -> bool:
        if own.address == sender and sender != self._me and sender.slot != PEER_SLOT:
            return True
        self._out.report(Rejected(sender, "speaks in another participant's name"))
        return False

    # --- claims -------------------------------------------------------------------------------------------------------

    def _on_claims(self, now_ms: int, sender: Address, message: Claims) -> None:
        if self._claiming.on_claims(now_ms, sender, message, self.state == STANDING):
            self._tend(now_ms)

    def _on_claims_digest(self, now_ms: int, sender: Address, message: ClaimsDigest) -> None:
        self._claiming.on_digest(now_ms, sender, message)

    # --- cells --------------------------------------------------------------------------------------------------------

    def _turn_cells(self, now_ms: int) -> None:
        """A cycle ends: flow control, and whether to move to another cell."""
        events = self._events
        if self._flow is not None:
            self._flow.turn(events.buffered)
        if self._switching is not None and self._moving is None:
            self._switching.turn(events.buffered, events.marked)
        events.marked = 0

    def _on_cell_switch(self, now_ms: int, sender: Address, message: CellSwitch) -> None:
        if self._switching is not None:
            self._switching.on_switch(sender, message)

    def _on_switch_ok(self, now_ms: int, sender: Address, message: SwitchOk) -> None:
        if self._switching is None or not self._speaks_for_itself(sender, message.own):
            return
        self._hood.heard(now_ms, message.own)
        if self._moving is None and self.state == STANDING and self._switching.on_ok(now_ms, message):
            self._present(now_ms, self._hood.own.box, places(self._hood.own))

    def _on_flow_event(self, now_ms: int, sender: Address, message: FlowEvent) -> None:
        if self._flow is not None:
            self._flow.on_event(sender, message)

    def _on_flow_query(self, now_ms: int, sender: Address, message: FlowQuery) -> None:
        if self._flow is not None and message.controller != self._me:
            self._flow.on_query(sender, message)

    def _on_flow_rate(self, now_ms: int, sender: Address, message: FlowRate) -> None:
        if self._flow is not None:
            self._flow.on_rate(sender, message)

    def _on_flow_limit(self, now_ms: int, sender: Address, message: FlowLimit) -> None:
        if self._flow is not None:
            self._flow.on_limit(sender, message)

    # --- gossip -------------------------------------------------------------------------------------------------------

    def _cycle(self, now_ms: int) -> None:
        """One round: gossip, events that wait for it, and what is counted by the cycle."""
        self._round += 1
        self._hood.expire(now_ms)
        if self.state == STANDING and self._is_due(now_ms):
            self._gossip(now_ms)
        if self._config.buffered:
            self._events.flush(now_ms)
        if self._budget.limit is not None:
            self._turn_cells(now_ms)
        self._budget.turn()
        self._out.timer("cycle", self._next_cycle(now_ms))

    def _gossip(self, now_ms: int) -> None:
        """A word with the oldest interest neighbour, with some ring neighbours, and with anybody."""
        self._gossip_interest(now_ms)
        for ring in self._hood.rings.values():
            self._gossip_ring(now_ms, ring)
        self._claiming.cycle(now_ms)
        self._tend(now_ms)

    def _is_due(self, now_ms: int) -> bool:
        """Whether to gossip in this cycle: in every one while something changes, else now and then. (Budgets, rates and
        limits are counted by the cycle, so those go on; without a budget all wait for the next gossip.)"""
        return self._budget.limit is None or self._is_restless(now_ms) or self._round % self._config.idle == 0

    def _is_restless(self, now_ms: int) -> bool:
        return now_ms < self._unrest_ms or self._moving is not None

    def _next_cycle(self, now_ms: int) -> int:
        cycle_ms = self._config.cycle_ms
        if self._config.buffered:
            return now_ms + cycle_ms
        if self._budget.limit is None and not self._is_restless(now_ms):
            cycle_ms *= self._config.idle
        return self._jittered(now_ms, cycle_ms)

    def _unrest(self, now_ms: int) -> None:
        """Something changes: gossip quickly until every view had its turn."""
        self._unrest_ms = now_ms + self._config.cycle_ms * self._config.view

    def _gossip_interest(self, now_ms: int) -> None:
        if not self._hood.rings:
            return
        hood = self._hood
        step = hood.interest.begin(hood.own, hood.alive(self._few_samples()))
        if step is not None:
            # whoever was asked is out of the view until it answers; whoever has not answered leaves room
            hood.interest_is_stale |= len(hood.interest) < self._config.view - 1
            self._send(*step)

    def _few_samples(self) -> list[Descriptor]:
        samples = list(self._hood.samples)
        count = self._config.gossip_length
        return samples if len(samples) <= count else self._rng.sample(samples, count)

    def _gossip_ring(self, now_ms: int, ring: RingView) -> None:
        """The second VICINITY: greet those ring links whose word is oldest."""
        links = sorted(ring.links.values(), key=_born)
        for link in links[: 1 + len(links) // REFRESH_CYCLES]:
            if self._greeted.get(link.address, 0) <= now_ms:
                self._hello(now_ms, ring, link.descriptor)

    def _on_vicinity_request(self, now_ms: int, sender: Address, message: VicinityRequest) -> None:
        if not self._speaks_for_itself(sender, message.own):
            return
        self._hood.heard(now_ms, message.own)
        self._learn(now_ms, message.entries)
        reply = self._hood.interest.on_request(self._hood.own, sender, self._useful(message), ())
        if reply is not None:
            self._send(sender, reply)
        self._tend(now_ms)

    def _on_vicinity_reply(self, now_ms: int, sender: Address, message: VicinityReply) -> None:
        if not self._speaks_for_itself(sender, message.own):
            return
        self._hood.heard(now_ms, message.own)
        self._learn(now_ms, message.entries)
        self._hood.interest.on_reply(self._hood.own, sender, self._useful(message), ())
        self._tend(now_ms)

    def _useful(self, message: VicinityMessage) -> VicinityMessage:
        """The message without those entries that cannot matter."""
        self._hood.of_interest((message.own,))  # it is offered anyway
        return replace(message, entries=tuple(self._hood.of_interest(self._hood.alive(message.entries))))

    def _sampled(self, now_ms: int, item: Sampled) -> None:
        others = [d for d in item.descriptors if d.address != self._me]
        self._hood.samples = tuple(self._hood.alive(others))[:SAMPLES_MAX]
        if self.state in (STANDING, LEAVING):
            self._hood.offer_interest(others)
            self._consider(now_ms, tuple(others))

    def _consider(self, now_ms: int, descriptors: tuple[Descriptor, ...]) -> None:
        self._learn(now_ms, descriptors)
        self._tend(now_ms)

    def _set_budget(self, now_ms: int, item: SetBudget) -> None:
        self._budget.set(now_ms, item.limit)

    # --- the others' end ----------------------------------------------------------------------------------------------

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        address = item.address
        if address in self._watched:
            del self._watched[address]
            self._out.report(Repaired("link"))
        self._forget(now_ms, address)

    def _forget(self, now_ms: int, address: Address) -> None:
        self._hood.forget(now_ms, address)
        if address.slot != PEER_SLOT:
            self._claiming.disprove(now_ms, address)
        for ring in self._hood.rings.values():
            ring.bury(address)
        self._greeted.pop(address, None)
        self._contacts = [c for c in self._contacts if c != address] or self._contacts
        self._events.lost(now_ms, address)
        self._unrest(now_ms)
        self._tend(now_ms)

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        if item.refused:
            self._forget(now_ms, item.to)
        message = item.message
        if isinstance(message, RingHello):
            self._greeted.pop(item.to, None)
        elif isinstance(message, JoinRequest) and self.state == JOINING:
            self._ask(now_ms)
        self._events.undelivered(now_ms, item.to, message, item.refused)
        self._tend(now_ms)

    # --- events -------------------------------------------------------------------------------------------------------

    def _publish(self, now_ms: int, item: Publish) -> None:
        self._events.publish(now_ms, item.event)

    def _on_ring(self, now_ms: int, sender: Address, message: Ring) -> None:
        self._events.on_ring(now_ms, sender, message)

    def _on_enter(self, now_ms: int, sender: Address, message: Enter) -> None:
        self._events.on_enter(now_ms, sender, message)

    def _on_entered(self, now_ms: int, sender: Address, message: Entered) -> None:
        self._events.entry.on_entered(now_ms, sender, message)

    def _on_not_here(self, now_ms: int, sender: Address, message: NotHere) -> None:
        self._events.entry.on_not_here(now_ms, sender, message)

    def _on_descend(self, now_ms: int, sender: Address, message: Descend) -> None:
        self._events.on_descend(now_ms, sender, message)

    def _on_recent_ids(self, now_ms: int, sender: Address, message: RecentIds) -> None:
        self._events.repair.on_recent_ids(sender, message)

    def _on_want(self, now_ms: int, sender: Address, message: Want) -> None:
        self._events.on_want(now_ms, sender, message)

    def _repair(self, now_ms: int) -> None:
        self._out.timer("repair", self._jittered(now_ms, self._config.repair_ms))
        for ring in self._hood.rings.values():
            links = list(ring.links.values())
            if links:
                self._events.repair.compare(now_ms, ring, links[int(self._rng.random() * len(links))].address)

    # --- dispatch -----------------------------------------------------------------------------------------------------

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.key == "cycle":
            self._cycle(now_ms)
        elif item.key == "flush":
            self._events.flush(now_ms)
        elif item.key == "seek":
            self._events.entry.overdue(now_ms)
        elif item.key == "repair":
            self._repair(now_ms)
        elif item.key == "claims":
            self._claiming.flush()
        elif item.key == "settle":
            self._settle(now_ms)
        elif item.key == "join" and self.state == JOINING:
            self._ask(now_ms)
        elif item.key == "linger":
            self._leave_now(now_ms)

    def _send(self, to: Address, message: Message) -> None:
        self._budget.charge(self._budget.of_message(message))
        self._out.send(to, message)

    def _send_all(self, to: list[Address], message: Message) -> None:
        if to:
            self._budget.charge(self._budget.of_message(message) * len(to))
            self._out.send_all(to, message)

    def _jittered(self, now_ms: int, period_ms: int) -> int:
        return now_ms + max(1, int(period_ms * self._rng.uniform(0.9, 1.1)))

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
        Sampled: _sampled,
        SetBudget: _set_budget,
    }

    _MESSAGES: Final[dict[type, Any]] = {
        Ring: _on_ring,
        VicinityRequest: _on_vicinity_request,
        VicinityReply: _on_vicinity_reply,
        RingHello: _on_ring_hello,
        RingReply: _on_ring_reply,
        JoinRequest: _on_join_request,
        JoinReply: _on_join_reply,
        Claims: _on_claims,
        ClaimsDigest: _on_claims_digest,
        Enter: _on_enter,
        Entered: _on_entered,
        NotHere: _on_not_here,
        Descend: _on_descend,
        RecentIds: _on_recent_ids,
        Want: _on_want,
        FlowEvent: _on_flow_event,
        FlowQuery: _on_flow_query,
        FlowRate: _on_flow_rate,
        FlowLimit: _on_flow_limit,
        CellSwitch: _on_cell_switch,
        SwitchOk: _on_switch_ok,
    }


def _born(candidate: Candidate) -> int:
    return candidate.born_ms
