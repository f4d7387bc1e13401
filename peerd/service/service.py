"""What others ask of a running peer: the HTTP API, the WebSocket, the console, the testbed.

The peer (`protocols/peer.py`) knows inputs and effects; people know subscriptions, events and deliveries. The service
stands between the two. It hands inputs to the driver and is one of its sinks. It does no input or output of its own and
almost everything here answers at once; three things can be waited for: that a subscription stands in the overlay, that
the peer does, and a picture of the overlay.

Wrong use ends in one of the errors of `peerd/service/refusals.py`, each with one line for people.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import time_ns
from typing import Any, Final

import msgspec

from peerd import documents
from peerd.driver import Clock, Driver, Timer
from peerd.service.config import ServiceConfig
from peerd.service.crawl import Crawler
from peerd.service.deliveries import Budget
from peerd.service.interests import Interests
from peerd.service.publishing import Publisher
from peerd.service.refusals import InvalidSchema
from peerd.service.subscriptions import SubscriptionRecord, Subscriptions, SubscriptionStore, random_id
from peerd.service.waiting import Waiters, settle, wait
from protocols.model.describe import describe_box
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import Schema, SchemaError
from protocols.overlay import (
    Active,
    Deliver,
    Joined,
    Left,
    LinkDown,
    LinksShown,
    LinkUp,
    Placed,
    Report,
    SchemaChanged,
)
from protocols.peer import AppendAttributes, AskLinks

SWEEP_MS: Final = 1_000
"""How often what has had its time is looked for. Our choice: the contract counts in seconds."""

_STRUCTURE: Final = (LinkUp, LinkDown, Placed, Joined, Left)


class About(msgspec.Struct, kw_only=True):
    """What a peer can tell about itself that its state machine does not know."""

    overlay: str
    swarm: str = ""
    parameters: dict[str, Any] = {}
    listen: str = ""
    http: str = ""
    version: str = ""


def _nothing_queued() -> int:
    return 0


def _now_us() -> int:
    return time_ns() // 1000


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
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self.about = about
        self.config = config = config or ServiceConfig()
        self.on_schema: list[Callable[[int, Schema], None]] = []
        interests = Interests(driver.peer, about.overlay)
        self.subscriptions = Subscriptions(
            driver,
            interests,
            Budget(config.retain_all_bytes, config.retain_each_bytes),
            config.subscriptions_max,
            now_us,
            store=store,
            defaults=defaults,
            new_id=new_id,
        )
        self.publisher = Publisher(driver, config, queued, now_us, interests.takes_patterns)
        self._driver = driver
        self._peer = driver.peer
        self._clock = clock
        self._started_ms = self._changed_ms = clock.now_ms()
        self._timer: Timer | None = None
        self._crawler = Crawler(self._ask)
        self._crawling: dict[int, asyncio.Task[documents.Topology]] = {}
        self._ready_waiters: Waiters = []

    def start(self) -> None:
        """Look after what has had its time from now on."""
        self._timer = self._clock.call_at(self._clock.now_ms() + SWEEP_MS, self._sweep)

    def _sweep(self) -> None:
        now_ms = self._clock.now_ms()
        self._timer = self._clock.call_at(now_ms + SWEEP_MS, self._sweep)
        self.publisher.sweep(now_ms)
        self.subscriptions.sweep(now_ms)

    def close(self) -> None:
        """End everything that waits. Subscriptions stay in the store."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._crawling.values():
            task.cancel()
        self.subscriptions.close()
        settle(self._ready_waiters, False)

    # --- the peer -----------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return self._peer.ready

    async def wait_ready(self, seconds: float) -> bool:
        """Wait until the peer stands in the overlay."""
        return self.ready or await wait(self._ready_waiters, seconds)

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
        self.subscriptions.on_active(effect)

    def on_deliver(self, now_ms: int, effect: Deliver) -> None:
        self.subscriptions.on_deliver(effect)

    def on_report(self, now_ms: int, effect: Report) -> None:
        fact = effect.fact
        if isinstance(fact, _STRUCTURE):
            self._changed_ms = now_ms
            if effect.slot == PEER_SLOT and isinstance(fact, Joined):
                settle(self._ready_waiters, True)
        elif isinstance(fact, LinksShown):
            self._crawler.shown(fact)
        elif isinstance(fact, SchemaChanged):
            for listener in self.on_schema:
                listener(now_ms, self._peer.schema)
