"""How fast the simulator is: messages a second with the codec on, and peers with everything running.

Seconds are those of CPU time: the simulator does nothing but compute, and a busy machine makes it wait, not work more.
(It still works more slowly there: others drive its peers out of the processor's caches.)

The machine's own limit is measured in the same run (`bare_flood`): a flood over the same kind of graph, with the same
messages, codec and queue, but without peers: no membership, no matching of subscriptions, no trace, no oracle.
"""

import gc
import sys
from collections.abc import Iterator
from random import Random
from statistics import median
from time import process_time

from benchmarks.figure import Figure
from peerd import registry
from peerd.sim.scenario import hardly_any_garbage_collection
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.timeline import Timeline
from peerd.sim.workloads import workload
from peerd.wire import Codec
from protocols.broadcast.messages import Flood
from protocols.model.box import Point
from protocols.model.event import Copy, Event, onward

SEED = 1
JOIN_MS = 30_000
ROUNDS = 9
"""Floods of ten events, of which the median counts: on a busy machine one of them says little."""


def joined(peers: int, maintenance: str) -> Swarm:
    """A swarm of the baseline in which everybody stands."""
    uniform = workload("uniform")
    config = SwarmConfig(
        overlay="broadcast",
        schema=uniform.schema,
        seed=SEED,
        liveness="oracle" if maintenance == "oracle" else "protocol",
        sampling="oracle" if maintenance == "oracle" else "protocol",
        exact_boxes=True,
    )
    swarm = Swarm(config)
    interests = uniform.subscriptions(swarm.stream("subscriptions"), peers)
    swarm.start_many([[interest] for interest in interests], JOIN_MS / peers)
    swarm.run(JOIN_MS + 1)
    if not swarm.run_until(swarm.all_active, 120_000):
        raise RuntimeError(f"{peers} peers did not join")
    gc.collect()
    gc.freeze()
    return swarm


def sent(swarm: Swarm) -> int:
    return sum(traffic.sent for traffic in swarm.engine.traffic.values())


def flood(swarm: Swarm, events: int) -> float:
    """Messages a second while events flood the swarm."""
    attributes = workload("uniform").events(swarm.stream("events"), events)
    before, start = sent(swarm), process_time()
    for each in attributes:
        swarm.publish(each)
        swarm.run(20)
    swarm.run(1_000)
    return (sent(swarm) - before) / (process_time() - start)


def bare_flood(peers: int, events: int) -> float:
    """The same without peers: what this machine does at the most, in Python."""
    codec, rng, timeline = Codec(registry.messages("broadcast")), Random(SEED), Timeline()
    links: list[list[int]] = [[] for _ in range(peers)]
    for one in range(peers):
        for other in rng.sample(range(peers), 3):
            links[one].append(other)
            links[other].append(one)
    seen: list[set[str]] = [set() for _ in range(peers)]
    latencies = [rng.randint(5, 50) for _ in range(1024)]
    messages, start = 0, process_time()
    for number in range(events):
        event = Event(f"{number:032x}-1767225600000-1", Point((1, 2, 3, 4)), bytes(60))
        timeline.put(0, (number % peers, codec.encode(Flood(Copy(event)))))
        while (entries := timeline.take(1 << 60)) is not None:
            for peer, data in entries:
                message = codec.decode(data)
                assert isinstance(message, Flood)
                if message.copy.event.id in seen[peer]:
                    continue
                seen[peer].add(message.copy.event.id)
                encoded = codec.encode(Flood(onward(message.copy)))
                for other in links[peer]:
                    messages += 1
                    timeline.put(timeline.now_ms + latencies[peer * 7 + other & 1023], (other, encoded))
    return messages / (process_time() - start)


def bytes_per_peer(peers: int) -> float:
    """What the simulator itself keeps for a peer: its node, its timers and its place in the tables."""
    swarm = joined(peers, "oracle")
    own = 0
    for node, routes in zip(swarm.engine.nodes, swarm.engine.routes):
        parts = (node, node.timers, node.addresses, routes, node.mark, node.address, node.index)
        own += sum(map(sys.getsizeof, parts))
        own += sum(sys.getsizeof(key) + sys.getsizeof(at) for key, at in node.timers.items())
        own += sum(map(sys.getsizeof, node.addresses.values())) + sum(map(sys.getsizeof, routes.values()))
    return own / peers


def run() -> Iterator[Figure]:
    with hardly_any_garbage_collection():
        yield from _run()


def _run() -> Iterator[Figure]:
    bare = bare_flood(1_000, 100)
    yield Figure("sim: bare flood, 1,000 nodes", bare, "msg/s")
    swarm = joined(1_000, "oracle")
    rate = median(flood(swarm, 10) for _ in range(ROUNDS))
    yield Figure("sim: 1,000 peers, oracle maintenance", rate, "msg/s", ">= 200,000")
    yield Figure("sim: 1,000 peers, 100 events without a pause", flood(swarm, 100), "msg/s")
    yield Figure("sim: the same as a share of the bare flood", rate / bare, "x")
    yield Figure("sim: simulator's own memory per peer", bytes_per_peer(1_000), "bytes", "< 20,000")
    rate = flood(joined(50_000, "oracle"), 8)
    yield Figure("sim: 50,000 peers, oracle maintenance", rate, "msg/s", ">= 120,000")
    yield Figure("sim: 50,000 peers against 1,000 nodes bare", rate / bare, "x")
    gc.unfreeze()
    start = process_time()
    swarm = joined(10_000, "protocol")
    joined_ms, joined_s = swarm.now_ms, process_time() - start
    yield Figure("sim: 10,000 peers have joined, real maintenance", joined_s, "s")
    swarm.engine.run_until(100_000)
    taken_s = process_time() - start
    per_peer_second = (taken_s - joined_s) / (100_000 - joined_ms) / 10_000 * 1e9
    yield Figure("sim: a peer-second of it after that", per_peer_second, "µs")
    yield Figure("sim: 10,000 peers, real maintenance, 100 virtual s", taken_s, "s", "< 180")
    yield Figure("sim: the same", sent(swarm) / taken_s, "msg/s")
