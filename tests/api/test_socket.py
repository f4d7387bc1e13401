"""One WebSocket for all."""

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from peerd.api import ApiConfig
from tests.support.http import Site
from tests.support.waiting import until


class Socket:
    """A client that sends and receives JSON."""

    def __init__(self, site: Site, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.site = site
        self.socket = socket

    async def say(self, **message: Any) -> None:
        await self.socket.send_str(msgspec.json.encode(message).decode())

    async def hear(self) -> Any:
        return msgspec.json.decode(await self.socket.receive_str(timeout=5))

    async def ask(self, **message: Any) -> Any:
        await self.say(**message)
        return await self.hear()


async def connect(site: Site, to: int = 0, **headers: str) -> Socket:
    return Socket(site, await site.session.ws_connect(site.url("/v1/ws", to), headers=headers))


async def test_subscribe_publish_deliver_unsubscribe(sites: Site) -> None:
    one, other = await connect(sites), await connect(sites, to=1)
    subscribed = await one.ask(op="subscribe", ref=1, filter="price > 8")
    assert (subscribed["op"], subscribed["ref"]) == ("ok", 1)
    id_ = subscribed["subscription_id"]
    assert subscribed["subscription"]["state"] == "active"
    published = await other.ask(op="publish", ref="p", event={"attributes": {"price": 9}})
    assert (published["op"], published["ref"]) == ("ok", "p")
    delivered = await one.hear()
    assert (delivered["op"], delivered["subscription_id"]) == ("delivery", id_)
    assert delivered["delivery"]["event_id"] == published["id"]
    gone = await one.ask(op="unsubscribe", ref=2, subscription_id=id_)
    assert gone == {"op": "ok", "ref": 2, "subscription_id": id_}
    assert len(sites.peers[0].service.subscriptions) == 0


async def test_its_subscriptions_end_with_it(site: Site) -> None:
    service = site.peers[0].service
    socket = await connect(site)
    for ref in range(3):
        await socket.ask(op="subscribe", ref=ref, filter="TRUE")
    assert len(service.subscriptions) == 3
    await socket.socket.close()
    await until(lambda: len(service.subscriptions) == 0)


async def test_a_standing_subscription_is_attached_to_and_stays(site: Site) -> None:
    await site.put("/v1/subscriptions/mine", {"filter": "TRUE"})
    ids = [await site.publish(price) for price in range(3)]
    socket = await connect(site)
    await socket.ask(op="subscribe", ref=1, subscription_id="mine")
    seen = [(await socket.hear())["delivery"] for _ in range(3)]
    assert [each["event_id"] for each in seen] == ids
    await socket.socket.close()
    socket = await connect(site)
    await socket.ask(op="subscribe", ref=1, subscription_id="mine", after=seen[1]["cursor"])
    assert (await socket.hear())["delivery"]["event_id"] == ids[2]
    await socket.socket.close()
    await until(lambda: site.peers[0].service.subscriptions.shown("mine").readers == 0)


async def test_who_attaches_and_leaves_at_once_leaves_no_reader_behind(site: Site) -> None:
    """The answer cannot be sent any more: the reader stayed, and the subscription was never idle again."""
    await site.put("/v1/subscriptions/mine", {"filter": "TRUE", "idle_s": 1})
    socket = await connect(site)
    await socket.say(op="subscribe", ref=1, subscription_id="mine")
    await socket.socket.close()
    await until(lambda: not site.servers[0].context.streams)
    await until(lambda: site.peers[0].service.subscriptions.shown("mine").readers == 0)


async def test_a_subscription_that_is_attached_to_twice_at_once_is_read_once(site: Site) -> None:
    await site.put("/v1/subscriptions/mine", {"filter": "TRUE"})
    socket = await connect(site)
    for ref in range(2):
        await socket.say(op="subscribe", ref=ref, subscription_id="mine")
    answers = {(await socket.hear())["op"] for _ in range(2)}
    assert answers == {"ok", "error"}
    await socket.socket.close()
    await until(lambda: site.peers[0].service.subscriptions.shown("mine").readers == 0)


async def test_a_cursor_of_a_connection_that_ended_gives_a_gap_of_unknown_size(site: Site) -> None:
    socket = await connect(site)
    cursor = (await socket.ask(op="subscribe", ref=1, filter="TRUE"))["subscription"]["cursor"]
    await socket.socket.close()
    socket = await connect(site)
    answer = await socket.ask(op="subscribe", ref=1, filter="TRUE", after=cursor)
    assert await socket.hear() == {"op": "gap", "subscription_id": answer["subscription_id"], "lost": None}


async def test_waiting_for_one_subscription_holds_up_nothing() -> None:
    async with Site(join=False) as site:
        socket = await connect(site)
        await socket.say(op="subscribe", ref="slow", filter="TRUE")
        assert (await socket.ask(op="unsubscribe", ref="quick", subscription_id="nobody"))["ref"] == "quick"
        site.swarm.join(site.peers[0])
        assert (await socket.hear())["ref"] == "slow"


@pytest.mark.parametrize(
    ("message", "slug"),
    [
        ("nonsense", "not-json"),
        ("[]", "invalid-message"),
        ('{"op": "dance", "ref": 7}', "invalid-message"),
        ('{"ref": 7}', "invalid-message"),
        ('{"op": "subscribe", "ref": 7}', "invalid-subscription"),
        ('{"op": "subscribe", "ref": 7, "filter": "price >"}', "invalid-filter"),
        ('{"op": "subscribe", "ref": 7, "filter": "TRUE", "after": "x"}', "invalid-cursor"),
        ('{"op": "subscribe", "ref": 7, "subscription_id": "nobody"}', "unknown-subscription"),
        ('{"op": "subscribe", "ref": 7, "xpath": "/a"}', "invalid-subscription"),
        ('{"op": "unsubscribe", "ref": 7, "subscription_id": "nobody"}', "unknown-subscription"),
        ('{"op": "publish", "ref": 7}', "invalid-message"),
        ('{"op": "publish", "ref": 7, "event": {"attributes": {"price": "x"}}}', "invalid-event"),
        ('{"op": "publish", "ref": 7, "event": {"attributes": {"price": []}}}', "invalid-message"),
    ],
)
async def test_wrong_messages_get_an_error_and_the_connection_goes_on(site: Site, message: str, slug: str) -> None:
    socket = await connect(site)
    await socket.socket.send_str(message)
    answer = await socket.hear()
    assert answer["op"] == "error"
    assert answer["ref"] == (7 if '"ref"' in message else None)
    assert answer["problem"]["type"] == f"urn:peerd:problem:{slug}"
    assert (await socket.ask(op="publish", ref=8, event={"attributes": {}}))["op"] == "ok"
    assert len(site.peers[0].service.subscriptions) == 0


async def test_many_subscriptions_of_one_connection_are_bounded() -> None:
    async with Site(config=ApiConfig(socket_subscriptions_max=2)) as site:
        socket = await connect(site)
        for ref in range(2):
            assert (await socket.ask(op="subscribe", ref=ref, filter="TRUE"))["op"] == "ok"
        answer = await socket.ask(op="subscribe", ref=2, filter="TRUE")
        assert answer["problem"]["type"].endswith("too-many-subscriptions")


async def test_a_gap_is_told(site: Site) -> None:
    socket = await connect(site)
    answer = await socket.ask(op="subscribe", ref=1, filter="TRUE", retain_max=2)
    lines = b"\n".join([b'{"attributes": {"price": 1}}'] * 60)
    await site.post("/v1/events", raw=lines, content_type="application/x-ndjson")
    lost = seen = 0
    while lost + seen < 60:
        message = await socket.hear()
        assert message["subscription_id"] == answer["subscription_id"]
        lost += message.get("lost", 0)
        seen += message["op"] == "delivery"
    assert lost
    assert seen >= 2


async def test_a_subscription_that_somebody_else_removes_is_told(site: Site) -> None:
    await site.put("/v1/subscriptions/mine", {"filter": "TRUE"})
    socket = await connect(site)
    await socket.ask(op="subscribe", ref=1, subscription_id="mine")
    await site.ask("DELETE", "/v1/subscriptions/mine")
    answer = await socket.hear()
    assert (answer["op"], answer["problem"]["status"]) == ("error", 404)


async def test_a_message_that_is_too_long_closes_the_connection() -> None:
    async with Site(config=ApiConfig(body_bytes_max=1_000)) as site:
        socket = await connect(site)
        await socket.say(op="publish", ref=1, event={"attributes": {}, "payload": "x" * 2_000})
        assert (await socket.socket.receive()).type == aiohttp.WSMsgType.CLOSE
        assert socket.socket.close_code == 1009


async def test_foreign_hosts_and_origins_are_403(site: Site) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    for header, value in (("Origin", "http://evil.example"), ("Host", "evil.example")):
        answer = await site.get("/v1/ws", headers={**upgrade, header: value})
        assert (answer.status, answer.slug) == (403, f"foreign-{header.lower()}")
    own = await connect(site, Origin=site.servers[0].url)
    assert (await own.ask(op="publish", ref=1, event={"attributes": {}}))["op"] == "ok"


async def test_without_an_upgrade_it_is_426(site: Site) -> None:
    answer = await site.get("/v1/ws")
    assert (answer.status, answer.slug) == (426, "upgrade-required")


async def test_the_server_stops_with_a_word(site: Site) -> None:
    socket = await connect(site)
    await socket.ask(op="subscribe", ref=1, filter="TRUE")
    stopping = asyncio.create_task(site.servers[0].stop())
    assert (await socket.socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING)
    assert socket.socket.close_code == 1001
    await asyncio.wait_for(stopping, 3)


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    async with Site(config=ApiConfig(stall_s=0.1)) as site:
        server, service = site.servers[0], site.peers[0].service
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(
            b"GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        text = b'{"op":"subscribe","filter":"TRUE"}'
        writer.write(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)  # masked with zeros
        await until(lambda: len(service.subscriptions) and service.subscriptions.all()[0].readers)
        published = 0
        while not server.context.stats.stalled:
            await site.publish(published % 20, payload="x" * 60_000)
            published += 1
            assert published < 1_000
        await until(lambda: len(service.subscriptions) == 0)
        writer.close()
