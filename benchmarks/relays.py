"""What `bench_relay` compares, each in a process of its own: a peer, a bare relay, a bare echo.

The process tells its endpoint when it is ready, and its CPU time whenever it is asked. It ends with whoever asks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import process_time
from types import TracebackType
from typing import Any, Final, cast

from benchmarks.bare import Bare
from benchmarks.sample import CODEC
from peerd.config import load
from peerd.daemon import Daemon
from peerd.documents import NewSubscription
from peerd.driver import Driver
from peerd.net import Network
from peerd.net.loop import run as run_loop
from peerd.service import Service
from protocols.broadcast.messages import Flood, LinkAccept, LinkRequest
from protocols.model.box import match
from protocols.model.event import onward
from protocols.model.lint import compile_filter
from protocols.model.schema import STOCKS
from protocols.overlay import Message

FILTER: Final = "symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69"
"""The one subscription of each relay."""
LOOPBACK: Final = "127.0.0.1:0"


async def be_peer(tell: Callable[[str], None]) -> None:
    """A daemon as `peerd` runs it, with its HTTP API, service and metrics, which begins a swarm."""
    endpoint = ""

    def built(driver: Driver, service: Service, network: Network) -> None:
        nonlocal endpoint
        endpoint = driver.peer.me.at
        service.subscriptions.add(NewSubscription(FILTER, retain_max=100_000, idle_s=None))

    settings = load({"overlay": "broadcast", "listen": LOOPBACK, "http": LOOPBACK}, {})
    await Daemon(settings, lambda text: tell(endpoint), built).run()


class BareRelay:
    """Decodes, deduplicates, matches one box, encodes anew and sends to every link but the one that it came by."""

    def __init__(self) -> None:
        self._box = compile_filter(FILTER, STOCKS).boxes[0]
        self._links: list[Bare] = []
        self._seen: set[str] = set()
        self._matched = 0

    def accept(self) -> Bare:
        end = Bare(lambda message: None)
        end.received = partial(self._received, end)
        return end

    def _received(self, end: Bare, message: Message) -> None:
        if isinstance(message, LinkRequest):
            self._links.append(end)
            end.send(CODEC.frame(0, 0, CODEC.encode(LinkAccept())))
            return
        assert isinstance(message, Flood)
        event = message.copy.event
        if event.id in self._seen:
            return
        self._seen.add(event.id)
        if match(self._box, event.point):
            self._matched += 1
        frame = CODEC.frame(0, 0, CODEC.encode(Flood(onward(message.copy))))
        for link in self._links:
            if link is not end:
                link.send(frame)


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


async def serve(protocol: Callable[[], asyncio.Protocol], tell: Callable[[str], None]) -> None:
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    tell(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await server.serve_forever()


ROLES: Final[dict[str, Callable[[Callable[[str], None]], Awaitable[None]]]] = {
    "peer": be_peer,
    "bare": partial(serve, BareRelay().accept),
    "echo": partial(serve, Echo),
}


class Relay(AbstractContextManager["Relay"]):
    """A process with one of the roles. `endpoint` is where it listens."""

    def __init__(self, role: str) -> None:
        context = get_context("spawn")
        self.role = role
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_play, args=(role, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.endpoint: str = self._line.recv()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def cpu_s(self) -> float:
        """What the process has used so far."""
        self._line.send(None)
        return float(self._line.recv())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._line.close()
        self._process.join(5.0)
        if self._process.is_alive():
            self._process.kill()


def _play(role: str, line: "Connection[Any, Any]") -> None:
    with suppress(asyncio.CancelledError):
        run_loop(_until_deserted(role, line))


async def _until_deserted(role: str, line: "Connection[Any, Any]") -> None:
    task = asyncio.current_task()
    assert task is not None

    def answer() -> None:
        try:
            line.recv()
        except EOFError:
            asyncio.get_running_loop().remove_reader(line.fileno())
            task.cancel()
        else:
            line.send(process_time())

    asyncio.get_running_loop().add_reader(line.fileno(), answer)
    await ROLES[role](line.send)
