"""Messages between peers in calm: both ways, in order, over one connection, in as few writes as possible."""

import asyncio
from typing import Any

import pytest

from peerd.net.endpoints import join_endpoint
from peerd.wire import Unencodable
from protocols.broadcast.messages import LinkAccept
from protocols.model.ids import Address, endpoint
from tests.net.support import Node, event, nodes, note, until
from tests.wire.samples import EXAMPLES, Ping


async def test_messages_arrive_once_in_order_with_slots_and_size() -> None:
    async with nodes("a", "b") as (a, b):
        for number in range(500):
            a.network.send(3, (b.address(300),), note(number))
        await until(lambda: len(b.told.received_) >= 500)
        assert b.told.numbers() == list(range(500))
        sender, slot, _, size = b.told.received_[0]
        assert (sender, slot) == (a.address(3), 300)
        assert size > 10
        b.network.send(-1, (sender,), Ping())
        await until(lambda: a.told.received_)
        assert a.told.received_[0][:3] == (b.address(), 3, Ping())
        assert a.connections == b.connections == 1
        assert [g.peer for g in a.told.greeted_] == ["b"]
        assert [g.peer for g in b.told.greeted_] == ["a"]
        assert (a.told.undelivered_, a.told.rejected_, b.told.rejected_) == ([], [], [])


async def test_every_kind_of_message_survives() -> None:
    async with nodes("a", "b") as (a, b):
        a.send(b, *EXAMPLES)
        await until(lambda: len(b.told.received_) == len(EXAMPLES))
        assert {type(m): m for _, _, m, _ in b.told.received_} == {type(m): m for m in EXAMPLES}


async def test_a_large_message_and_many_small_ones() -> None:
    async with nodes("a", "b") as (a, b):
        for number in range(300):
            a.send(b, event(number, 60_000 if number % 10 == 0 else 20))
        await until(lambda: len(b.told.received_) == 300)
        assert b.told.events() == list(range(300))


async def test_one_message_to_many_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes("a", "b", "c", "d") as (a, *others):
        encoded: list[Any] = []
        codec = a.network.outbox.codec

        class Counting:
            frame = staticmethod(codec.frame)

            def encode(self, message: Any) -> bytes:
                encoded.append(message)
                return codec.encode(message)

        monkeypatch.setattr(a.network.outbox, "codec", Counting())
        a.network.send(0, tuple(node.address(slot) for slot, node in enumerate(others)), note(1))
        monkeypatch.setattr(a.network.outbox, "codec", codec)
        await until(lambda: all(node.told.received_ for node in others))
        assert [node.told.received_[0][1] for node in others] == [0, 1, 2]
        assert len(encoded) == 1


class Writes:
    """Counts what goes through a transport."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        (connection,) = node.network.pairs.connections
        transport = connection._transport
        write = transport.write

        def counting(data: bytes) -> None:
            self.sizes.append(len(data))
            write(data)

        class Wrapped:
            def __getattr__(self, name: str) -> Any:
                return counting if name == "write" else getattr(transport, name)

        monkeypatch.setattr(connection, "_transport", Wrapped())


async def test_what_one_turn_sends_leaves_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes("a", "b") as (a, b):
        a.send(b, note(0))
        await until(lambda: b.told.received_)
        writes = Writes(a, monkeypatch)
        a.send(b, *map(note, range(1, 50)))
        asyncio.get_running_loop().call_soon(a.send, b, note(50))  # runs after the flush: the next turn's
        assert writes.sizes == []
        await until(lambda: len(b.told.received_) == 51)
        assert len(writes.sizes) == 2
        assert b.told.numbers() == list(range(51))


async def test_control_goes_before_events() -> None:
    async with nodes("a", "b") as (a, b):
        a.send(b, event(1), note(1), event(2), note(2))
        await until(lambda: len(b.told.received_) == 4)
        assert [type(m).__name__ for _, _, m, _ in b.told.received_] == ["Note", "Note", "Carry", "Carry"]


async def test_whoever_answers_at_an_endpoint_gets_the_message() -> None:
    async with nodes("a", "b") as (a, b):
        a.send(endpoint(b.at), note(1), note(2))
        await until(lambda: len(b.told.received_) == 2)
        assert b.told.received_[0][:2] == (a.address(), -1)
        a.send(endpoint(b.at), note(3))  # by the connection that stands there already
        a.send(b, note(4))
        await until(lambda: len(b.told.received_) == 4)
        assert b.told.numbers() == [1, 2, 3, 4]
        assert a.network.stats().dialled == 1


async def test_an_endpoint_under_another_name_leads_to_the_same_connection() -> None:
    async with nodes("a", "b") as (a, b):
        a.send(b, note(1))
        await until(lambda: b.told.received_)
        a.send(endpoint(b.at.replace("127.0.0.1", "localhost")), note(2))
        await until(lambda: len(b.told.received_) == 2)
        await until(lambda: a.connections == b.connections == 1)
        a.send(b, note(3))
        b.send(a, note(4))
        await until(lambda: len(b.told.received_) == 3 and a.told.received_)
        assert b.told.numbers() == [1, 2, 3]
        assert a.told.undelivered_ == b.told.undelivered_ == []


async def test_the_own_endpoint_gives_the_message_back_as_received() -> None:
    async with nodes("a") as (a,):
        a.network.send(-1, (endpoint(a.at),), note(1))
        assert a.told.received_ == []  # not from within send
        await until(lambda: a.told.received_)
        assert a.told.received_[0][:3] == (a.address(), -1, note(1))
        await until(lambda: a.connections == 0 and a.network.stats().handshakes == 0)
        assert a.told.rejected_ == []
        a.network.send(2, (a.address(5),), note(2))
        await until(lambda: len(a.told.received_) == 2)
        assert a.told.received_[1][:2] == (a.address(2), 5)


async def test_another_life_of_oneself_is_over() -> None:
    async with nodes(("a", 5)) as (a,):
        a.send(Address("a", 4, 0, a.at), note(1))
        await until(lambda: a.told.undelivered_)
        assert a.told.returned() == [(1, True)]


async def test_a_fault_of_the_receiver_is_loud_and_costs_one_message() -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    async with nodes("a", "b") as (a, b):

        def fail(sender: Address, slot: int, message: Any) -> None:
            if message == note(2):
                raise ZeroDivisionError

        b.told.on_received = fail
        a.send(b, note(1), note(2), note(3))
        await until(lambda: len(b.told.received_) == 3)
        assert [type(fault["exception"]) for fault in faults] == [ZeroDivisionError]
        assert b.connections == 1


async def test_what_cannot_be_encoded_is_the_callers_fault() -> None:
    async with nodes("a", "b") as (a, b):
        with pytest.raises(Unencodable):
            a.send(b, LinkAccept())
        with pytest.raises(Unencodable):
            a.send(b, event(1, 400_000))


async def test_ipv6() -> None:
    async with nodes("a") as (a,):
        b = Node("b")
        try:
            host, port = await b.network.listen("::1", 0)
        except OSError:
            pytest.skip("this machine has no IPv6")
        b.at = join_endpoint(host, port)
        assert b.at.startswith("[::1]:")
        a.send(b, note(1))
        await until(lambda: b.told.received_)
        assert b.told.received_[0][0] == a.address()
        await b.network.close()


async def test_traffic_is_counted_by_type_and_direction() -> None:
    async with nodes("a", "b") as (a, b):
        a.send(b, note(1), note(2), event(3))
        await until(lambda: len(b.told.received_) == 3)
        sent = {t.message: (t.sent, t.sent_bytes, t.received) for t in a.network.stats().traffic}
        got = {t.message: (t.received, t.received_bytes, t.sent) for t in b.network.stats().traffic}
        assert sent == got
        assert sent["note"][0] == 2
        assert sent["carry"][1] == b.told.received_[2][3]
        (queue,) = a.network.stats().queues
        assert (queue.peer, queue.connected, queue.control, queue.events) == ("b", True, 0, 0)
