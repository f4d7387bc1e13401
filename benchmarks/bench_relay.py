"""What a whole peer costs as a relay, against a relay and an echo written by hand (`benchmarks/relays.py`).

One connection in, three out, events of some 150 bytes, one subscription to match. The peer is a daemon with everything
that it has in the path: network, driver, state machine, overlay, service, metrics. Each runs in a process of its own,
and is given the same messages by the same source, which runs with the sinks in this process; all in turns, so that a
busy machine slows all of them. The ratios of one round count, and the median over the rounds.

*Streaming*: as many messages as the relay takes, a window of them under way. *Alone*: the next message is sent when the
last one has come out at all sinks. *A hop*: alone, and with one sink, as an echo has one. Wall clock tells what a user
sees, and depends on who else needs the processors; the CPU time of the relay's process does so less.

What a hop takes is mostly a question of where the two processes run. To wake one on the same processor is a switch from
one to the other; to wake one on another processor that has gone to sleep is an interrupt, which takes a virtual machine
some 20 us each way. The scheduler does now this and now that, and not always the same for an echo and for a peer: then
the ratio says nothing about either. So hops are measured with all processes on one processor and with this process on
one and the relays on another, each with its own echo to compare with; and once as the scheduler likes it, for the
record.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from statistics import median
from struct import Struct as Layout
from time import perf_counter
from typing import Final, NamedTuple, cast

import msgspec

from benchmarks.figure import Figure
from benchmarks.relays import Relay
from peerd import registry
from peerd.net import Greeting, inquire
from peerd.net.endpoints import split_endpoint
from peerd.net.greeting import encode_first
from peerd.net.loop import run as run_loop
from peerd.wire import Codec
from protocols.broadcast.messages import Flood, LinkRequest
from protocols.model.event import Attributes, Body, Copy, Event, encode_body
from protocols.model.ids import PEER_SLOT
from protocols.model.schema import STOCKS
from protocols.parts.liveness import Pong

ROUNDS: Final = 7
STREAMED: Final = 8_000
DELIVERED: Final = 3_000
ALONE: Final = 1_000
HOPS: Final = 700
"""In all rounds together no more events than a peer remembers: 250,000."""
WINDOW: Final = 512
"""Messages under way: enough to keep a relay busy while this process is not, too few to fill a queue."""
OUT: Final = 3
TIMEOUT_S: Final = 60.0
TOGETHER: Final = "on one processor"
APART: Final = "on two processors"
ANYWHERE: Final = "as scheduled"

CODEC: Final = Codec(registry.messages("broadcast"))
PONG: Final = CODEC.frame(PEER_SLOT, PEER_SLOT, CODEC.encode(Pong(0)))
LINK: Final = CODEC.frame(0, 0, CODEC.encode(LinkRequest()))
UNWANTED: Final[Attributes] = {"exchange": "ATH", "symbol": "OTE", "price": 9.5, "high": 9.9, "low": 9.1}
WANTED: Final[Attributes] = UNWANTED | {"price": 8.5}
"""Whether the subscription of the relay holds it."""

_length: Final = Layout(">I").unpack_from


class Frames:
    """Events as a neighbour sends them that has got them from elsewhere; none of them twice, all of one size."""

    def __init__(self) -> None:
        self._made = 0

    def make(self, count: int, attributes: Attributes) -> list[bytes]:
        point, body = STOCKS.point(attributes), encode_body(Body(attributes, 1_767_225_600_000_000))
        frames = []
        for _ in range(count):
            self._made += 1
            event = Event(f"a1b2c3d4e5f6a7b8-1767225600000-{self._made:07}", point, body)
            frames.append(CODEC.frame(0, 0, CODEC.encode(Flood(Copy(event, 3)))))
        return frames


FRAME_BYTES: Final = len(Frames().make(1, WANTED)[0])


class End(asyncio.Protocol):
    """A neighbour of the relay, as lean as can be: counts events, answers pings, ignores the rest."""

    def __init__(self, greeting: Greeting | None, arrived: Callable[[], None]) -> None:
        self._greeting = greeting
        self._arrived = arrived
        self._rest = b""
        self.linked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.count = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by type
        self.transport.write(LINK if self._greeting is None else encode_first(self._greeting))

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        start, end, count = 0, len(data), 0
        while start + 4 <= end:
            stop = start + 4 + _length(data, start)[0]
            if stop > end:
                break
            if stop - start == FRAME_BYTES:
                count += 1
            else:
                self._control(data[start + 4 : stop])
            start = stop
        self._rest = data[start:]
        if count:
            self.count += count
            self._arrived()

    def _control(self, content: bytes) -> None:
        if self._greeting is not None:  # this is the answer
            self._greeting = None
            self.transport.write(LINK)
            return
        tag = msgspec.msgpack.decode(content)[2][0]
        if tag == "ping":
            self.transport.write(PONG)
        elif tag in ("link-accept", "link-request") and not self.linked.done():  # an echo says what it is told
            self.linked.set_result(None)


class Cost(NamedTuple):
    """Of one message: time until it has come out, the median of that where it was alone, and CPU time of the relay."""

    wall_us: float
    hop_us: float
    cpu_us: float


class Rig:
    """A relay with a source and sinks around it."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._on_arrival: Callable[[], None] = lambda: None
        self._source: End
        self._sinks: list[End]

    async def connect(self, sinks: int) -> None:
        """Without sinks the source is one itself: before an echo."""
        greeting = await inquire(self._relay.endpoint) if self._relay.role == "peer" else None
        self._source = await self._end(greeting, 0)
        self._sinks = [await self._end(greeting, 1 + number) for number in range(sinks)] or [self._source]

    async def _end(self, greeting: Greeting | None, number: int) -> End:
        if greeting is not None:  # the relay's own, so of its swarm; the rest is ours
            greeting = msgspec.structs.replace(greeting, peer=f"{number:032x}", boot=1, at=f"127.0.0.1:{1 + number}")
        host, port = split_endpoint(self._relay.endpoint)
        loop = asyncio.get_running_loop()
        _, end = await loop.create_connection(lambda: End(greeting, lambda: self._on_arrival()), host, port)
        await end.linked
        return end

    async def stream(self, frames: list[bytes]) -> Cost:
        """All messages, `WINDOW` under way."""
        finished = asyncio.get_running_loop().create_future()
        sinks, sent, base = self._sinks, 0, self._sinks[0].count

        def pump() -> None:
            nonlocal sent
            done = min([sink.count for sink in sinks]) - base
            if done == len(frames):
                finished.set_result(None)
            elif sent - done <= WINDOW // 2 and sent < len(frames):
                self._source.transport.write(b"".join(frames[sent : done + WINDOW]))
                sent = min(done + WINDOW, len(frames))

        return await self._measured(pump, pump, finished, len(frames), [])

    async def alone(self, frames: list[bytes]) -> Cost:
        """One message after the other."""
        finished = asyncio.get_running_loop().create_future()
        following, hops_s = iter(frames), list[float]()
        sent_at, missing = 0.0, 1

        def arrived() -> None:
            nonlocal missing
            hops_s.append(perf_counter() - sent_at)
            missing -= 1
            if not missing:
                send()

        def send() -> None:
            nonlocal sent_at, missing
            frame = next(following, None)
            if frame is None:
                finished.set_result(None)
                return
            missing = len(self._sinks)
            sent_at = perf_counter()
            self._source.transport.write(frame)

        return await self._measured(send, arrived, finished, len(frames), hops_s)

    async def _measured(
        self,
        begin: Callable[[], None],
        arrived: Callable[[], None],
        finished: asyncio.Future[None],
        count: int,
        hops_s: list[float],
    ) -> Cost:
        self._on_arrival = arrived
        cpu_s, start = self._relay.cpu_s(), perf_counter()
        begin()
        async with asyncio.timeout(TIMEOUT_S):
            await finished
        wall_s = perf_counter() - start
        cpu_s = self._relay.cpu_s() - cpu_s
        return Cost(wall_s / count * 1e6, median(hops_s) * 1e6 if hops_s else 0.0, cpu_s / count * 1e6)


class Round(NamedTuple):
    """What the same messages cost each of the relays, by what was measured and who."""

    streamed: dict[str, Cost]
    delivered: dict[str, Cost]
    alone: dict[str, Cost]
    hops: dict[str, dict[str, Cost]]
    """By where the processes ran."""


class Place(NamedTuple):
    """On which processors this process runs, and on which the relays."""

    ours: set[int]
    theirs: set[int]


def places() -> dict[str, Place]:
    """Where to measure hops; nothing but the scheduler's own choice where processes cannot be told."""
    if not hasattr(os, "sched_setaffinity"):
        return {ANYWHERE: Place(set(), set())}
    free = os.sched_getaffinity(0)
    first, last = min(free), max(free)
    apart = {APART: Place({first}, {last})} if first != last else {}
    return {TOGETHER: Place({last}, {last}), **apart, ANYWHERE: Place(free, free)}


def put(place: Place, relays: Iterable[Relay]) -> None:
    if place.ours:
        os.sched_setaffinity(0, place.ours)
        for relay in relays:
            os.sched_setaffinity(relay.pid, place.theirs)


async def measured(three_out: dict[str, Relay], one_out: dict[str, Relay]) -> list[Round]:
    relays, hops = ({who: Rig(relay) for who, relay in group.items()} for group in (three_out, one_out))
    for rig in relays.values():
        await rig.connect(OUT)
    for who, rig in hops.items():
        await rig.connect(0 if who == "echo" else 1)
    rounds, frames = [], Frames()
    for _ in range(1 + ROUNDS):
        streamed, delivered = frames.make(STREAMED, UNWANTED), frames.make(DELIVERED, WANTED)
        alone = frames.make(ALONE, UNWANTED)
        rounds.append(
            Round(
                {who: await rig.stream(streamed) for who, rig in relays.items()},
                {who: await rig.stream(delivered) for who, rig in relays.items()},
                {who: await rig.alone(alone) for who, rig in relays.items()},
                {},
            )
        )
        for where, place in places().items():  # the last one undoes what those before it did
            hop = frames.make(HOPS, UNWANTED)
            put(place, one_out.values())
            rounds[-1].hops[where] = {who: await rig.alone(hop) for who, rig in hops.items()}
    return rounds[1:]  # the first one warms everything up


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        three_out = {who: stack.enter_context(Relay(who)) for who in ("bare", "peer")}
        one_out = {who: stack.enter_context(Relay(who)) for who in ("echo", "bare", "peer")}
        rounds = run_loop(measured(three_out, one_out))
    streamed, delivered = [each.streamed for each in rounds], [each.delivered for each in rounds]
    alone = [each.alone for each in rounds]
    for who, what in (("bare", "bare relay"), ("peer", "peer")):
        yield Figure(f"relay: {what}, streaming", 1e6 / middle(streamed, who, wall), "msg/s")
        yield Figure(f"relay: {what}, streaming, CPU", middle(streamed, who, cpu), "us/msg")
    yield Figure("relay: peer against bare, messages a second", ratio(streamed, "bare", "peer", wall), "x", ">= 0.4")
    yield Figure("relay: the same by CPU time", ratio(streamed, "bare", "peer", cpu), "x")
    yield Figure("relay: the same, the peer delivers each, by CPU time", ratio(delivered, "bare", "peer", cpu), "x")
    for who, what in (("bare", "bare relay"), ("peer", "peer")):
        yield Figure(f"relay: {what}, alone, CPU", middle(alone, who, cpu), "us/msg")
    yield Figure("relay: peer against bare, CPU of a message alone", ratio(alone, "peer", "bare", cpu), "x", "< 2")
    for where in rounds[0].hops:
        hop = [each.hops[where] for each in rounds]
        for who, what in (("echo", "bare echo"), ("bare", "bare relay"), ("peer", "peer")):
            yield Figure(f"relay: {what}, p50 of a hop, {where}", middle(hop, who, p50), "us")
        target = "" if where == ANYWHERE else "< 2"
        yield Figure(f"relay: peer against bare echo, a hop, {where}", ratio(hop, "peer", "echo", p50), "x", target)


def wall(cost: Cost) -> float:
    return cost.wall_us


def cpu(cost: Cost) -> float:
    return cost.cpu_us


def p50(cost: Cost) -> float:
    return cost.hop_us


def middle(found: list[dict[str, Cost]], who: str, of: Callable[[Cost], float]) -> float:
    return median(of(each[who]) for each in found)


def ratio(found: list[dict[str, Cost]], one: str, other: str, of: Callable[[Cost], float]) -> float:
    """The median over the rounds of the ratio within one."""
    return median(of(each[one]) / of(each[other]) for each in found)
