"""One participant of Sub-2-Sub.

**Structure.** Participants whose boxes overlap on their ring attribute stand in rings: for every value x, all whose
span holds x form one line in the order of ranks (`order`), each linked with the next above and the next below (`ring`,
`links`). Views of gossip supply candidates and shortcuts (`neighbourhood`, `gossip`), claims lead publishers to the
rings (`claims`).

**States.** new -> joining -> standing -> leaving -> left. A joiner asks a contact for what it knows, and stands when it
has the answer (`joining`). Standing, it takes its places in the rings, and then its box is active (`presence`).

**Leaving.** It tells its ring links, with those that are best for them without it, and everybody that its claims will
end, goes on forwarding for `linger_ms`, and ends its claims at last.

**Invariants.** For every x of a participant's span, its upper link is the next standing participant in the order whose
span holds x, and its lower link the one before; claims cover every span.
"""

from random import Random
from typing import Any, ClassVar, Final

from protocols.model.descriptor import Descriptor
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import Schema
from protocols.overlay import (
    Effect,
    Input,
    Join,
    Joined,
    Leave,
    Left,
    Link,
    Message,
    Outbox,
    PeerLost,
    Publish,
    Received,
    Rejected,
    Repaired,
    Sampled,
    SetBudget,
    Siblings,
    Subscribe,
    TimerFired,
    Undelivered,
    Unsubscribe,
    Update,
)
from protocols.parts.vicinity import VicinityReply, VicinityRequest
from protocols.sub2sub.budget import Budget
from protocols.sub2sub.cells import Cells
from protocols.sub2sub.claiming import Claiming
from protocols.sub2sub.claims import Claims as ClaimsKnown
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.dissemination import Dissemination
from protocols.sub2sub.flow import Limit
from protocols.sub2sub.gossip import Gossip
from protocols.sub2sub.hearing import Hearing
from protocols.sub2sub.joining import Joining
from protocols.sub2sub.links import BROKER, FEEDER, Links
from protocols.sub2sub.messages import (
    CellSwitch,
    Claims,
    ClaimsDigest,
    Descend,
    Enter,
    Entered,
    FlowClosed,
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
from protocols.sub2sub.presence import Presence
from protocols.sub2sub.ring import Ring as RingView

NEW: Final = "new"
JOINING: Final = "joining"
STANDING: Final = "standing"
LEAVING: Final = "leaving"
LEFT: Final = "left"

RANDOM_SHOWN: Final = 3
"""Random links that are shown: of all that CYCLON holds, those heard of last, which are alive almost surely."""
TIMERS: Final = ("cycle", "repair", "join", "seek", "flush", "linger", "settle", "claims")


class Sub2Sub:
    __slots__ = (
        "_budget",
        "_cells",
        "_claiming",
        "_config",
        "_cycle_began_ms",
        "_events",
        "_gossip",
        "_hearing",
        "_hood",
        "_joining",
        "_links",
        "_me",
        "_out",
        "_presence",
        "_rng",
        "_round",
        "state",
    )

    def __init__(self, me: Address, config: Sub2SubConfig, schema: Schema, rng: Random) -> None:
        self._me = me
        self._config = config
        self._rng = rng
        self._out = out = Outbox(me.slot)
        self._hood = hood = Neighbourhood(me, config, schema.space, rng)
        self._budget = Budget(me, config)
        self._cells = cells = Cells(hood, config, self._budget, out, self._send, rng)
        self._claiming = Claiming(hood, config.claim_ms, self._send_all, out)
        self._events = Dissemination(hood, config, self._budget, cells.flow, self._claiming, out, rng)
        self._links = Links(hood, config, self._events.repair, self._send, out)
        self._presence = Presence(hood, config, self._links, self._claiming, cells.switching, self._budget, out)
        self._joining = Joining(hood, config, self._claiming, self._send, out, rng)
        self._gossip = Gossip(hood, config, self._links, self._claiming, self._send, rng)
        self._hearing = Hearing(hood, self._links, self._presence, self._gossip, self._send, out)
        self.state = NEW
        self._round = 0
        self._cycle_began_ms = 0

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
        found += [Link(_OTHERS_ROLE[role], link.address) for role, link in self._links.across()]
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
        return self._cells.limits()

    @property
    def budget(self) -> Budget:
        return self._budget

    @property
    def copies_received(self) -> int:
        """Copies of events that came along rings and over shortcuts."""
        return self._events.spreading.copies_received

    @property
    def copies_guided(self) -> int:
        """Copies of events that came on their way to a ring, or down in one."""
        return self._events.copies_guided

    @property
    def copies_sent(self) -> int:
        """Copies of events that were sent along rings and over shortcuts."""
        return self._events.spreading.copies_sent

    # --- joining and leaving ------------------------------------------------------------------------------------------

    def _join(self, now_ms: int, item: Join) -> None:
        if self.state != NEW:
            raise ValueError(f"participant {self._me} joins twice")
        self._cycle_began_ms = now_ms
        self._out.timer("cycle", now_ms + self._rng.randrange(1, self._config.cycle_ms + 1))
        if self._config.repair_ms:
            self._out.timer("repair", self._jittered(now_ms, self._config.repair_ms))
        if not item.contacts:
            self._stand(now_ms)
            return
        self.state = JOINING
        self._joining.begin(now_ms, item.contacts)

    def _on_join_request(self, now_ms: int, sender: Address, message: JoinRequest) -> None:
        if not self._hearing.speaks_for_itself(sender, message.own):
            return
        if self.state in (NEW, JOINING):
            self._joining.wait(sender)
        else:
            self._joining.welcome(now_ms, sender)

    def _on_join_reply(self, now_ms: int, sender: Address, message: JoinReply) -> None:
        if not self._hearing.speaks_for_itself(sender, message.own):
            return
        self._hood.heard(now_ms, message.own)
        self._consider(now_ms, (message.own, *message.entries))
        if self.state == JOINING:
            self._out.cancel("join")
            self._hood.samples = (message.own, *message.entries)[:SAMPLES_MAX]
            self._stand(now_ms)

    def _stand(self, now_ms: int) -> None:
        self.state = STANDING
        self._presence.is_heard = True
        self._out.report(Joined())
        self._joining.welcome_all(now_ms)
        self._links.unrest(now_ms)
        self._tend(now_ms)

    def _leave(self, now_ms: int, item: Leave) -> None:
        linked = any(ring.links for ring in self._hood.rings.values())
        if self.state in (NEW, JOINING) or not (linked or self._events.is_seeking):
            self._leave_now(now_ms)
            return
        self.state = LEAVING
        self._events.leaving = self._hearing.leaving = True
        for ring in self._hood.rings.values():
            self._links.take_leave(now_ms, ring)
        self._claiming.foretell(now_ms)
        self._out.timer("linger", now_ms + self._config.linger_ms)

    def _leave_now(self, now_ms: int) -> None:
        self._claiming.withdraw_all(now_ms)
        self._events.abandon()
        self.state = LEFT
        self._links.unwatch_all()
        for key in TIMERS:
            self._out.cancel(key)
        self._out.report(Left())

    # --- the box ------------------------------------------------------------------------------------------------------

    def _subscribe(self, now_ms: int, item: Subscribe | Update) -> None:
        self._presence.subscribe(now_ms, item.box, item.version)
        self._tend(now_ms)
        self._settle(now_ms)

    def _unsubscribe(self, now_ms: int, item: Unsubscribe) -> None:
        self._presence.unsubscribe(now_ms)
        self._tend(now_ms)

    def _settle(self, now_ms: int) -> None:
        if self.state in (STANDING, LEAVING) and self._presence.settle(now_ms):
            self._tend(now_ms)

    # --- rings --------------------------------------------------------------------------------------------------------

    def _tend(self, now_ms: int) -> None:
        """Bring everything into line with what was learned: links, greetings, claims, and whether the box is active."""
        if self.state not in (STANDING, LEAVING):
            return
        if self.state == STANDING:
            self._presence.make_room(now_ms)
        for ring in self._hood.rings.values():
            self._links.relink(now_ms, ring)
            if self.state == STANDING:
                self._links.greet(now_ms, ring)
        if self.state == STANDING:
            self._claiming.cover(now_ms)
            self._settle(now_ms)

    def _on_words(self, now_ms: int, sender: Address, message: Message) -> None:
        if self._hearing.on_message(now_ms, sender, message):
            self._tend(now_ms)

    def _on_claims(self, now_ms: int, sender: Address, message: Claims) -> None:
        if self._claiming.on_claims(now_ms, sender, message, self.state == STANDING):
            self._tend(now_ms)

    # --- cells --------------------------------------------------------------------------------------------------------

    def _on_cells(self, now_ms: int, sender: Address, message: Message) -> None:
        self._cells.on_message(sender, message)

    def _on_switch_ok(self, now_ms: int, sender: Address, message: SwitchOk) -> None:
        switching = self._cells.switching
        if switching is None or not self._hearing.speaks_for_itself(sender, message.own):
            return
        self._hood.heard(now_ms, message.own)
        if self.state == STANDING and not self._presence.is_moving and switching.on_ok(now_ms, message):
            self._presence.shift(now_ms)
            self._tend(now_ms)

    # --- gossip -------------------------------------------------------------------------------------------------------

    def _cycle(self, now_ms: int) -> None:
        """One round: gossip, events that wait for it, and what is counted by the cycle."""
        self._round += 1
        self._hood.expire(now_ms)
        if self.state == STANDING and self._is_due(now_ms):
            self._gossip.round(now_ms)
            self._tend(now_ms)
        if self._config.buffered:
            self._events.spreading.flush(now_ms)
        cycles, self._cycle_began_ms = self._cycles_since(now_ms), now_ms
        self._cells.turn(self._events.spreading, self._presence.is_moving, cycles)
        self._budget.turn()
        self._out.timer("cycle", self._next_cycle(now_ms))

    def _cycles_since(self, now_ms: int) -> int:
        """How many cycles have passed since the last one began that was counted."""
        return max(1, round((now_ms - self._cycle_began_ms) / self._config.cycle_ms))

    def _is_due(self, now_ms: int) -> bool:
        """Whether to gossip in this cycle: in every one while something changes, else now and then. (Budgets and limits
        are counted by the cycle, so those go on; without either all waits for the next gossip.)"""
        return self._budget.limit is None or self._is_restless(now_ms) or self._round % self._config.idle == 0

    def _is_restless(self, now_ms: int) -> bool:
        return self._links.is_restless(now_ms) or self._presence.is_moving

    def _next_cycle(self, now_ms: int) -> int:
        cycle_ms = self._config.cycle_ms
        if self._config.buffered:
            return now_ms + cycle_ms
        if self._budget.limit is None and not self._cells.limits() and not self._is_restless(now_ms):
            cycle_ms *= self._config.idle
        return self._jittered(now_ms, cycle_ms)

    def _sampled(self, now_ms: int, item: Sampled) -> None:
        others = [d for d in item.descriptors if d.address != self._me]
        self._hood.samples = tuple(self._hood.alive(others))[:SAMPLES_MAX]
        if self.state in (STANDING, LEAVING):
            self._hood.offer_interest(others)
            self._consider(now_ms, tuple(others))

    def _consider(self, now_ms: int, descriptors: tuple[Descriptor, ...]) -> None:
        self._hearing.learn(now_ms, descriptors)
        self._tend(now_ms)

    def _set_budget(self, now_ms: int, item: SetBudget) -> None:
        self._budget.set(now_ms, item)

    def _siblings(self, now_ms: int, item: Siblings) -> None:
        self._claiming.siblings = list(item.addresses)

    # --- the others' end ----------------------------------------------------------------------------------------------

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        if self._links.lost(item.address):
            self._out.report(Repaired("link"))
        self._forget(now_ms, item.address)

    def _forget(self, now_ms: int, address: Address) -> None:
        self._hood.forget(now_ms, address)
        if address.slot != PEER_SLOT:
            self._claiming.disprove(now_ms, address)
        for ring in self._hood.rings.values():
            ring.bury(address)
        self._links.not_greeted(address)
        self._joining.lost(address)
        self._links.unrest(now_ms)
        self._tend(now_ms)
        self._events.lost(now_ms, address)  # when the links no longer lead there

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        if item.refused:
            self._forget(now_ms, item.to)
        message = item.message
        if isinstance(message, RingHello):
            self._links.not_greeted(item.to)
        elif isinstance(message, JoinRequest) and self.state == JOINING:
            self._joining.ask(now_ms)
        self._events.undelivered(now_ms, item.to, message, item.refused)
        self._tend(now_ms)

    # --- events -------------------------------------------------------------------------------------------------------

    def _publish(self, now_ms: int, item: Publish) -> None:
        self._events.publish(now_ms, item.event)

    def _repair(self, now_ms: int) -> None:
        self._out.timer("repair", self._jittered(now_ms, self._config.repair_ms))
        self._events.repair.forget(now_ms)
        if self._events.spreading.buffered:
            return  # we are behind: what others miss is on its way, or there is no budget for it
        for ring in self._hood.rings.values():
            self._events.repair.round(now_ms, ring)

    # --- dispatch -----------------------------------------------------------------------------------------------------

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.key == "cycle":
            self._cycle(now_ms)
        elif item.key == "flush":
            self._events.spreading.flush(now_ms)
        elif item.key == "seek":
            self._events.entry.overdue(now_ms)
        elif item.key == "repair":
            self._repair(now_ms)
        elif item.key == "claims":
            self._claiming.flush()
        elif item.key == "settle":
            self._settle(now_ms)
        elif item.key == "join" and self.state == JOINING:
            self._joining.ask(now_ms)
        elif item.key == "linger":
            self._leave_now(now_ms)

    def _send(self, to: Address, message: Message) -> None:
        self._budget.pay((to,), message)
        self._out.send(to, message)

    def _send_all(self, to: list[Address], message: Message) -> None:
        if to:
            self._budget.pay(to, message)
            self._out.send_all(to, message)

    def _jittered(self, now_ms: int, period_ms: int) -> int:
        return now_ms + max(1, int(period_ms * self._rng.uniform(0.9, 1.1)))

    _INPUTS: ClassVar[dict[type, Any]] = {
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
        Siblings: _siblings,
    }

    _MESSAGES: ClassVar[dict[type, Any]] = {
        Ring: lambda me, now_ms, sender, m: me._events.spreading.on_ring(now_ms, sender, m),
        VicinityRequest: _on_words,
        VicinityReply: _on_words,
        RingHello: _on_words,
        RingReply: _on_words,
        JoinRequest: _on_join_request,
        JoinReply: _on_join_reply,
        Claims: _on_claims,
        ClaimsDigest: lambda me, now_ms, sender, m: me._claiming.on_digest(now_ms, sender, m),
        Enter: lambda me, now_ms, sender, m: me._events.on_enter(now_ms, sender, m),
        Entered: lambda me, now_ms, sender, m: me._events.entry.on_entered(now_ms, sender, m),
        NotHere: lambda me, now_ms, sender, m: me._events.entry.on_not_here(now_ms, sender, m),
        Descend: lambda me, now_ms, sender, m: me._events.on_descend(now_ms, sender, m),
        RecentIds: lambda me, now_ms, sender, m: me._events.repair.on_recent_ids(sender, m),
        Want: lambda me, now_ms, sender, m: me._events.spreading.on_want(now_ms, sender, m),
        FlowEvent: _on_cells,
        FlowQuery: _on_cells,
        FlowRate: _on_cells,
        FlowLimit: _on_cells,
        FlowClosed: _on_cells,
        CellSwitch: _on_cells,
        SwitchOk: _on_switch_ok,
    }


_OTHERS_ROLE: Final = {BROKER: FEEDER, FEEDER: BROKER}
"""What somebody in another cell is to us, by what we are to it."""
