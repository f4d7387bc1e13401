"""What `peerd sim` runs: build a swarm, let it settle, publish, and compare with what was owed.

    join        peers start one after the other, without waiting for each, with their subscriptions
    settle      until all stand and the invariants hold
    stress      with churn or other faults (`peerd/sim/faults.py`): half of the events while they happen
    converge    until the invariants hold again
    calm        the other events (all of them if there are no faults)
    drain       until every event is either delivered or too late

Types and bounds are checked when a scenario is made, names and specifications when it is run; `ValueError` says in one
line what to change.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import ceil
from random import Random
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from peerd import registry
from peerd.sim.faults import Fault, schedule
from peerd.sim.network import NetworkConfig
from peerd.sim.oracle import GRACE_MS
from peerd.sim.recorder import Recording
from peerd.sim.summary import Summary, summarise
from peerd.sim.swarm import Maintenance, Swarm, SwarmConfig
from peerd.sim.workloads import Documents, Interest, Workload, any_workload, on_grid
from peerd.sim.workloads.workload import Document
from protocols.model.event import Attributes
from protocols.peer import PeerConfig

JOIN_SPAN_MS: Final = 30_000
"""All peers have started within this time: joins overlap, the more so the more there are."""
JOIN_EVERY_MS: Final = 50
JOIN_LIMIT_MS: Final = 600_000
DRAIN_MS: Final = GRACE_MS + 1_000

Progress: TypeAlias = Callable[[str, float], None]
"""Told the phase and how much of it is done (0 to 1)."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    overlay: str = registry.DEFAULT
    peers: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    subscriptions: Annotated[int, Meta(ge=0, le=10_000_000)] | None = None
    events: Annotated[int, Meta(ge=0, le=10_000_000)] = 100
    rate: Annotated[float, Meta(ge=0.001, le=1e6)] = 50.0
    workload: str = "stocks"
    seed: int = 0
    churn: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.0
    loss: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0
    link: str = "tcp"
    duplication: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0
    reordering_ms: Annotated[int, Meta(ge=0)] = 0
    bandwidth: Annotated[int, Meta(ge=0)] = 0
    uploads: tuple[Annotated[float, Meta(gt=0.0)], ...] = ()
    latency: str = NetworkConfig().latency
    liveness: Maintenance = "protocol"
    sampling: Maintenance = "protocol"
    participants_max: Annotated[int, Meta(ge=0, le=4096)] = 0
    settings: dict[str, str] = {}
    workload_settings: dict[str, str | int | float | bool] = {}
    publisher: Literal["any", "root"] = "any"
    faults: tuple[Fault, ...] = ()
    out: str | None = None
    name: str | None = None
    record_every_s: Annotated[int, Meta(ge=1)] = 1

    @property
    def run_name(self) -> str:
        """What the run is called in its records, and so in the name of their directory."""
        if self.name is not None:
            return self.name
        workload = self.workload.replace(":", "-").replace("/", "-")
        return f"sim-{self.overlay}-{workload}-{self.seed}"


def workload_of(scenario: Scenario) -> Workload | Documents:
    """Its workload; `ValueError` in one line if there is none like it, or none that the overlay can serve."""
    found = any_workload(scenario.workload, **scenario.workload_settings)
    if isinstance(found, Documents) and not registry.kind(scenario.overlay).patterns:
        raise ValueError(f"{scenario.overlay} takes no XPath, in which workload {scenario.workload} has its interests")
    return found


def run(scenario: Scenario, progress: Progress = lambda phase, share: None) -> Summary:
    """Run a scenario to its end."""
    with hardly_any_garbage_collection():
        return _Run(scenario, progress).run()


@contextmanager
def hardly_any_garbage_collection() -> Iterator[None]:
    """A run makes millions of short-lived objects and hardly a cycle: let the collector look at them rarely."""
    thresholds = gc.get_threshold()
    gc.set_threshold(200_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class _Run:
    def __init__(self, scenario: Scenario, progress: Progress) -> None:
        self._scenario = scenario
        self._progress = progress
        self._workload = workload_of(scenario)
        recording = None
        if scenario.out is not None:
            recording = Recording(scenario.out, scenario.run_name, scenario.record_every_s)
        self.swarm = Swarm(self._swarm_config(), recording)
        self._count = scenario.peers if scenario.subscriptions is None else scenario.subscriptions
        self._interests = self._workload.subscriptions(self.swarm.stream("subscriptions"), self._count)
        self._limit_ms = self.swarm.kind.converges_within_s * 1000

    def _swarm_config(self) -> SwarmConfig:
        scenario = self._scenario
        network = {
            "link": scenario.link,
            "loss": scenario.loss,
            "duplication": scenario.duplication,
            "reordering_ms": scenario.reordering_ms,
            "bandwidth": scenario.bandwidth,
            "latency": scenario.latency,
        }
        return SwarmConfig(
            overlay=scenario.overlay,
            schema=self._workload.schema,
            parameters=scenario.settings,
            seed=scenario.seed,
            network=msgspec.convert(network, NetworkConfig),
            peer=PeerConfig(participants_max=scenario.participants_max),
            liveness=scenario.liveness,
            sampling=scenario.sampling,
            uploads=scenario.uploads,
            exact_boxes=on_grid(scenario.workload),
        )

    # --- the phases ---------------------------------------------------------------------------------------------------

    def run(self) -> Summary:
        started = time.perf_counter()
        swarm = self.swarm
        converged_s = self._join()
        attributes = self._events(swarm.stream("events"))
        faults = self._faults(len(attributes) // 2)
        stressed = attributes[: len(attributes) // 2] if faults else attributes[:0]
        if faults:
            schedule(swarm, faults)
            self._publish("stress", stressed, for_ms=1000 * max(fault.end_s for fault in faults))
            self._progress("converge", 0.0)
            converged_s = swarm.converge(self._limit_ms)
        violations = self._left_over(converged_s)
        self._publish("calm", attributes[len(stressed) :])
        self._progress("drain", 0.0)
        swarm.run(DRAIN_MS)
        violations += len(swarm.lasting_violations())
        wall_s = time.perf_counter() - started
        verdict = swarm.oracle.settle()
        swarm.close()
        return summarise(swarm, verdict, self._count, converged_s, violations, wall_s)

    def _events(self, rng: Random) -> Sequence[Attributes | Document]:
        if isinstance(self._workload, Documents):
            return self._workload.documents(rng, self._scenario.events)
        return self._workload.events(rng, self._scenario.events, self._interests)

    def _faults(self, events: int) -> tuple[Fault, ...]:
        """The timetable, with `--churn` as a line of it that lasts as long as those events are published."""
        scenario = self._scenario
        if not scenario.churn:
            return scenario.faults
        churn = Fault(fault="churn", share=scenario.churn, for_s=max(1.0, events / scenario.rate))
        return (*scenario.faults, churn)

    def _left_over(self, converged_s: float | None) -> int:
        """What is still wrong when time is up; a swarm that does not settle at all violates at least one."""
        return 0 if converged_s is not None else max(1, len(self.swarm.lasting_violations()))

    def _join(self) -> float | None:
        """Start everyone, wait until all are active, then until the swarm has converged."""
        swarm, count = self.swarm, self._scenario.peers
        every_ms = min(float(JOIN_EVERY_MS), JOIN_SPAN_MS / count)
        shares: list[list[Interest]] = [[] for _ in range(count)]
        for number, interest in enumerate(self._interests):
            shares[number % count].append(interest)
        swarm.start_many(shares, every_ms)
        end_ms = swarm.now_ms + JOIN_LIMIT_MS
        while swarm.now_ms < end_ms and (len(swarm.live) < count or not swarm.all_active()):
            swarm.run(500)
            self._progress("join", len(swarm.live) / count)
        gc.collect()
        gc.freeze()  # what stands now stays: not to be looked through again and again
        self._progress("settle", 0.0)
        return swarm.converge(self._limit_ms)

    def _publish(self, phase: str, attributes: Sequence[Attributes | Document], for_ms: float = 0.0) -> None:
        """Publish at the rate asked for, spread evenly over virtual time, and let at least `for_ms` pass."""
        swarm, gap_ms = self.swarm, 1000 / self._scenario.rate
        start_ms = swarm.now_ms
        for number, each in enumerate(attributes):
            swarm.engine.at(start_ms + int(number * gap_ms), partial(self._publish_one, each))
        seconds = ceil(max(len(attributes) * gap_ms, for_ms) / 1000)
        for second in range(seconds):
            self._progress(phase, second / seconds)
            swarm.run(1000)

    def _publish_one(self, event: Attributes | Document) -> None:
        """Through any peer, or, as some papers do, through the one at the top of the tree."""
        self.swarm.publish(event, self.swarm.root() if self._scenario.publisher == "root" else None)
