"""Living peers without sockets: real peers and drivers in one event loop, wired together in memory.

Messages go through the wire codec, so nothing is shared between peers, and arrive in a later turn of the loop, in
order. An endpoint that nobody has answers as a refused connection does.
"""

import asyncio
from collections.abc import Callable
from random import Random
from time import time_ns
from typing import Any

from peerd import registry
from peerd.driver import Driver
from peerd.service import About, Service, ServiceConfig, SubscriptionStore
from peerd.wire import Codec
from protocols.membership import MembershipConfig
from protocols.model.ids import PEER_SLOT, Address, endpoint, in_slot, of_peer
from protocols.model.schema import STOCKS, Schema
from protocols.overlay import Join, Message
from protocols.peer import Peer, PeerConfig
from tests.support.waiting import until


class AsyncioClock:
    """Wall time at the start, and monotonic time since."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._offset_ms = time_ns() // 1_000_000 - self._loop.time() * 1000

    def now_ms(self) -> int:
        return int(self._offset_ms + self._loop.time() * 1000)

    def call_at(self, at_ms: int, call: Callable[..., None], *args: Any) -> asyncio.TimerHandle:
        return self._loop.call_at((at_ms - self._offset_ms) / 1000, call, *args)


class ManualClock:
    """Time that stands still until a test moves it; timers fire then, in order."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._timers: list[tuple[int, int, ManualTimer]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def call_at(self, at_ms: int, call: Callable[..., None], *args: Any) -> "ManualTimer":
        timer = ManualTimer(call, args)
        self._timers.append((at_ms, len(self._timers), timer))
        return timer

    def advance(self, ms: int) -> None:
        end = self._now_ms + ms
        while due := [entry for entry in self._timers if entry[0] <= end]:
            entry = min(due, key=lambda entry: entry[:2])
            self._timers.remove(entry)
            self._now_ms = max(self._now_ms, entry[0])
            entry[2].fire()
        self._now_ms = end


class ManualTimer:
    def __init__(self, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        self._call: Callable[..., None] | None = call
        self._args = args

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        if self._call is not None:
            self._call(*self._args)


class MemoryNetwork:
    """Who is where. `cut` endpoints are silent: what is sent to them is lost without a word."""

    def __init__(self, overlay: str) -> None:
        self.codec = Codec(registry.messages(overlay))
        self.drivers: dict[str, Driver] = {}
        self.cut: set[str] = set()

    def transport(self, me: Address) -> "MemoryTransport":
        return MemoryTransport(self, me)


class MemoryTransport:
    def __init__(self, network: MemoryNetwork, me: Address) -> None:
        self._network = network
        self._me = me

    def send(self, slot: int, to: tuple[Address, ...], message: Message) -> None:
        encoded = self._network.codec.encode(message)
        for address in to:
            asyncio.get_running_loop().call_soon(self._arrive, slot, address, encoded)

    def _arrive(self, slot: int, to: Address, encoded: bytes) -> None:
        network = self._network
        if to.at in network.cut or self._me.at in network.cut:
            return
        message = network.codec.decode(encoded)
        driver = network.drivers.get(to.at)
        if driver is None or (to.peer and of_peer(to) != driver.peer.me):
            own = network.drivers.get(self._me.at)
            if own is not None:
                own.undelivered(slot, to, message, True)
            return
        size = network.codec.frame_size(slot, to.slot, len(encoded))
        driver.received(in_slot(self._me, slot), to.slot, message, size)


class LivingPeer:
    """A peer with its driver and its service."""

    def __init__(self, driver: Driver, service: Service, clock: AsyncioClock) -> None:
        self.driver = driver
        self.service = service
        self.clock = clock

    @property
    def peer(self) -> Peer:
        return self.driver.peer


class MemorySwarm:
    """Some peers of one swarm. The first begins it, the others join through it."""

    def __init__(self, overlay: str = "broadcast", schema: Schema = STOCKS) -> None:
        self._overlay = overlay
        self._schema = schema
        self.network = MemoryNetwork(overlay)
        self.peers: list[LivingPeer] = []

    def add(
        self, config: ServiceConfig | None = None, store: SubscriptionStore | None = None, join: bool = True
    ) -> LivingPeer:
        number = len(self.peers)
        first = number == 0
        me = Address(f"{number + 1:08x}", 1_700_000_000_000, PEER_SLOT, f"memory:{number + 1}")
        membership = MembershipConfig(gossip_ms=100, begin_after_ms=0 if first else None)
        overlay_config = registry.parameters(self._overlay)
        peer = Peer(
            me,
            registry.kind(self._overlay),
            overlay_config,
            self._schema,
            PeerConfig(membership=membership),
            Random(number),
        )
        peer.name = f"peer-{number + 1}"
        clock = AsyncioClock()
        driver = Driver(peer, self.network.transport(me), clock)
        about = About(overlay=self._overlay, swarm="test", listen=me.at, version="0")
        service = Service(driver, clock, about, config, store=store)
        driver.attach([service])
        self.network.drivers[me.at] = driver
        service.start()
        living = LivingPeer(driver, service, clock)
        self.peers.append(living)
        if join:
            self.join(living)
        return living

    def join(self, living: LivingPeer) -> None:
        contacts = () if living is self.peers[0] else (endpoint(self.peers[0].peer.me.at),)
        living.driver.step(Join(contacts))

    async def ready(self) -> None:
        await until(lambda: all(living.peer.ready for living in self.peers), "a standing swarm")

    def close(self) -> None:
        for living in self.peers:
            living.service.close()
            living.driver.stop()
        self.network.drivers.clear()
