"""The peer: one per daemon, as pure as the overlays that it hosts.

It owns what is the same under every overlay:

- *membership* (`protocols/membership.py`): peer sampling, liveness and bootstrap, once per daemon;
- *participants*: one overlay object per slot, created, joined, resized and dismissed as subscriptions come and go
  (`protocols/grouping.py` decides, or `individual.py` where the overlay takes each box by itself). Participants of one
  peer talk to each other without leaving this module;
- *delivery*: an event that reached any participant is matched exactly against all subscriptions, once.

The peer has the same shape as an overlay, `handle(now_ms, item) -> effects`. It takes the inputs of `overlay.py`
(`Join` with endpoints, `Leave`, `Publish`, `Received`, `TimerFired`, `Undelivered`; and `PeerLost` and `Sampled` where
an oracle stands in for membership) and some of its own: for subscriptions, the schema, links and contacts. Of the
overlays' effects it absorbs `Watch`, `Unwatch`, `Active` and `Deliver`; what it emits itself carries the slot
`PEER_SLOT`: `Active` and `Deliver` then name subscriptions, `Report(Joined)` means that the peer is ready,
`Report(Left)` that it may be stopped.
"""

from collections import deque
from random import Random
from typing import Annotated, Any, Final

import msgspec

from protocols.grouping import Change, Grouping
from protocols.growth import MESSAGES as GROWTH_MESSAGES
from protocols.growth import Growth, SchemaNews
from protocols.individual import Individual
from protocols.inputs import (
    AddSubscription,
    AppendAttributes,
    AskLinks,
    ChangeSubscription,
    PeerInput,
    RemoveSubscription,
    Reseed,
    everything,
)
from protocols.inspection import MESSAGES as INSPECTION_MESSAGES
from protocols.inspection import LinksReply, LinksRequest, reply, shown
from protocols.membership import MESSAGES as MEMBERSHIP_MESSAGES
from protocols.membership import Gone, Membership, MembershipConfig
from protocols.model.descriptor import Standing
from protocols.model.event import LIFETIME_MS, Attributes, Body, Copy, Event, decode_body, encode_body
from protocols.model.ids import PEER_SLOT, Address, event_id, in_slot, of_peer
from protocols.model.index import LocalIndex
from protocols.model.schema import Schema
from protocols.model.xpath.document import document_of
from protocols.overlay import (
    OWN_BOX,
    Active,
    CancelTimer,
    Deliver,
    Dropped,
    Effect,
    Input,
    Join,
    Joined,
    Kind,
    Leave,
    Left,
    Overlay,
    PeerLost,
    Placed,
    Publish,
    Received,
    Rejected,
    Report,
    Sampled,
    Send,
    SetBudget,
    SetTimer,
    Subscribe,
    TimerFired,
    Undelivered,
    Unsubscribe,
    Unwatch,
    Update,
    Watch,
    parameter,
)
from protocols.parts.seen import FULL, KEEP_MS, NEW, Seen

__all__ = [
    "AddSubscription",
    "AppendAttributes",
    "AskLinks",
    "ChangeSubscription",
    "Peer",
    "PeerConfig",
    "PeerInput",
    "RemoveSubscription",
    "Reseed",
    "everything",
]

MESSAGES: Final = MEMBERSHIP_MESSAGES + INSPECTION_MESSAGES + GROWTH_MESSAGES

SHOWN_MAX: Final = 4
"""Participants that a peer names in its descriptor: enough to meet any of 16 within a few gossip cycles."""


class PeerConfig(msgspec.Struct, frozen=True, kw_only=True):
    membership: MembershipConfig = MembershipConfig()
    participants_max: Annotated[
        int, parameter("participants that a peer has at the most; 0: as the overlay says", "the overlay", ge=0, le=4096)
    ] = 0
    seen_max: Annotated[
        int, parameter("event ids remembered", "two generations of 120 s at 2,000 events a second", ge=1)
    ] = 500_000
    upload: Annotated[
        float | None, parameter("upload budget per cycle, shared by the participants", "none, unless asked")
    ] = None
    leave_ms: Annotated[int, parameter("patience with a graceful leave", "liveness' 10 s until death", ge=0)] = 10_000


class Subscription(msgspec.Struct):
    """What the peer keeps of one: the version that is active, and the one that is on its way."""

    id: str
    version: int
    active: int | None = None

    def key(self, version: int) -> str:
        return f"{self.id}#{version}"


class Peer:
    __slots__ = (
        "_config",
        "_dismissed",
        "_effects",
        "_first",
        "_growth",
        "_heard",
        "_index",
        "_keys",
        "_kind",
        "_lone",
        "_lone_slot",
        "_overlay_config",
        "_rng",
        "_seen",
        "_sequence",
        "_standing",
        "_started",
        "_unjoined",
        "_work",
        "grouping",
        "leaving",
        "me",
        "membership",
        "name",
        "participants",
        "subscriptions",
    )

    def __init__(
        self, me: Address, kind: Kind, overlay_config: msgspec.Struct, schema: Schema, config: PeerConfig, rng: Random
    ) -> None:
        self.me = me
        self.name = ""  # what its owner calls it, for people
        self._kind = kind
        self._overlay_config = overlay_config
        self._config = config
        self._rng = rng
        self.membership = Membership(me, config.membership, rng)
        self._growth = Growth(schema, self.membership.known)
        self._heard = self.membership.heard if config.membership.liveness else None  # asked for every message
        self.participants: dict[int, Overlay] = {}
        self._lone: Overlay | None = None  # the only participant, if there is just one
        self._lone_slot: int | None = None
        self.grouping: Grouping | Individual = Individual()
        if kind.grouped:
            self.grouping = Grouping(schema.space, config.participants_max or kind.participants_max)
        self.subscriptions: dict[str, Subscription] = {}
        self._keys: dict[str, str] = {}  # grouping and index key -> subscription id
        self._standing: dict[int, None] = {}
        self._unjoined: dict[int, None] = {}
        self._dismissed: dict[int, bool] = {}  # participants that have to go -> whether they were told
        self._index = LocalIndex()
        self._seen = Seen(KEEP_MS, config.seen_max)
        self._sequence = 0
        self._first = False  # this peer began the swarm
        self._started = False
        self.leaving = False
        self._work: deque[tuple[int, Input]] = deque()
        self._effects: list[Effect] = []

    # --- interface ----------------------------------------------------------------------------------------------------

    def handle(self, now_ms: int, item: PeerInput) -> list[Effect]:
        if type(item) is Received:
            overlay = self._lone if item.slot == self._lone_slot else self.participants.get(item.slot)
            ended = None if self._heard is None else self._heard(now_ms, item.sender)
            if overlay is not None and ended is None and item.sender.slot != PEER_SLOT:
                # Nearly every input is a message for the one participant that there is, and nearly always nothing that
                # comes of it is the peer's business: then nothing else is touched.
                effects = overlay.handle(now_ms, item)
                absorbed = self._ABSORBED if overlay is self._lone else self._ABSORBED_AMONG_SIBLINGS
                for effect in effects:
                    if type(effect) in absorbed:
                        break
                else:
                    return effects
                self._collect(now_ms, effects)
            elif item.slot == PEER_SLOT and ended is None and type(item.message) not in self._QUESTIONS:
                membership = self.membership
                membership.received(now_ms, item.sender, item.message)
                if membership.news is None:
                    return membership.out.drain()
                self._learn(now_ms)
            else:
                self._received(now_ms, item, ended)
        else:
            self._INPUTS[type(item)](self, now_ms, item)
        return self._finish(now_ms)

    def _finish(self, now_ms: int) -> list[Effect]:
        """Let the participants do what this step has brought up for them; what all have said is the step's answer."""
        work = self._work
        while work:
            slot, inner = work.popleft()
            overlay = self.participants.get(slot)
            if overlay is not None:
                self._collect(now_ms, overlay.handle(now_ms, inner))
            elif type(inner) is Received:  # from a sibling, to one that has left meanwhile
                work.append((inner.sender.slot, PeerLost(in_slot(self.me, slot))))
        effects, self._effects = self._effects, []
        return effects

    @property
    def schema(self) -> Schema:
        """All attributes that the swarm has, as far as this peer knows. Participants are made for those that it began
        with: all peers measure and sort by the same."""
        return self._growth.schema

    @property
    def ready(self) -> bool:
        """Whether the peer stands in the overlay."""
        return bool(self._standing) and not self.leaving

    def has_room(self, now_ms: int) -> bool:
        """Whether a new event would be remembered here; a publisher is pushed back while it would not."""
        return self._seen.has_room(now_ms) and all(overlay.has_room(now_ms) for overlay in self.participants.values())

    def new_event(self, attributes: Attributes, published_us: int, ttl_ms: int = LIFETIME_MS, **body: Any) -> Event:
        """An event of this peer's own, with the next id."""
        self._sequence += 1
        raw = encode_body(Body(attributes, published_us, **body))
        id_ = event_id(self.me.peer, self.me.boot, self._sequence)
        return Event(id_, self.schema.point(attributes), raw, ttl_ms)

    # --- joining and leaving ------------------------------------------------------------------------------------------

    def _join(self, now_ms: int, item: Join) -> None:
        if self._started:
            raise ValueError("the peer has been started already")
        self._started = True
        if not self.participants:
            self._apply(now_ms, [self.grouping.first()])
        self.membership.start(now_ms, [contact.at for contact in item.contacts], item.begin)
        self._learn(now_ms)

    def _reseed(self, now_ms: int, item: Reseed) -> None:
        self.membership.reseed(list(item.seeds))

    def _leave(self, now_ms: int, item: Leave) -> None:
        if self.leaving:
            return
        self.leaving = True
        self._effects.append(SetTimer(PEER_SLOT, "leave", now_ms + self._config.leave_ms))
        for slot in self.participants:
            self._tell_to_leave(slot)
        if not self.participants:
            self._leave_now(now_ms)

    def _leave_now(self, now_ms: int) -> None:
        self.participants.clear()  # whoever has not left by now is left behind
        self._count_participants()
        self._standing.clear()
        self._effects.append(CancelTimer(PEER_SLOT, "leave"))
        self.membership.leave()
        self._learn(now_ms)
        self._effects.append(Report(PEER_SLOT, Left()))

    def _join_participants(self) -> None:
        """Let those participants join that have not: through a sibling that stands, else through a contact."""
        if self._standing:
            contacts = tuple(in_slot(self.me, slot) for slot in self._lasting())
        else:
            contacts = tuple(d.address for d in self.membership.contacts())
        if not contacts and not self._first:
            return
        for slot in list(self._unjoined):
            del self._unjoined[slot]
            self._work.append((slot, Join(contacts)))
            if not contacts:
                return  # the first participant of a swarm; its siblings join through it

    def _lasting(self) -> list[int]:
        """The standing participants that stay; if there is none, those that have to go."""
        return [slot for slot in self._standing if slot not in self._dismissed] or list(self._standing)

    def _dismiss(self, slot: int) -> None:
        """Let a participant go, but the last one that stands not before another does: a peer that stands goes on so."""
        self._dismissed[slot] = False
        if slot not in self._standing or self._lasting()[0] not in self._dismissed:
            self._tell_to_leave(slot)

    def _tell_to_leave(self, slot: int) -> None:
        if not self._dismissed.get(slot):
            self._dismissed[slot] = True
            self._work.append((slot, Leave()))

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _add(self, now_ms: int, item: AddSubscription) -> None:
        if item.id in self.subscriptions:
            raise ValueError(f"there is a subscription {item.id} already")
        self.subscriptions[item.id] = Subscription(item.id, 0)
        self._place(now_ms, self.subscriptions[item.id], item)

    def _change(self, now_ms: int, item: ChangeSubscription) -> None:
        subscription = self.subscriptions[item.id]
        if subscription.version != subscription.active:
            self._withdraw(now_ms, subscription.key(subscription.version))  # overtaken before it was active
        subscription.version += 1
        self._place(now_ms, subscription, item)

    def _remove(self, now_ms: int, item: RemoveSubscription) -> None:
        subscription = self.subscriptions.pop(item.id)
        versions = {subscription.version: None}
        if subscription.active is not None:
            versions[subscription.active] = None
        for version in versions:
            self._withdraw(now_ms, subscription.key(version))

    def _place(self, now_ms: int, subscription: Subscription, item: AddSubscription | ChangeSubscription) -> None:
        key = subscription.key(subscription.version)
        self._keys[key] = subscription.id
        self._index.add(key, item.boxes, item.matcher, item.pattern)
        former = None if subscription.active is None else subscription.key(subscription.active)
        self._apply(now_ms, self.grouping.place(key, item.boxes, former, item.pattern))
        if self.grouping.is_active(key):
            self._activate(now_ms, key)

    def _withdraw(self, now_ms: int, key: str) -> None:
        del self._keys[key]
        self._index.remove(key)
        self._apply(now_ms, self.grouping.remove(key))

    def _activate(self, now_ms: int, key: str) -> None:
        """A version of a subscription stands in the overlay: from here on the version before it is not needed."""
        subscription = self.subscriptions[self._keys[key]]
        former, subscription.active = subscription.active, subscription.version
        if former is not None:
            self._withdraw(now_ms, subscription.key(former))
        self._effects.append(Active(PEER_SLOT, subscription.id, subscription.version))

    def _apply(self, now_ms: int, changes: list[Change]) -> None:
        for change in changes:
            if change.action == "update":
                self._work.append((change.slot, Update(change.id, change.box, "", change.version, change.pattern)))
            elif change.action == "subscribe":
                self._work.append((change.slot, Subscribe(change.id, change.box, "", change.version)))
            elif change.action == "unsubscribe":
                self._work.append((change.slot, Unsubscribe(change.id)))
            elif change.action == "leave":
                self._dismiss(change.slot)
            else:
                me = in_slot(self.me, change.slot)
                self.participants[change.slot] = self._kind.create(
                    me, self._overlay_config, self.schema.first, self._rng
                )
                self._count_participants()
                self._unjoined[change.slot] = None
                subscribe = Subscribe(OWN_BOX, change.box, "", change.version, change.pattern)
                self._work.append((change.slot, subscribe))
        if changes:
            self._share_budget()
        if self._unjoined:
            self._join_participants()

    def _count_participants(self) -> None:
        self._lone = self._lone_slot = None
        if len(self.participants) == 1:
            [(self._lone_slot, self._lone)] = self.participants.items()

    def _share_budget(self) -> None:
        """Every participant may upload an equal share of what the peer may."""
        if self._config.upload is not None and self._kind.keeps_budget and self.participants:
            share = SetBudget(self._config.upload / len(self.participants))
            self._work.extendleft((slot, share) for slot in self.participants)

    # --- events -------------------------------------------------------------------------------------------------------

    def _publish(self, now_ms: int, item: Publish) -> None:
        """Publish through an own participant. Own subscriptions are served at once."""
        if not self._standing:
            self._effects.append(Report(PEER_SLOT, Dropped(item.event.id, "not-joined")))
            return
        self._offer(now_ms, item.event, 0)
        self._work.append((self._lasting()[0], item))

    def _offer(self, now_ms: int, event: Event, hops: int) -> None:
        """Deliver an event to the subscriptions that match it exactly, unless that was done before."""
        admission = self._seen.admit(now_ms, event.id)
        if admission is not NEW:
            if admission is FULL:
                self._effects.append(Report(PEER_SLOT, Dropped(event.id, "seen-full")))
            return
        try:
            keys = self._index.match(
                event.point, lambda: decode_body(event.body).attributes, lambda: document_of(event.body)
            )
        except msgspec.DecodeError:
            self._effects.append(Report(PEER_SLOT, Dropped(event.id, "undecodable")))
            return
        if keys:
            ids = tuple(dict.fromkeys(self._keys[key] for key in keys))
            self._effects.append(Deliver(PEER_SLOT, event, ids, hops))

    # --- what participants want ---------------------------------------------------------------------------------------

    def _collect(self, now_ms: int, effects: list[Effect]) -> None:
        """Pass a participant's effects on, but for those that end here."""
        out = self._effects
        absorbed = self._ABSORBED if self._lone is not None else self._ABSORBED_AMONG_SIBLINGS
        for effect in effects:
            absorb = absorbed.get(type(effect))
            if absorb is None:
                out.append(effect)
            else:
                absorb(self, now_ms, effect)

    def _sent(self, now_ms: int, effect: Send) -> None:
        """What goes to a sibling is handed over here; the rest leaves the peer."""
        own, boot = self.me.peer, self.me.boot  # an earlier life of this peer is not this peer
        remote = tuple(to for to in effect.to if to.peer != own or to.boot != boot)
        if remote:
            self._effects.append(Send(effect.slot, remote, effect.message))
        for to in effect.to:
            if to.peer == own and to.boot == boot:
                self._work.append((to.slot, Received(in_slot(self.me, effect.slot), to.slot, effect.message)))

    def _watched(self, now_ms: int, effect: Watch) -> None:
        if effect.address.peer != self.me.peer:
            self.membership.watch(now_ms, effect.slot, effect.address)
            self._learn(now_ms)

    def _unwatched(self, now_ms: int, effect: Unwatch) -> None:
        if effect.address.peer != self.me.peer:
            self.membership.unwatch(effect.slot, effect.address)

    def _active(self, now_ms: int, effect: Active) -> None:
        cover = self.grouping.covers.get(effect.slot)
        if cover is not None and effect.id == OWN_BOX and effect.version == cover.version:
            self._effects.append(Report(effect.slot, Placed(cover.box, effect.version > 0)))
        for key in self.grouping.activated(effect.slot, effect.version, effect.id):
            self._activate(now_ms, key)

    def _delivered(self, now_ms: int, effect: Deliver) -> None:
        self._offer(now_ms, effect.event, effect.hops)

    def _reported(self, now_ms: int, effect: Report) -> None:
        self._effects.append(effect)
        if isinstance(effect.fact, Joined):
            self._stands(now_ms, effect.slot)
        elif isinstance(effect.fact, Left):
            self._forget(now_ms, effect.slot)

    def _stands(self, now_ms: int, slot: int) -> None:
        self._standing[slot] = None
        self._show()
        if len(self._standing) == 1:
            self._effects.append(Report(PEER_SLOT, Joined()))
            self.membership.ready(now_ms)
            self._learn(now_ms)
        if slot not in self._dismissed:
            for other in self._dismissed:
                self._tell_to_leave(other)
        if self._unjoined:
            self._join_participants()

    def _forget(self, now_ms: int, slot: int) -> None:
        del self.participants[slot]
        self._count_participants()
        self._standing.pop(slot, None)
        self._unjoined.pop(slot, None)
        self._dismissed.pop(slot, None)
        self.grouping.left(slot)
        self.membership.unwatch_all(slot)
        self._share_budget()
        self._show()
        if self.leaving and not self.participants:
            self._leave_now(now_ms)

    def _show(self) -> None:
        """Tell membership which participants the peer's descriptor names: some of the standing ones, at random."""
        slots = self._lasting()
        if len(slots) > SHOWN_MAX:
            slots = self._rng.sample(slots, SHOWN_MAX)
        shown = []
        for slot in slots:
            descriptor = self.participants[slot].descriptor()
            shown.append(Standing(slot, descriptor.box, descriptor.version, descriptor.ext))
        self.membership.show(tuple(shown))

    # --- questions between peers --------------------------------------------------------------------------------------

    def _append_attributes(self, now_ms: int, item: AppendAttributes) -> None:
        self._growth.learn(item.schema)
        self._effects += self._growth.out.drain()

    def _on_schema_news(self, now_ms: int, sender: Address, message: SchemaNews) -> None:
        self._growth.on_news(sender, message)
        self._effects += self._growth.out.drain()

    def _tell_schema(self) -> None:
        self._growth.round(lambda: [each.address for each in self.membership.cyclon.sample(1)])
        self._effects += self._growth.out.drain()

    def _ask_links(self, now_ms: int, item: AskLinks) -> None:
        self._effects.append(Send(PEER_SLOT, (of_peer(item.to),), LinksRequest(item.req_id)))

    def _on_links_request(self, now_ms: int, sender: Address, message: LinksRequest) -> None:
        self._effects.append(Send(PEER_SLOT, (sender,), reply(message, self.name, self.participants)))

    def _on_links_reply(self, now_ms: int, sender: Address, message: LinksReply) -> None:
        self._effects.append(Report(PEER_SLOT, shown(sender, message)))

    # --- membership ---------------------------------------------------------------------------------------------------

    def _received(self, now_ms: int, item: Received, ended: Address | None) -> None:
        """A message, after which a former life of its sender (`ended`) may be over."""
        if ended is not None:
            self.membership.superseded(now_ms, ended)
            self._learn(now_ms)
        if item.slot in self.participants:
            if item.sender.slot != PEER_SLOT:
                self._work.append((item.slot, item))
            else:
                self._effects.append(Report(item.slot, Rejected(item.sender, "a participant hears participants only")))
        elif item.slot == PEER_SLOT:
            question = self._QUESTIONS.get(type(item.message))
            if question is not None:
                question(self, now_ms, item.sender, item.message)
                return
            self.membership.received(now_ms, item.sender, item.message)
            self._learn(now_ms)
        elif type(item.message) is not Gone:
            self._effects.append(Send(PEER_SLOT, (of_peer(item.sender),), Gone(item.slot)))

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.slot != PEER_SLOT:
            self._work.append((item.slot, item))
        elif item.key == "leave":
            self._leave_now(now_ms)
        else:
            if item.key == "gossip":
                self._show()
                self._tell_schema()
            self.membership.timer(now_ms, item.key)
            self._learn(now_ms)

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        self.membership.undelivered(now_ms, item)
        self._learn(now_ms)
        if item.slot in self.participants:
            self._work.append((item.slot, item))
        elif isinstance(copy := getattr(item.message, "copy", None), Copy):  # of a participant that has left
            self._effects.append(Report(PEER_SLOT, Dropped(copy.event.id, "undelivered", item.to)))

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        """Liveness' word, or the oracle's: tell the participants that watch the peer."""
        self.membership.lost(now_ms, item.address)
        self._learn(now_ms)

    def _sampled(self, now_ms: int, item: Sampled) -> None:
        for slot in self.participants:
            self._work.append((slot, item))

    def _learn(self, now_ms: int) -> None:
        """Take over what membership wants done and has found out."""
        membership = self.membership
        if membership.out.effects:
            self._effects += membership.out.drain()
        news, membership.news = membership.news, None
        if news is None:
            return
        for slot, address in news.lost:
            self._work.append((slot, PeerLost(address)))
        if news.gone is not None:
            for slot in self.participants:
                self._work.append((slot, PeerLost(news.gone)))
        if news.sampled is not None:
            self._sampled(now_ms, Sampled(news.sampled))
        if news.begin:
            self._first = True
        if self._unjoined and (news.begin or news.contacts):
            self._join_participants()

    _INPUTS: Final[dict[type, Any]] = {
        TimerFired: _timer,
        Publish: _publish,
        Undelivered: _undelivered,
        Sampled: _sampled,
        PeerLost: _peer_lost,
        Join: _join,
        Leave: _leave,
        AddSubscription: _add,
        ChangeSubscription: _change,
        RemoveSubscription: _remove,
        AppendAttributes: _append_attributes,
        AskLinks: _ask_links,
        Reseed: _reseed,
    }

    _QUESTIONS: Final[dict[type, Any]] = {
        LinksRequest: _on_links_request,
        LinksReply: _on_links_reply,
        SchemaNews: _on_schema_news,
    }

    _ABSORBED: Final[dict[type, Any]] = {
        Watch: _watched,
        Unwatch: _unwatched,
        Active: _active,
        Deliver: _delivered,
        Report: _reported,
    }

    _ABSORBED_AMONG_SIBLINGS: Final[dict[type, Any]] = _ABSORBED | {Send: _sent}
