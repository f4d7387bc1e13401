"""A network on either event loop."""

import asyncio
import sys
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from peerd.net import Greeting, loop
from peerd.net.dial import connect
from tests.net.support import Node, event, nodes, note, until


async def exchange() -> str:
    async with nodes("a", "b") as (a, b):
        for number in range(50):
            a.send(b, note(number), event(number, 20_000))
            b.send(a, note(number))
        await until(lambda: len(b.told.received_) == 100 and len(a.told.received_) == 50)
        await until(lambda: a.connections == b.connections == 1)
        assert b.told.numbers() == a.told.numbers() == b.told.events() == list(range(50))
    return type(asyncio.get_running_loop()).__module__


def test_the_standard_loop() -> None:
    assert loop.run(exchange(), fast=False).startswith("asyncio")


def test_uvloop() -> None:
    pytest.importorskip("uvloop")
    assert loop.run(exchange()).startswith("uvloop")


def test_without_uvloop_the_standard_loop_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop.loop_factory() is None


def test_with_uvloop_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def new() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[-1]  # type: ignore[no-any-return]

    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=new))

    async def which() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert loop.run(which()) is made[0]


class Slow(asyncio.Protocol):
    """Keeps the loop busy until the dial's time is over, when the connection has just been made: a busy machine."""

    def __init__(self, busy_s: float) -> None:
        self._busy_s = busy_s
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by type
        time.sleep(self._busy_s)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True


async def made_in_the_last_moment() -> None:
    """Whatever becomes of the dial: who was told of a connection hears of its end."""
    loop_, made = asyncio.get_running_loop(), Slow(0.4)
    server = await loop_.create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        assert await connect(lambda: made, f"127.0.0.1:{port}", 0.3) is made
        made.transport.write(b"it lives")  # uvloop raises if it was closed in silence
        assert not made.is_lost
    finally:
        made.transport.close()
        server.close()
    await until(lambda: made.is_lost)


async def cancelled_when_made() -> None:
    """A network that closes cancels its dials, one of them between its connection's beginning and its own end."""
    a, b = Node("a"), Node("b")
    await b.listen()

    def greeting() -> Greeting:
        for task in a.network.dialler.tasks:
            task.cancel()
        return Node.greeting(a)

    a.greeting = a.network.pairs._greeting = greeting  # type: ignore[method-assign]
    a.send(b, note(1))
    await until(lambda: a.network.stats().dialled and not a.network.dialler.tasks)
    async with asyncio.timeout(2):
        await a.network.close(0.0)
    assert a.network.stats().connections == a.network.stats().handshakes == 0
    await b.network.close()


@pytest.mark.parametrize("fast", [False, True])
def test_a_dial_that_is_cancelled_when_it_has_succeeded_leaves_nothing_behind(fast: bool) -> None:
    if fast:
        pytest.importorskip("uvloop")
    loop.run(cancelled_when_made(), fast=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_a_connection_that_is_made_in_the_last_moment_is_not_cut_in_silence(fast: bool) -> None:
    if fast:
        pytest.importorskip("uvloop")
    loop.run(made_in_the_last_moment(), fast=fast)
