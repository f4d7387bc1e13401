"""Who is let in: garbage, silence, strangers and impostors end in one clear line, and the others do not notice."""

import asyncio
from struct import pack
from typing import Any

import msgspec
import pytest

from peerd.net import VERSION, Greeting, NetError, Refusal, inquire
from peerd.net.greeting import encode_first
from tests.net.support import QUICK, Node, free_port, nodes, note, raw, stranger, until
from tests.wire.samples import CODEC


async def still_serves(a: Node, b: Node) -> None:
    a.send(b, note(99))
    await until(lambda: 99 in b.told.numbers())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak"),
        (b"\xff" * 100, "does not speak"),
        (pack(">I", 0), "does not speak"),
        (pack(">I", 3) + b"\xc1\xc1\xc1", "does not speak"),
        (pack(">I", 1 << 20), "does not speak"),
        (encode_first(Refusal("busy", "x")), "opened with a refusal"),
    ],
)
async def test_garbage_is_told_what_this_is_and_closed(data: bytes, reason: str) -> None:
    async with nodes("a", "b") as (a, b), raw(a.at) as client:
        client.say(data)
        first = await client.first()
        assert first is None or isinstance(first, Refusal)
        await client.closed()
        await until(lambda: a.network.stats().handshakes == 0)
        assert len(a.told.rejected_) == 1
        assert reason in a.told.rejected_[0][2]
        assert a.told.rejected_[0][0] is None
        await still_serves(b, a)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x01\x00abc"])
async def test_silence_times_out(data: bytes) -> None:
    async with nodes("a", "b") as (a, b), raw(a.at) as client:
        client.say(data)
        first = await client.first()
        assert isinstance(first, Refusal)
        await client.closed()
        ((sender, _, reason),) = a.told.rejected_
        assert sender is None
        assert "timed out" in reason
        await still_serves(b, a)


async def test_a_probe_that_says_nothing_and_closes_is_nobodys_fault() -> None:
    async with nodes("a") as (a,):
        async with raw(a.at):
            await until(lambda: a.network.stats().handshakes == 1)
        await until(lambda: a.network.stats().handshakes == 0)
        assert a.told.rejected_ == []
        async with raw(a.at) as client:
            client.say(b"\x00\x00")
            await until(lambda: any(c.has_spoken for c in a.network.pairs.half_open))
        await until(lambda: a.told.rejected_)
        assert "during the handshake" in a.told.rejected_[0][2]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"swarm_id": "other"}, "swarm"),
        ({"version": (VERSION[0] + 1, 0)}, "version"),
        ({"version": (VERSION[0], VERSION[1] + 2)}, "version"),
        ({"peer": ""}, "identity"),
        ({"peer": "a", "boot": 7}, "identity"),
        ({"at": "nowhere"}, "identity"),
        ({"at": "host:0"}, "identity"),
    ],
)
async def test_a_stranger_is_refused_in_one_line(changes: dict[str, Any], code: str) -> None:
    async with nodes("a") as (a,), raw(a.at) as client:
        client.greet(stranger(a, **changes))
        first = await client.first()
        assert isinstance(first, Refusal)
        assert first.code == code
        assert first.text
        assert "\n" not in first.text
        assert await client.closed() == b""
        assert len(a.told.rejected_) == 1
        assert first.text in a.told.rejected_[0][2]
        assert a.told.greeted_ == []


async def test_a_version_whose_greeting_cannot_be_read_is_still_told_its_version() -> None:
    async with nodes("a") as (a,), raw(a.at) as client:
        content = msgspec.msgpack.encode({"peerd": "greeting", "version": (9, 0), "swarm_id": {"new": "shape"}})
        client.say(pack(">I", len(content)) + content)
        first = await client.first()
        assert isinstance(first, Refusal)
        assert first.code == "version"
        assert "9.0" in first.text


async def test_the_next_minor_version_is_welcome_with_fields_of_its_own() -> None:
    async with nodes("a") as (a,), raw(a.at) as client:
        fields = msgspec.to_builtins(stranger(a, version=(VERSION[0], VERSION[1] + 1)))
        content = msgspec.msgpack.encode({**fields, "novelty": [1, 2]})
        client.say(pack(">I", len(content)) + content)
        assert isinstance(await client.first(), Greeting)
        await until(lambda: a.told.greeted_)


async def test_a_greeting_in_single_bytes_with_frames_right_behind_it() -> None:
    async with nodes("a") as (a,), raw(a.at) as client:
        frames = b"".join(CODEC.frame(0, 1, CODEC.encode(note(n))) for n in range(3))
        for byte in encode_first(stranger(a)) + frames:
            client.say(bytes([byte]))
            await asyncio.sleep(0)
        await until(lambda: len(a.told.received_) == 3)
        assert a.told.numbers() == [0, 1, 2]


async def test_the_dialler_checks_too() -> None:
    async with nodes("a", "b") as (a, b):
        a.told.swarm_id = "other"
        a.send(b, note(1))
        await until(lambda: a.told.undelivered_)
        assert a.told.returned() == [(1, False)]
        assert "swarm" in a.told.rejected_[0][2]
        assert len(a.told.rejected_) == 1


async def test_a_refused_dialler_gets_its_messages_back_and_the_reason() -> None:
    async with nodes("a", "b") as (a, b):
        b.told.swarm_id = "other"
        a.send(b, note(1))
        await until(lambda: a.told.undelivered_)
        assert a.told.returned() == [(1, False)]
        ((_, at, reason),) = a.told.rejected_
        assert at == b.at
        assert "refused by" in reason
        assert "swarm" in reason
        assert len(b.told.rejected_) == 1


async def test_accepted_connections_are_limited() -> None:
    config = msgspec.structs.replace(QUICK, connections_max=2)
    async with nodes("a", config=config) as (a,), raw(a.at) as one, raw(a.at) as two, raw(a.at) as three:
        for number, client in enumerate((one, two)):
            client.greet(stranger(a, f"s{number}"))
            assert isinstance(await client.first(), Greeting)
        three.greet(stranger(a, "s3"))
        first = await three.first()
        assert isinstance(first, Refusal)
        assert first.code == "busy"
        one.writer.close()
        await until(lambda: a.connections == 1)
        async with raw(a.at) as four:
            four.greet(stranger(a, "s4"))
            assert isinstance(await four.first(), Greeting)


async def test_handshakes_at_once_are_limited() -> None:
    config = msgspec.structs.replace(QUICK, handshakes_max=2, handshake_s=30.0)
    async with nodes("a", config=config) as (a,), raw(a.at) as one, raw(a.at), raw(a.at) as three:
        await until(lambda: a.told.rejected_)
        first = await three.first()
        assert isinstance(first, Refusal)
        assert first.code == "busy"
        one.greet(stranger(a))
        assert isinstance(await one.first(), Greeting)


# --- inquiries --------------------------------------------------------------------------------------------------------


async def test_an_inquiry_learns_the_swarm_and_leaves_nothing_behind() -> None:
    async with nodes("a") as (a,):
        assert await inquire(a.at) == a.greeting()
        await until(lambda: a.network.stats().handshakes == 0)
        assert (a.connections, a.told.rejected_, a.told.greeted_) == (0, [], [])


async def test_an_inquiry_tries_all_addresses_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes("a") as (a,):
        dead = f"127.0.0.1:{free_port()}"

        async def several(at: str) -> list[str]:
            return [dead, a.at] if at == "seeds.test:1" else [at]

        monkeypatch.setattr("peerd.net.dial.resolve", several)
        assert (await inquire("seeds.test:1")).peer == "a"


async def test_an_inquiry_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = f"127.0.0.1:{free_port()}"
    with pytest.raises(NetError, match=f"nobody listens at {dead}"):
        await inquire(dead)
    with pytest.raises(NetError, match="has no port"):
        await inquire("somewhere")

    async def several(at: str) -> list[str]:
        return [dead, dead] if at == "seeds.test:1" else [at]

    monkeypatch.setattr("peerd.net.dial.resolve", several)
    with pytest.raises(NetError, match=r"none of the 2 addresses of seeds\.test:1"):
        await inquire("seeds.test:1")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not a peerd peer"),
        (b"", "closed the connection without an answer"),
        (encode_first(Refusal("version", "speak 9.0")), "refused by .*speak 9.0"),
        (None, "did not answer within 0.2 s"),
    ],
)
async def test_an_inquiry_at_something_else(answer: bytes | None, text: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer is not None:
            await reader.read(10)
            writer.write(answer)
            writer.close()
        else:
            await reader.read()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(NetError, match=text):
        await inquire(f"127.0.0.1:{port}", timeout_s=0.2 if answer is None else 5.0)
    server.close()
    await server.wait_closed()
