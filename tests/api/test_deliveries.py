"""Reading deliveries: long poll and server-sent events."""

import asyncio
from contextlib import AbstractAsyncContextManager

import aiohttp
import pytest

from peerd.api import ApiConfig
from peerd.documents import NewEvent
from tests.support.http import Site
from tests.support.sse import EventStream
from tests.support.waiting import until

PATH = "/v1/subscriptions/mine/deliveries"
SSE = {"Accept": "text/event-stream"}


async def subscribe(site: Site, **more: object) -> None:
    assert (await site.put("/v1/subscriptions/mine", {"filter": "TRUE", **more})).status == 201


def stream(site: Site, query: str = "", **headers: str) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    return site.session.get(site.url(PATH + query), headers=SSE | headers)


# --- long poll --------------------------------------------------------------------------------------------------------


async def test_a_poll_reads_on_from_its_cursor(site: Site) -> None:
    await subscribe(site)
    ids = [await site.publish(price) for price in range(5)]
    first = (await site.get(PATH + "?limit=2")).json
    assert [each["event_id"] for each in first["deliveries"]] == ids[:2]
    assert first["cursor"] == first["deliveries"][-1]["cursor"]
    rest = (await site.get(f"{PATH}?after={first['cursor']}")).json
    assert [each["event_id"] for each in rest["deliveries"]] == ids[2:]
    none = (await site.get(f"{PATH}?after={rest['cursor']}")).json
    assert none == {"deliveries": [], "cursor": rest["cursor"]}
    assert len((await site.get(PATH)).json["deliveries"]) == 5


async def test_a_poll_waits_for_a_delivery(site: Site) -> None:
    await subscribe(site)
    waiting = asyncio.create_task(site.get(PATH + "?wait=30"))
    await until(lambda: site.peers[0].service.subscriptions.shown("mine").readers == 1)
    id_ = await site.publish(1)
    assert [each["event_id"] for each in (await waiting).json["deliveries"]] == [id_]


async def test_a_poll_waits_no_longer_than_asked(site: Site) -> None:
    await subscribe(site)
    answer = await site.get(PATH + "?wait=0.05")
    assert answer.json["deliveries"] == []


async def test_a_poll_ends_with_its_subscription(site: Site) -> None:
    await subscribe(site)
    waiting = asyncio.create_task(site.get(PATH + "?wait=30"))
    await until(lambda: site.peers[0].service.subscriptions.shown("mine").readers == 1)
    await site.ask("DELETE", "/v1/subscriptions/mine")
    assert (await waiting).slug == "unknown-subscription"


@pytest.mark.parametrize("headers", [{}, SSE])
@pytest.mark.parametrize(
    ("query", "slug"),
    [
        ("?after=", "invalid-cursor"),
        ("?after=nonsense", "invalid-cursor"),
        ("?after=" + "f" * 12 + "0" * 10, "cursor-expired"),
    ],
)
async def test_wrong_cursors(site: Site, headers: dict[str, str], query: str, slug: str) -> None:
    await subscribe(site)
    assert (await site.get(PATH + query, headers=headers)).slug == slug


@pytest.mark.parametrize(
    "query", ["?limit=0", "?limit=1001", "?limit=x", "?limit=-1", "?wait=61", "?wait=x", "?limit="]
)
async def test_wrong_parameters(site: Site, query: str) -> None:
    await subscribe(site)
    assert (await site.get(PATH + query)).slug == "invalid-parameter"


async def test_an_expired_cursor_says_where_to_read_on(site: Site) -> None:
    await subscribe(site, retain_max=2)
    await site.publish(0)
    cursor = (await site.get(PATH)).json["cursor"]
    ids = [await site.publish(price) for price in range(1, 5)]
    for headers in ({}, SSE):
        answer = await site.get(f"{PATH}?after={cursor}", headers=headers)
        assert (answer.status, answer.slug) == (410, "cursor-expired")
        kept = (await site.get(f"{PATH}?after={answer.json['oldest']}")).json["deliveries"]
        assert [each["event_id"] for each in kept] == ids[2:]


@pytest.mark.parametrize("with_cursor", [True, False])
async def test_a_poll_that_waits_and_misses_deliveries_is_told(site: Site, with_cursor: bool) -> None:
    await subscribe(site, retain_max=3)
    service = site.peers[0].service
    after = f"&after={service.subscriptions.shown('mine').cursor}" if with_cursor else ""
    waiting = asyncio.create_task(site.get(f"{PATH}?wait=30{after}"))
    await until(lambda: service.subscriptions.shown("mine").readers == 1)
    ids = [service.publisher.publish(NewEvent({"price": price})).id for price in range(8)]  # in one turn of the loop
    answer = await waiting
    assert (answer.status, answer.slug) == (410, "cursor-expired")
    kept = (await site.get(f"{PATH}?after={answer.json['oldest']}")).json["deliveries"]
    assert [each["event_id"] for each in kept] == ids[5:]


async def test_an_unknown_subscription(site: Site) -> None:
    for headers in ({}, SSE):
        assert (await site.get(PATH, headers=headers)).slug == "unknown-subscription"


# --- server-sent events -----------------------------------------------------------------------------------------------


async def test_a_stream_has_what_is_kept_and_what_comes(site: Site) -> None:
    await subscribe(site)
    before = await site.publish(1)
    async with stream(site) as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        reader = EventStream(response)
        (first,) = await reader.take(1)
        after = await site.publish(2)
        (second,) = await reader.take(1)
    assert [event.data["event_id"] for event in (first, second)] == [before, after]
    assert [event.id for event in (first, second)] == [event.data["cursor"] for event in (first, second)]


@pytest.mark.parametrize("by_header", [True, False])
async def test_a_stream_is_resumed(site: Site, by_header: bool) -> None:
    await subscribe(site)
    ids = [await site.publish(price) for price in range(4)]
    async with stream(site) as response:
        (first, second) = await EventStream(response).take(2)
    last = str(second.id)
    resumed = stream(site, **{"Last-Event-ID": last}) if by_header else stream(site, f"?after={last}")
    async with resumed as response:
        rest = await EventStream(response).take(2)
    assert [event.data["event_id"] for event in (first, second, *rest)] == ids


async def test_every_reader_sees_all(site: Site) -> None:
    await subscribe(site)
    async with stream(site) as one, stream(site) as other:
        ids = [await site.publish(price) for price in range(150)]
        for response in (one, other):
            assert [event.data["event_id"] for event in await EventStream(response).take(150)] == ids


async def test_comments_keep_a_stream_alive() -> None:
    async with Site(config=ApiConfig(heartbeat_s=0.02)) as site:
        await subscribe(site)
        async with stream(site) as response:
            reader = EventStream(response)
            waiting = asyncio.create_task(reader.next())
            await until(lambda: len(reader.comments) >= 3)
            await site.publish(1)
            assert (await waiting) is not None


async def test_a_stream_that_fell_behind_gets_a_gap(site: Site) -> None:
    await subscribe(site, retain_max=3)
    service = site.peers[0].service
    async with stream(site) as response:
        await until(lambda: service.subscriptions.shown("mine").readers == 1)
        ids = [
            service.publisher.publish(NewEvent({"price": price})).id for price in range(8)
        ]  # in one turn of the loop
        reader = EventStream(response)
        gap, *rest = await reader.take(4)
    assert (gap.kind, gap.data, gap.id) == ("gap", {"lost": 5}, None)
    assert [event.data["event_id"] for event in rest] == ids[5:]


async def test_cloudevents_in_a_stream(site: Site) -> None:
    await subscribe(site)
    await site.publish(1)
    async with stream(site, Accept="text/event-stream, application/cloudevents+json") as response:
        (event,) = await EventStream(response).take(1)
    assert event.data["specversion"] == "1.0"
    assert event.data["cursor"] == event.id


async def test_a_stream_ends_with_its_subscription(site: Site) -> None:
    await subscribe(site)
    async with stream(site) as response:
        await site.ask("DELETE", "/v1/subscriptions/mine")
        assert await EventStream(response).next() is None


async def test_a_stream_ends_when_the_server_stops(site: Site) -> None:
    await subscribe(site)
    async with stream(site) as response:
        waiting = asyncio.create_task(EventStream(response).next())
        await until(lambda: site.peers[0].service.subscriptions.shown("mine").readers == 1)
        await asyncio.wait_for(site.servers[0].stop(), 3)
        assert await waiting is None


async def test_a_client_that_goes_is_noticed_at_once(site: Site) -> None:
    await subscribe(site)
    service = site.peers[0].service
    for query in ("?wait=30", ""):
        waiting = asyncio.create_task(site.get(PATH + query, headers={} if query else SSE))
        await until(lambda: service.subscriptions.shown("mine").readers == 1)
        waiting.cancel()
        await until(lambda: service.subscriptions.shown("mine").readers == 0)


async def test_a_client_that_does_not_read_is_disconnected_and_holds_up_nobody() -> None:
    async with Site(config=ApiConfig(stall_s=0.1)) as site:
        await subscribe(site)
        server, service = site.servers[0], site.peers[0].service
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
        await until(lambda: service.subscriptions.shown("mine").readers == 1)
        published = 0
        while not server.context.stats.stalled:
            await site.publish(published % 20, payload="x" * 60_000)
            published += 1
            assert published < 1_000
        await until(lambda: service.subscriptions.shown("mine").readers == 0)
        assert server.context.streams == 0
        writer.close()


async def test_there_are_only_so_many_streams() -> None:
    async with Site(config=ApiConfig(streams_max=2)) as site:
        await subscribe(site)
        async with stream(site), stream(site):
            answer = await site.get(PATH)
            assert (answer.status, answer.slug) == (429, "too-many-streams")
        await until(lambda: site.servers[0].context.streams == 0)
        assert (await site.get(PATH)).status == 200
