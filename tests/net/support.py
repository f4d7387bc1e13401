"""Peers for the tests: networks on loopback whose receiver writes down what it is told."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec

from peerd.net import Greeting, NetConfig, Network, Refusal
from peerd.net.greeting import FirstFrame, encode_first
from peerd.wire import Frame
from protocols.model.box import Point
from protocols.model.event import Copy, Event
from protocols.model.ids import PEER_SLOT, Address
from protocols.overlay import Message
from tests.wire.samples import CODEC, Carry, Note

HOST = "127.0.0.1"
QUICK = NetConfig(handshake_s=0.3, connect_s=0.5, give_up_s=0.6, backoff_s=0.02, backoff_max_s=0.1, drain_s=0.3)


async def until(condition: Callable[[], object], within_s: float = 10.0, what: str = "") -> None:
    """Wait for a condition, and fail if it does not come true."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, what or "the condition did not come true"
        await asyncio.sleep(0.002)


def note(number: int) -> Note:
    """A control message."""
    return Note("n", number)


def event(number: int, size: int = 10) -> Carry:
    return Carry(Copy(Event(f"p-1-{number}", Point((1,)), bytes(size))))


class Recorder:
    def __init__(self) -> None:
        self.received_: list[tuple[Address, int, Any, int]] = []
        self.undelivered_: list[tuple[int, Address, Any, bool]] = []
        self.dropped_: list[tuple[Address, Any, str]] = []
        self.rejected_: list[tuple[Address | None, str, str]] = []
        self.greeted_: list[Greeting] = []
        self.swarm_id = "swarm"
        self.on_received: Callable[[Address, int, Message], None] | None = None

    def received(self, sender: Address, slot: int, message: Message, size: int) -> None:
        self.received_.append((sender, slot, message, size))
        if self.on_received is not None:
            self.on_received(sender, slot, message)

    def arrived(self, frames: Iterator[Frame], senders: Mapping[int, Address]) -> None:
        for each in frames:
            self.received(senders[each.src_slot], each.dst_slot, each.message, each.size)

    def undelivered(self, slot: int, to: Address, message: Message, refused: bool) -> None:
        self.undelivered_.append((slot, to, message, refused))

    def dropped(self, to: Address, message: Message, reason: str) -> None:
        self.dropped_.append((to, message, reason))

    def rejected(self, sender: Address | None, at: str, reason: str) -> None:
        self.rejected_.append((sender, at, reason))

    def accepts(self, greeting: Greeting) -> Refusal | None:
        if greeting.swarm_id != self.swarm_id:
            return Refusal("swarm", f"this peer is of swarm {self.swarm_id}, not {greeting.swarm_id}")
        return None

    def greeted(self, greeting: Greeting) -> None:
        self.greeted_.append(greeting)

    def numbers(self) -> list[int]:
        return [message.number for _, _, message, _ in self.received_ if isinstance(message, Note)]

    def events(self) -> list[int]:
        return [_number(message) for _, _, message, _ in self.received_ if isinstance(message, Carry)]

    def returned(self) -> list[tuple[int, bool]]:
        """Numbers of the messages that came back, and whether as refused."""
        return [
            (message.number if isinstance(message, Note) else _number(message), refused)
            for _, _, message, refused in self.undelivered_
        ]


def _number(message: Carry) -> int:
    return int(message.copy.event.id.rsplit("-", 1)[1])


class Node:
    """A network with its receiver; `at` is fixed once it listens."""

    def __init__(self, peer: str, boot: int = 1, config: NetConfig = QUICK, **kwargs: Any) -> None:
        self.peer, self.boot = peer, boot
        self.at = f"{HOST}:1"
        self.told = Recorder()
        self.greeting_changes: dict[str, Any] = {}
        self.network = Network(self.greeting, CODEC, self.told, config, Random(1), **kwargs)

    def greeting(self) -> Greeting:
        own = Greeting(
            swarm_id="swarm",
            swarm="test",
            overlay="broadcast",
            parameters={"links": 6, "rate": 0.5, "fast": True, "mode": "x"},
            schema=[{"name": "price", "type": "float", "min": 0.0, "max": 20.0, "precision": 0.01}],
            schema_version=1,
            peer=self.peer,
            boot=self.boot,
            at=self.at,
        )
        return msgspec.structs.replace(own, **self.greeting_changes)

    async def listen(self, host: str = HOST, port: int = 0) -> None:
        bound = await self.network.listen(host, port)
        self.at = f"{bound[0]}:{bound[1]}"

    def address(self, slot: int = PEER_SLOT) -> Address:
        return Address(self.peer, self.boot, slot, self.at)

    def send(self, to: "Node | Address", *messages: Message, slot: int = PEER_SLOT) -> None:
        address = to.address() if isinstance(to, Node) else to
        for message in messages:
            self.network.send(slot, (address,), message)

    @property
    def connections(self) -> int:
        return self.network.stats().connections


@asynccontextmanager
async def nodes(
    *peers: str | tuple[str, int], config: NetConfig = QUICK, **kwargs: Any
) -> AsyncIterator[tuple[Node, ...]]:
    """Listening peers, closed in the end, after which nothing of them may be left."""
    before = asyncio.all_tasks()
    made = []
    for peer in peers:
        id_, boot = (peer, 1) if isinstance(peer, str) else peer
        node = Node(id_, boot, config, **kwargs)
        await node.listen()
        made.append(node)
    try:
        yield tuple(made)
    finally:
        for node in made:
            await node.network.close(0.5)
            stats = node.network.stats()
            assert (stats.connections, stats.handshakes, stats.dialling) == (0, 0, 0)
        assert asyncio.all_tasks() <= before


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Raw:
    """A bare TCP client, for saying what no peer would say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    def greet(self, greeting: Greeting) -> None:
        self.say(encode_first(greeting))

    async def first(self) -> Greeting | Refusal | None:
        """The other side's first frame; None if it closes without one."""
        frame = FirstFrame()
        while data := await self._read():
            found = frame.feed(data)
            if found is not None:
                return found
        return None

    async def closed(self) -> bytes:
        """Everything up to the end of the connection."""
        got = b""
        while data := await self._read():
            got += data
        return got

    async def _read(self) -> bytes:
        try:
            async with asyncio.timeout(10):
                return await self.reader.read(4096)
        except ConnectionError:
            return b""


@asynccontextmanager
async def raw(at: str, **kwargs: Any) -> AsyncIterator[Raw]:
    host, port = at.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port), **kwargs)
    try:
        yield Raw(reader, writer)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


def stranger(node: Node, peer: str = "stranger", **changes: Any) -> Greeting:
    """The greeting of a peer that the node would take."""
    own = {"peer": peer, "boot": 1, "at": "127.0.0.1:9", **changes}
    return msgspec.structs.replace(node.greeting(), **own)
