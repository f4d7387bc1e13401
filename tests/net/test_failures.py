"""What becomes of messages when the other side is away, dies, comes back as somebody else, or dials as well."""

import asyncio
import socket
from random import Random

import msgspec
import pytest

from peerd.net import Greeting, Refusal
from peerd.net.connection import GOODBYE
from protocols.model.ids import Address, endpoint
from tests.net.support import HOST, QUICK, Node, event, free_port, nodes, note, raw, stranger, until
from tests.wire.samples import CODEC


async def test_nobody_listens_is_proof_of_death() -> None:
    async with nodes("a") as (a,):
        gone = Address("gone", 1, 0, f"{HOST}:{free_port()}")
        a.send(gone, note(1), event(2))
        assert a.told.undelivered_ == []  # not from within send
        await until(lambda: len(a.told.undelivered_) == 2)
        assert a.told.undelivered_[0] == (-1, gone, note(1), True)
        assert a.told.returned() == [(1, True), (2, True)]
        a.send(endpoint(gone.at), note(3))
        await until(lambda: len(a.told.undelivered_) == 3)
        assert a.told.returned()[2] == (3, True)


async def test_an_endpoint_that_cannot_be_dialled_comes_back() -> None:
    async with nodes("a") as (a,):
        a.send(endpoint("nonsense"), note(1))
        a.send(endpoint("no-such-host.invalid:1"), note(2))
        await until(lambda: len(a.told.undelivered_) == 2)
        assert sorted(a.told.returned()) == [(1, False), (2, False)]


async def test_somebody_else_lives_there_now() -> None:
    async with nodes("a", ("b", 5)) as (a, b):
        a.send(Address("c", 1, 0, b.at), note(1))
        a.send(Address("b", 6, 0, b.at), note(2))
        a.send(Address("b", 4, 0, b.at), note(3))
        await until(lambda: len(a.told.undelivered_) == 3)
        assert sorted(a.told.returned()) == [(1, True), (2, True), (3, True)]
        assert b.told.received_ == []
        a.send(b, note(4))
        await until(lambda: b.told.received_)
        await until(lambda: a.connections == b.connections == 1)
        a.send(Address("b", 4, 0, b.at), note(5))  # known to be over by now
        await until(lambda: len(a.told.undelivered_) == 4)
        assert a.told.returned()[3] == (5, True)


async def test_a_broken_connection_gives_the_queue_back_and_the_next_send_dials_again() -> None:
    async with nodes("a", "b") as (a, b):
        a.send(b, note(1))
        await until(lambda: b.told.received_)
        (connection,) = b.network.pairs.connections
        connection._transport.pause_reading()
        for number in range(2, 700):
            a.send(b, event(number, 20_000))
        (sending,) = a.network.pairs.connections
        await until(lambda: sending.paused)
        handed = [entry[3] for entry in sending.handed]
        assert handed
        connection.abort("test")
        await until(lambda: a.told.undelivered_)
        assert len(a.told.undelivered_) > 100
        assert [message for _, _, message, _ in a.told.undelivered_][: len(handed)] == handed
        assert not any(refused for _, refused in a.told.returned())
        numbers = [number for number, _ in a.told.returned()]
        assert numbers == list(range(numbers[0], 700))  # the unsent tail, the chunk under way included
        a.send(b, note(5000))
        await until(lambda: 5000 in b.told.numbers())
        assert b.told.numbers() == [1, 5000]
        assert a.network.stats().dialled == 2


async def test_a_write_that_raises_concerns_nobody_but_its_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    async with nodes("a", "b", "c", "d") as (a, b, c, d):
        for number, to in enumerate((b, c, d)):
            a.send(to, note(number))
        await until(lambda: b.told.received_ and c.told.received_ and d.told.received_)
        (connection,) = (each for each in a.network.pairs.connections if each.at == b.at)

        def closed(data: bytes) -> None:
            raise RuntimeError("unable to perform operation; the handler is closed")

        monkeypatch.setattr(connection._transport, "write", closed)
        for number in (3, 4):
            for to in (b, c, d):
                a.send(to, note(number))
        await until(lambda: len(a.told.undelivered_) == 2)
        assert a.told.returned() == [(3, False), (4, False)]
        assert [str(fault["exception"])[:6] for fault in faults] == ["unable"]
        assert a.network.stats().closed == {"write-failed": 1}
        for to in (b, c, d):
            a.send(to, note(5))
        await until(lambda: all(5 in each.told.numbers() for each in (b, c, d)))
        assert (b.told.numbers(), c.told.numbers(), d.told.numbers()) == ([0, 5], [1, 3, 4, 5], [2, 3, 4, 5])


async def test_a_dead_peer_is_noticed_by_the_next_message() -> None:
    async with nodes("a") as (a,):
        b = Node("b")
        await b.listen()
        a.send(b, note(1))
        await until(lambda: b.told.received_)
        await b.network.close()
        await until(lambda: a.connections == 0)
        a.send(b, note(2))
        await until(lambda: a.told.undelivered_)
        assert a.told.returned() == [(2, True)]


async def test_messages_wait_for_a_peer_that_is_slow_to_answer() -> None:
    """A listener that answers nobody, then one that does, at the same place."""
    async with nodes("a") as (a,):
        silent = socket.create_server((HOST, 0))
        b = Node("b")
        b.at = f"{HOST}:{silent.getsockname()[1]}"
        a.send(b, note(1))
        await until(lambda: a.network.stats().dialled == 1)
        a.send(b, note(2))
        silent.close()
        await b.listen(port=int(b.at.split(":")[1]))
        await until(lambda: len(b.told.received_) == 2)
        assert b.told.numbers() == [1, 2]
        await b.network.close()


async def test_unreachable_for_long_enough_comes_back() -> None:
    config = msgspec.structs.replace(QUICK, handshake_s=0.1, give_up_s=0.5)
    async with nodes("a", config=config) as (a,):
        silent = socket.create_server((HOST, 0))
        to = Address("b", 1, 0, f"{HOST}:{silent.getsockname()[1]}")
        loop = asyncio.get_running_loop()
        started = loop.time()
        a.send(to, note(1))
        await until(lambda: a.told.undelivered_)
        assert 0.4 <= loop.time() - started < 2.0
        assert a.told.returned() == [(1, False)]
        assert a.network.stats().dialled > 1
        assert all("handshake" in reason for _, _, reason in a.told.rejected_)
        silent.close()


async def test_dials_back_off() -> None:
    config = msgspec.structs.replace(QUICK, backoff_s=0.1, backoff_refused_max_s=0.2, give_up_s=5.0)
    async with nodes("a", config=config) as (a,):
        to = Address("b", 1, 0, f"{HOST}:{free_port()}")
        loop = asyncio.get_running_loop()
        started = loop.time()
        for number in range(3):
            a.send(to, note(number))
            await until(lambda n=number: len(a.told.undelivered_) == n + 1)  # type: ignore[misc]
        assert loop.time() - started >= 0.75 * (0.1 + 0.2)


async def test_all_addresses_of_a_name_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes("a", "b") as (a, b):

        async def several(at: str) -> list[str]:
            return [f"{HOST}:{free_port()}", b.at]

        monkeypatch.setattr("peerd.net.dial.resolve", several)
        a.send(endpoint("seeds.test:6470"), note(1))
        await until(lambda: b.told.received_)
        assert a.told.undelivered_ == []


# --- two connections --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
async def test_both_dial_at_once(seed: int) -> None:
    """Nothing is lost, doubled or overtaken, and one connection remains: the one that the lower id dialled."""
    rng = Random(seed)
    async with nodes("a", "b") as (a, b):
        pairs = [(a, b), (b, a)]
        sent = {"a": 0, "b": 0}
        for _ in range(60):
            for origin, target in pairs if rng.random() < 0.5 else reversed(pairs):
                for _ in range(rng.randrange(1, 4)):
                    origin.send(target, note(sent[origin.peer]))
                    sent[origin.peer] += 1
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
        await until(lambda: len(a.told.received_) >= sent["b"] and len(b.told.received_) >= sent["a"])
        await until(lambda: a.connections == b.connections == 1)
        assert a.told.numbers() == list(range(sent["b"]))
        assert b.told.numbers() == list(range(sent["a"]))
        assert a.told.undelivered_ == b.told.undelivered_ == []
        assert a.network.stats().dialled == b.network.stats().dialled == 1
        (kept,) = a.network.pairs.connections
        assert kept.dialled == b.at


async def test_a_switch_waits_for_the_former_connection_to_end() -> None:
    """The higher id's connection carries frames; the lower id's comes up and must not be read before they are."""
    async with nodes("b") as (b,), raw(b.at) as old, raw(b.at) as new:
        first = stranger(b, "a", dial=1)
        old.greet(first)
        assert isinstance(await old.first(), Greeting)
        await until(lambda: b.connections == 1)
        new.greet(msgspec.structs.replace(first, dial=2))
        new.say(CODEC.frame(0, 0, CODEC.encode(note(2))))
        assert isinstance(await new.first(), Greeting)
        assert await old.reader.readexactly(4) == GOODBYE
        old.say(CODEC.frame(0, 0, CODEC.encode(note(1))))
        await until(lambda: b.told.received_)
        assert b.told.numbers() == [1]
        old.say(GOODBYE)
        await until(lambda: len(b.told.received_) == 2)
        assert b.told.numbers() == [1, 2]
        assert b.told.rejected_ == []
        assert await old.closed() == b""


async def test_a_former_connection_that_never_ends_does_not_hold_up_the_new_one_for_ever() -> None:
    async with nodes("b") as (b,), raw(b.at) as old, raw(b.at) as new:
        old.greet(stranger(b, "a", dial=1))
        await old.first()
        new.greet(stranger(b, "a", dial=2))
        new.say(CODEC.frame(0, 0, CODEC.encode(note(2))))
        await until(lambda: b.told.received_)
        assert b.network.stats().closed == {"switched": 1}


async def test_a_later_boot_replaces_the_earlier_one() -> None:
    async with nodes("a", ("b", 1)) as (a, b):
        a.send(b, note(1))
        await until(lambda: b.told.received_)
        (connection,) = b.network.pairs.connections
        connection._transport.pause_reading()
        for number in range(2, 500):
            a.send(b, event(number, 20_000))
        (sending,) = a.network.pairs.connections
        await until(lambda: sending.paused)
        async with raw(a.at) as client:
            handed = [entry[3] for entry in sending.handed]
            assert handed
            client.greet(stranger(a, "b", boot=2, at=b.at))
            assert isinstance(await client.first(), Greeting)
            await until(lambda: a.told.undelivered_)
            numbers = [number for number, _ in a.told.returned()]
            assert numbers == list(range(numbers[0], 500))  # the unsent tail
            assert handed[-1] in [message for _, _, message, _ in a.told.undelivered_]
            assert all(refused for _, refused in a.told.returned())
            await until(lambda: a.connections == 1)
            count = len(numbers)
            a.send(b, note(600))
            await until(lambda: len(a.told.undelivered_) == count + 1)
            assert a.told.returned()[-1] == (600, True)
            async with raw(a.at) as former:
                former.greet(stranger(a, "b", boot=1, at=b.at))
                answer = await former.first()
                assert isinstance(answer, Refusal)
                assert answer.code == "identity"


# --- bad frames -------------------------------------------------------------------------------------------------------


async def test_a_bad_frame_costs_that_frame_only() -> None:
    async with nodes("a") as (a,), raw(a.at) as client:
        client.greet(stranger(a))
        await client.first()
        client.say(CODEC.frame(0, 0, CODEC.encode(note(1))))
        client.say(b"\x00\x00\x00\x03\x93\x00\xc1")
        client.say(CODEC.frame(0, 0, CODEC.encode(note(2))))
        await until(lambda: len(a.told.received_) == 2)
        ((sender, _, reason),) = a.told.rejected_
        assert sender is not None
        assert sender.peer == "stranger"
        assert "malformed" in reason
        assert a.connections == 1


async def test_too_many_bad_frames_end_the_connection() -> None:
    config = msgspec.structs.replace(QUICK, bad_frames_max=3)
    async with nodes("a", config=config) as (a,), raw(a.at) as client:
        client.greet(stranger(a))
        await client.first()
        client.say(b"\x00\x00\x00\x01\xc1" * 10)
        await client.closed()
        await until(lambda: a.connections == 0)
        assert a.network.stats().closed == {"bad-frames": 1}
        assert a.network.stats().rejected == len(a.told.rejected_)


async def test_a_frame_that_is_too_large_ends_the_connection() -> None:
    async with nodes("a") as (a,), raw(a.at) as client:
        client.greet(stranger(a))
        await client.first()
        client.say(b"\x7f\xff\xff\xff" + bytes(100))
        await client.closed()
        assert len(a.told.rejected_) == 1
        assert "too large" in a.told.rejected_[0][2]
        assert a.network.stats().closed == {"frame-too-large": 1}


async def test_half_a_frame_then_silence_is_cut_when_idle() -> None:
    config = msgspec.structs.replace(QUICK, idle_s=0.2)
    async with nodes("a", config=config) as (a,), raw(a.at) as client:
        client.greet(stranger(a))
        await client.first()
        client.say(b"\x00\x00\x00\x09abc")
        await client.closed()
        ((sender, _, reason),) = a.told.rejected_
        assert sender is not None
        assert "fell silent" in reason
