"""The end of connections and of networks: idle ones go quietly, a leaving peer flushes first, nothing is left."""

import asyncio
import socket

import msgspec
import pytest

from peerd.net.connection import GOODBYE
from protocols.model.ids import Address
from tests.net.support import HOST, QUICK, Node, event, free_port, nodes, note, raw, stranger, until
from tests.wire.samples import CODEC


async def test_idle_connections_are_closed_quietly_and_opened_again() -> None:
    config = msgspec.structs.replace(QUICK, idle_s=0.2)
    async with nodes("a", "b", config=config) as (a, b):
        a.send(b, note(1))
        await until(lambda: b.told.received_)
        await until(lambda: a.connections == b.connections == 0)
        ends = a.network.stats().closed | b.network.stats().closed
        assert set(ends) <= {"idle", "peer-finished"}
        b.send(a, note(2))
        await until(lambda: a.told.received_)
        assert a.told.undelivered_ == b.told.undelivered_ == []
        assert a.told.rejected_ == b.told.rejected_ == []
        await until(lambda: not len(a.network.remotes), what="a remote that nobody needs is forgotten")


async def test_a_busy_connection_is_not_idle() -> None:
    config = msgspec.structs.replace(QUICK, idle_s=0.3)
    async with nodes("a", "b", config=config) as (a, b):
        loop = asyncio.get_running_loop()
        started, sent = loop.time(), 0
        while loop.time() - started < 1.0:
            a.send(b, note(sent))
            sent += 1
            await asyncio.sleep(0.01)
        await until(lambda: len(b.told.received_) == sent)
        assert (a.network.stats().dialled, b.network.stats().dialled) == (1, 0)


async def test_a_goodbye_while_both_are_talking_loses_nothing() -> None:
    async with nodes("a", "b") as (a, b):
        sent = 0
        for _ in range(20):
            for _ in range(5):
                a.send(b, note(sent))
                b.send(a, note(sent))
                sent += 1
                await asyncio.sleep(0)
            for connection in list(a.network.pairs.connections):
                if connection.is_open:
                    a.network.pairs.retire(connection, "idle")
        await until(lambda: len(a.told.received_) >= sent and len(b.told.received_) >= sent)
        assert a.told.numbers() == b.told.numbers() == list(range(sent))
        assert a.told.undelivered_ == b.told.undelivered_ == []


async def test_closing_sends_what_is_queued() -> None:
    async with nodes("b") as (b,):
        a = Node("a")
        await a.listen()
        for number in range(300):
            a.send(b, event(number, 10_000))
        await a.network.close()  # it has not even dialled yet
        assert a.network.stats().connections == 0
        await until(lambda: len(b.told.received_) == 300)
        await until(lambda: b.connections == 0)
        assert (a.told.undelivered_, a.told.dropped_, b.told.rejected_) == ([], [], [])
        assert b.network.stats().closed == {"peer-finished": 1}


async def test_closing_takes_no_longer_than_allowed_and_says_what_it_left() -> None:
    async with nodes("b") as (b,):
        a = Node("a")
        a.send(b, note(0))
        await until(lambda: b.told.received_)
        (connection,) = b.network.pairs.connections
        connection._transport.pause_reading()
        for number in range(1, 700):
            a.send(b, event(number, 20_000))
        loop = asyncio.get_running_loop()
        started = loop.time()
        await a.network.close(0.2)
        assert loop.time() - started < 1.5
        assert {reason for _, _, reason in a.told.dropped_} == {"closed"}
        assert a.network.stats().dropped["closed"] == len(a.told.dropped_)
        count = len(a.told.dropped_)
        assert count > 100
        a.send(b, event(1))  # too late, and harmless
        await until(lambda: len(a.told.dropped_) == count + 1)
        await a.network.close()


async def test_closing_while_dialling_and_greeting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(at: str) -> list[str]:
        return [at] if at != "slow.test:1" else await asyncio.get_running_loop().create_future()

    monkeypatch.setattr("peerd.net.dial.resolve", slow)
    silent = socket.create_server((HOST, 0))
    port = silent.getsockname()[1]
    tasks = asyncio.all_tasks()
    a = Node("a", config=msgspec.structs.replace(QUICK, connect_s=60.0))
    await a.listen()
    async with raw(a.at):
        a.send(Address("x", 1, 0, f"{HOST}:{port}"), note(1))
        a.send(Address("y", 1, 0, "slow.test:1"), note(2))
        a.send(Address("z", 1, 0, f"{HOST}:{free_port()}"), note(3))
        await until(lambda: a.network.stats().handshakes == 2)
        assert a.network.stats().dialling == 1
        async with asyncio.timeout(5):
            await a.network.close(0.05)
    stats = a.network.stats()
    assert (stats.connections, stats.handshakes, stats.dialling, stats.queues) == (0, 0, 0, ())
    assert asyncio.all_tasks() <= tasks
    silent.close()


async def test_a_closed_network_refuses_and_its_port_is_free() -> None:
    a, b = Node("a"), Node("b")
    await a.listen()
    port = int(a.at.split(":")[1])
    await a.network.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(HOST, port)
    await b.listen(port=port)
    await b.network.close()


async def test_a_port_in_use_is_said_in_one_line() -> None:
    async with nodes("a") as (a,):
        b = Node("b")
        port = int(a.at.split(":")[1])
        with pytest.raises(OSError, match=f"cannot listen on {HOST}:{port}: another process listens there"):
            await b.network.listen(HOST, port)
        with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:0"):
            await b.network.listen("192.0.2.1", 0)
        await b.network.close()


async def test_a_goodbye_is_answered_with_one() -> None:
    async with nodes("a") as (a,), raw(a.at) as client:
        client.greet(stranger(a))
        await client.first()
        client.say(GOODBYE + CODEC.frame(0, 0, CODEC.encode(note(1))) + b"whatever follows is not read")
        assert await client.closed() == GOODBYE
        await until(lambda: a.connections == 0)
        assert (a.told.rejected_, a.told.received_) == ([], [])
