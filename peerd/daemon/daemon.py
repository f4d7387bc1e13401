"""The life of a peer.

    open the store         who am I, which life is this, which swarm do I know
    serve HTTP             that it lives, and that it does not stand yet
    find the swarm         begin one, take up the one I know, or ask the contacts, for ever if need be
    listen, build          network, peer, driver, service, event log, metrics
    join                   the peer's own business from here on
    leave                  on SIGTERM or Ctrl-C: the overlay first, then what is queued, then the rest

Nothing is decided here that the parts could decide themselves.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, Final, TypeAlias

import msgspec

from peerd import __version__, registry
from peerd.api import ApiServer, create_app
from peerd.clock import LoopClock
from peerd.config import Settings, SettingsError
from peerd.daemon.door import Door
from peerd.daemon.opening import KeptSubscriptions, load_tls, open_store, written
from peerd.daemon.search import Search
from peerd.daemon.watching import Pulse, listen, make_log, make_metrics, traffic
from peerd.driver import Driver
from peerd.eventlog import EventLog
from peerd.net import Network
from peerd.net.endpoints import (
    WILDCARDS,
    join_endpoint,
    local_host_towards,
    split_endpoint,
    try_listening,
    why_not_listening,
)
from peerd.service import About, Service, SubscriptionRecord
from peerd.service.interests import SWITCH_S
from peerd.store import StoredSwarm
from peerd.wire import Codec
from protocols.growth import GAVE_WAY
from protocols.model.ids import PEER_SLOT, Address, endpoint
from protocols.overlay import Active, Control, Deliver, Join, Leave, Left, Report, SchemaChanged
from protocols.peer import Peer, PeerConfig, Reseed

RESOLVE_AGAIN_S: Final = 5.0
RESOLVE_LATER_S: Final = 60.0
"""How often the names of contacts are looked up: while nobody was found, and later. Guesses."""
CONTACTS_EVERY_MS: Final = 30_000
LEAVE_S: Final = 12.0
"""A little more than the peer's own patience with a graceful leave."""
CLOSE_S: Final = 0.5
BEGIN_AGAIN_S: Final = 10.0
"""How long a peer looks for the swarm of its data directory before it begins it anew. As liveness' 10 s until death."""
GARBAGE_EVERY: Final = 10_000
"""New objects until Python looks for garbage among them. Measured: with its own 700 it looks through what waits in
queues again and again, and a busy relay loses a seventh of its time."""

Built: TypeAlias = Callable[[Driver, Service, Network], None]

_log = logging.getLogger("peerd.daemon")


class Daemon:
    """`built` is called when everything stands and the peer has not joined yet: for those who want to watch it."""

    def __init__(self, settings: Settings, announce: Callable[[str], None] = print, built: Built | None = None) -> None:
        self.settings = settings
        self._announce = announce
        self._built = built
        self._stopping = asyncio.Event()
        self._left = asyncio.Event()
        self._store = open_store(settings)
        self._running: asyncio.Task[Any] | None = None
        self._network: Network | None = None
        self._api: ApiServer | None = None
        self._log: EventLog | None = None
        self._capture: BinaryIO | None = None
        self._tls = load_tls(settings)
        self._search = Search(settings, self._store, self._tls, self._stopping)

    # --- the life of a peer -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until told to stop. `SettingsError` or `OSError` in one line if it cannot start.

        Cancelled, it ends without leaving: the others find out by themselves.
        """
        self._running = asyncio.current_task()
        gc.set_threshold(GARBAGE_EVERY, *gc.get_threshold()[1:])
        sys.setswitchinterval(SWITCH_S)
        try:
            await self._try_addresses()
            await self._start_api()
            swarm = await self._search.find()
            if swarm is None:
                return  # told to stop before anybody was found
            await self._build(swarm)
            await self._serve()
        finally:
            await self._close()

    async def _try_addresses(self) -> None:
        """Whoever has started a second peer on the ports of the first is told so at once: contacts may take for ever to
        answer, and the first peer, if it is one of them, would be taken for this one."""
        for to, at in (("listen", self.settings.listen), ("serve HTTP", self.settings.http)):
            try:
                await try_listening(at)
            except OSError as error:
                raise OSError(error.errno, f"cannot {to} on {at}: {why_not_listening(error)}") from None

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
            self._log.on_traffic(self._clock.now_ms(), traffic(self._network))  # of the interval that has begun
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

    def _save_contacts(self) -> None:
        known = [address.at for address in self._peer.membership.known()]
        if known:
            self._store.save_contacts(known)

    def _keep_contacts(self) -> None:
        self._save_contacts()
        self._clock.call_at(self._clock.now_ms() + CONTACTS_EVERY_MS, self._keep_contacts)

    # --- building -----------------------------------------------------------------------------------------------------

    async def _build(self, swarm: StoredSwarm) -> None:
        settings = self.settings
        self._clock = LoopClock()
        parameters = self._swarms_parameters(swarm)
        door = Door(swarm, self._store, self._stopping.is_set)
        at = await self._listen(swarm, door)
        me = Address(self._store.peer, self._store.boot, PEER_SLOT, at)
        kind = registry.kind(swarm.overlay)
        self._peer = Peer(me, kind, parameters, swarm.schema, self._peer_config(), Random())
        self._peer.name = settings.name
        if settings.bandwidth is not None and not kind.keeps_budget:
            _log.warning("overlay %s keeps to no upload budget: --bandwidth has no effect", swarm.overlay)
        assert self._network is not None
        self._driver = Driver(self._peer, self._network, self._clock)
        door.hand_to(self._driver)
        kept = KeptSubscriptions(self._store)
        self._service = self._make_service(swarm, at, kept)
        self._watch(swarm, door)
        self._service.subscriptions.restore(kept.records())
        self._service.start()
        if self._log is not None:
            Pulse(self._log, self._network, self._clock)
        self._keep_contacts()
        if self._built is not None:
            self._built(self._driver, self._service, self._network)

    async def _listen(self, swarm: StoredSwarm, door: Door) -> str:
        """Make the network; the endpoint that others are told. From listening on there must be somebody to greet: no
        await from then until the door stands."""
        settings = self.settings
        self._capture = self._open_capture()
        codec = Codec(registry.messages(swarm.overlay))
        self._network = Network(door.greeting, codec, door, settings.net, capture=self._capture, tls=self._tls)
        shown = await self._advertised_host()
        host, port = await self._network.listen(*split_endpoint(settings.listen))
        return settings.advertise or join_endpoint(shown or host, port)

    def _watch(self, swarm: StoredSwarm, door: Door) -> None:
        """Let those watch what happens who want to: applications, metrics, the event log."""
        assert self._network is not None and self._api is not None
        metrics = make_metrics(
            self._peer,
            self._service,
            self._network,
            self._clock,
            api=lambda: self._api,
            log_lost=lambda: 0 if self._log is None else self._log.lost,
        )
        sinks: list[Any] = [self._service, metrics, _Ends(self._left, door)]
        if self.settings.log_dir is not None:
            self._log = make_log(self.settings.log_dir, self.settings, swarm, self._peer.me, self._clock)
            listen(self._log, self._service)
            sinks.append(self._log)
        self._driver.attach(sinks)
        self._api.allow_host(split_endpoint(self._peer.me.at)[0])
        self._api.open(self._service, metrics.render)

    def _peer_config(self) -> PeerConfig:
        """A swarm that was stopped as a whole and is started again has nobody who stands. Whoever has no contact to
        insist on begins it after a while; should others live elsewhere, the two merge."""
        settings = self.settings
        if settings.bootstrap is None and not settings.join:
            settings = msgspec.structs.replace(settings, bootstrap=BEGIN_AGAIN_S if self._store.contacts else None)
        return settings.peer_config()

    def _open_capture(self) -> BinaryIO | None:
        path = self.settings.net.capture
        if path is None:
            return None
        with written(self.settings, "net.capture", "file"):
            return Path(path).open("wb")

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

    def _make_service(self, swarm: StoredSwarm, at: str, kept: KeptSubscriptions) -> Service:
        assert self._network is not None
        about = About(
            overlay=swarm.overlay,
            swarm=swarm.name,
            parameters=swarm.parameters,
            listen=at,
            version=__version__,
        )
        defaults = self.settings.subscriptions
        return Service(
            self._driver,
            self._clock,
            about,
            self.settings.service,
            store=kept,
            defaults=SubscriptionRecord("", "", defaults.retain_s, defaults.retain_max, defaults.idle_s),
            queued=self._network.events_queued,
            now_us=self._clock.now_us,
        )

    async def _start_api(self) -> None:
        server = ApiServer(create_app(self.settings.api), *split_endpoint(self.settings.http))
        host, _ = split_endpoint(self.settings.advertise or self.settings.listen)
        if host not in WILDCARDS:
            server.allow_host(host)
        try:
            await server.start()
        except OSError as error:
            reason = why_not_listening(error)
            raise OSError(error.errno, f"cannot serve HTTP on {self.settings.http}: {reason}") from None
        self._api = server


class _Ends:
    """A sink that waits for the few facts that concern the daemon itself."""

    def __init__(self, left: asyncio.Event, door: Door) -> None:
        self._left = left
        self._door = door

    def on_active(self, now_ms: int, effect: Active) -> None: ...
    def on_deliver(self, now_ms: int, effect: Deliver) -> None: ...

    def on_report(self, now_ms: int, effect: Report) -> None:
        if effect.slot == PEER_SLOT and isinstance(effect.fact, Left):
            self._left.set()
        elif isinstance(effect.fact, SchemaChanged):
            self._door.schema_changed()
        elif isinstance(effect.fact, Control) and effect.fact.fact == GAVE_WAY:
            detail = effect.fact.detail
            _log.warning(
                "attribute %s was appended elsewhere too, in another form: %s stands, %s does not",
                *(detail[key] for key in ("attribute", "kept", "given_up")),
            )
