"""What others ask of a running peer: the HTTP API, the WebSocket, the console, the testbed.

The peer (`protocols/peer.py`) knows inputs and effects; people know subscriptions, events and deliveries. The service
stands between the two. It hands inputs to the driver and is one of its sinks. It does no input or output of its own and
almost everything here answers at once; three things can be waited for: that a subscription stands in the overlay, that
the peer does, and a picture of the overlay.

Wrong use ends in one of the errors of `peerd/refusals.py`, each with one line for people. What a filter or an XPath
means is worked out in `peerd/interests.py`.
"""

import asyncio
import logging
from binascii import Error as BinasciiError
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from re import compile as pattern
from secrets import token_hex
from time import time_ns
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from peerd import documents
from peerd.crawl import Crawler
from peerd.deliveries import ALL_BYTES, EACH_BYTES, RETAIN_MAX, RETAIN_S, Budget, Deliveries, Reader
from peerd.documents import NewEvent, NewSubscription, time_text
from peerd.driver import Clock, Driver, Timer
from peerd.ingress import IDS_MAX, PublishedIds, TokenBucket
from peerd.interests import Compiled, Interests, is_the_same, pattern_of, shown_warnings, texts
from peerd.options import Count, Rate, Seconds, setting
from peerd.refusals import (
    EventTooLarge,
    InvalidEvent,
    InvalidSchema,
    InvalidSubscription,
    NotReady,
    PushedBack,
    TooManySubscriptions,
    UnknownSubscription,
)
from peerd.trace import NOTHING, Wanted
from protocols.model.bounds import BODY_BYTES_MAX
from protocols.model.describe import describe_box
from protocols.model.event import LIFETIME_MS, Attributes, Event
from protocols.model.filter import FilterError
from protocols.model.ids import PEER_SLOT, Address, event_id, split_event_id
from protocols.model.schema import Schema, SchemaError
from protocols.model.xpath.compiled import CompiledXPath
from protocols.model.xpath.document import document_of
from protocols.overlay import (
    Active,
    Deliver,
    Dropped,
    Joined,
    Left,
    LinkDown,
    LinksShown,
    LinkUp,
    Placed,
    Publish,
    Report,
    SchemaChanged,
)
from protocols.peer import AddSubscription, AppendAttributes, AskLinks, ChangeSubscription, RemoveSubscription

IDLE_S: Final = 300.0
"""A subscription that nobody reads for so long is removed (contract)."""
SWEEP_MS: Final = 1_000
"""How often old deliveries and idle subscriptions are looked for. Our choice: the contract counts in seconds."""
DEPTH_MAX: Final = 64
"""Arrays and objects within one another in a payload. Our choice: far below where decoders give up."""
ROOM_S: Final = 5.0
"""When to come again if events can no more be told apart. A guess: ids go in generations of 120 s."""
TOPOLOGY_S: Final = 5.0

_id: Final = pattern(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,63}").fullmatch
_STRUCTURE: Final = (LinkUp, LinkDown, Placed, Joined, Left)
_log = logging.getLogger(__name__)


# --- What a service is given ------------------------------------------------------------------------------------------


class ServiceConfig(msgspec.Struct, frozen=True, kw_only=True):
    max_event_bytes: Annotated[Count, setting("bytes of an encoded event (contract)")] = BODY_BYTES_MAX
    publish_rate: Annotated[Rate, setting("events a second that are taken from this peer's publishers")] = 5_000.0
    publish_burst: Annotated[Rate, setting("events at once that are taken from them")] = 10_000.0
    """A guess: what one core can route, and 2 s of it."""
    queue_events_max: Annotated[
        Count, setting("events in the network's queues above which publishers are pushed back")
    ] = 4_096
    """A guess: a second of a busy peer."""
    subscriptions_max: Annotated[Count, setting("subscriptions of this peer")] = 4_096
    """A guess: 256 for each of 16 participants."""
    retain_each_bytes: Annotated[Count, setting("bytes of deliveries kept for one subscription")] = EACH_BYTES
    retain_all_bytes: Annotated[Count, setting("bytes of deliveries kept for all of them")] = ALL_BYTES
    ids_max: Annotated[Count, setting("publishers' ids that are remembered; beyond that, new ones wait")] = IDS_MAX
    topology_s: Annotated[Seconds, setting("patience with peers that are asked for their links")] = TOPOLOGY_S


class About(msgspec.Struct, kw_only=True):
    """What a peer can tell about itself that its state machine does not know."""

    overlay: str
    swarm: str = ""
    parameters: dict[str, Any] = {}
    listen: str = ""
    http: str = ""
    version: str = ""


class SubscriptionRecord(msgspec.Struct, frozen=True):
    """What has to survive a restart of a subscription."""

    id: str
    filter: str
    retain_s: float = RETAIN_S
    retain_max: int = RETAIN_MAX
    idle_s: float | None = IDLE_S
    xpath: str = ""
    """Instead of a filter."""


class SubscriptionStore(Protocol):
    """Keeps subscriptions over a restart."""

    def subscription_changed(self, record: SubscriptionRecord) -> None: ...
    def subscription_removed(self, id_: str) -> None: ...


class Published(NamedTuple):
    id: str
    repeated: bool
    """The publisher's id was known: this is the answer of then, and nothing was published."""


class Held(msgspec.Struct):
    """A subscription as the service holds it."""

    record: SubscriptionRecord
    compiled: Compiled
    deliveries: Deliveries
    created_us: int
    lasting: bool
    """Survives a restart; one that belongs to a connection does not."""
    version: int = 0
    active: bool = False
    waiters: list[asyncio.Future[bool]] = []


def _nothing_queued() -> int:
    return 0


def _now_us() -> int:
    return time_ns() // 1000


def _new_id() -> str:
    return token_hex(8)


# --- The service ------------------------------------------------------------------------------------------------------


class Service:
    """Attach it to the driver as a sink before the peer joins, then `start`."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        about: About,
        config: ServiceConfig | None = None,
        *,
        store: SubscriptionStore | None = None,
        defaults: SubscriptionRecord = SubscriptionRecord("", ""),  # noqa: B008 (a frozen value)
        queued: Callable[[], int] = _nothing_queued,
        now_us: Callable[[], int] = _now_us,
        new_id: Callable[[], str] = _new_id,
    ) -> None:
        self.about = about
        self.config = config = config or ServiceConfig()
        self.on_publish: list[Callable[[int, Event, Attributes], None]] = []
        self.on_subscription: list[Callable[[int, str, str, Wanted], None]] = []
        self.on_schema: list[Callable[[int, Schema], None]] = []
        self._driver = driver
        self._peer = driver.peer
        self._clock = clock
        self._store = store
        self._defaults = defaults
        self._queued = queued
        self._now_us = now_us
        self._new_id = new_id
        self._held: dict[str, Held] = {}
        self._interests = Interests(self._peer, about.overlay)
        self._budget = Budget(config.retain_all_bytes, config.retain_each_bytes)
        self._bucket = TokenBucket(config.publish_rate, config.publish_burst)
        self._ids = PublishedIds(config.ids_max)
        self._epoch = 0
        self._started_ms = self._changed_ms = clock.now_ms()
        self._timer: Timer | None = None
        self._crawler = Crawler(self._ask)
        self._crawling: dict[int, asyncio.Task[documents.Topology]] = {}
        self._ready_waiters: list[asyncio.Future[bool]] = []

    def start(self) -> None:
        """Look after old deliveries and idle subscriptions from now on."""
        self._timer = self._clock.call_at(self._clock.now_ms() + SWEEP_MS, self._sweep)

    def close(self) -> None:
        """End everything that waits. Subscriptions stay in the store."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._crawling.values():
            task.cancel()
        for held in self._held.values():
            held.deliveries.close()
            _settle(held.waiters, False)
        self._held.clear()
        _settle(self._ready_waiters, False)

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        wanted: NewSubscription,
        id_: str | None = None,
        lasting: bool = True,
        compiled: Compiled | None = None,
    ) -> documents.Subscription:
        """Subscribe, under a name of the caller's or a new one. `compiled`: what `compile` made of it."""
        if id_ is None:
            id_ = self._new_id()
        elif _id(id_) is None:
            raise InvalidSubscription(
                "an id has 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -, and begins with one of the first"
            )
        if id_ in self._held:
            raise InvalidSubscription(f"there is a subscription {id_!r} already")
        if len(self._held) >= self.config.subscriptions_max:
            raise TooManySubscriptions(f"this peer holds {self.config.subscriptions_max} subscriptions already")
        if compiled is None:
            compiled = self._interests.compile_now(wanted, self._others(id_))
        record = _merged(msgspec.structs.replace(self._defaults, id=id_, **texts(compiled)), wanted)
        self._hold(record, compiled, lasting)
        if lasting and self._store is not None:
            self._store.subscription_changed(record)
        return self.subscription(id_)

    def restore(self, records: Iterable[SubscriptionRecord]) -> list[str]:
        """Take up the subscriptions of an earlier life; the ids of those that cannot be."""
        failed = []
        for record in records:
            if record.id in self._held:  # somebody was quicker, and wants it as it is now
                continue
            try:
                text: dict[str, Any] = {"xpath": record.xpath} if record.xpath else {"filter": record.filter}
                wanted = NewSubscription(**text)
                self._hold(record, self._interests.compile_now(wanted, self._others(record.id)), True)
            except (FilterError, InvalidSubscription) as error:
                _log.warning("subscription %s is not taken up again: %s", record.id, error)
                failed.append(record.id)
        return failed

    def _hold(self, record: SubscriptionRecord, compiled: Compiled, lasting: bool) -> None:
        now_ms = self._driver.now_ms()
        self._epoch = max(self._epoch + 1, now_ms)
        log = Deliveries(self._epoch, self._driver.now_ms, self._lost, self._budget, record.retain_s, record.retain_max)
        self._held[record.id] = Held(record, compiled, log, self._now_us(), lasting)
        self._tell(now_ms, "added", record.id, compiled)
        self._driver.step(
            AddSubscription(record.id, compiled.text, compiled.boxes, compiled.matcher, pattern_of(compiled))
        )

    def change(self, id_: str, wanted: NewSubscription, compiled: Compiled | None = None) -> documents.Subscription:
        """Give a subscription another filter, without a gap in delivery, or the same one and other limits. Limits that
        are left out stay as they were."""
        held = self._find(id_)
        if is_the_same(held.compiled, wanted):
            compiled = held.compiled
        elif compiled is None:
            compiled = self._interests.compile_now(wanted, self._others(id_))
        held.record = _merged(msgspec.structs.replace(held.record, **texts(compiled)), wanted)
        held.deliveries.retain_ms = int(held.record.retain_s * 1000)
        held.deliveries.retain_max = held.record.retain_max
        held.deliveries.touched_ms = self._driver.now_ms()
        if compiled is not held.compiled:
            held.compiled = compiled
            held.version += 1
            held.active = False
            self._tell(self._driver.now_ms(), "updated", id_, compiled)
            self._driver.step(
                ChangeSubscription(id_, compiled.text, compiled.boxes, compiled.matcher, pattern_of(compiled))
            )
        if held.lasting and self._store is not None:
            self._store.subscription_changed(held.record)
        return self.subscription(id_)

    def remove(self, id_: str) -> None:
        self._find(id_)
        self._remove(id_, False)

    def _remove(self, id_: str, abandoned: bool) -> None:
        held = self._held.pop(id_)
        held.deliveries.close(abandoned)
        _settle(held.waiters, False)
        self._tell(self._driver.now_ms(), "removed", id_, None)
        self._driver.step(RemoveSubscription(id_))
        if held.lasting and self._store is not None:
            self._store.subscription_removed(id_)

    def has(self, id_: str) -> bool:
        return id_ in self._held

    @property
    def subscription_count(self) -> int:
        return len(self._held)

    def subscriptions(self) -> list[documents.Subscription]:
        return [self._shown(held) for held in self._held.values()]

    def subscription(self, id_: str) -> documents.Subscription:
        return self._shown(self._find(id_))

    async def wait_active(self, id_: str, seconds: float) -> bool:
        """Wait until the subscription stands in the overlay as it was last asked for; False if it does not in time."""
        held = self._find(id_)
        if held.active or seconds <= 0:
            return held.active
        return await _wait(held.waiters, seconds)

    def _find(self, id_: str) -> Held:
        held = self._held.get(id_)
        if held is None:
            raise UnknownSubscription(id_)
        return held

    async def compile(self, wanted: NewSubscription, id_: str | None = None) -> Compiled:
        """What an application wants, ready to be handed to `subscribe` or `change`. Deliveries go on meanwhile."""
        return await self._interests.compile(wanted, self._others(id_))

    def _others(self, id_: str | None) -> dict[str, Compiled]:
        return {other: held.compiled for other, held in self._held.items() if other != id_}

    def _shown(self, held: Held) -> documents.Subscription:
        record, log = held.record, held.deliveries
        state: Literal["active", "joining"] = "active" if held.active else "joining"
        return documents.Subscription(
            record.id,
            record.filter,
            state,
            held.compiled.describe_boxes(self._peer.schema),
            shown_warnings(held.compiled),
            record.retain_s,
            record.retain_max,
            record.idle_s,
            len(log),
            log.oldest,
            log.latest,
            log.readers,
            time_text(held.created_us),
            record.xpath or UNSET,
        )

    def _tell(self, now_ms: int, change: str, id_: str, compiled: Compiled | None) -> None:
        wanted = NOTHING
        if isinstance(compiled, CompiledXPath):
            wanted = Wanted(compiled.text, compiled.boxes, coarse=True)  # records tell boxes, not patterns
        elif compiled is not None:
            wanted = Wanted.by(compiled)
        for listener in self.on_subscription:
            listener(now_ms, change, id_, wanted)

    def _sweep(self) -> None:
        now_ms = self._clock.now_ms()
        self._timer = self._clock.call_at(now_ms + SWEEP_MS, self._sweep)
        self._ids.forget_old(now_ms)
        for id_, held in list(self._held.items()):
            held.deliveries.expire(now_ms)
            idle_s = held.record.idle_s
            if idle_s is not None and held.deliveries.idle_ms() >= idle_s * 1000:
                _log.info("subscription %s is removed: nobody has read it for %g s", id_, idle_s)
                self._remove(id_, True)

    # --- publishing ---------------------------------------------------------------------------------------------------

    def publish(self, wanted: NewEvent) -> Published:
        """Check an event and hand it to the overlay."""
        now_ms = self._driver.now_ms()
        id_ = wanted.id
        if id_ is not None:
            sequence = self._ids.answer(now_ms, id_)
            if sequence is not None:
                return Published(event_id(self._peer.me.peer, self._peer.me.boot, sequence), True)
        self._admit(now_ms, id_ is not None)
        event, attributes = self._event(wanted)
        for listener in self.on_publish:
            listener(now_ms, event, attributes)
        self._driver.step(Publish(event))
        if id_ is not None:
            self._ids.remember(now_ms, id_, split_event_id(event.id)[2])
        return Published(event.id, False)

    def _admit(self, now_ms: int, named: bool) -> None:
        """Let an event in, or say why not. `named`: it brings an id that has to be remembered."""
        if not self._peer.ready:
            raise NotReady(
                "this peer does not stand in the overlay yet" if not self._peer.leaving else "this peer is leaving", 1.0
            )
        queued = self._queued()
        if queued > self.config.queue_events_max:
            raise PushedBack(f"{queued} events wait in the network's queues", 1.0)
        if not self._peer.has_room(now_ms):  # it would be dropped as one that nobody can tell from a copy
            raise PushedBack("the overlay remembers as many events as it can", ROOM_S)
        wait_s = self._ids.room_in_s(now_ms) if named else 0.0
        if wait_s:
            raise PushedBack(f"{len(self._ids)} ids of publishers are remembered, and no more fit", wait_s)
        wait_s = self._bucket.take(now_ms)
        if wait_s:
            raise PushedBack(f"more than {self.config.publish_rate:g} events a second", wait_s)

    def _event(self, wanted: NewEvent) -> tuple[Event, Attributes]:
        payload = wanted.payload
        if wanted.payload_base64 is not None:
            payload = _from_base64(wanted)
        elif _depth_exceeds(payload, DEPTH_MAX):
            raise InvalidEvent(f"the payload is nested more than {DEPTH_MAX} deep")
        ttl_ms = LIFETIME_MS if wanted.ttl_s is None else max(1, int(wanted.ttl_s * 1000))
        try:
            attributes = self._peer.schema.validate(wanted.attributes)
            event = self._peer.new_event(
                attributes,
                self._now_us(),
                ttl_ms,
                payload=payload,
                content_type=wanted.content_type or "",
                headers=wanted.headers,
            )
        except SchemaError as error:
            raise InvalidEvent(str(error)) from None
        except (ValueError, OverflowError, TypeError, RecursionError) as error:
            raise InvalidEvent(f"the event cannot be encoded: {error}") from None
        if self._interests.takes_patterns and (document := document_of(event.body)) is not None and document.fault:
            raise InvalidEvent(document.fault)
        if len(event.body) > self.config.max_event_bytes:
            raise EventTooLarge(f"{len(event.body)} bytes encoded; an event has at most {self.config.max_event_bytes}")
        return event, attributes

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def reader(self, id_: str, after: str | None, wake: Callable[[], None]) -> Reader:
        """Somebody who reads a subscription's deliveries; `wake` is called when there may be more of them."""
        return self._find(id_).deliveries.reader(after, wake)

    def _lost(self, event_id: str) -> None:
        self._driver.report(None, Report(PEER_SLOT, Dropped(event_id, "subscriber")))

    # --- the peer -----------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return self._peer.ready

    async def wait_ready(self, seconds: float) -> bool:
        """Wait until the peer stands in the overlay."""
        return self.ready or await _wait(self._ready_waiters, seconds)

    @property
    def settled_ms(self) -> int:
        """Since the last structural change that this peer knows of."""
        return self._driver.now_ms() - self._changed_ms

    @property
    def schema(self) -> Schema:
        return self._peer.schema

    def peer(self) -> documents.PeerShown:
        about, peer = self.about, self._peer
        participants = [
            documents.Participant(slot, describe_box(peer.schema, overlay.descriptor().box))
            for slot, overlay in peer.participants.items()
        ]
        return documents.PeerShown(
            peer.me.peer,
            peer.name,
            about.swarm,
            about.overlay,
            about.parameters,
            documents.Schema(list(peer.schema.attributes)),
            peer.schema.version,
            about.listen or peer.me.at,
            about.http,
            about.version,
            (self._driver.now_ms() - self._started_ms) / 1000,
            peer.ready,
            self.settled_ms,
            participants,
            peer.me.boot,
        )

    def _own_links(self) -> Iterator[tuple[int, str, Address]]:
        for slot, overlay in self._peer.participants.items():
            for link in overlay.links():
                yield slot, link.kind, link.to

    def links(self) -> documents.Links:
        by_kind: dict[str, list[documents.LinkShown]] = {}
        for slot, kind, to in self._own_links():
            by_kind.setdefault(kind, []).append(documents.LinkShown(slot, to.peer, to.boot, to.slot, to.at))
        return documents.Links(self._peer.me.peer, by_kind)

    async def topology(self, limit: int) -> documents.Topology:
        """A picture of the overlay. Whoever asks while one is being made waits for that one."""
        task = self._crawling.get(limit)
        if task is None:
            run = self._crawler.run(
                self._peer.me, self._peer.name, list(self._own_links()), limit, self.config.topology_s
            )
            task = self._crawling[limit] = asyncio.get_running_loop().create_task(run)
            task.add_done_callback(lambda _: self._crawling.pop(limit, None))
        return await asyncio.shield(task)

    def _ask(self, to: Address, req_id: int) -> None:
        self._driver.step(AskLinks(to, req_id))

    def append_schema(
        self, attributes: Sequence[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]]
    ) -> documents.SchemaShown:
        """Append attributes to the swarm's schema, and tell everybody."""
        try:
            added = Schema.from_dict({"attributes": attributes})
            self._driver.step(AppendAttributes(self._peer.schema.append(added.attributes)))
        except (SchemaError, OverflowError, TypeError, ValueError) as error:
            raise InvalidSchema(str(error)) from None
        return self.schema_shown()

    def schema_shown(self) -> documents.SchemaShown:
        return documents.SchemaShown(self._peer.schema.version, list(self._peer.schema.attributes))

    # --- told by the driver -------------------------------------------------------------------------------------------

    def on_active(self, now_ms: int, effect: Active) -> None:
        held = self._held.get(effect.id)
        if held is not None and effect.version == held.version:
            held.active = True
            _settle(held.waiters, True)

    def on_deliver(self, now_ms: int, effect: Deliver) -> None:
        event = effect.event  # its body is sound: the peer has matched what is in there
        now_us = self._now_us()
        for id_ in effect.subscription_ids:
            held = self._held.get(id_)
            if held is not None:
                held.deliveries.push(now_us, event.id, event.body, effect.hops)

    def on_report(self, now_ms: int, effect: Report) -> None:
        fact = effect.fact
        if isinstance(fact, _STRUCTURE):
            self._changed_ms = now_ms
            if effect.slot == PEER_SLOT and isinstance(fact, Joined):
                _settle(self._ready_waiters, True)
        elif isinstance(fact, LinksShown):
            self._crawler.shown(fact)
        elif isinstance(fact, SchemaChanged):
            for listener in self.on_schema:
                listener(now_ms, self._peer.schema)


# --- Helpers ----------------------------------------------------------------------------------------------------------


def _merged(record: SubscriptionRecord, wanted: NewSubscription) -> SubscriptionRecord:
    given = {key: getattr(wanted, key) for key in ("retain_s", "retain_max", "idle_s")}
    return msgspec.structs.replace(record, **{key: value for key, value in given.items() if value is not UNSET})


def _from_base64(wanted: NewEvent) -> bytes:
    if wanted.payload is not None:
        raise InvalidEvent("an event has a payload or a payload_base64, not both")
    try:
        return a2b_base64(wanted.payload_base64 or "", strict_mode=True)
    except (BinasciiError, ValueError) as error:
        raise InvalidEvent(f"payload_base64: {error}") from None


def _depth_exceeds(value: Any, depth: int) -> bool:
    """Whether arrays and objects stand within one another more than `depth` deep."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    if depth == 0:
        return True
    return any(_depth_exceeds(inner, depth - 1) for inner in value if isinstance(inner, (dict, list)))


def _settle(waiters: list[asyncio.Future[bool]], result: bool) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(result)
    waiters.clear()


async def _wait(waiters: list[asyncio.Future[bool]], seconds: float) -> bool:
    waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    waiters.append(waiter)
    try:
        async with asyncio.timeout(seconds):
            return await waiter
    except TimeoutError:
        return False
    finally:
        if waiter in waiters:
            waiters.remove(waiter)
