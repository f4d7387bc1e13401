"""What a whole peer costs as a relay, against a relay and an echo written by hand (`benchmarks/relays.py`).

One connection in, three out, events of some 150 bytes, one subscription to match. The peer is a daemon with everything
that it has in the path: network, driver, state machine, overlay, service, metrics. Each of the three runs in a process
of its own, and is given the same messages by the same source, which runs with the sinks in this process; all in turns,
so that a busy machine slows all of them. The ratios of one round count, and the median over the rounds.

*Streaming*: as many messages as the relay takes, a window of them under way. *Alone*: the next message is sent when the
last one has come out at all three sinks. Wall clock tells what a user sees, and depends on who else needs the
processors; the CPU time of the relay's process hardly does.
"""

import asyncio
from collections.abc import Callable, Iterator
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
"""In all rounds together no more events than a peer remembers, which are 250,000."""
WINDOW: Final = 512
"""Messages under way: enough to keep a relay busy while this process is not, too few to fill a queue."""
OUT: Final = 3
TIMEOUT_S: Final = 60.0

CODEC: Final = Codec(registry.messages("broadcast"))
PONG: Final = CODEC.frame(PEER_SLOT, PEER_SLOT, CODEC.encode(Pong(0)))
LINK: Final = CODEC.frame(0, 0, CODEC.encode(LinkRequest(False)))
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
    """Of one message: time until it has come out at all sinks, or at one of them (the median), and CPU of the relay."""

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

    async def connect(self, role: str) -> None:
        greeting = await inquire(self._relay.endpoint) if role == "peer" else None
        self._source = await self._end(greeting, 0)
        self._sinks = [self._source] if role == "echo" else [await self._end(greeting, 1 + n) for n in range(OUT)]

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
    """What the same messages cost each of them. An echo is given no stream."""

    streamed: dict[str, Cost]
    delivered: dict[str, Cost]
    alone: dict[str, Cost]


async def rounds(relays: dict[str, Relay]) -> list[Round]:
    rigs, frames = {role: Rig(relay) for role, relay in relays.items()}, Frames()
    for role, rig in rigs.items():
        await rig.connect(role)
    found = []
    for _ in range(1 + ROUNDS):
        streamed, delivered, alone = (
            frames.make(count, what) for count, what in ((STREAMED, UNWANTED), (DELIVERED, WANTED), (ALONE, UNWANTED))
        )
        found.append(
            Round(
                {role: await rigs[role].stream(streamed) for role in ("bare", "peer")},
                {role: await rigs[role].stream(delivered) for role in ("bare", "peer")},
                {role: await rigs[role].alone(alone) for role in ("echo", "bare", "peer")},
            )
        )
    return found[1:]  # the first one warms everything up


def run() -> Iterator[Figure]:
    with Relay("peer") as peer, Relay("bare") as bare, Relay("echo") as echo:
        found = run_loop(rounds({"peer": peer, "bare": bare, "echo": echo}))
    streamed, delivered, alone = ([each[kind] for each in found] for kind in range(3))
    for role, what in (("bare", "bare relay"), ("peer", "peer")):
        yield Figure(f"relay: {what}, streaming", 1e6 / middle(streamed, role, "wall_us"), "msg/s")
        yield Figure(f"relay: {what}, streaming, CPU", middle(streamed, role, "cpu_us"), "us/msg")
    yield Figure(
        "relay: peer against bare, messages a second", ratio(streamed, "bare", "peer", "wall_us"), "x", ">= 0.4"
    )
    yield Figure("relay: the same by CPU time", ratio(streamed, "bare", "peer", "cpu_us"), "x", ">= 0.4")
    yield Figure(
        "relay: the same if each event is delivered, by CPU time", ratio(delivered, "bare", "peer", "cpu_us"), "x"
    )
    for role, what in (("echo", "bare echo"), ("bare", "bare relay"), ("peer", "peer")):
        yield Figure(f"relay: {what}, alone, p50 of a hop", middle(alone, role, "hop_us"), "us")
        yield Figure(f"relay: {what}, alone, CPU", middle(alone, role, "cpu_us"), "us/msg")
    yield Figure("relay: peer against bare echo, p50 of a hop", ratio(alone, "peer", "echo", "hop_us"), "x", "< 2")
    yield Figure("relay: peer against bare relay, CPU alone", ratio(alone, "peer", "bare", "cpu_us"), "x", "< 2")


def middle(found: list[dict[str, Cost]], role: str, field: str) -> float:
    return median(getattr(each[role], field) for each in found)


def ratio(found: list[dict[str, Cost]], one: str, other: str, field: str) -> float:
    """The median over the rounds of the ratio within one."""
    return median(getattr(each[one], field) / getattr(each[other], field) for each in found)
