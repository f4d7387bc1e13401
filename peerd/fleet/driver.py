"""The workload driver: applications for a whole swarm, in one process that knows what is owed.

    discover    look up the names, and greet whoever stands at an address that was not known
    enter       give the peer its share of the subscriptions, and read each as an application would
    publish     at the rate asked for, each event through some peer
    look        at every peer now and then: one that is silent or lives anew has crashed
    converge    after a fault, look at the structure until it is whole
    settle      30 s after its publication, compare what was read of an event with what was owed

Each is a loop of its own; they share the oracle, which decides what is owed as it does in the simulator and in the
local testbed. What counts as known is only what an application can know. A subscription counts as active from the
answer that said so, an event as published from the moment it was handed in: both err on the side of owing less, by a
few milliseconds. A delivery counts when it was read.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import islice
from math import inf
from random import Random
from time import monotonic_ns
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from peerd.client import ClientError, PushedBack, Refused, Subscription, Unreachable
from peerd.fleet.faults import ENDING, FOUND, GRACEFUL, RECORDED, Announcement, OpenFaults
from peerd.fleet.ledger import SETTLE_MS, Exporter, Ledger
from peerd.fleet.looks import Looks, Seen, Silent
from peerd.fleet.members import Member, Members
from peerd.sim.oracle import GRACE_MS, Oracle
from peerd.sim.swarm import CALM_CYCLES
from peerd.sim.workloads import Interest, workload
from peerd.testbed.faultlog import FaultLog
from peerd.testbed.structure import faults
from protocols.model.event import Attributes, Event
from protocols.model.lint import compile_filter

DISCOVER_S: Final = 5.0
LOOK_S: Final = 10.0
"""How often every peer is looked at. A crash that nobody announced is known after two looks."""
GONE, SLOW = 0.5, 0.1
"""What one look without an answer says about a peer's death: where nobody listens twice, there nobody lives; but on a
machine with too much to do ten looks may go by. Until that is decided nothing is settled."""
CONVERGE_S: Final = 3.0
"""Between looks at the structure, which ask every peer twice: at 200 peers 130 questions a second."""
SETTLE_S: Final = 1.0
ENTER_AT_ONCE: Final = 16
IN_FLIGHT_MAX: Final = 64
"""Events whose publication has not been answered yet; as in the local testbed."""
ATTEMPTS: Final = 5
SUBSCRIBE_S: Final = 10.0
RETAIN_MAX: Final = 1_000
BEHIND_S: Final = 2.0
"""Further behind the rate than that, what was not published is given up rather than published in a burst."""
DRAWN: Final = 500
AUTHOR: Final = "workload"

_log = logging.getLogger("peerd.fleet")


class FleetError(Exception):
    """The driver cannot go on; one line that says what to do."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be done."""

    names: tuple[str, ...]
    """HOST:PORT of peers' HTTP; a name stands for all its addresses."""
    peers: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """Publishing begins when so many take part."""
    subscriptions: Annotated[int, Meta(ge=0, le=1_000)] = 1
    """For each peer."""
    workload: str = "stocks"
    rate: Annotated[float, Meta(gt=0.0, le=100_000.0)] = 50.0
    events: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    """Ends when so many were published and settled; None: when it is told to."""
    seed: int = 0
    log_dir: str | None = None
    run: str = "peerd"


class Driver:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.oracle = Oracle()
        self.ledger = Ledger()
        self.exporter = Exporter(self.ledger)
        self.looks = Looks()
        self.members = Members(plan.names, self.looks)
        self._workload = workload(plan.workload)
        self._rng = Random(f"{plan.seed}/run")
        count = plan.subscriptions * (plan.peers + 1)
        self._interests = self._workload.subscriptions(Random(f"{plan.seed}/subscriptions"), count)
        self._open = OpenFaults()
        self._fault_ms = 0.0
        self._readers: dict[int, list[asyncio.Task[None]]] = {}
        self._entering: dict[str, asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(ENTER_AT_ONCE)
        self._stopping = asyncio.Event()
        self._settled = asyncio.Event()
        """The fate of every event that was published is sealed."""
        self._fault_log: FaultLog | None = None

    # --- the whole ----------------------------------------------------------------------------------------------------

    async def run(self) -> Ledger:
        """Until told to stop, or until all events are published and settled. `FleetError` if it cannot go on."""
        loops = [
            asyncio.create_task(self._every(DISCOVER_S, self._discover)),
            asyncio.create_task(self._every(LOOK_S, self._look)),
            asyncio.create_task(self._every(CONVERGE_S, self._converge)),
            asyncio.create_task(self._every(SETTLE_S, self._settle)),
        ]
        stopping = asyncio.create_task(self._stopping.wait())
        publishing = asyncio.create_task(self._publish_all())
        try:
            done, _ = await asyncio.wait([*loops, stopping, publishing], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises what went wrong
        finally:
            tasks = [*loops, stopping, publishing, *self._entering.values(), *_flat(self._readers)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close()
        return self.ledger

    def stop(self) -> None:
        self._stopping.set()

    async def _close(self) -> None:
        await self.looks.close()
        for member in self.members.all.values():
            await member.close()
        if self._fault_log is not None:
            self._fault_log.ended()
            self._fault_log.close()

    async def _every(self, seconds: float, do: Callable[[], Awaitable[None]]) -> None:
        while True:
            await do()
            await asyncio.sleep(seconds)

    # --- peers come and go --------------------------------------------------------------------------------------------

    async def _discover(self) -> None:
        unknown = [at for at in await self.members.unknown() if at not in self._entering]
        found = await asyncio.gather(*map(self.looks.peer, unknown))
        for at, seen in zip(unknown, found):
            if isinstance(seen, Seen) and seen.ready:
                self._begin(at, seen)
        for at, task in list(self._entering.items()):
            if task.done():
                del self._entering[at]
                task.result()

    def _begin(self, at: str, seen: Seen) -> None:
        former = self.members.all.get(seen.id)
        if former is not None and former.living:
            self._gone(former, FOUND, former.seen_ms)  # it has moved before we noticed that it was gone
        self._entering[at] = asyncio.create_task(self._enter(self.members.met(at, seen), seen))

    async def _enter(self, member: Member, seen: Seen) -> None:
        """The peer stands: give it its subscriptions. If it goes meanwhile, it will be met again."""
        if self._fault_log is None and self.plan.log_dir is not None:
            schema = self._workload.schema
            self._fault_log = FaultLog(self.plan.log_dir, self.plan.run, seen.overlay, schema, AUTHOR)
        member.living, member.away, member.silence, member.seen_ms = True, False, 0.0, now_ms()
        boot = member.boot
        await member.close_former()
        try:
            async with self._gate:
                for number in self._share(member):
                    await self._subscribe(member, number)
        except Refused as refused:
            if refused.status == 422:
                raise FleetError(
                    f"a peer refuses a filter of workload {self.plan.workload} ({refused}); "
                    "begin the swarm with the schema that 'peerd fleet schema' prints"
                ) from None
            self._give_up(member, refused)
        except ClientError as error:
            self._give_up(member, error)
        else:
            member.standing = member.living and member.boot == boot
            self._count()

    def _give_up(self, member: Member, error: ClientError) -> None:
        _log.warning("peer %s cannot be given its subscriptions now: %s", member.at, error)
        if member.living:
            self._gone(member, None, now_ms())

    def _share(self, member: Member) -> range:
        """The numbers of a member's subscriptions. If more peers come than were planned, interests are dealt again."""
        each = self.plan.subscriptions
        return range(member.index * each, (member.index + 1) * each)

    async def _subscribe(self, member: Member, number: int) -> None:
        interest: Interest = self._interests[number % len(self._interests)]
        id_ = f"w{number}"
        matcher = compile_filter(interest.filter, self._workload.schema).matcher
        self.oracle.subscribed(now_ms(), member, id_, interest.boxes, matcher)
        subscription = await member.client.subscribe(
            interest.filter, id=id_, retain_max=RETAIN_MAX, wait_s=SUBSCRIBE_S, keep=True, on_gap=lambda gap: None
        )
        while subscription.shown.state != "active":
            await subscription.establish()
        self.oracle.activated(now_ms(), member, id_)
        self._readers.setdefault(member.index, []).append(asyncio.create_task(self._read(member, subscription)))

    async def _read(self, member: Member, subscription: Subscription) -> None:
        with suppress(ClientError):  # of a peer that is gone nothing can be read
            async for delivery in subscription:
                at_ms = now_ms()
                self.ledger.read_deliveries += 1
                self.oracle.delivered(at_ms, member, delivery.event_id, (delivery.subscription_id,), delivery.hops)
                publication = self.oracle.publications.get(delivery.event_id)
                if publication is not None:  # else its publisher has no answer yet
                    self.exporter.latency.observe((at_ms - publication.at_ms) / 1000, 1)

    def _gone(self, member: Member, fault: str | None, at_ms: float) -> None:
        """The peer has ended, at that time. Unless it left, that is a fault."""
        member.living = member.standing = member.away = False
        self.oracle.peer_ended(at_ms, member)
        for task in self._readers.pop(member.index, ()):
            task.cancel()
        if fault is not None:
            self._faulted(fault, at_ms, member.id, member.at)
        self._count()

    def _faulted(self, fault: str, at_ms: float, about: str, at: str) -> None:
        self.ledger.faulted(fault)
        _log.info("fault: %s of peer %s at %s", fault, about[:8], at)
        if fault in GRACEFUL:
            return
        if not self.oracle.at_risk:
            self._fault_ms = at_ms
        self.oracle.fault(at_ms)
        if self._fault_log is not None:
            self._fault_log.fault(RECORDED[fault], about, {"at": at, "how": fault})

    def _count(self) -> None:
        usable = self.members.usable
        self.ledger.peers = len(usable)
        self.ledger.subscriptions = len(usable) * self.plan.subscriptions

    # --- faults -------------------------------------------------------------------------------------------------------

    def announced(self, announcement: Announcement) -> str:
        """Something is about to be done to peers."""
        id_ = self._open.add(announcement)
        at_ms = now_ms()
        for host in announcement.about:
            member = self.members.at_host(host)
            if member is None:
                _log.warning("a %s of %s was announced, where no peer is known yet", announcement.fault, host)
                self._faulted(announcement.fault, at_ms, host, host)
            elif announcement.fault in ENDING:
                self._gone(member, announcement.fault, at_ms)
            else:
                member.away = True
                self._faulted(announcement.fault, at_ms, member.id, member.at)
        self._count()
        return id_

    def healed(self, id_: str) -> bool:
        """It is over; whether it was announced."""
        announcement = self._open.end(id_)
        if announcement is None:
            return False
        for host in announcement.about:
            member = self.members.at_host(host)
            if member is not None:
                member.away, member.silence, member.seen_ms = False, 0.0, now_ms()
        self._count()
        return True

    async def _look(self) -> None:
        members = [member for member in self.members.living if not member.away]
        found = await asyncio.gather(*(self.looks.peer(member.at) for member in members))
        for member, seen in zip(members, found):
            if not member.living or member.away:
                continue  # what was announced meanwhile is known better
            if isinstance(seen, Silent):
                member.silence += GONE if seen.gone else SLOW
                if member.silence >= 1:
                    self._gone(member, FOUND, member.seen_ms)
            elif (seen.id, seen.boot) != (member.id, member.boot):
                self._gone(member, FOUND, member.seen_ms)
            else:
                member.silence, member.seen_ms = 0.0, now_ms()

    async def _converge(self) -> None:
        """Look until the structure is whole for as many looks in a row as the simulator's invariants have to hold."""
        calm = 0
        while self.oracle.at_risk and calm < CALM_CYCLES:
            self.ledger.at_risk = True
            living = self.members.living
            asked = {member.index: member.id for member in living}
            looks = await self.looks.structures((member.index, member.at) for member in living)
            whole = not self._open.unhealed and all(member.standing for member in living)
            calm = calm + 1 if whole and not faults(asked, looks) else 0
            if calm < CALM_CYCLES:
                await asyncio.sleep(CONVERGE_S)
        if self.oracle.at_risk:
            self.oracle.converged(now_ms())
            felt_s = (now_ms() - self._fault_ms) / 1000 - CALM_CYCLES * CONVERGE_S
            self.ledger.converged_s = round(max(0.0, felt_s), 3)
            if self._fault_log is not None:
                self._fault_log.converged(self.ledger.converged_s)
            _log.info("converged %.1f s after the fault", self.ledger.converged_s)
        self.ledger.at_risk = False

    # --- publishing ---------------------------------------------------------------------------------------------------

    async def _publish_all(self) -> None:
        await self._enough()
        _log.info("%d peers take part; publishing %g events a second", self.ledger.peers, self.plan.rate)
        loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(IN_FLIGHT_MAX)
        due = loop.time()
        async with asyncio.TaskGroup() as group:
            for attributes in islice(self._events(), self.plan.events):
                due = max(due + 1 / self.plan.rate, loop.time() - BEHIND_S)
                await asyncio.sleep(max(0.0, due - loop.time()))
                await gate.acquire()
                group.create_task(self._publish(attributes)).add_done_callback(lambda _: gate.release())
        await self._settled.wait()

    async def _enough(self) -> None:
        told = -1
        while self.ledger.peers < self.plan.peers:
            if self.ledger.peers != told and self.ledger.peers % 10 == 0:
                told = self.ledger.peers
                _log.info("%d of %d peers take part", told, self.plan.peers)
            await asyncio.sleep(0.2)

    def _events(self) -> Iterator[Attributes]:
        rng = Random(f"{self.plan.seed}/events")
        while True:
            yield from self._workload.events(rng, DRAWN, self._interests)

    async def _publish(self, attributes: Attributes) -> None:
        """Publish through a peer that takes part; through another one if that is gone meanwhile or has no time."""
        for _ in range(ATTEMPTS):
            usable = self.members.usable
            if not usable:
                break
            member = self._rng.choice(usable)
            at_ms = now_ms()
            try:
                id_ = await member.client.publish(attributes)
            except PushedBack as pushed:
                self.ledger.pushed_back += 1
                await asyncio.sleep(pushed.retry_after)
            except (Unreachable, Refused) as error:
                _log.warning("an event was not taken: %s", error)
            else:
                self._published(id_, attributes, at_ms)
                return
        self.ledger.refused += 1
        _log.warning("an event was taken by nobody; ask for a lower rate")

    def _published(self, id_: str, attributes: Attributes, at_ms: float) -> None:
        schema = self._workload.schema
        attributes = schema.validate(attributes)
        self._settled.clear()
        self.oracle.published(at_ms, Event(id_, schema.point(attributes)), attributes)
        self.ledger.published += 1
        for arrival in self.oracle.arrivals.get(id_, {}).values():
            self.exporter.latency.observe((arrival.at_ms - at_ms) / 1000, 1)

    # --- what is owed -------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        doubtful = [member.seen_ms - GRACE_MS for member in self.members.living if member.silence and not member.away]
        before_ms = min(now_ms() - SETTLE_MS, *doubtful, inf)
        verdict = self.oracle.settle(before_ms)
        self.ledger.settled(verdict)
        self.ledger.duplicate_deliveries = self.oracle.duplicates
        for event_id, index, id_ in verdict.missing:
            _log.warning("missing: event %s at subscription %s of peer number %d", event_id, id_, index)
        self.oracle.forget(before_ms)
        if not self.oracle.publications:
            self._settled.set()


def now_ms() -> float:
    return monotonic_ns() / 1e6


def _flat(readers: dict[int, list[asyncio.Task[None]]]) -> list[asyncio.Task[None]]:
    return [task for tasks in readers.values() for task in tasks]
