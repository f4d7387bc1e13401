"""GosSkip against its paper (section 4): hops, noise, links, growth; and what the tuned default gains.

The experiments are the paper's: 1,000 filters, 2,500 events, k = 2, each event published by a random peer once the
list stands. *Hops* of an event are those until it was first delivered or, if nobody wants it, until it was garbage
collected. *Noise* of a peer are the events that it received though it does not want them, over all events.

Liveness and sampling are the oracle's, as they are no part of what is measured.
"""

from collections import Counter
from collections.abc import Iterator
from math import log2
from random import Random
from time import process_time
from typing import Any, Final, NamedTuple

from benchmarks.figure import Figure
from peerd.sim.engine import Node
from peerd.sim.scenario import hardly_any_garbage_collection
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import Interest, workload
from peerd.sim.workloads.workload import interest_in, product
from protocols.gosskip.keepers import LEASE_MS
from protocols.gosskip.messages import Held, Hop, Keep, Probe, Pull, Ranges, Store, Taken
from protocols.gosskip.overlay import own_places
from protocols.gosskip.place import Place
from protocols.model.ids import EventId
from protocols.model.schema import Attribute, Schema
from protocols.overlay import Reception

SEED = 1
JOIN_MS = 30_000
SETTLE_MS = 600_000
DOMAIN: Final = 100_000
LINE: Final = Schema([Attribute("x", "int", 0, DOMAIN - 1)])
CELLS: Final = 16
"""Where broad ranges are kept in cells."""
ABOUT_RANGES: Final = (Ranges, Pull, Probe, Taken, Held, Store, Keep)


class Outcome(NamedTuple):
    """What an experiment came to."""

    hops: Counter[int]
    noise: list[float]
    links_max: int
    false_negatives: int
    expected: int
    ranges_mean: float
    copies: float

    @property
    def mode(self) -> tuple[int, int]:
        """The most common number of hops, and how many events took it."""
        return self.hops.most_common(1)[0]

    @property
    def mean(self) -> float:
        return sum(hops * count for hops, count in self.hops.items()) / self.hops.total()


class Meter:
    """Counts what each peer receives, beside the oracle."""

    def __init__(self, swarm: Swarm) -> None:
        self._inner = swarm.oracle.on_reception
        self.unwanted: Counter[int] = Counter()
        self.delivered: dict[EventId, int] = {}
        self.collected: dict[EventId, int] = {}
        swarm.engine._on_reception = self.on_reception

    def on_reception(self, now_ms: float, node: Node, effect: Reception, size: int) -> None:
        id_ = effect.event_id
        if effect.result == "unwanted":
            self.unwanted[node.index] += 1
        if effect.result == "wanted":
            self.delivered[id_] = min(effect.hops, self.delivered.get(id_, effect.hops))
        self.collected[id_] = max(effect.hops, self.collected.get(id_, 0))
        self._inner(now_ms, node, effect, size)

    def hops(self, id_: EventId) -> int:
        return self.delivered.get(id_, self.collected.get(id_, 0))


def settings_of(profile: str, **settings: Any) -> dict[str, str]:
    chosen = {key: str(value) for key, value in settings.items()}
    return {**chosen, "profile": profile} if profile != "default" else chosen


def build(name: str, peers: int, parameters: dict[str, str], seed: int = SEED) -> tuple[Swarm, list[Interest]]:
    """A swarm of peers with one subscription each, in which the list is perfect."""
    config = SwarmConfig(
        overlay="gosskip",
        schema=workload(name).schema,
        parameters=parameters,
        seed=seed,
        liveness="oracle",
        sampling="oracle",
        exact_boxes=True,
    )
    swarm = Swarm(config)
    interests = workload(name).subscriptions(swarm.stream("subscriptions"), peers)
    swarm.start_many([[interest] for interest in interests], JOIN_MS / peers)
    swarm.run(JOIN_MS + 1)
    _settle(swarm)
    return swarm, interests


def experiment(
    name: str, profile: str, peers: int = 1_000, events: int = 2_500, seed: int = SEED, **settings: Any
) -> Outcome:
    """Section 4 of the paper, Figures 3 and 4."""
    swarm, interests = build(name, peers, settings_of(profile, **settings), seed)
    meter = Meter(swarm)
    for attributes in workload(name).events(swarm.stream("events"), events, interests):
        swarm.publish(attributes)
        swarm.run(20)
    swarm.run(11_000)
    verdict = swarm.oracle.settle()
    overlays = [overlay for node in swarm.live.values() for overlay in node.peer.participants.values()]
    return Outcome(
        hops=Counter(meter.hops(id_) for id_ in swarm.oracle.publications),
        noise=[meter.unwanted[index] / events for index in swarm.live],
        links_max=max(len({link.to for link in overlay.links()}) for overlay in overlays),
        false_negatives=verdict.false_negatives,
        expected=verdict.expected,
        ranges_mean=_ranges_mean(swarm),
        copies=sum(swarm.oracle.receptions.values()) / events,
    )


def growth(profile: str, start: int = 300, end: int = 1_000, seed: int = SEED) -> tuple[Counter[int], int]:
    """Figure 5: an event for each newcomer as soon as it has its neighbours. Hops, and how many never came."""
    swarm, _ = build("files", start, settings_of(profile), seed)
    files = workload("files")
    fresh = files.subscriptions(swarm.stream("newcomers"), end - start)
    rng = swarm.stream("publishers")
    hops: Counter[int] = Counter()
    missing = 0
    for interest in fresh:
        publisher = rng.choice(list(swarm.live.values()))
        node = swarm.start([interest])
        if not swarm.run_until(swarm.all_active, 60_000, every_ms=10):
            raise RuntimeError("a newcomer does not become active")
        swarm.run(1)
        event = swarm.publish(_event_for(interest), publisher)
        assert event is not None
        swarm.run(1_000)
        arrivals = [a for (index, _), a in swarm.oracle.arrivals.get(event.id, {}).items() if index == node.index]
        missing += not arrivals
        hops.update(arrival.hops for arrival in arrivals)
    return hops, missing


def _event_for(interest: Interest) -> dict[str, Any]:
    """The one file that a filter of the workload matches."""
    (box,) = interest.boxes
    name, type_ = (text[1:] for text in box.lo_text)
    return {"name": name, "type": type_, "size": box.lo[0]}


def run() -> Iterator[Figure]:
    with hardly_any_garbage_collection():
        for name in ("files", "files-uniform"):
            yield from _against_the_paper(name)
        yield from _costs()
        yield from _growth()
        start = process_time()
        build("files", 10_000, settings_of("default"))
        yield Figure(
            "gosskip: 10,000 peers, perfect list, oracle maintenance", process_time() - start, "s CPU", "< 600"
        )


def _against_the_paper(name: str) -> Iterator[Figure]:
    paper, tuned = experiment(name, "paper"), experiment(name, "default")
    mode, count = paper.mode
    yield Figure(f"gosskip, {name}: most common hops (paper: 4)", mode, "hops", "<= 5")
    yield Figure(f"gosskip, {name}: events that took them (paper: 635)", count, "of 2,500", ">= 580")
    yield Figure(f"gosskip, {name}: mean hops, profile paper", paper.mean, "hops")
    yield Figure(f"gosskip, {name}: mean hops, tuned", tuned.mean, "hops", f"<= {0.9 * paper.mean:.3f}")
    for label, outcome in (("profile paper", paper), ("tuned", tuned)):
        yield Figure(f"gosskip, {name}: most noise, {label}", 100 * max(outcome.noise), "%", "<= 1.2")
        yield Figure(f"gosskip, {name}: most links, {label}", outcome.links_max, "links", f"<= {2 * log2(1_000):.3f}")
        yield Figure(f"gosskip, {name}: false negatives, {label}", outcome.false_negatives, "", "<= 0")


class Broad(NamedTuple):
    """What broad ranges cost."""

    entries_mean: float
    """Of ranges of others, per place."""
    entries_max: int
    idle: float
    """Messages about ranges per peer and second in which nothing happens."""
    stored: int
    """Messages about ranges that a newcomer with a broad one caused until it was active."""
    active_ms: int
    """How long that took."""
    hops: float
    """Sent per event."""
    way: float
    """Hops of an event to its first delivery."""
    noise_mean: float
    noise_max: float
    missing: int


def widths_of(kind: str, rng: Random, peers: int) -> list[int]:
    """All equally broad; of all widths, each order equally often; or narrow."""
    if kind == "all":
        return [int(0.4 * DOMAIN)] * peers
    if kind == "orders":
        return [int(20 * (0.8 * DOMAIN / 20) ** rng.random()) for _ in range(peers)]
    return [20] * peers


def broad(kind: str, peers: int = 1_000, events: int = 500, **settings: Any) -> Broad:
    """Ranges of some kind, and a newcomer whose range holds 0.4 of all values."""
    rng = Random(SEED)
    parameters = {key: str(value) for key, value in settings.items()}
    swarm = Swarm(
        SwarmConfig(
            overlay="gosskip", schema=LINE, parameters=parameters, seed=SEED, liveness="oracle", sampling="oracle"
        )
    )
    starts = [(rng.randrange(DOMAIN - width), width) for width in widths_of(kind, rng, peers)]
    swarm.start_many([[_range(start, start + width)] for start, width in starts], JOIN_MS / peers)
    swarm.run(JOIN_MS + 1)
    _settle(swarm)
    start_ms, before = swarm.now_ms, _sent(swarm, *ABOUT_RANGES)  # nobody has to store again yet
    swarm.start([_range(20_000, 60_000)])
    swarm.run_until(swarm.all_active, SETTLE_MS, every_ms=10)
    active_ms, stored = int(swarm.now_ms - start_ms), _sent(swarm, *ABOUT_RANGES) - before
    swarm.run(LEASE_MS)  # until copies of those that have handed over are forgotten
    idle = _sent(swarm, *ABOUT_RANGES) - stored - before
    _settle(swarm)
    meter, hops = Meter(swarm), _sent(swarm, Hop)
    for _ in range(events):
        swarm.publish({"x": rng.randrange(DOMAIN)})
        swarm.run(50)
    swarm.run(11_000)
    counts = [len(place.known) + len(place.keeper) for place in _places(swarm)]
    noise = [meter.unwanted[index] / events for index in swarm.live]
    ways = list(meter.delivered.values())
    return Broad(
        entries_mean=sum(counts) / len(counts),
        entries_max=max(counts),
        idle=1000 * idle / LEASE_MS / peers,
        stored=stored,
        active_ms=active_ms,
        hops=(_sent(swarm, Hop) - hops) / events,
        way=sum(ways) / max(1, len(ways)),
        noise_mean=sum(noise) / len(noise),
        noise_max=max(noise),
        missing=swarm.oracle.settle().false_negatives,
    )


def _sent(swarm: Swarm, *types: type) -> int:
    return sum(traffic.sent for type_, traffic in swarm.engine.traffic.items() if type_ in types)


def _range(lo: int, hi: int) -> Interest:
    return interest_in(LINE, product(LINE, {"x": (lo, hi)}))


def _settle(swarm: Swarm) -> None:
    if not swarm.run_until(swarm.all_active, SETTLE_MS) or swarm.converge(SETTLE_MS) is None:
        raise RuntimeError("the swarm did not settle")


def _places(swarm: Swarm) -> list[Place]:
    return own_places([overlay for node in swarm.live.values() for overlay in node.peer.participants.values()])


def _ranges_mean(swarm: Swarm) -> float:
    counts = [len(place.known) for place in _places(swarm)]
    return sum(counts) / len(counts)


def idle(peers: int = 40, each: int = 5, for_s: int = 30, **settings: Any) -> tuple[float, float]:
    """Messages that a peer sends in a second in which nothing happens, and the seconds until the list was perfect."""
    stocks = workload("stocks")
    parameters = {key: str(value) for key, value in settings.items()}
    swarm = Swarm(SwarmConfig(overlay="gosskip", schema=stocks.schema, parameters=parameters, seed=SEED))
    interests = stocks.subscriptions(swarm.stream("subscriptions"), peers * each)
    swarm.start_many([interests[number::peers] for number in range(peers)], 100)
    swarm.run(100 * peers + 1)
    swarm.run_until(swarm.all_active, SETTLE_MS)
    taken_s = swarm.converge(SETTLE_MS)
    if taken_s is None:
        raise RuntimeError(f"{peers} peers did not settle")
    swarm.run(20_000)
    before = sum(traffic.sent for traffic in swarm.engine.traffic.values())
    swarm.run(1_000 * for_s)
    sent = sum(traffic.sent for traffic in swarm.engine.traffic.values()) - before
    return sent / for_s / peers, taken_s


def _costs() -> Iterator[Figure]:
    """What keeping broad ranges in cells saves and costs, and what a swarm costs in which nothing happens."""
    for kind in ("all", "orders", "narrow"):
        for cells in (0, CELLS):
            found = broad(kind, cells=cells)
            name = f"gosskip, 1,000 ranges ({kind}), {'in cells' if cells else 'at each place'}"
            yield Figure(f"{name}: ranges known per place", found.entries_mean, "")
            yield Figure(f"{name}: most at one place", found.entries_max, "")
            yield Figure(f"{name}: messages about them per peer and second, idle", found.idle, "")
            yield Figure(f"{name}: messages until a broad one is active", found.stored, "")
            yield Figure(f"{name}: it is active after", found.active_ms, "ms")
            yield Figure(f"{name}: hops sent per event", found.hops, "")
            yield Figure(f"{name}: mean noise", 100 * found.noise_mean, "%")
            yield Figure(f"{name}: most noise", 100 * found.noise_max, "%")
            yield Figure(f"{name}: false negatives", found.missing, "", "<= 0")
    for label, settings in (("default", {}), ("at every turn", {"calm_turns": 1})):
        sent, taken_s = idle(**settings)
        yield Figure(f"gosskip, idle, 40 peers x 5, {label}: messages per peer and second", sent, "")
        yield Figure(f"gosskip, 40 peers x 5, {label}: perfect after the last join", taken_s, "s", "< 60")


def _growth() -> Iterator[Figure]:
    hops, missing = growth("paper")
    within = sum(count for taken, count in hops.items() if taken <= log2(1_000))
    yield Figure("gosskip, growth 300 to 1,000: events missing", missing, "", "<= 0")
    yield Figure("gosskip, growth 300 to 1,000: within log2 N hops", 100 * within / hops.total(), "%", ">= 50")
