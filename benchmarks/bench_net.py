"""What `peerd/net` costs above a bare asyncio Protocol that decodes and encodes the same messages.

Everything runs in one process on loopback, ours and the bare one in turns, so that a busy machine slows both; the
ratios count. *Relay*: one connection in, three out; each message is decoded, encoded again and sent on. *Ping-pong*:
one message at a time there and back, the time of one hop; the CPU time of the process for it likewise. What a whole
peer costs above that is for `bench_relay` to say.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from statistics import median

from benchmarks.bare import Bare, Receive
from benchmarks.figure import Figure
from benchmarks.sample import CODEC, MESSAGE
from peerd.net import Greeting, NetConfig, Network, Refusal
from peerd.net.loop import run as run_loop
from peerd.wire import Frame
from protocols.broadcast.messages import Flood
from protocols.model.event import onward
from protocols.model.ids import Address
from protocols.overlay import Message

MESSAGES_SENT = 20_000
WINDOW = 400
"""Messages under way at once in the relay: enough to fill reads, too few to fill queues."""
HOPS = 3_000
ROUNDS = 5
OUT = 3


class BareWorld:
    """Links between bare ends. `link` returns how the source sends a frame and how the target does."""

    def __init__(self) -> None:
        self._ends: list[Bare] = []
        self._servers: list[asyncio.Server] = []

    async def link(
        self, at_source: Receive, at_target: Receive
    ) -> tuple[Callable[[bytes], None], Callable[[bytes], None]]:
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[Bare] = loop.create_future()

        def accept() -> Bare:
            accepted.set_result(Bare(at_target))
            return accepted.result()

        server = await loop.create_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        _, dialled = await loop.create_connection(lambda: Bare(at_source), "127.0.0.1", port)
        end = await accepted
        self._ends += [dialled, end]
        return dialled.send, end.send

    async def close(self) -> None:
        for end in self._ends:
            end.close()
        for server in self._servers:
            server.close()
        await asyncio.sleep(0.01)


class OurPeer:
    """A network whose receiver does one thing with a message."""

    def __init__(self, name: str, on_message: Receive) -> None:
        self.address = Address(name, 1, 0, "")
        self.on_message = on_message
        self.network = Network(self._greeting, CODEC, self, NetConfig())

    def _greeting(self) -> Greeting:
        return Greeting(swarm_id="bench", peer=self.address.peer, boot=1, at=self.address.at)

    async def listen(self) -> None:
        host, port = await self.network.listen("127.0.0.1", 0)
        self.address = Address(self.address.peer, 1, 0, f"{host}:{port}")

    def received(self, sender: Address, slot: int, message: Message, size: int) -> None:
        self.on_message(message)

    def arrived(self, frames: Iterator[Frame], senders: Mapping[int, Address]) -> None:
        for each in frames:
            self.received(senders[each.src_slot], each.dst_slot, each.message, each.size)

    def undelivered(self, slot: int, to: Address, message: Message, refused: bool) -> None:
        raise AssertionError

    def dropped(self, to: Address, message: Message, reason: str) -> None:
        raise AssertionError(reason)

    def rejected(self, sender: Address | None, at: str, reason: str) -> None:
        raise AssertionError(reason)

    def accepts(self, greeting: Greeting) -> Refusal | None:
        return None

    def greeted(self, greeting: Greeting) -> None:
        pass


def nothing(message: Message) -> None:
    pass


async def in_window(send: Callable[[], None], done: list[int]) -> float:
    """Send all messages, `WINDOW` at the most under way; returns messages per second. `done` has one count per sink."""
    start = time.perf_counter()
    sent = 0
    while min(done) < MESSAGES_SENT:
        while sent < MESSAGES_SENT and sent - min(done) < WINDOW:
            send()
            sent += 1
        await asyncio.sleep(0)
    return MESSAGES_SENT / (time.perf_counter() - start)


def counters() -> tuple[list[int], list[Receive]]:
    done = [0] * OUT

    def counter(number: int) -> Receive:
        def count(message: Message) -> None:
            done[number] += 1

        return count

    return done, [counter(number) for number in range(OUT)]


async def bare_relay() -> float:
    world = BareWorld()
    done, sinks = counters()
    outs = [(await world.link(nothing, sink))[0] for sink in sinks]

    def relay(message: Message) -> None:
        assert isinstance(message, Flood)
        frame = CODEC.frame(0, 0, CODEC.encode(Flood(onward(message.copy))))
        for out in outs:
            out(frame)

    source, _ = await world.link(nothing, relay)
    frame = CODEC.frame(0, 0, CODEC.encode(MESSAGE))
    rate = await in_window(lambda: source(frame), done)
    await world.close()
    return rate


async def our_relay() -> float:
    done, on_sinks = counters()
    sinks = [OurPeer(f"sink{number}", on_sink) for number, on_sink in enumerate(on_sinks)]
    relay, source = OurPeer("relay", nothing), OurPeer("source", nothing)
    peers = [*sinks, relay, source]
    for peer in peers:
        await peer.listen()
    to = tuple(sink.address for sink in sinks)
    send = relay.network.send

    def on_message(message: Message) -> None:
        assert isinstance(message, Flood)
        send(0, to, Flood(onward(message.copy)))

    relay.on_message = on_message
    target = (relay.address,)
    rate = await in_window(lambda: source.network.send(0, target, MESSAGE), done)
    for peer in peers:
        await peer.network.close()
    return rate


async def ping_pong(start: Callable[[Receive], Awaitable[Callable[[], None]]]) -> tuple[float, float]:
    """Microseconds of a hop: p50 of the time, mean of the CPU time."""
    loop = asyncio.get_running_loop()
    finished = loop.create_future()
    hops: list[float] = []
    last = 0.0

    def back(message: Message) -> None:
        nonlocal last
        now = time.perf_counter()
        hops.append((now - last) / 2)
        last = now
        if len(hops) < HOPS:
            ping()
        elif not finished.done():
            finished.set_result(None)

    ping = await start(back)
    cpu = time.process_time()
    last = time.perf_counter()
    ping()
    await finished
    cpu = time.process_time() - cpu
    return median(hops[HOPS // 10 :]) * 1e6, cpu / HOPS / 2 * 1e6


async def bare_ping_pong() -> tuple[float, float]:
    world = BareWorld()

    async def start(back: Receive) -> Callable[[], None]:
        echo: list[Callable[[bytes], None]] = []
        there, home = await world.link(back, lambda message: echo[0](CODEC.frame(0, 0, CODEC.encode(message))))
        echo.append(home)
        return lambda: there(CODEC.frame(0, 0, CODEC.encode(MESSAGE)))

    figures = await ping_pong(start)
    await world.close()
    return figures


async def our_ping_pong() -> tuple[float, float]:
    peers = [OurPeer("a", nothing), OurPeer("b", nothing)]
    for peer in peers:
        await peer.listen()
    a, b = peers

    async def start(back: Receive) -> Callable[[], None]:
        to_a, to_b = (a.address,), (b.address,)
        b.on_message = lambda message: b.network.send(0, to_a, message)
        warm = asyncio.get_running_loop().create_future()
        a.on_message = lambda message: warm.set_result(None)
        a.network.send(0, to_b, MESSAGE)
        await warm
        a.on_message = back
        return lambda: a.network.send(0, to_b, MESSAGE)

    figures = await ping_pong(start)
    for peer in peers:
        await peer.network.close()
    return figures


def run() -> Iterator[Figure]:
    bare_rates, our_rates, bare_hops, our_hops = [], [], [], []
    for _ in range(ROUNDS):
        bare_rates.append(run_loop(bare_relay()))
        our_rates.append(run_loop(our_relay()))
        bare_hops.append(run_loop(bare_ping_pong()))
        our_hops.append(run_loop(our_ping_pong()))
    yield Figure("net: bare relay, one in, three out", max(bare_rates), "msg/s")
    yield Figure("net: relay, one in, three out", max(our_rates), "msg/s")
    yield Figure("net: relay against bare", max(our_rates) / max(bare_rates), "x", ">= 0.4")
    (bare_us, bare_cpu), (our_us, our_cpu) = (
        (min(us for us, _ in hops), min(cpu for _, cpu in hops)) for hops in (bare_hops, our_hops)
    )
    yield Figure("net: bare hop, p50", bare_us, "us")
    yield Figure("net: hop, p50", our_us, "us")
    yield Figure("net: hop against bare", our_us / bare_us, "x", "< 2")
    yield Figure("net: bare hop, CPU", bare_cpu, "us")
    yield Figure("net: hop, CPU", our_cpu, "us")
    yield Figure("net: CPU of a message that arrives alone, against bare", our_cpu / bare_cpu, "x", "< 2")
