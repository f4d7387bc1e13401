"""What the parts cost: microseconds per CYCLON round, per event id, per liveness tick.

The figures matter for the simulator, where 10,000 peers live in one process: a CYCLON round and a liveness tick of each
come once per virtual second, `admit` and `heard` once per message.
"""

import sys
from collections.abc import Callable, Iterator
from random import Random

from benchmarks.figure import Figure, best_ns
from protocols.model.box import Box, Point
from protocols.model.descriptor import Descriptor, PeerDescriptor, Standing, pack
from protocols.model.event import Copy, Event
from protocols.model.ids import PEER_SLOT, Address, event_id, in_slot
from protocols.parts.cyclon import Cyclon
from protocols.parts.liveness import Liveness
from protocols.parts.recent import Recent
from protocols.parts.seen import Seen
from protocols.parts.tombstones import Tombstones
from protocols.parts.vicinity import Vicinity


def _address(number: int) -> Address:
    return Address(f"{number:016x}", 1, PEER_SLOT, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:6470")


def _best_us(work: Callable[[], None], units: int) -> float:
    """Microseconds for each unit of the work."""
    return best_ns(work) / units / 1e3


def cyclon_round(peers: int = 1_000) -> float:
    """A whole shuffle: begin, request, reply, both merges; without codec and network."""
    standing = pack([Standing(0, Box((0, 0), (10, 10)))])
    own = {address.peer: PeerDescriptor(address, 0, 0, standing) for address in map(_address, range(peers))}
    swarm = {peer: Cyclon(d.address, Random(n)) for n, (peer, d) in enumerate(own.items())}
    rng, names = Random(0), list(own)
    for peer, cyclon in swarm.items():
        for other in rng.sample(names, cyclon.capacity):
            cyclon.add(own[other])
        assert peer not in cyclon

    def rounds() -> None:
        for peer, cyclon in swarm.items():
            begun = cyclon.begin(own[peer])
            if begun is not None:
                to, request = begun
                cyclon.on_reply(to, swarm[to.peer].on_request(own[peer].address, request))

    rounds()
    return _best_us(rounds, peers)


def vicinity_round(peers: int = 300) -> float:
    """A whole exchange with a selection by distance on a line, which is part of the figure."""

    def select(target: Descriptor, candidates: list[Descriptor], count: int) -> list[Descriptor]:
        place = target.box.lo[0]
        return sorted(candidates, key=lambda d: abs(d.box.lo[0] - place))[:count]

    own = [Descriptor(in_slot(_address(n), 0), Box((n,), (n + 1,))) for n in range(peers)]
    by_address = {d.address: d for d in own}
    swarm = {d.address: Vicinity(d.address, select, Random(n)) for n, d in enumerate(own)}
    rng = Random(0)

    def rounds() -> None:
        for d in own:
            samples = [own[int(rng.random() * peers)] for _ in range(20)]
            begun = swarm[d.address].begin(d, samples)
            if begun is None:
                continue
            to, request = begun
            reply = swarm[to].on_request(by_address[to], d.address, request, samples)
            if reply is not None:
                swarm[d.address].on_reply(d, to, reply, samples)

    rounds()
    return _best_us(rounds, peers)


def seen_admit(count: int = 100_000) -> tuple[float, float]:
    """(a new id, a duplicate)."""
    ids = [event_id("0123456789abcdef", 1, n) for n in range(count)]
    kept = Seen()

    def admit(seen: Seen) -> None:
        for id_ in ids:
            seen.admit(1_000, id_)

    fresh = _best_us(lambda: admit(Seen()), count)
    admit(kept)
    return fresh, _best_us(lambda: admit(kept), count)


def recent_add(count: int = 100_000) -> float:
    copies = [Copy(Event(event_id("0123456789abcdef", 1, n), Point((n, n)))) for n in range(count)]

    def add() -> None:
        recent = Recent()
        for n, copy in enumerate(copies):
            recent.add(n * 3, copy)

    return _best_us(add, count)


def liveness_costs(watched: int = 6, ticks: int = 20_000) -> tuple[float, float, float]:
    """(a tick in which everybody was heard, one in which everybody is pinged, a heard message)."""
    peers = [_address(n) for n in range(1, watched + 1)]

    def fresh() -> Liveness:
        liveness = Liveness(_address(0), Tombstones(), lambda _: [])
        for peer in peers:
            liveness.watch(0, peer)
        return liveness

    def ticking(lag_ms: int) -> float:
        def work() -> None:
            liveness = fresh()
            for n in range(1, ticks):
                for peer in peers:
                    liveness.heard(n * 1_000 - lag_ms, peer)
                liveness.tick(n * 1_000)

        return _best_us(work, ticks)

    def hearing() -> None:
        liveness = fresh()
        for n in range(ticks):
            for peer in peers:
                liveness.heard(n, peer)

    heard = _best_us(hearing, ticks * watched)
    return ticking(100) - watched * heard, ticking(900) - watched * heard, heard


def sizes() -> tuple[float, float]:
    """Bytes of an empty `Seen` and an empty `Recent`."""
    seen, recent = Seen(), Recent()
    return (
        sum(map(sys.getsizeof, (seen, seen._young, seen._old))),
        sum(map(sys.getsizeof, (recent, recent._young, recent._old))),
    )


def run() -> Iterator[Figure]:
    yield Figure("parts: cyclon round", cyclon_round(), "us", "< 48")
    yield Figure("parts: vicinity round, 20 samples, linear selection", vicinity_round(), "us")
    fresh, duplicate = seen_admit()
    yield Figure("parts: seen.admit, new", fresh, "us", "< 0.2")
    yield Figure("parts: seen.admit, duplicate", duplicate, "us", "< 0.2")
    yield Figure("parts: recent.add", recent_add(), "us", "< 1")
    idle, pinging, heard = liveness_costs()
    yield Figure("parts: liveness.tick, 6 watched, all heard", idle, "us", "< 3")
    yield Figure("parts: liveness.tick, 6 watched, all pinged", pinging, "us", "< 6")
    yield Figure("parts: liveness.heard", heard, "us", "< 0.2")
    seen_bytes, recent_bytes = sizes()
    yield Figure("parts: empty Seen", seen_bytes, "bytes", "< 300")
    yield Figure("parts: empty Recent", recent_bytes, "bytes", "< 300")
