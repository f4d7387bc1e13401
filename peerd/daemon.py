"""A peer as a process: everything composed, from settings to a graceful end.

    open the store         who am I, which life is this, which swarm do I know
    find the swarm         begin one, take up the one I know, or ask the contacts, for ever if need be
    listen, build          network, peer, driver, service, event log, metrics, HTTP API
    join                   the peer's own business from here on
    leave                  on SIGTERM or Ctrl-C: the overlay first, then what is queued, then the rest

Nothing is decided here that the parts could decide themselves.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, Final, TypeAlias

import msgspec

from peerd import __version__, registry, swarms
from peerd.api import ApiServer, create_app
from peerd.clock import LoopClock
from peerd.config import Settings, SettingsError
from peerd.driver import Driver
from peerd.eventlog import EventLog, LogConfig
from peerd.metrics import Info, Meter, Metrics, Sources
from peerd.net import Greeting, NetStats, Network, Refusal, tls
from peerd.net.endpoints import (
    WILDCARDS,
    join_endpoint,
    local_host_towards,
    split_endpoint,
    why_not_listening,
)
from peerd.net.greeting import refusal
from peerd.net.tls import Tls
from peerd.search import Search
from peerd.service import About, Service, SubscriptionRecord
from peerd.service.interests import SWITCH_S
from peerd.store import Background, MemoryStore, Storage, Store, StoredSubscription, StoredSwarm
from peerd.wire import Codec, Frame
from protocols.model.ids import PEER_SLOT, Address, endpoint
from protocols.model.schema import Schema, SchemaError
from protocols.overlay import Active, Deliver, Join, Leave, Left, Message, Report, SchemaChanged
from protocols.peer import AppendAttributes, Peer, PeerConfig, Reseed

RESOLVE_AGAIN_S: Final = 5.0
RESOLVE_LATER_S: Final = 60.0
"""How often the names of contacts are looked up: while nobody was found, and later. Guesses."""
CONTACTS_EVERY_MS: Final = 30_000
ALIVE_EVERY_MS: Final = 1_000
TRAFFIC_EVERY: Final = 10
"""In how many of those intervals one record of traffic is written."""
LEAVE_S: Final = 12.0
"""A little more than the peer's own patience with a graceful leave."""
CLOSE_S: Final = 0.5
BEGIN_AGAIN_S: Final = 10.0
"""How long a peer looks for the swarm of its data directory before it begins it anew. As liveness' 10 s until death."""
CERTIFICATE_WARNING: Final = timedelta(days=14)
"""How long before its end a peer speaks of its certificate. Our choice."""
GARBAGE_EVERY: Final = 10_000
"""New objects until Python looks for garbage among them. Measured: with its own 700 it looks through what waits in
queues again and again, and a busy relay loses a seventh of its time."""

_log = logging.getLogger("peerd.daemon")


def now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


Built: TypeAlias = Callable[[Driver, Service, Network], None]


class Daemon:
    """`built` is called when everything stands and the peer has not joined yet: for those who want to watch it."""

    def __init__(self, settings: Settings, announce: Callable[[str], None] = print, built: Built | None = None) -> None:
        self.settings = settings
        self._announce = announce
        self._built = built
        self._stopping = asyncio.Event()
        self._left = asyncio.Event()
        self._store = _open_store(settings)
        self._running: asyncio.Task[Any] | None = None
        self._network: Network | None = None
        self._api: ApiServer | None = None
        self._log: EventLog | None = None
        self._capture: BinaryIO | None = None
        self._tls = _load_tls(settings)
        self._search = Search(settings, self._store, self._tls, self._stopping)
        self._seconds = 0

    # --- the life of a peer -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until told to stop. `SettingsError` or `OSError` in one line if it cannot start.

        Cancelled, it ends without leaving: the others find out by themselves.
        """
        self._running = asyncio.current_task()
        gc.set_threshold(GARBAGE_EVERY, *gc.get_threshold()[1:])
        sys.setswitchinterval(SWITCH_S)
        try:
            swarm = await self._search.find()
            if swarm is None:
                return  # told to stop before anybody was found
            await self._build(swarm)
            await self._serve()
        finally:
            await self._close()

    def stop(self) -> None:
        """Leave gracefully; the second time end at once."""
        if self._stopping.is_set() and self._running is not None:
            self._running.cancel()
        self._stopping.set()

    def stop_on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, self.stop)

    async def _serve(self) -> None:
        contacts = tuple(endpoint(at) for at in await self._search.contacts())
        self._driver.step(Join(contacts, begin=not self.settings.join))
        waiting = [asyncio.create_task(self._say_when_up()), asyncio.create_task(self._resolve_again())]
        await self._stopping.wait()
        for task in waiting:
            task.cancel()
        await self._leave()

    async def _resolve_again(self) -> None:
        """Names may stand for other addresses by now, or stand for some at all."""
        while self.settings.join:
            ready = await self._service.wait_ready(RESOLVE_AGAIN_S)
            if ready:
                await asyncio.sleep(RESOLVE_LATER_S)
            self._driver.step(Reseed(tuple(await self._search.contacts())))

    async def _say_when_up(self) -> None:
        while not await self._service.wait_ready(60.0):
            _log.warning("not joined yet; the contacts are tried again, for ever")
        self._save_contacts()
        about = self._service.about
        _log.info("joined swarm %s (%s) as %s", about.swarm, about.overlay, self._peer.me.peer)
        self._announce(
            f"peerd {self._peer.me.peer[:8]} is up: {about.overlay} on {about.listen}, http://{about.http}, "
            f"swarm {about.swarm}"
        )

    async def _leave(self) -> None:
        """The overlay first, while clients are still answered; then the clients, then what waits for other peers."""
        assert self._api is not None and self._network is not None
        self._save_contacts()
        if self._log is not None:
            self._log.on_traffic(self._clock.now_ms(), self._traffic())  # of the interval that has begun
            self._log.on_leaving(self._clock.now_ms())
        self._driver.step(Leave())
        try:
            await asyncio.wait_for(self._left.wait(), LEAVE_S)
            _log.info("left the swarm in good order")
        except TimeoutError:
            _log.warning("left the swarm without waiting any longer for others to make up for it")
        await self._api.stop()
        self._service.close()
        await self._network.close()
        self._driver.stop()

    async def _close(self) -> None:
        """Let go of everything, however far it has come. What was left in good order is closed already."""
        with suppress(TimeoutError):  # of somebody who was told twice to stop, nobody expects patience with clients
            async with asyncio.timeout(CLOSE_S):
                if self._api is not None:
                    await self._api.stop()
        if self._network is not None:
            await self._network.close(0.0)
        if self._capture is not None:
            self._capture.close()
        if self._log is not None:
            self._log.close()
        self._store.close()

    # --- building -----------------------------------------------------------------------------------------------------

    async def _build(self, swarm: StoredSwarm) -> None:
        settings = self.settings
        self._swarm = swarm
        self._clock = LoopClock()
        kind = registry.kind(swarm.overlay)
        parameters = self._swarms_parameters(swarm)
        receiver = _Receiver(self)
        self._capture = self._open_capture()
        codec = Codec(registry.messages(swarm.overlay))
        self._network = Network(self._greeting, codec, receiver, settings.net, capture=self._capture, tls=self._tls)
        shown = await self._advertised_host()  # from listening on there must be somebody to greet: no await until then
        host, port = await self._network.listen(*split_endpoint(settings.listen))
        at = settings.advertise or join_endpoint(shown or host, port)
        me = Address(self._store.peer, self._store.boot, PEER_SLOT, at)
        self._peer = Peer(me, kind, parameters, swarm.schema, self._peer_config(), Random())
        self._peer.name = settings.name
        if settings.bandwidth is not None and not kind.keeps_budget:
            _log.warning("overlay %s keeps to no upload budget: --bandwidth has no effect", swarm.overlay)
        self._driver = Driver(self._peer, self._network, self._clock)
        receiver.hand_to(self._driver)
        self._service = self._make_service(swarm, at)
        self._metrics = self._make_metrics(swarm)
        sinks: list[Any] = [self._service, self._metrics, _Ends(self)]
        if settings.log_dir is not None:
            self._log = self._make_log(swarm, me)
            sinks.append(self._log)
        self._driver.attach(sinks)
        await self._start_api()
        self._service.subscriptions.restore(_records(self._store))
        self._service.start()
        self._every_second()
        self._keep_contacts()
        if self._built is not None:
            self._built(self._driver, self._service, self._network)

    def _peer_config(self) -> PeerConfig:
        """A swarm that was stopped as a whole and is started again has nobody who stands. Whoever has no contact to
        insist on begins it after a while; should others live elsewhere, the two merge."""
        settings = self.settings
        if settings.bootstrap is None and not settings.join:
            settings = msgspec.structs.replace(settings, bootstrap=BEGIN_AGAIN_S if self._store.contacts else None)
        return settings.peer_config()

    def _open_capture(self) -> BinaryIO | None:
        path = self.settings.net.capture
        return None if path is None else Path(path).open("wb")

    def _swarms_parameters(self, swarm: StoredSwarm) -> msgspec.Struct:
        try:
            return registry.parameters(swarm.overlay, {key: str(value) for key, value in swarm.parameters.items()})
        except ValueError as error:
            raise SettingsError(
                f"swarm '{swarm.name}' has parameters that this version does not take: {error}"
            ) from None

    async def _advertised_host(self) -> str:
        """The address of this host to tell others when listening on all of them; else empty."""
        if self.settings.advertise is not None or split_endpoint(self.settings.listen)[0] not in WILDCARDS:
            return ""
        contacts = await self._search.contacts()
        if not contacts:
            source = self.settings.source("listen")
            raise SettingsError(f"{source}: listening on all addresses needs --advertise HOST:PORT or a --join")
        return await local_host_towards(contacts[0])

    def _make_service(self, swarm: StoredSwarm, at: str) -> Service:
        about = About(
            overlay=swarm.overlay,
            swarm=swarm.name,
            parameters=swarm.parameters,
            listen=at,
            version=__version__,
        )
        kept = self.settings.subscriptions
        return Service(
            self._driver,
            self._clock,
            about,
            self.settings.service,
            store=_StoreHook(self._store),
            defaults=SubscriptionRecord("", "", kept.retain_s, kept.retain_max, kept.idle_s),
            queued=self._queued,
            now_us=self._clock.now_us,
        )

    def _stats(self) -> NetStats:
        assert self._network is not None
        return self._network.stats()

    def _queued(self) -> int:
        assert self._network is not None
        return self._network.events_queued()

    def _make_metrics(self, swarm: StoredSwarm) -> Metrics:
        info = Info(__version__, swarm.overlay, self._peer.me.peer, self.settings.name)
        sources = Sources(
            ready=lambda: self._peer.ready,
            links=self._links_by_kind,
            queues=lambda: {"events": self._queued()},
            queued_control=lambda: sum(queue.control for queue in self._stats().queues),
            participants=lambda: len(self._peer.participants),
            subscriptions=lambda: len(self._service.subscriptions),
            traffic=self._traffic,
            network=self._stats,
            http=lambda: {} if self._api is None else self._api.context.stats.results(),
            http_connections_refused=lambda: 0 if self._api is None else self._api.context.stats.connections_refused,
            log_lost=lambda: 0 if self._log is None else self._log.lost,
        )
        metrics = Metrics(info, self._clock.now_us, sources)
        self._service.publisher.listeners.append(metrics.on_publish)
        return metrics

    def _links_by_kind(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for overlay in self._peer.participants.values():
            for link in overlay.links():
                counts[link.kind] = counts.get(link.kind, 0) + 1
        return counts

    def _traffic(self) -> Mapping[str, Meter]:
        return {traffic.message: traffic for traffic in self._stats().traffic}

    def _make_log(self, swarm: StoredSwarm, me: Address) -> EventLog:
        settings = self.settings
        assert settings.log_dir is not None
        config = LogConfig(
            directory=settings.log_dir,
            run=settings.log_run or swarm.name,
            detail=settings.log_detail,
            sample=settings.log_sample,
            keep_bytes=settings.log_keep,
        )
        log = EventLog(config, me, swarm.overlay, swarm.schema, self._clock.now_us)
        log.on_started(self._clock.now_ms(), swarm.parameters)
        self._service.publisher.listeners.append(log.on_publish)
        self._service.subscriptions.listeners.append(log.on_subscription)
        self._service.on_schema.append(log.on_schema)
        return log

    async def _start_api(self) -> None:
        api, (host, port) = self.settings.api, split_endpoint(self.settings.http)
        config = msgspec.structs.replace(api, hosts=(*api.hosts, split_endpoint(self._peer.me.at)[0]))
        server = ApiServer(create_app(self._service, config, self._metrics.render), host, port)
        try:
            await server.start()
        except OSError as error:
            reason = why_not_listening(error)
            raise OSError(error.errno, f"cannot serve HTTP on {self.settings.http}: {reason}") from None
        self._api = server

    def _greeting(self) -> Greeting:
        swarm, peer = self._swarm, self._peer
        return Greeting(
            swarm_id=swarms.id_of(swarm),
            swarm=swarm.name,
            overlay=swarm.overlay,
            parameters=swarm.parameters,
            schema=peer.schema.to_dict()["attributes"],
            schema_version=peer.schema.version,
            peer=peer.me.peer,
            boot=peer.me.boot,
            at=peer.me.at,
        )

    # --- while it lives -----------------------------------------------------------------------------------------------

    def accepts(self, greeting: Greeting) -> Refusal | None:
        if self._stopping.is_set():
            return refusal("busy", "this peer is about to leave")
        return swarms.check(greeting, self._swarm, self._peer.schema)

    def greeted(self, greeting: Greeting) -> None:
        """The other peer may know attributes that were appended while we did not look."""
        if greeting.schema_version > self._peer.schema.version:
            with suppress(SchemaError):
                self._driver.step(AppendAttributes(Schema.from_dict({"attributes": greeting.schema})))

    def schema_changed(self) -> None:
        self._swarm = msgspec.structs.replace(self._swarm, schema=self._peer.schema)
        self._store.save_swarm(self._swarm)

    def left(self) -> None:
        self._left.set()

    def _every_second(self) -> None:
        if self._log is None:
            return
        at_ms = self._clock.now_ms()
        self._log.on_alive(at_ms)
        self._seconds += 1
        if self._seconds % TRAFFIC_EVERY == 0:
            self._log.on_traffic(at_ms, self._traffic())
        self._clock.call_at(at_ms + ALIVE_EVERY_MS, self._every_second)

    def _save_contacts(self) -> None:
        known = [address.at for address in self._peer.membership.known()]
        if known:
            self._store.save_contacts(known)

    def _keep_contacts(self) -> None:
        self._save_contacts()
        self._clock.call_at(self._clock.now_ms() + CONTACTS_EVERY_MS, self._keep_contacts)


def _open_store(settings: Settings) -> Storage:
    """Opened and read at once, written in the background: an event loop does not wait for a disk."""
    return MemoryStore(now_ms()) if settings.data_dir is None else Background(Store(settings.data_dir, now_ms()))


def _load_tls(settings: Settings) -> Tls | None:
    if settings.tls is None:
        return None
    from peerd.certificates import expires  # whoever does without TLS need not wait for its libraries

    directory, source = Path(settings.tls), settings.source("tls")
    try:
        found, end = tls.load(directory), expires(directory)
    except ValueError as error:
        raise SettingsError(f"{source}: {error}") from None
    left = end - datetime.now(UTC)
    if left < timedelta(0):
        raise SettingsError(f"{source}: the certificate in {directory} ended on {end:%Y-%m-%d}; issue another")
    if left < CERTIFICATE_WARNING:
        _log.warning("the certificate in %s ends on %s; issue another", directory, f"{end:%Y-%m-%d}")
    return found


class _Receiver:
    """Where the network hands things in: the peer's business goes to the driver, the swarm's to the daemon."""

    received: Callable[[Address, int, Message, int], None]
    arrived: Callable[[Iterator[Frame], Mapping[int, Address]], None]
    undelivered: Callable[[int, Address, Message, bool], None]
    dropped: Callable[[Address, Message, str], None]

    def __init__(self, daemon: Daemon) -> None:
        self.accepts = daemon.accepts
        self.greeted = daemon.greeted

    def hand_to(self, driver: Driver) -> None:
        """The driver's own methods, without a call between: there is one for every message."""
        self._driver = driver
        self.received, self.arrived = driver.received, driver.arrived
        self.undelivered, self.dropped = driver.undelivered, driver.dropped

    def rejected(self, sender: Address | None, at: str, reason: str) -> None:
        _log.warning("refused %s: %s", sender or at, reason)
        self._driver.rejected(sender, at, reason)


class _Ends:
    """A sink that waits for the few facts that concern the daemon itself."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def on_active(self, now_ms: int, effect: Active) -> None: ...
    def on_deliver(self, now_ms: int, effect: Deliver) -> None: ...

    def on_report(self, now_ms: int, effect: Report) -> None:
        if effect.slot == PEER_SLOT and isinstance(effect.fact, Left):
            self._daemon.left()
        elif isinstance(effect.fact, SchemaChanged):
            self._daemon.schema_changed()


class _StoreHook:
    """Subscriptions as the store keeps them."""

    def __init__(self, store: Storage) -> None:
        self._store = store

    def subscription_changed(self, record: SubscriptionRecord) -> None:
        self._store.put_subscription(
            StoredSubscription(
                id=record.id,
                filter=record.filter,
                retain_s=record.retain_s,
                retain_max=record.retain_max,
                idle_s=record.idle_s,
                xpath=record.xpath,
            )
        )

    def subscription_removed(self, id_: str) -> None:
        self._store.remove_subscription(id_)


def _records(store: Storage) -> list[SubscriptionRecord]:
    return [
        SubscriptionRecord(kept.id, kept.filter, kept.retain_s, kept.retain_max, kept.idle_s, kept.xpath)
        for kept in store.subscriptions.values()
    ]
