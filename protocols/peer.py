"""The peer: one per daemon, as pure as the overlays that it hosts.

It owns what is the same under every overlay:

- *membership* (`membership.py`): peer sampling, liveness and bootstrap, once per daemon;
- *participants* (`participants.py`): one overlay object per slot, created, joined, resized and dismissed as
  subscriptions come and go (`grouping.py` decides, or `individual.py` where the overlay takes each box by itself).
  Participants of one peer talk to each other without leaving this module;
- *subscriptions* (`subscriptions.py`): their versions, and the exact matching of every event that reached any
  participant, once;
- the swarm's *schema* as far as it is known (`growth.py`).

The peer has the same shape as an overlay, `handle(now_ms, item) -> effects`. It takes the inputs of `overlay.py`
(`Join` with endpoints, `Leave`, `Publish`, `Received`, `TimerFired`, `Undelivered`; and `PeerLost` and `Sampled` where
an oracle stands in for membership) and some of its own: for subscriptions, the schema, links and contacts. Of the
overlays' effects it absorbs `Watch`, `Unwatch`, `Active` and `Deliver`; what it emits itself carries the slot
`PEER_SLOT`: `Active` and `Deliver` then name subscriptions, `Report(Joined)` means that the peer is ready,
`Report(Left)` that it may be stopped.
"""

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
from protocols.model.event import LIFETIME_MS, Attributes, Body, Copy, Event, encode_body
from protocols.model.ids import PEER_SLOT, Address, event_id, in_slot, of_peer
from protocols.model.schema import Schema
from protocols.overlay import (
    OWN_BOX,
    Active,
    Deliver,
    Dropped,
    Effect,
    Join,
    Joined,
    Kind,
    Leave,
    Left,
    Outbox,
    Overlay,
    PeerLost,
    Placed,
    Publish,
    Received,
    Rejected,
    Report,
    Sampled,
    Send,
    TimerFired,
    Undelivered,
    Unwatch,
    Watch,
    parameter,
)
from protocols.participants import Participants
from protocols.subscriptions import Subscriptions

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


class Peer:
    __slots__ = (
        "_config",
        "_first",
        "_growth",
        "_heard",
        "_hosted",
        "_lone",
        "_lone_slot",
        "_out",
        "_sequence",
        "_started",
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
        self._config = config
        self._out = Outbox(PEER_SLOT)
        self.membership = Membership(me, config.membership, rng)
        self._heard = self.membership.heard if config.membership.liveness else None  # asked for every message
        self._growth = Growth(schema, self.membership.known)
        self.grouping: Grouping | Individual = Individual()
        if kind.grouped:
            self.grouping = Grouping(schema.space, config.participants_max or kind.participants_max)
        self.subscriptions = Subscriptions(self.grouping, config.seen_max, self._out)
        self._hosted = Participants(me, kind, overlay_config, schema.first, config.upload, rng)
        self.participants = self._hosted.overlays
        self._lone: Overlay | None = None  # the only participant, if there is just one
        self._lone_slot: int | None = None
        self._sequence = 0
        self._first = False  # this peer began the swarm
        self._started = False
        self.leaving = False

    # --- interface ----------------------------------------------------------------------------------------------------

    def handle(self, now_ms: int, item: PeerInput) -> list[Effect]:
        if type(item) is Received:
            overlay = self._lone if item.slot == self._lone_slot else self.participants.get(item.slot)
            ended = None if self._heard is None else self._heard(now_ms, item.sender)
            if overlay is not None and ended is None and item.sender.slot != PEER_SLOT:
                return self._step(now_ms, overlay, item)
            if item.slot == PEER_SLOT and ended is None and type(item.message) not in self._QUESTIONS:
                membership = self.membership
                membership.received(now_ms, item.sender, item.message)
                if membership.news is None:
                    return membership.out.drain()
                self._learn(now_ms)
            else:
                self._received(now_ms, item, ended)
        elif type(item) is TimerFired and (overlay := self.participants.get(item.slot)) is not None:
            return self._step(now_ms, overlay, item)
        else:
            self._INPUTS[type(item)](self, now_ms, item)
        return self._finish(now_ms)

    def _step(self, now_ms: int, overlay: Overlay, item: Received | TimerFired) -> list[Effect]:
        """Nearly every input is for the one participant that there is, and nearly always nothing that comes of it is
        the peer's business: then nothing else is touched."""
        effects = overlay.handle(now_ms, item)
        absorbed = self._ABSORBED if overlay is self._lone else self._ABSORBED_AMONG_SIBLINGS
        for effect in effects:
            if type(effect) in absorbed:
                break
        else:
            return effects
        self._collect(now_ms, effects)
        return self._finish(now_ms)

    def _finish(self, now_ms: int) -> list[Effect]:
        """Let the participants do what this step has brought up for them; what all have said is the step's answer."""
        work = self._hosted.work
        while work:
            slot, inner = work.popleft()
            overlay = self.participants.get(slot)
            if overlay is not None:
                self._collect(now_ms, overlay.handle(now_ms, inner))
            elif type(inner) is Received:  # from a sibling, to one that has left meanwhile
                work.append((inner.sender.slot, PeerLost(in_slot(self.me, slot))))
        return self._out.drain()

    @property
    def schema(self) -> Schema:
        """All attributes that the swarm has, as far as this peer knows. Participants are made for those that it began
        with: all peers measure and sort by the same."""
        return self._growth.schema

    @property
    def ready(self) -> bool:
        """Whether the peer stands in the overlay."""
        return bool(self._hosted.standing) and not self.leaving

    def has_room(self, now_ms: int) -> bool:
        """Whether a new event would be remembered here; a publisher is pushed back while it would not."""
        overlays = self.participants.values()
        return self.subscriptions.has_room(now_ms) and all(overlay.has_room(now_ms) for overlay in overlays)

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
            self._apply([self.grouping.first()])
        self.membership.start(now_ms, [contact.at for contact in item.contacts], item.begin)
        self._learn(now_ms)

    def _reseed(self, now_ms: int, item: Reseed) -> None:
        self.membership.reseed(list(item.seeds))

    def _leave(self, now_ms: int, item: Leave) -> None:
        if self.leaving:
            return
        self.leaving = True
        self._out.timer("leave", now_ms + self._config.leave_ms)
        self._hosted.leave()
        if not self.participants:
            self._leave_now(now_ms)

    def _leave_now(self, now_ms: int) -> None:
        self._hosted.abandon()
        self._count()
        self._out.cancel("leave")
        self.membership.leave()
        self._learn(now_ms)
        self._out.report(Left())

    # --- subscriptions and events -------------------------------------------------------------------------------------

    def _add(self, now_ms: int, item: AddSubscription) -> None:
        self._apply(self.subscriptions.add(item))

    def _change(self, now_ms: int, item: ChangeSubscription) -> None:
        self._apply(self.subscriptions.change(item))

    def _remove(self, now_ms: int, item: RemoveSubscription) -> None:
        self._apply(self.subscriptions.remove(item))

    def _apply(self, changes: list[Change]) -> None:
        self._hosted.apply(changes)
        self._count()
        self._let_join()

    def _count(self) -> None:
        self._lone = self._lone_slot = None
        if len(self.participants) == 1:
            [(self._lone_slot, self._lone)] = self.participants.items()

    def _let_join(self) -> None:
        self._hosted.let_join(self.membership.contacts(), self._first)

    def _publish(self, now_ms: int, item: Publish) -> None:
        """Publish through an own participant. Own subscriptions are served at once."""
        if not self._hosted.standing:
            self._out.report(Dropped(item.event.id, "not-joined"))
            return
        self.subscriptions.offer(now_ms, item.event, 0)
        self._hosted.work.append((self._hosted.lasting()[0], item))

    # --- what participants want ---------------------------------------------------------------------------------------

    def _collect(self, now_ms: int, effects: list[Effect]) -> None:
        """Pass a participant's effects on, but for those that end here."""
        out = self._out.effects
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
            self._out.effects.append(Send(effect.slot, remote, effect.message))
        for to in effect.to:
            if to.peer == own and to.boot == boot:
                received = Received(in_slot(self.me, effect.slot), to.slot, effect.message)
                self._hosted.work.append((to.slot, received))

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
            self._out.effects.append(Report(effect.slot, Placed(cover.box, effect.version > 0)))
        changes = self.subscriptions.activated(effect.slot, effect.version, effect.id)
        if changes:
            self._apply(changes)

    def _delivered(self, now_ms: int, effect: Deliver) -> None:
        self.subscriptions.offer(now_ms, effect.event, effect.hops)

    def _reported(self, now_ms: int, effect: Report) -> None:
        self._out.effects.append(effect)
        if isinstance(effect.fact, Joined):
            self._stands(now_ms, effect.slot)
        elif isinstance(effect.fact, Left):
            self._gone(now_ms, effect.slot)

    def _stands(self, now_ms: int, slot: int) -> None:
        self._hosted.stands(slot)
        self._show()
        if len(self._hosted.standing) == 1:
            self._out.report(Joined())
            self.membership.ready(now_ms)
            self._learn(now_ms)
        self._let_join()

    def _gone(self, now_ms: int, slot: int) -> None:
        self._hosted.gone(slot)
        self._count()
        self.grouping.left(slot)
        self.membership.unwatch_all(slot)
        self._show()
        if self.leaving and not self.participants:
            self._leave_now(now_ms)

    def _show(self) -> None:
        self.membership.show(self._hosted.shown())

    # --- questions between peers --------------------------------------------------------------------------------------

    def _append_attributes(self, now_ms: int, item: AppendAttributes) -> None:
        self._growth.learn(item.schema)
        self._out.effects += self._growth.out.drain()

    def _on_schema_news(self, now_ms: int, sender: Address, message: SchemaNews) -> None:
        self._growth.on_news(sender, message)
        self._out.effects += self._growth.out.drain()

    def _tell_schema(self) -> None:
        self._growth.round(lambda: [each.address for each in self.membership.cyclon.sample(1)])
        self._out.effects += self._growth.out.drain()

    def _ask_links(self, now_ms: int, item: AskLinks) -> None:
        self._out.send(of_peer(item.to), LinksRequest(item.req_id))

    def _on_links_request(self, now_ms: int, sender: Address, message: LinksRequest) -> None:
        self._out.send(sender, reply(message, self.name, self.participants))

    def _on_links_reply(self, now_ms: int, sender: Address, message: LinksReply) -> None:
        self._out.report(shown(sender, message))

    # --- membership ---------------------------------------------------------------------------------------------------

    def _received(self, now_ms: int, item: Received, ended: Address | None) -> None:
        """A message, after which a former life of its sender (`ended`) may be over."""
        if ended is not None:
            self.membership.superseded(now_ms, ended)
            self._learn(now_ms)
        if item.slot in self.participants:
            if item.sender.slot != PEER_SLOT:
                self._hosted.work.append((item.slot, item))
            else:
                rejected = Rejected(item.sender, "a participant hears participants only")
                self._out.effects.append(Report(item.slot, rejected))
        elif item.slot == PEER_SLOT:
            question = self._QUESTIONS.get(type(item.message))
            if question is not None:
                question(self, now_ms, item.sender, item.message)
                return
            self.membership.received(now_ms, item.sender, item.message)
            self._learn(now_ms)
        elif type(item.message) is not Gone:
            self._out.send(of_peer(item.sender), Gone(item.slot))

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.slot != PEER_SLOT:
            return  # of a participant that has left
        if item.key == "leave":
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
            self._hosted.work.append((item.slot, item))
        elif isinstance(copy := getattr(item.message, "copy", None), Copy):  # of a participant that has left
            self._out.report(Dropped(copy.event.id, "undelivered", item.to))

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        """Liveness' word, or the oracle's: tell the participants that watch the peer."""
        self.membership.lost(now_ms, item.address)
        self._learn(now_ms)

    def _sampled(self, now_ms: int, item: Sampled) -> None:
        self._hosted.tell_all(item)

    def _learn(self, now_ms: int) -> None:
        """Take over what membership wants done and has found out."""
        membership = self.membership
        if membership.out.effects:
            self._out.effects += membership.out.drain()
        news, membership.news = membership.news, None
        if news is None:
            return
        for slot, address in news.lost:
            self._hosted.work.append((slot, PeerLost(address)))
        if news.gone is not None:
            self._hosted.tell_all(PeerLost(news.gone))
        if news.sampled is not None:
            self._hosted.tell_all(Sampled(news.sampled))
        if news.begin:
            self._first = True
        if news.begin or news.contacts:
            self._let_join()

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
