"""Scenarios of the failure detector: a handful of peers on a network with a delay, in virtual time."""

import heapq
from itertools import count

import msgspec

from protocols.model.descriptor import REFUTATION_MAX
from protocols.model.ids import Address
from protocols.overlay import Message
from protocols.parts.liveness import (
    HEALTH_MAX,
    MESSAGES,
    Liveness,
    Ping,
    PingRequest,
    Pong,
    Vouch,
)
from protocols.parts.tombstones import Tombstones
from tests.parts.nodes import address


class Net:
    """`ticks` says when each peer's next tick is due; a stalled peer does nothing until its stall ends."""

    def __init__(self, size: int, delay_ms: int = 20) -> None:
        self.now_ms = 0
        self.delay_ms = delay_ms
        self.peers: dict[str, Liveness] = {}
        self.ticks: dict[str, int] = {}
        self.stalled_until_ms: dict[str, int] = {}
        self.crashed: list[str] = []
        self.cut: list[tuple[str, str]] = []
        self.sent: list[tuple[str, str, Message]] = []
        self.suspected: list[tuple[int, str, str]] = []
        self.dead: list[tuple[int, str, str]] = []
        self._queue: list[tuple[int, int, Address, Address, Message]] = []
        self._count = count()
        addresses = [address(n) for n in range(size)]
        for n, own in enumerate(addresses):
            others = [a for a in addresses if a != own]
            self.peers[own.peer] = Liveness(own, Tombstones(), lambda k, others=others: others[:k])  # type: ignore[misc]
            self.ticks[own.peer] = 100 * n + 50

    def watch(self, *pairs: tuple[int, int]) -> None:
        for one, other in pairs:
            self.peers[f"p{one}"].watch(self.now_ms, address(other))

    def send(self, sender: Address, to: Address, message: Message) -> None:
        self.sent.append((sender.peer, to.peer, message))
        if (sender.peer, to.peer) not in self.cut:
            heapq.heappush(self._queue, (self.now_ms + self.delay_ms, next(self._count), sender, to, message))

    def run(self, until_ms: int) -> None:
        while self.now_ms < until_ms:
            self.now_ms += 10
            self._deliver()
            for name, due_ms in self.ticks.items():
                if due_ms <= self.now_ms and self._awake(name):
                    self._tick(name)

    def _awake(self, name: str) -> bool:
        return name not in self.crashed and self.stalled_until_ms.get(name, 0) <= self.now_ms

    def _tick(self, name: str) -> None:
        self.ticks[name] = self.now_ms + 1_000
        sends, suspected, dead = self.peers[name].tick(self.now_ms)
        self.suspected += [(self.now_ms, name, other.peer) for other in suspected]
        self.dead += [(self.now_ms, name, other.peer) for other in dead]
        for to, message in sends:
            self.send(address(int(name[1:])), to, message)

    def _deliver(self) -> None:
        """A stalled peer's messages wait for it, and for its overdue tick, which comes first."""
        waiting = []
        while self._queue and self._queue[0][0] <= self.now_ms:
            item = heapq.heappop(self._queue)
            _, _, sender, to, message = item
            if to.peer in self.crashed:
                continue
            if not self._awake(to.peer) or self.ticks[to.peer] < self.now_ms - 10:
                waiting.append(item)
                continue
            self._receive(self.peers[to.peer], sender, to, message)
        for item in waiting:
            heapq.heappush(self._queue, item)

    def _receive(self, peer: Liveness, sender: Address, to: Address, message: Message) -> None:
        peer.heard(self.now_ms, sender)
        match message:
            case Ping():
                self.send(to, sender, peer.on_ping(sender, message))
            case Pong():
                for other, onward in peer.on_pong(sender, message):
                    self.send(to, other, onward)
            case PingRequest():
                for other, onward in peer.on_ping_request(sender, message):
                    self.send(to, other, onward)
            case Vouch():
                peer.on_vouch(self.now_ms, message)


def quiet(me: int = 0) -> Liveness:
    return Liveness(address(me), Tombstones(), lambda _: [])


# --- In calm ---


def test_mutual_watching_costs_one_ping_and_one_pong_per_second() -> None:
    net = Net(2)
    net.watch((0, 1), (1, 0))
    net.run(60_000)
    pings = sum(isinstance(message, Ping) for _, _, message in net.sent)
    assert 55 <= pings <= 65
    assert len(net.sent) == 2 * pings
    assert net.suspected == []


def test_a_watcher_pings_once_per_second_and_nobody_else_pings() -> None:
    net = Net(3)
    net.watch((0, 1))
    net.run(30_000)
    assert 28 <= sum(isinstance(message, Ping) for _, _, message in net.sent) <= 31
    assert all({sender, to} == {"p0", "p1"} for sender, to, _ in net.sent)


def test_whoever_is_heard_is_not_pinged() -> None:
    one = quiet()
    one.watch(0, address(1))
    for second in range(1, 20):
        one.heard(second * 1_000 - 400, address(1, slot=7))
        assert one.tick(second * 1_000) == ([], [], [])


def test_watches_are_counted() -> None:
    one = quiet()
    one.watch(0, address(1, slot=0))
    one.watch(0, address(1, slot=5))
    one.watch(0, address(0))
    assert one.watched() == [address(1)], "of peers, not participants, and never of oneself"
    one.unwatch(address(1, slot=5))
    one.unwatch(address(1, boot=9))
    assert one.watched() == [address(1)]
    one.unwatch(address(1))
    one.unwatch(address(1))
    assert one.watched() == []
    assert one.tick(60_000) == ([], [], [])


# --- Death ---


def test_a_crash_is_suspected_after_3_s_and_dead_after_10_s() -> None:
    net = Net(6)
    net.watch((0, 1), (2, 3))
    net.run(5_000)
    net.crashed = ["p1"]
    net.run(20_000)
    ((suspected_ms, *who),) = net.suspected
    ((dead_ms, *whom),) = net.dead
    assert who == whom == ["p0", "p1"]
    assert 7_000 <= suspected_ms <= 9_000
    assert 14_000 <= dead_ms <= 16_000
    helpers = [to for sender, to, message in net.sent if isinstance(message, PingRequest)]
    assert set(helpers) == {"p2", "p3", "p4"}, "k = 3 others"
    assert net.peers["p0"].tombstones.hold(address(1))
    assert net.peers["p0"].watched() == []


def test_refused_is_dead_at_once() -> None:
    one = quiet()
    one.watch(0, address(1, slot=3))
    assert one.refused(10, address(1, slot=3)) == address(1)
    assert one.watched() == []
    assert one.refused(10, address(2)) is None, "nobody watched it"
    assert one.tombstones.hold(address(1))
    assert one.tombstones.hold(address(2)), "but it is as dead"
    one.watch(10, address(3, boot=2))
    assert one.refused(20, address(3, boot=1)) is None, "that was an earlier life"
    assert one.watched() == [address(3, boot=2)]
    assert one.refused(20, Address("", 0, -1, "x:1")) is None
    assert one.refused(20, address(0)) is None


def test_a_broken_path_is_bridged_by_others() -> None:
    net = Net(5)
    net.watch((0, 1))
    net.run(2_000)
    net.cut = [("p0", "p1"), ("p1", "p0")]
    net.run(60_000)
    assert net.suspected, "the silence is noticed"
    assert net.dead == [], "but others vouch"
    assert any(isinstance(message, Vouch) for _, _, message in net.sent)
    net.crashed = ["p1"]
    net.run(75_000)
    assert [who for _, *who in net.dead] == [["p0", "p1"]]


def test_slow_is_not_dead() -> None:
    net = Net(4, delay_ms=1_200)
    net.watch((0, 1), (1, 0))
    net.run(60_000)
    assert net.dead == []
    assert net.suspected == []


def test_a_word_in_the_moment_of_the_tick_counts() -> None:
    one = quiet()
    one.watch(0, address(1))
    for second in range(1, 4):
        one.tick(second * 1_000)
    one.heard(3_000, address(1))
    for second in range(4, 6):
        assert one.tick(second * 1_000)[1:] == ([], [])
    assert one.tick(6_000)[1] == [address(1)]


# --- A stall of one's own ---


def test_a_stall_of_oneself_makes_nobody_suspect() -> None:
    for stall_ms in (2_000, 5_000, 9_000, 30_000):
        net = Net(6)
        net.watch((0, 1), (0, 2), (0, 3), (1, 0))
        net.run(10_000)
        net.stalled_until_ms = {"p0": net.now_ms + stall_ms}
        net.run(net.now_ms + stall_ms + 20_000)
        assert [item for item in net.suspected if item[1] == "p0"] == [], stall_ms
        assert net.peers["p0"].health == 0, "it recovers"


def test_a_late_tick_counts_as_one_beat_and_stretches_the_thresholds() -> None:
    one = quiet()
    one.watch(0, address(1))
    for now_ms in (1_000, 2_000, 7_000):
        sends, suspected, dead = one.tick(now_ms)
        assert (suspected, dead) == ([], [])
        assert sends == [(address(1), Ping(0))], "a silent peer is still asked"
    assert one.health == 5
    results = [one.tick(8_000 + 1_000 * n) for n in range(12)]
    assert [bool(suspected) for _, suspected, _ in results].index(True) == 3
    assert [bool(dead) for _, _, dead in results].index(True) == 6


def test_a_peer_that_is_always_late_still_finds_the_dead() -> None:
    one = quiet()
    one.watch(0, address(1))
    deaths = [now_ms for now_ms in range(0, 400_000, 2_500) if one.tick(now_ms)[2]]
    assert one.health == HEALTH_MAX
    assert len(deaths) == 1


# --- Refutation, restarts, tombstones ---


def test_suspicion_makes_the_target_refute_once() -> None:
    target = quiet(1)
    assert target.on_ping(address(0), Ping(0)) == Pong(0)
    assert target.on_ping(address(0), Ping(0, suspects=0)) == Pong(1)
    assert target.on_ping(address(2), Ping(0, suspects=0)) == Pong(1), "the same suspicion by another"
    assert target.on_ping(address(0), Ping(0, suspects=1)) == Pong(2)
    assert target.on_ping(address(0), Ping(0, suspects=2**63)) == Pong(3), "a lie raises it by one, not to anywhere"


def test_a_word_ends_the_suspicion() -> None:
    one = quiet()
    one.watch(0, address(1))
    suspects = [one.tick(second * 1_000)[1] for second in range(1, 4)]
    assert suspects == [[], [], [address(1)]]
    one.heard(3_500, address(1))
    assert one.tick(4_000)[1:] == ([], [])


def test_a_peer_buried_alive_learns_of_it_and_digs_itself_out() -> None:
    net = Net(3)
    net.watch((0, 1))
    net.cut = [(a, b) for a, b in (("p0", "p1"), ("p1", "p0"), ("p2", "p1"), ("p1", "p2"))]
    net.run(15_000)
    assert [who for _, *who in net.dead] == [["p0", "p1"]]
    net.cut = []
    assert net.peers["p0"].tombstones.hold(address(1))
    net.send(address(1), address(0), Pong(0))  # any word; this one proves nothing
    net.run(17_000)
    assert net.peers["p1"].refutation == 1
    assert not net.peers["p0"].tombstones.hold(address(1), 1)
    assert not net.peers["p0"].tombstones


def test_a_word_from_the_grave_is_answered_with_the_suspicion() -> None:
    one = quiet()
    one.refused(0, address(1))
    assert one.tick(1_000) == ([], [], [])
    one.heard(1_500, address(1, slot=4))
    assert one.tick(2_000) == ([(address(1), Ping(0, suspects=0))], [], [])
    assert one.tick(3_000) == ([], [], [])
    assert one.tombstones.hold(address(1)), "the message may have been on its way when the peer died"


def test_a_higher_boot_ends_the_former_life() -> None:
    one = quiet()
    one.watch(0, address(1, boot=1))
    assert one.heard(100, address(1, boot=2)) == address(1, boot=1)
    assert one.watched() == []
    assert one.tombstones.hold(address(1, boot=1))
    assert not one.tombstones.hold(address(1, boot=2))
    assert one.watch(200, address(1, boot=2)) is None
    assert one.heard(300, address(1, boot=1)) is None, "a late word from the former life changes nothing"
    assert one.watch(300, address(1, boot=1)) == address(1, boot=1), "which cannot be watched any more"
    assert one.watch(400, address(1, boot=3)) == address(1, boot=2)
    assert one.watched() == [address(1, boot=3)]


def test_a_tombstone_expires_after_30_s() -> None:
    one = quiet()
    one.refused(0, address(1))
    for second in range(1, 30):
        one.tick(second * 1_000)
        assert one.tombstones.hold(address(1))
    one.tick(30_000)
    assert not one.tombstones


def test_to_watch_the_buried_is_to_suspect_them() -> None:
    one = quiet()
    one.tick(0)
    one.refused(0, address(1))
    one.watch(0, address(1))
    deaths = [second for second in range(1, 20) if one.tick(second * 1_000)[2]]
    assert deaths == [7]
    one.watch(20_000, address(1))
    one.heard(20_100, address(1))
    assert one.tick(20_500)[1:] == ([], [])


def test_nonsense_does_no_harm() -> None:
    one = quiet()
    one.watch(0, address(1))
    assert one.on_ping_request(address(2), PingRequest(address(0))) == []
    assert one.on_ping_request(address(2), PingRequest(Address("", 0, -1, "x:1"))) == []
    assert one.on_pong(address(1), Pong(REFUTATION_MAX + 1, address(0))) == []
    assert one.on_vouch(10, Vouch(Address("", 0, -1, ""), 1)) is None
    assert one.on_vouch(10, Vouch(address(5), -5)) is None
    for second in range(1, 12):
        for _, message in one.tick(second * 1_000)[0]:
            msgspec.msgpack.encode(message)
    assert [message.__struct_config__.tag for message in MESSAGES] == ["ping", "pong", "ping-request", "vouch"]
