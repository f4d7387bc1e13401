"""Addresses that somebody invented: they may cost a bounded number of remotes, tasks and sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from protocols.model.ids import Address, endpoint
from tests.net.support import HOST, QUICK, Node, event, free_port, nodes, note, raw, stranger, until

FEW = msgspec.structs.replace(QUICK, unconnected_max=4)
SLOW = msgspec.structs.replace(QUICK, dials_max=4, handshake_s=60.0, give_up_s=60.0)


@asynccontextmanager
async def silent() -> AsyncIterator[str]:
    """Where connections are taken and nothing is ever said."""
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), HOST, 0)
    try:
        yield f"{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await server.wait_closed()


def invent(a: Node, count: int, at: str) -> None:
    for number in range(count):
        a.send(Address(f"invented{number}", 1, 0, at), note(number) if number % 2 else event(number))


async def test_remotes_without_a_connection_are_bounded() -> None:
    config = msgspec.structs.replace(FEW, handshake_s=60.0, give_up_s=60.0)
    async with nodes("a", "b", config=config) as (a, b), silent() as at:
        a.send(b, note(0))
        await until(lambda: b.told.received_)
        invent(a, 10, at)
        a.send(endpoint(at), note(10))
        assert a.told.undelivered_ == []  # not from within send
        await until(lambda: len(a.told.undelivered_) == 7)
        assert a.told.returned() == [(number, False) for number in range(4, 11)]
        stats = a.network.stats()
        assert (stats.crowded_out, stats.undelivered, len(stats.queues)) == (7, 7, 5)
        a.send(b, note(1))  # who is connected does not suffer
        a.send(Address("invented0", 1, 0, at), note(11))  # nor is more refused to those that there are
        await until(lambda: len(b.told.received_) == 2)
        assert len(a.told.undelivered_) == 7


async def test_what_nothing_waits_for_makes_room() -> None:
    async with nodes("a", "b", config=FEW) as (a, b):
        invent(a, 4, f"{HOST}:{free_port()}")
        await until(lambda: len(a.told.undelivered_) == 4)
        before = a.network.stats().crowded_out  # a second dial may have found the first ones still ending
        a.send(b, note(1))
        await until(lambda: b.told.received_)
        assert a.network.stats().crowded_out == before


async def test_peers_that_come_and_go_are_forgotten() -> None:
    async with nodes("a", config=FEW) as (a,):
        for number in range(12):
            async with raw(a.at) as client:
                client.greet(stranger(a, f"visitor{number}"))
                await client.first()
            await until(lambda: a.connections == 0)
            assert len(a.network.stats().queues) <= 4
        assert len(a.told.greeted_) == 12


async def test_dials_are_bounded() -> None:
    async with nodes("a", "b", config=SLOW) as (a, b), silent() as at:
        invent(a, 10, at)
        assert a.told.undelivered_ == []
        await until(lambda: len(a.told.undelivered_) == 6)
        assert sorted(a.told.returned()) == [(number, False) for number in range(4, 10)]
        await until(lambda: a.network.stats().handshakes == 4)
        await until(lambda: a.network.stats().dialling == 0)
        a.send(b, note(20))  # the handshakes count as well
        await until(lambda: len(a.told.undelivered_) == 7)
        assert a.network.stats().crowded_out == 7


async def test_a_dial_that_ended_makes_room() -> None:
    config = msgspec.structs.replace(QUICK, dials_max=4)
    async with nodes("a", "b", config=config) as (a, b), silent() as at:
        invent(a, 4, at)
        await until(lambda: len(a.told.undelivered_) == 4, what="nobody answers")
        await until(lambda: a.network.stats().handshakes + a.network.stats().dialling == 0)
        before = a.network.stats().crowded_out  # a second dial may have found the first ones still ending
        a.send(b, note(1))
        await until(lambda: b.told.received_)
        assert a.network.stats().crowded_out == before
