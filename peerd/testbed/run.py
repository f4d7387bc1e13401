"""A run: a testbed, a workload, kills, and what was owed.

    join        peers are started, a few at a time
    subscribe   each gets its share of the subscriptions, over HTTP, and each of these stands in the overlay
    settle      until the structure is as it should be
    stress      with kills: half of the events, and the kills in the middle of them
    converge    until the structure is as it should be again
    calm        the other events (all of them if nobody is killed)
    drain       until every event has arrived or is too late

The truth comes from the simulator's oracle, and so does the judgement. What differs is how things become known: peers
tell what they saw, each with the time of its own doing (`watch.py`), and what an application does goes over HTTP.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from peerd import registry
from peerd.client import ClientError, Peer, PushedBack, Unreachable
from peerd.sim.oracle import GRACE_MS, Oracle
from peerd.sim.summary import Spread, Summary, figures
from peerd.sim.workloads import Interest, workload
from peerd.testbed.bed import Bed, BedConfig, Member, Progress
from peerd.testbed.faultlog import FaultLog
from peerd.testbed.lines import PATIENCE_S, Batch
from peerd.testbed.place import Place, TestbedError
from peerd.testbed.readers import Readers
from peerd.testbed.structure import converge
from peerd.testbed.watch import now_us
from protocols.model.event import Attributes, Event
from protocols.model.lint import compile_filter

IN_FLIGHT_MAX: Final = 64
"""Events whose publication has not been answered yet. A guess; more would only queue at the peers."""
ATTEMPTS: Final = 5
SUBSCRIBE_S: Final = 30.0
DRAIN_MS: Final = GRACE_MS + 1_000
LATE_MS: Final = 1_000
"""When nothing is missing any more, so long is waited for what should not come at all: a second delivery."""
HURRY_S: Final = 0.5
"""How long peers may take to leave when their logs are of no interest: what was to be seen has been seen."""
LATEST: Final = 8
"""Deliveries in a snapshot."""
RETAIN_MAX: Final = 1_000
"""Deliveries that a peer keeps for the reader of a subscription: a run must not fill the memory of this machine."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be done. Options are checked when it is made; `ValueError` says in one line what to change."""

    overlay: str = registry.DEFAULT
    peers: Annotated[int, Meta(ge=1, le=2_000)] = 24
    subscriptions: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    events: Annotated[int, Meta(ge=0, le=10_000_000)] = 500
    seconds: Annotated[float, Meta(ge=1.0, le=86_400.0)] | None = None
    """Publish for so long, counted from the start of the run, instead of a number of events."""
    rate: Annotated[float, Meta(gt=0.0, le=100_000.0)] = 50.0
    workload: str = "stocks"
    kill: Annotated[int, Meta(ge=0)] = 0
    seed: int = 0
    settings: dict[str, str] = {}
    log_dir: str | None = None
    readers: bool = False
    """Read every delivery over HTTP, too."""

    @property
    def run_name(self) -> str:
        return f"testbed-{self.overlay}-{self.workload.replace(':', '-')}-{self.seed}"


class TestbedSummary(Summary, frozen=True, kw_only=True):
    """As the simulator's. `peak_rss_mb` is the memory of all processes together, shared pages counted once."""

    __test__ = False

    killed: int
    ready_s: float
    """From the start of the run until all peers stood."""
    unread: int | None
    """Deliveries that no application has read over HTTP, or more than once; None if nobody was to read them."""


class Delivered(msgspec.Struct, frozen=True):
    """One delivery, for people to look at."""

    attributes: Attributes
    filter: str
    peer: str
    hops: int
    latency_ms: float


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is: for people to look at. What is under way counts as expected, and is not delivered yet."""

    phase: str
    seconds: float
    peers: int
    published: int
    expected: int
    delivered: int
    hops: Spread
    latency_ms: Spread
    latest: list[Delivered]


class Run:
    """One run in one place. `snapshot` may be asked for at any time."""

    def __init__(self, plan: Plan, at: Place, progress: Progress = lambda phase, share: None) -> None:
        self.plan = plan
        self.oracle = Oracle()
        self.kind = registry.kind(plan.overlay)
        self.parameters = registry.parameters(plan.overlay, plan.settings)
        self._progress = progress
        self._workload = workload(plan.workload)
        self._rng = Random(f"{plan.seed}/run")
        config = BedConfig(
            overlay=plan.overlay,
            peers=plan.peers,
            schema=self._workload.schema,
            seed=plan.seed,
            parameters=plan.settings,
            log_dir=plan.log_dir,
            run_name=plan.run_name,
        )
        self.bed = Bed(at, config, self._heard)
        self._faults: FaultLog | None = None
        if plan.log_dir is not None:
            self._faults = FaultLog(plan.log_dir, plan.run_name, plan.overlay, config.schema)
        count = plan.peers if plan.subscriptions is None else plan.subscriptions
        self._interests = self._workload.subscriptions(Random(f"{plan.seed}/subscriptions"), count)
        self._readers = Readers() if plan.readers else None
        self._clients: dict[int, Peer] = {}
        self._known: dict[int, None] = {}  # peers that have told anything
        self._dates: dict[str, int] = {}  # when events were published whose publishers have no answer yet
        self._traffic: dict[int, tuple[int, int]] = {}
        self._latest: deque[tuple[Member, str, str]] = deque(maxlen=LATEST)
        self._phase = "join"
        self._memory_bytes = 0
        self._began = time.perf_counter()

    # --- the phases ---------------------------------------------------------------------------------------------------

    async def run(self) -> TestbedSummary:
        """From the start of the testbed to its end. `TestbedError` if it does not stand, or a peer ends by itself."""
        self._began = time.perf_counter()
        try:
            await self._join()
            await self._subscribe()
            self._enter("settle")
            converged_s = await self._converge()
            ready_s = self._elapsed_s()
            if self.plan.kill:
                converged_s = await self._stress()
            await self._publish_all("calm")
            await self._drain()
            await self._look_at_traffic(self.bed.living)
            self._weigh()
            return self._summary(converged_s, ready_s)
        except ClientError as error:
            raise TestbedError(f"{error}; see {self.bed.place.log}") from error
        finally:
            await self._close()

    def _enter(self, phase: str, share: float = 0.0) -> None:
        self._phase = phase
        self._progress(phase, share)

    async def _join(self) -> None:
        await self.bed.up(self._progress)
        for member in self.bed.members:
            self._clients[member.index] = Peer(f"http://{member.http}")
        self._weigh()

    async def _subscribe(self) -> None:
        """Give every peer its share; all of them at once, a few requests at a time."""
        members, gate = self.bed.living, asyncio.Semaphore(IN_FLIGHT_MAX)
        done = 0

        async def one(number: int, interest: Interest) -> None:
            nonlocal done
            async with gate:
                await self._subscribe_one(members[number % len(members)], f"s{number + 1}", interest)
            done += 1
            self._enter("subscribe", done / len(self._interests))

        async with _together() as group:
            for number, interest in enumerate(self._interests):
                group.create_task(one(number, interest))

    async def _subscribe_one(self, member: Member, id_: str, interest: Interest) -> None:
        matcher = compile_filter(interest.filter, self._workload.schema).matcher
        self.oracle.subscribed(_now_ms(), member, id_, interest.boxes, matcher)
        on_gap = None if self._readers is None else self._readers.gap
        subscription = await self._clients[member.index].subscribe(
            interest.filter, id=id_, idle_s=None, retain_max=RETAIN_MAX, wait_s=SUBSCRIBE_S, keep=True, on_gap=on_gap
        )
        if subscription.shown.state != "active":
            raise TestbedError(f"a subscription of peer {member.name} does not stand within {SUBSCRIBE_S:g} s")
        if self._readers is not None:
            self._readers.start(member, subscription)

    async def _converge(self) -> float | None:
        limit_s = self.kind.converges_within_s
        seconds = await converge(self.bed, lambda: not self.oracle.not_ready and not self.oracle.inactive, limit_s)
        if seconds is not None:
            self.oracle.converged(_now_ms())
            if self._faults is not None:
                self._faults.converged(seconds)
        return seconds

    async def _stress(self) -> float | None:
        """Publish half of the events and kill in the middle of them; seconds until the structure is whole again."""
        killing = asyncio.create_task(self._kill_later(self._half_s() / 2))
        try:
            await self._publish_all("stress", half=True)
            await killing
        finally:
            killing.cancel()
        self._enter("converge")
        return await self._converge()

    async def _kill_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        victims = self._rng.sample(self.bed.living, min(self.plan.kill, len(self.bed.living) - 1))
        await self._look_at_traffic(victims)
        now_ms = _now_ms()
        self.oracle.fault(now_ms)
        for member in victims:
            self.bed.kill(member)
            self.oracle.peer_ended(now_ms, member)
            if self._faults is not None:
                self._faults.killed(member)
        for member in victims:
            if self._readers is not None:
                await self._readers.drop(member)

    async def _drain(self) -> None:
        self._enter("drain")
        began = now_ms = _now_ms()
        while now_ms - began < DRAIN_MS:
            verdict = self.oracle.settle()
            missing = verdict.false_negatives + verdict.at_risk_missing + (self._unread() or 0)
            if not missing and now_ms - began >= LATE_MS:
                return
            await asyncio.sleep(0.2)
            self.bed.check()
            now_ms = _now_ms()

    async def _close(self) -> None:
        self._enter("end")
        if self._readers is not None:
            await self._readers.close()
        for client in self._clients.values():
            await client.close()
        if self._faults is not None:
            self._faults.ended()
            self._faults.close()
        await self.bed.down(PATIENCE_S if self.plan.log_dir is not None else HURRY_S)

    # --- publishing ---------------------------------------------------------------------------------------------------

    def _half_s(self) -> float:
        """How long half of the workload lasts."""
        if self.plan.seconds is not None:
            return max(1.0, (self.plan.seconds - self._elapsed_s()) / 2)
        return self.plan.events // 2 / self.plan.rate

    def _counts(self, half: bool) -> int:
        """How many events to publish now."""
        if self.plan.seconds is not None:
            left_s = self._half_s() if half else max(1.0, self.plan.seconds - self._elapsed_s() - LATE_MS / 1000)
            return max(1, round(left_s * self.plan.rate))
        return self.plan.events // 2 if half else self.plan.events - len(self.oracle.publications)

    async def _publish_all(self, phase: str, half: bool = False) -> None:
        """Publish at the rate asked for, each through some living peer. When it cannot be kept up, it takes longer."""
        count, gate = self._counts(half), asyncio.Semaphore(IN_FLIGHT_MAX)
        drawn = self._workload.events(Random(f"{self.plan.seed}/events/{phase}"), count, self._interests)
        loop = asyncio.get_running_loop()
        start = loop.time()

        async def one(attributes: Attributes) -> None:
            try:
                await self._publish(attributes)
            finally:
                gate.release()

        async with _together() as group:
            for number, attributes in enumerate(drawn):
                await asyncio.sleep(max(0.0, start + number / self.plan.rate - loop.time()))
                await gate.acquire()
                self.bed.check()
                group.create_task(one(attributes))
                self._enter(phase, number / count)

    async def _publish(self, attributes: Attributes) -> None:
        """Publish through a living peer; through another one if that dies meanwhile or has no time."""
        for _ in range(ATTEMPTS):
            member = self._rng.choice(self.bed.living)
            at_us = now_us()
            try:
                id_ = await self._clients[member.index].publish(attributes)
            except PushedBack as pushed:
                await asyncio.sleep(pushed.retry_after)
            except Unreachable:
                if member.living:
                    raise
            else:
                self._published(id_, attributes, at_us)
                return
        raise TestbedError(f"an event was not taken by {ATTEMPTS} peers; ask for a lower --rate")

    def _published(self, id_: str, attributes: Attributes, at_us: int) -> None:
        """The peer's own date counts, if it has told it already; else that of the request, until it does."""
        schema = self._workload.schema
        attributes = schema.validate(attributes)
        event = Event(id_, schema.point(attributes))
        self.oracle.published(self._dates.pop(id_, at_us) / 1000, event, attributes)

    # --- what peers tell ----------------------------------------------------------------------------------------------

    def _heard(self, member: Member, batch: Batch) -> None:
        oracle = self.oracle
        if not member.living:
            return  # the last words of one that was killed; nothing is owed to it
        if member.index not in self._known:
            self._known[member.index] = None
            oracle.peer_started(member)
        for id_, at_us in batch.published:
            self._dated(id_, at_us)
        for slot, joined, at_us in batch.stood:
            oracle.stood(at_us / 1000, member, slot, joined)
        for id_, at_us in batch.active:
            oracle.activated(at_us / 1000, member, id_)
        for event_id, ids, hops, at_us in batch.delivered:
            oracle.delivered(at_us / 1000, member, event_id, ids, hops)
            self._latest += ((member, id_, event_id) for id_ in ids)
        _add(oracle.receptions, batch.receptions)
        _add(oracle.dropped, batch.dropped)
        oracle.lost += batch.counts.get("lost", 0)
        oracle.repaired += batch.counts.get("repaired", 0)
        oracle.rejected += batch.counts.get("rejected", 0)

    def _dated(self, id_: str, at_us: int) -> None:
        known = self.oracle.publications.get(id_)
        if known is None:
            self._dates[id_] = at_us
        else:
            self.oracle.publications[id_] = msgspec.structs.replace(known, at_ms=at_us / 1000)

    async def _look_at_traffic(self, members: list[Member]) -> None:
        for index, looked in (await self.bed.look(members)).items():
            self._traffic[index] = looked.messages, looked.bytes

    def _weigh(self) -> None:
        self._memory_bytes = max(self._memory_bytes, self.bed.usage().memory_bytes)

    def _unread(self) -> int | None:
        """Deliveries to living peers that were not read exactly once."""
        if self._readers is None:
            return None
        living = {member.index for member in self.bed.living}
        delivered = [
            (index, id_, event_id)
            for event_id, arrivals in self.oracle.arrivals.items()
            for index, id_ in arrivals
            if index in living
        ]
        return sum(key not in self._readers.read for key in delivered) + self._readers.twice

    # --- how far it is ------------------------------------------------------------------------------------------------

    def _elapsed_s(self) -> float:
        return time.perf_counter() - self._began

    def snapshot(self) -> Snapshot:
        verdict = self.oracle.settle()
        made = figures(self.oracle, verdict, 0, 0, 0.0)
        return Snapshot(
            phase=self._phase,
            seconds=self._elapsed_s(),
            peers=len(self.bed.living),
            published=made["events"],
            expected=verdict.expected + verdict.at_risk,
            delivered=made["delivered"],
            hops=made["hops"],
            latency_ms=made["latency_ms"],
            latest=[shown for each in self._latest if (shown := self._shown(*each)) is not None],
        )

    def _shown(self, member: Member, id_: str, event_id: str) -> Delivered | None:
        publication = self.oracle.publications.get(event_id)
        arrival = self.oracle.arrivals[event_id].get((member.index, id_))
        if publication is None or arrival is None:
            return None
        filter_ = self._interests[int(id_.removeprefix("s")) - 1].filter
        latency_ms = arrival.at_ms - publication.at_ms
        return Delivered(publication.attributes, filter_, member.name, arrival.hops, latency_ms)

    def _summary(self, converged_s: float | None, ready_s: float) -> TestbedSummary:
        messages = sum(sent for sent, _ in self._traffic.values())
        size = sum(sent_bytes for _, sent_bytes in self._traffic.values())
        return TestbedSummary(
            overlay=self.plan.overlay,
            parameters=msgspec.to_builtins(self.parameters),
            seed=self.plan.seed,
            peers=len(self.bed.living),
            subscriptions=len(self._interests),
            invariant_violations=None,
            converged_s=converged_s,
            peak_rss_mb=round(self._memory_bytes / 2**20, 1),
            trace_sha256=None,
            killed=len(self.bed.members) - len(self.bed.living),
            ready_s=round(ready_s, 3),
            unread=self._unread(),
            **figures(self.oracle, self.oracle.settle(), messages, size, self._elapsed_s()),
        )


@asynccontextmanager
async def _together() -> AsyncIterator[asyncio.TaskGroup]:
    """A group of tasks; of what went wrong in them the first is raised, as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _now_ms() -> float:
    return now_us() / 1000


def _add(counts: dict[str, int], more: dict[str, int]) -> None:
    for key, count in more.items():
        counts[key] = counts.get(key, 0) + count
