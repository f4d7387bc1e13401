"""Steady load leaves memory flat: what a peer remembers of events it forgets again.

An hour and a half of virtual time goes through complete peers without sockets, and what is counted is the allocated
blocks of the interpreter, which nothing but objects that are kept makes more. Sockets and HTTP cannot be hurried: real
peers get as many events as some seconds allow, and may keep no more of each than its id, which they remember for two
minutes.
"""

import gc
import sys
from collections import deque
from pathlib import Path
from random import Random
from typing import Final

import pytest

from peerd import registry
from peerd.client import Peer as Client
from peerd.documents import NewEvent, NewSubscription, Scalar
from peerd.driver import Driver
from peerd.metrics import Info, Metrics, Sources
from peerd.service import About, Service
from peerd.testbed.processes import usage
from peerd.wire import Codec
from protocols.membership import MembershipConfig
from protocols.model.ids import PEER_SLOT, Address, endpoint, in_slot
from protocols.model.schema import STOCKS
from protocols.overlay import Join, Message
from protocols.peer import Peer, PeerConfig
from tests.support.memory import ManualClock
from tests.testbed.support import bed_of

EVENT: Final[dict[str, Scalar | None]] = {"exchange": "ATH", "symbol": "OTE", "price": 8.5, "high": 9.0, "low": 8.0}


class Swarm:
    """Some complete peers, wired together without sockets, whose time is made by hand."""

    def __init__(self, peers: int) -> None:
        self.clock = ManualClock()
        self.published = 0
        self._codec = Codec(registry.messages("broadcast"))
        self._under_way: deque[tuple[Address, Address, bytes]] = deque()
        self._drivers: dict[str, Driver] = {}
        self.services = [self._add(number) for number in range(peers)]
        self.run(5_000)
        assert all(service.ready for service in self.services)

    def _add(self, number: int) -> Service:
        me = Address(f"{number + 1:032x}", 1_700_000_000_000, PEER_SLOT, f"peer:{number + 1}")
        config = PeerConfig(membership=MembershipConfig(begin_after_ms=None if number else 0))
        kind, parameters = registry.kind("broadcast"), registry.parameters("broadcast")
        driver = Driver(Peer(me, kind, parameters, STOCKS, config, Random(number)), _Wire(self, me), self.clock)
        about = About(overlay="broadcast")
        service = Service(driver, self.clock, about, now_us=self.now_us)
        metrics = Metrics(Info("0", "broadcast", me.peer, ""), self.now_us, Sources())
        service.publisher.listeners.append(metrics.on_publish)
        driver.attach([service, metrics])
        self._drivers[me.at] = driver
        service.start()
        driver.step(Join((endpoint("peer:1"),) if number else ()))
        return service

    def now_us(self) -> int:
        return self.clock.now_ms() * 1000

    def send(self, sender: Address, to: Address, message: Message) -> None:
        self._under_way.append((sender, to, self._codec.encode(message)))

    def run(self, ms: int, step_ms: int = 50) -> None:
        for _ in range(0, ms, step_ms):
            self.clock.advance(step_ms)
            while self._under_way:
                sender, to, data = self._under_way.popleft()
                self._drivers[to.at].received(sender, to.slot, self._codec.decode(data), len(data))


class _Wire:
    def __init__(self, swarm: Swarm, me: Address) -> None:
        self._swarm = swarm
        self._me = me

    def send(self, slot: int, to: tuple[Address, ...], message: Message) -> None:
        for address in to:
            self._swarm.send(in_slot(self._me, slot), address, message)


def blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def load(swarm: Swarm, seconds: int) -> None:
    """Ten events a second, through each peer in turn."""
    for _ in range(seconds * 10):
        swarm.published += 1
        service = swarm.services[swarm.published % len(swarm.services)]
        assert not service.publisher.publish(NewEvent(attributes=EVENT, id=f"{swarm.published:08}")).repeated
        swarm.run(100, 100)


def most_blocks(swarm: Swarm) -> int:
    """The most that is kept at any time of five minutes: what is remembered goes in generations of two."""
    most = 0
    for _ in range(30):
        load(swarm, 10)
        most = max(most, blocks())
    return most


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_hour_and_a_half_of_steady_load() -> None:
    swarm = Swarm(3)
    for service in swarm.services:
        service.subscriptions.add(NewSubscription(filter="symbol = 'OTE'", retain_s=60.0, idle_s=None), "all")
    load(swarm, 2_400)  # the slowest of all caches, that of digests, is full after half an hour
    early = most_blocks(swarm)
    load(swarm, 3_000)
    late = most_blocks(swarm)
    assert swarm.services[0].subscriptions.shown("all").retained == pytest.approx(600, abs=20)
    assert late < early * 1.02, (early, late)


@pytest.mark.slow
async def test_real_peers_keep_little_of_an_event(tmp_path: Path) -> None:
    async with bed_of(3, tmp_path) as bed:
        clients = [Client(f"http://{member.http}") for member in bed.members]
        for client in clients:
            await client.subscribe("symbol = 'OTE'", retain_max=100, idle_s=None, keep=True)

        async def publish(count: int) -> list[int]:
            for number, client in enumerate(clients):
                share = range(number, count, len(clients))
                await client.publish_many({"attributes": EVENT, "id": f"{count}-{each}"} for each in share)
            used = [usage(member.process) for member in bed.members]
            return [each.memory_bytes for each in used if each is not None]

        early = await publish(9_000)
        late = await publish(30_000)
        for client in clients:
            [kept] = await client.subscriptions()
            assert kept.retained == 100
            await client.close()
    grown = [(after - before) / 30_000 for before, after in zip(early, late)]
    assert len(grown) == 3
    assert max(grown) < 1_500, grown
