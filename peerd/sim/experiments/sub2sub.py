"""The simulations A, B and C of the bandwidth-aware Sub-2-Sub (paper 4, section V).

1,000 nodes, each with one range of [0, 100], 1,000 cycles, events uniform in [0, 100]:

| | upload budget per cycle | events per cycle |
|---|---|---|
| A | 100 units | 50 |
| B | 200 units | 200 |
| C | 100, 200 or 300 units, equally likely | 50 |

*Accuracy* is the share of the events that a node should have received which it did; *messages* are the copies of events
that it received along rings and shortcuts, duplicates included; *MDR* is the copies that it disseminated over all
copies that it received. All three by the length of the subscription, over all nodes of a class. *Latency* is how many
cycles it took an event to reach the median of the nodes that it reached, *effectiveness* the share of the matching
nodes that it reached.

**What stands for what.** The swarm converges before the first event: the paper measures dissemination, not the joining
of a thousand nodes at once. Peer sampling and liveness are left to the oracle, and gossip rests once it has converged;
all of it is charged as if it went on (`gossip_units`). A cycle is a tenth of a second: the paper's events live for
ever, ours for a minute, and buffers of 1,000 events make them wait for a hundred cycles and more. A run ends with its
last cycle, as the paper's: what still waits then has not arrived.

**Shortcuts.** The text sends one on every first reception (profile `paper`). Six of ten bring the messages of Table I
(specification, section 5), and with them the accuracies; `SET=shortcut_probability=1` shows the text.

**What is counted.** The way to a ring and down to its bottom is not dissemination. Its copies are not among the
messages: the paper's tables show fewer messages than events received for short ranges, so it cannot have counted them
there (specification, section 5). In MDR they are among those received and not among those sent, a reading that was
chosen because it fits: with cells the short ranges get most events on their way down, and counted in another way they
do not come near Tables IV and V (`docs/papers/sub2sub.md`).
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from peerd.sim.engine import Node
from peerd.sim.network import NetworkConfig
from peerd.sim.oracle import Oracle
from peerd.sim.swarm import EPOCH_MS, Swarm, SwarmConfig
from peerd.sim.workloads import workload
from protocols.model.ids import EventId
from protocols.overlay import Active, Deliver, Publish, Reception, Report
from protocols.sub2sub.overlay import Sub2Sub

CLASSES: Final = ((1, 4), (4, 16), (16, 64), (64, 256))
"""The paper's classes of lengths; half-open (specification, section 5)."""
PAPER: Final = {"profile": "paper", "cycle_ms": "100", "idle": "16", "shortcut_probability": "0.6"}
SYSTEMS: Final = {
    "baseline": {**PAPER, "variant": "baseline"},
    "cells": {**PAPER, "variant": "cells"},
    "tuned": {"accounting": "units"},
}
"""Sub-2-Sub, the paper's system, and ours with its defaults (but for what budgets count)."""
LATENCY: Final = "constant:5"
"""Little beside a cycle: the paper knows none."""
JOIN_CYCLES: Final = 30
"""In which all nodes join: gossip is quick for as long as anybody does."""
AGE_MAX: Final = 600
"""Cycles; older than that nothing arrives."""


Counters: TypeAlias = tuple[int, int, int]
"""Copies of events that a node received along rings, and on the way there, and that it sent along rings."""


class Simulation(msgspec.Struct, frozen=True):
    uploads: tuple[float, ...]
    events: int


SIMULATIONS: Final = {
    "A": Simulation((100.0,), 50),
    "B": Simulation((200.0,), 200),
    "C": Simulation((100.0, 200.0, 300.0), 50),
}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    simulation: str = "A"
    system: str = "baseline"
    nodes: Annotated[int, Meta(ge=2)] = 1_000
    cycles: Annotated[int, Meta(ge=1)] = 1_000
    warmup: Annotated[int, Meta(ge=0)] = 0
    """Cycles before those that are counted: buffers take about a hundred to fill, which few cycles would not show."""
    drain: Annotated[int, Meta(ge=0)] = 0
    """Cycles after them in which nothing is published: few cycles would mostly show what is still under way."""
    seed: int = 1
    settings: dict[str, str] = {}
    """Over those of the system."""


class ClassOfLength(msgspec.Struct, frozen=True):
    lengths: str
    nodes: int
    accuracy: float
    messages: float
    mdr: float


class Outcome(msgspec.Struct, frozen=True):
    simulation: str
    system: str
    nodes: int
    cycles: int
    seed: int
    classes: tuple[ClassOfLength, ...]
    latency_cycles: dict[str, float]
    """After how many cycles an event had reached a quarter, half, three quarters of the nodes that it reached."""
    effectiveness: dict[str, float]
    """The share of the events that reached at least so many per cent of the matching nodes."""
    dropped: dict[str, int]
    control: dict[str, int]
    """How often limits were set and lifted, cells switched, and so on."""


class Tally:
    """Counts what arrives, and tells the oracle no more than it needs to know when everybody stands."""

    def __init__(self, oracle: Oracle, cycle_ms: int) -> None:
        self._oracle = oracle
        self._cycle_ms = cycle_ms
        self.delivered: dict[int, int] = {}
        self.published_ms: dict[EventId, int] = {}
        self.arrivals: dict[EventId, dict[int, int]] = {}  # by age in cycles
        self.control: dict[str, int] = {}

    def on_active(self, now_ms: int, node: Node, effect: Active) -> None:
        self._oracle.on_active(now_ms, node, effect)

    def on_deliver(self, now_ms: int, node: Node, effect: Deliver) -> None:
        id_ = effect.event.id
        published_ms = self.published_ms.get(id_)
        if published_ms is not None:
            self.delivered[node.index] = self.delivered.get(node.index, 0) + 1
            age = min(AGE_MAX, (now_ms - published_ms) // self._cycle_ms)
            ages = self.arrivals[id_]
            ages[age] = ages.get(age, 0) + 1

    def on_reception(self, now_ms: int, node: Node, effect: Reception, size: int) -> None:
        """The participants count their copies themselves."""

    def on_report(self, now_ms: int, node: Node, effect: Report) -> None:
        self._oracle.on_report(now_ms, node, effect)
        fact = getattr(effect.fact, "fact", None)
        if fact is not None:
            self.control[fact] = self.control.get(fact, 0) + 1


class Run:
    """One simulation of one system."""

    def __init__(self, plan: Plan, progress: Callable[[float], None] = lambda share: None) -> None:
        self.plan = plan
        self._progress = progress
        self._simulation = SIMULATIONS[plan.simulation]
        self._workload = workload("ranges")
        config = SwarmConfig(
            overlay="sub2sub",
            schema=self._workload.schema,
            parameters={**SYSTEMS[plan.system], **plan.settings},
            seed=plan.seed,
            network=NetworkConfig(latency=LATENCY),
            liveness="oracle",
            sampling="oracle",
            exact_boxes=True,
            uploads=self._simulation.uploads,
        )
        self.swarm = Swarm(config)
        self._cycle_ms: int = getattr(self.swarm.parameters, "cycle_ms")  # noqa: B009
        self.tally = Tally(self.swarm.oracle, self._cycle_ms)
        self.swarm.engine.observe(self.tally)
        self._ranges: dict[int, tuple[int, int]] = {}
        self._values: list[int] = []

    def run(self) -> Outcome:
        self._gather()
        before: dict[int, Counters] = {}
        rng = self.swarm.stream("events")
        nodes = list(self.swarm.live.values())
        every_ms = self._cycle_ms / self._simulation.events
        cycles = self.plan.warmup + self.plan.cycles
        for cycle in range(cycles):
            if cycle == self.plan.warmup:
                before = {node.index: _counters(node) for node in nodes}
            start_ms = self.swarm.now_ms
            for number, attributes in enumerate(self._workload.events(rng, self._simulation.events)):
                value = attributes["value"]
                assert isinstance(value, int)
                counted = cycle >= self.plan.warmup
                publish = partial(self._publish, nodes[rng.randrange(len(nodes))], value, counted)
                self.swarm.engine.at(start_ms + int(number * every_ms), publish)
            self.swarm.run(self._cycle_ms)
            self._progress((cycle + 1) / (cycles + self.plan.drain))
        self.swarm.run(self.plan.drain * self._cycle_ms)
        return self._outcome(before)

    def _gather(self) -> None:
        swarm, count = self.swarm, self.plan.nodes
        interests = self._workload.subscriptions(swarm.stream("subscriptions"), count)
        for number, interest in enumerate(interests):
            box = interest.boxes[0]
            self._ranges[number] = (box.lo[0], box.hi[0] - 1)
        join_ms = JOIN_CYCLES * self._cycle_ms
        swarm.start_many([[interest] for interest in interests], join_ms / count)
        swarm.run(join_ms)
        if swarm.converge(300_000) is None:
            raise RuntimeError("the swarm has not converged within five minutes")

    def _publish(self, node: Node, value: int, counted: bool) -> None:
        now_ms = self.swarm.now_ms
        event = node.peer.new_event({"value": value}, (EPOCH_MS + now_ms) * 1000)
        if counted:
            self.tally.published_ms[event.id] = now_ms
            self.tally.arrivals[event.id] = {}
            self._values.append(value)
        self.swarm.engine.step(node, Publish(event))

    # --- Figures ---

    def _outcome(self, before: dict[int, Counters]) -> Outcome:
        published = [0] * 102
        for value in self._values:
            published[value] += 1
        plan, tally = self.plan, self.tally
        classes: list[ClassOfLength] = []
        for low, high in CLASSES:
            nodes = [n for n in self.swarm.live.values() if low <= self._length(n.index) < high]
            rows = [self._of_node(node, published, before[node.index]) for node in nodes]
            if not rows:
                continue
            accuracy, received, guided, sent = (sum(column) / len(rows) for column in zip(*rows))
            mdr = sent / (received + guided) if received + guided else 0.0
            classes.append(ClassOfLength(f"{low}-{high}", len(rows), accuracy, received, mdr))
        latency, effectiveness = self._reach()
        dropped = self.swarm.oracle.dropped
        return Outcome(
            plan.simulation,
            plan.system,
            plan.nodes,
            plan.cycles,
            plan.seed,
            tuple(classes),
            latency,
            effectiveness,
            dropped,
            tally.control,
        )

    def _length(self, index: int) -> int:
        a, b = self._ranges[index]
        return b - a

    def _of_node(self, node: Node, published: list[int], before: Counters) -> tuple[float, ...]:
        """Accuracy in per cent, copies received along rings and on the way there, copies sent along rings."""
        a, b = self._ranges[node.index]
        expected = sum(published[a : b + 1])
        accuracy = 100 * self.tally.delivered.get(node.index, 0) / expected if expected else 100.0
        return accuracy, *(float(now - then) for now, then in zip(_counters(node), before))

    def _reach(self) -> tuple[dict[str, float], dict[str, float]]:
        holding = [0] * 102
        for a, b in self._ranges.values():
            for value in range(a, b + 1):
                holding[value] += 1
        latency = dict.fromkeys(("25", "50", "75"), 0.0)
        effectiveness = dict.fromkeys(("10", "25", "50", "75", "90"), 0.0)
        counted = 0
        for value, ages in zip(self._values, self.tally.arrivals.values()):
            reached, matching = sum(ages.values()), holding[value]
            if not reached or not matching:
                continue
            counted += 1
            for share in latency:
                latency[share] += _age_at(ages, reached * int(share) / 100)
            for share in effectiveness:
                effectiveness[share] += reached * 100 >= matching * int(share)
        counted = max(1, counted)
        return (
            {share: total / counted for share, total in latency.items()},
            {share: total / counted for share, total in effectiveness.items()},
        )


def _age_at(ages: dict[int, int], count: float) -> int:
    """After how many cycles so many had arrived."""
    total = 0
    for age in sorted(ages):
        total += ages[age]
        if total >= count:
            return age
    return AGE_MAX


def _counters(node: Node) -> Counters:
    found = [p for p in node.peer.participants.values() if isinstance(p, Sub2Sub)]
    return (
        sum(p.copies_received for p in found),
        sum(p.copies_guided for p in found),
        sum(p.copies_sent for p in found),
    )
