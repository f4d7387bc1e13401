"""What the ring costs, in hops and messages: the paper's analytic figures, and the variants against each other.

Counted on rings that an oracle has made (`still_ring`), so these are exact counts, not times. "Fingers only" is the
paper's Chord; the default also routes along the successor list. What peers send at rest, and in all for an event, is
counted in a simulated swarm.
"""

import sys
from collections.abc import Iterator
from functools import partial
from math import log2
from random import Random
from statistics import mean
from typing import Any

from benchmarks.figure import Figure
from benchmarks.still_ring import StillRing, addresses
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import workload
from protocols.chord.messages import Chain, Match, Matched, Notify, Owner, Store
from protocols.model.box import Box
from protocols.model.schema import Attribute, Schema

FINGERS_ONLY: dict[str, Any] = {"successors": 1, "replicas": 0, "cache": 0}
EVENT_MESSAGES = (Match, Matched, Chain, Notify)


ATTRIBUTES = 4
REST_S = 30
SETTLING_MS = 60_000
"""Until what was stored when the ring was small has found its place, and leases of what is elsewhere are over."""
RATE = 50
"""Events a second."""
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"cache": "0"},
    {"lookup": "iterative"},
    {"delivery": "home"},
    {"matching": "parallel"},
    {"matching": "chain"},
    {"rotations": "4"},
)
"""Other ways than the default, of which each has one."""


def numbers(size: int, names: str = "a") -> Schema:
    return Schema(tuple(Attribute(name, "int", 0, size - 1) for name in names))


def lookup_hops(ring: StillRing, lookups: int) -> float:
    """Mean hops from anywhere to the owner of any key."""
    rng, count = Random(1), len(ring.nodes)
    ring.kept = (Owner,)
    for _ in range(lookups):
        place, key = rng.randrange(count), rng.getrandbits(ring.circle.bits)
        if not ring.nodes[place].ring.answers_for(key):
            ring.look_up(place, key)
    return float(mean(message.hops for _, _, message in ring.carried))


def range_hops(nodes: int, size: int, ranges: int, **config: Any) -> float:
    """Mean hops to store a range of 2 % of the domain (the specification's, both ends in)."""
    schema = numbers(size)
    settings = {**FINGERS_ONLY, "successors": 16, "range_nodes_max": 10**9, **config}
    ring, rng = StillRing(addresses(nodes), schema, **settings), Random(2)
    width = size // 50
    costs = []
    for number in range(ranges):
        low = rng.randrange(1, size - width - 1)
        box = Box((low,), (low + width + 1,))
        ring.sent.clear()
        ring.subscribe(rng.randrange(nodes), str(number), box)
        costs.append(ring.sent[Store])
    return mean(costs)


def event_hops(nodes: int, events: int, **config: Any) -> float:
    """Mean messages that ask, for an event of four attributes."""
    schema, rng = numbers(1_000, "abcd"), Random(4)
    ring = StillRing(addresses(nodes), schema, **config)
    for number in range(events):
        point = schema.point({name: rng.randrange(1_000) for name in "abcd"})
        ring.publish(rng.randrange(nodes), point, f"e{number}")
    return ring.sent[Match] / events


class Living:
    """A simulated swarm of peers with five subscriptions each: what it sends at rest, and for events."""

    def __init__(self, peers: int, name: str = "stocks", **settings: str) -> None:
        drawn = workload(name)
        self.swarm = Swarm(SwarmConfig(overlay="chord", schema=drawn.schema, seed=1, parameters=settings))
        self.peers = peers
        interests = drawn.subscriptions(self.swarm.stream("subscriptions"), 5 * peers)
        self.swarm.start_many([interests[number::peers] for number in range(peers)], 50)
        self.swarm.run(50 * peers + 1_000)
        if self.swarm.converge(60_000) is None:
            raise RuntimeError("the swarm has not converged within 60 s")
        self.swarm.run(SETTLING_MS)
        self.messages, self.bytes = self._sent(REST_S)
        events = RATE * REST_S
        for number, attributes in enumerate(drawn.events(self.swarm.stream("events"), events, interests)):
            at_ms = self.swarm.now_ms + 1 + number * 1_000 // RATE
            self.swarm.engine.at(at_ms, partial(self.swarm.publish, attributes))
        messages, size = self._sent(REST_S)
        self.event_messages = (messages - self.messages) / events
        self.event_bytes = (size - self.bytes) / events

    def _sent(self, for_s: int) -> tuple[int, int]:
        def total() -> tuple[int, int]:
            counted = self.swarm.engine.traffic.values()
            return sum(each.sent for each in counted), sum(each.sent_bytes for each in counted)

        before = total()
        self.swarm.run(1_000 * for_s)
        after = total()
        return after[0] - before[0], after[1] - before[1]

    def latencies_ms(self) -> list[float]:
        """Of all deliveries, in order."""
        oracle = self.swarm.oracle
        return sorted(
            arrival.at_ms - oracle.publications[id_].at_ms
            for id_, arrivals in oracle.arrivals.items()
            for arrival in arrivals.values()
        )

    def figures(self, name: str = "") -> Iterator[Figure]:
        seconds, latencies = self.peers * REST_S, self.latencies_ms()
        yield Figure(
            f"{self.peers} peers, 5 subscriptions each{name}, at rest", self.messages / seconds, "messages/peer/s"
        )
        yield Figure("  bytes", self.bytes / seconds, "bytes/peer/s")
        yield Figure(f"  an event, {RATE} of them a second", self.event_messages, "messages")
        yield Figure("  bytes", self.event_bytes, "bytes")
        yield Figure("  latency p50", latencies[len(latencies) // 2], "ms")
        yield Figure("  latency p99", latencies[len(latencies) * 99 // 100], "ms")


class Stocks:
    """A ring with subscriptions of the stock workload, and events that are published through any node."""

    def __init__(self, nodes: int, subscriptions: int, events: int, **config: Any) -> None:
        stocks, rng = workload("stocks"), Random(3)
        self.ring = StillRing(addresses(nodes), stocks.schema, **config)
        for number, interest in enumerate(stocks.subscriptions(rng, subscriptions)):
            self.ring.subscribe(rng.randrange(nodes), str(number), interest.boxes[0])
        self.stores = self.ring.sent[Store] / subscriptions
        self.rows = mean(len(node.storage.rows) for node in self.ring.nodes)
        self.ring.sent.clear()
        self.ring.kept = EVENT_MESSAGES
        self.events = events
        for number, attributes in enumerate(stocks.events(rng, events)):
            self.ring.publish(rng.randrange(nodes), stocks.schema.point(attributes), f"e{number}")

    def messages(self) -> float:
        """Messages an event, those that bring it to its subscribers left out."""
        return sum(self.ring.sent[type_] for type_ in (Match, Matched, Chain)) / self.events

    def load(self) -> float:
        """Questions at the busiest node over those at an average one."""
        received: dict[object, int] = {}
        for _, to, message in self.ring.carried:
            if isinstance(message, Match):
                received[to] = received.get(to, 0) + 1
        return max(received.values()) * len(self.ring.nodes) / sum(received.values())


def run(scale: float = 1.0) -> Iterator[Figure]:
    for nodes in (64, 256, 1_024, 4_096):
        if nodes <= 4_096 * scale:
            ring = StillRing(addresses(nodes), numbers(10), **FINGERS_ONLY)
            hops = lookup_hops(ring, 2_000)
            yield Figure(f"lookup, {nodes:,} nodes, fingers only", hops, "hops", f">= {0.5 * log2(nodes):.1f}")
            yield Figure("  over half of log2 N", hops - 0.5 * log2(nodes), "hops", "<= 1")
            ring = StillRing(addresses(nodes), numbers(10))
            yield Figure(f"lookup, {nodes:,} nodes, default", lookup_hops(ring, 2_000), "hops")
    nodes, ranges = int(1_024 * scale), max(10, int(100 * scale))
    asked = (ATTRIBUTES + 1) * (0.5 * log2(nodes) + 1)  # with the bucket that all ask, and the last hop of each
    bare = event_hops(nodes, 400, matching="parallel", **FINGERS_ONLY)
    yield Figure(f"asking for an event of 4 attributes, {nodes:,} nodes, fingers only", bare, "hops", f"<= {asked:.1f}")
    yield Figure("  default", event_hops(nodes, 400), "hops")
    for size in (100, 1_000, 10_000):
        few = ranges if size < 10_000 else max(5, ranges // 5)
        plain = range_hops(nodes, size, few, hash="chord", values_max=10**6)
        yield Figure(f"store 2 % of {size:,} values, {nodes:,} nodes, plain Chord", plain, "hops")
        for way in ("walk", "jump", "multicast"):
            hops = range_hops(nodes, size, ranges, range_store=way)
            target = f"<= {plain:.1f}" if way == "jump" else ""
            yield Figure(f"store 2 % of {size:,} values, {nodes:,} nodes, {way}", hops, "hops", target)
    sizes = int(512 * scale), int(800 * scale), int(400 * scale)
    variants: list[tuple[str, dict[str, Any]]] = [
        ("rendezvous (default)", {}),
        ("rendezvous, nothing remembered", {"cache": 0}),
        ("parallel", {"matching": "parallel", "cache": 0}),
        ("chain", {"matching": "chain", "cache": 0}),
    ]
    for name, config in variants:
        stocks = Stocks(*sizes, **config)
        yield Figure(f"matching a quote, {name}", stocks.messages(), "messages")
        yield Figure("  storing a subscription", stocks.stores, "hops")
        yield Figure("  rows a node, copies included", stocks.rows, "rows")
    for turns in (1, 2, 4, 8):
        stocks = Stocks(*sizes, rotations=turns)
        yield Figure(f"busiest node's questions over the mean, {turns} rotated rings", stocks.load(), "times")
        yield Figure("  storing a subscription", stocks.stores, "hops")
    yield from Living(int(200 * scale)).figures()
    for ways in SETTINGS:
        named = ", ".join(f"{key}={value}" for key, value in ways.items())
        yield from Living(int(100 * scale), **ways).figures(f", {named or 'default'}")
    for most in ("8", "32", "128"):
        wide = Living(int(100 * scale), "mixed", range_nodes_max=most)
        yield from wide.figures(f", mixed, range_nodes_max={most}")


if __name__ == "__main__":
    from benchmarks.figure import print_figures

    print_figures(run(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
