"""The asynchronous client, against real servers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from peerd import client
from peerd.api import ApiConfig, ApiServer, create_app
from peerd.client import Gap, Peer, PushedBack, Refused, Subscription, Unreachable, errors, requests
from peerd.documents import NewEvent
from peerd.service import ServiceConfig
from protocols.overlay import Leave
from tests.support.http import Site, metrics
from tests.support.waiting import until


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site(peers=2) as made:
        yield made


async def take(subscription: Subscription, count: int) -> list[client.Delivery]:
    found = []
    async with asyncio.timeout(10):
        async for delivery in subscription:
            found.append(delivery)
            if len(found) == count:
                break
    return found


async def restart(site: Site, to: int = 0) -> None:
    """Stop the server of a peer and start another one at the same port."""
    old = site.servers[to]
    await old.stop()
    server = ApiServer(create_app(ApiConfig()), "127.0.0.1", old.port)
    await server.start()
    server.open(site.peers[to].service, metrics)
    site.servers[to] = server


async def test_subscribe_publish_and_read(site: Site) -> None:
    async with Peer(site.servers[0].url) as one, Peer(site.servers[1].url) as other:
        subscription = await one.subscribe("symbol = 'OTE' AND price > 8")
        assert subscription.shown.state == "active"
        id_ = await other.publish({"symbol": "OTE", "price": 8.5}, payload={"a": 1}, headers={"k": "v"})
        await other.publish({"symbol": "OTE", "price": 7.5})
        raw = await other.publish({"symbol": "OTE", "price": 9}, payload=b"\0\1", content_type="x/y")
        first, second = await take(subscription, 2)
    assert (first.event_id, first.data, first.headers, first.hops) == (id_, {"a": 1}, {"k": "v"}, 1)
    assert (second.event_id, second.data, second.content_type) == (raw, b"\0\1", "x/y")
    assert abs(datetime.now(UTC) - first.published_at).total_seconds() < 60


async def test_closing_removes_what_was_made_and_nothing_else(site: Site) -> None:
    service = site.peers[0].service
    await site.put("/v1/subscriptions/standing", {"filter": "TRUE"})
    async with Peer(site.servers[0].url) as peer:
        await peer.subscribe("TRUE")
        await peer.subscribe("TRUE", id="named")
        await peer.subscribe("TRUE", id="kept", keep=True)
        taken_up = await peer.subscribe("TRUE", id="standing")
        assert not taken_up.created
        assert len(await peer.subscriptions()) == 4
    assert [each.id for each in service.subscriptions.all()] == ["standing", "kept"]


async def test_reading_goes_on_after_a_cursor(site: Site) -> None:
    async with Peer(site.servers[0].url) as peer:
        subscription = await peer.subscribe("TRUE", id="mine", keep=True)
        ids = [await peer.publish({"price": price}) for price in range(5)]
        seen = await take(subscription, 2)
        cursor = subscription.cursor
    async with Peer(site.servers[0].url) as peer:
        again = await peer.subscribe("TRUE", id="mine", after=cursor)
        seen += await take(again, 3)
    assert [delivery.event_id for delivery in seen] == ids


async def test_a_broken_connection_is_opened_again_and_nothing_is_missed(site: Site) -> None:
    async with Peer(site.servers[0].url) as peer:
        subscription = await peer.subscribe("TRUE")
        ids = [await peer.publish({"price": 1})]
        seen = await take(subscription, 1)
        for _ in range(2):
            await restart(site)
            ids += [await peer.publish({"price": price}) for price in range(3)]
            seen += await take(subscription, 3)
    assert [delivery.event_id for delivery in seen] == ids


async def test_a_gap_is_raised_and_reading_goes_on_behind_it(site: Site) -> None:
    service = site.peers[0].service
    async with Peer(site.servers[0].url) as peer:
        subscription = await peer.subscribe("TRUE", retain_max=2)
        await peer.publish({"price": 0})
        await take(subscription, 1)
        ids = [service.publisher.publish(NewEvent({"price": price})).id for price in range(1, 6)]
        with pytest.raises(Gap) as caught:
            await take(subscription, 1)
        assert caught.value.lost == 3
        assert [delivery.event_id for delivery in await take(subscription, 2)] == ids[3:]


async def test_an_expired_cursor_becomes_a_gap_of_unknown_size(site: Site) -> None:
    gaps: list[Gap] = []
    async with Peer(site.servers[0].url) as peer:
        await peer.subscribe("TRUE", id="mine", retain_max=2)
        cursor = (await peer.subscriptions())[0].cursor
        ids = [await peer.publish({"price": price}) for price in range(5)]
        subscription = await peer.subscribe("TRUE", id="mine", after=cursor, on_gap=gaps.append)
        assert [delivery.event_id for delivery in await take(subscription, 2)] == ids[3:]
    assert [gap.lost for gap in gaps] == [None]


async def test_a_forgotten_subscription_is_made_anew(site: Site) -> None:
    gaps: list[Gap] = []
    service = site.peers[0].service
    async with Peer(site.servers[0].url) as peer:
        subscription = await peer.subscribe("price > 1", on_gap=gaps.append)
        reading = asyncio.create_task(take(subscription, 1))
        await until(lambda: service.subscriptions.shown(subscription.id).readers)
        service.subscriptions.remove(subscription.id)
        await until(lambda: gaps)
        id_ = await peer.publish({"price": 2})
        assert [delivery.event_id for delivery in await reading] == [id_]
    assert [gap.lost for gap in gaps] == [None]


async def test_closing_ends_a_loop_that_waits(site: Site) -> None:
    async with Peer(site.servers[0].url) as peer:
        subscription = await peer.subscribe("TRUE")
        reading = asyncio.create_task(take(subscription, 1))
        await until(lambda: site.peers[0].service.subscriptions.shown(subscription.id).readers)
        await subscription.close()
        assert await reading == []


async def test_a_filter_is_changed(site: Site) -> None:
    async with Peer(site.servers[0].url) as peer:
        subscription = await peer.subscribe("price > 5")
        assert (await subscription.change("price > 1")).filter == "price > 1"
        id_ = await peer.publish({"price": 2})
        assert [delivery.event_id for delivery in await take(subscription, 1)] == [id_]


async def test_refusals_say_why(site: Site) -> None:
    async with Peer(site.servers[0].url) as peer:
        with pytest.raises(Refused) as caught:
            await peer.subscribe("price >")
        assert (caught.value.problem.slug, caught.value.problem.position) == ("invalid-filter", 7)
        with pytest.raises(Refused, match="unknown attribute") as caught:
            await peer.publish({"nothing": 1})
        assert caught.value.status == 422


async def test_pushing_back_says_for_how_long() -> None:
    config = ServiceConfig(publish_rate=0.5, publish_burst=1)
    async with Site(service=config) as site, Peer(site.servers[0].url) as peer:
        await peer.publish({"price": 1})
        with pytest.raises(PushedBack) as caught:
            await peer.publish({"price": 1})
        assert 1 < caught.value.retry_after <= 2


async def test_who_does_not_stand_is_not_ready() -> None:
    async with Site(join=False) as site, Peer(site.servers[0].url) as peer:
        assert not await peer.ready()
        with pytest.raises(PushedBack):
            await peer.publish({"price": 1})
        site.swarm.join(site.peers[0])
        await site.swarm.ready()
        assert await peer.ready()


async def test_many_events_are_published_in_order_as_fast_as_the_peer_takes_them() -> None:
    config = ServiceConfig(publish_rate=400, publish_burst=100)  # slower than any machine takes them
    async with Site(service=config) as site, Peer(site.servers[0].url) as peer:
        subscription = await peer.subscribe("TRUE")
        progress: list[int] = []
        events: Iterator[Any] = ({"attributes": {"price": n % 20}, "payload": n} for n in range(700))
        assert await peer.publish_many(events, on_progress=progress.append) == 700
        seen = [delivery.payload for delivery in await take(subscription, 700)]
    assert seen == list(range(700))
    assert progress == sorted(progress)
    assert progress[-1] == 700
    assert len(progress) > 2, "the peer has pushed back"


async def test_many_events_from_a_source_that_waits(site: Site) -> None:
    async def source() -> AsyncIterator[NewEvent]:
        for price in range(10):
            await asyncio.sleep(0)
            yield NewEvent({"price": price})

    async with Peer(site.servers[0].url) as peer:
        assert await peer.publish_many(source()) == 10
        assert await peer.publish_many([]) == 0


async def test_one_wrong_event_of_many(site: Site) -> None:
    async with Peer(site.servers[0].url) as peer:
        events = [NewEvent({"price": 1})] * 600 + [NewEvent({"price": "x"})]
        with pytest.raises(Refused) as caught:
            await peer.publish_many(events)
        assert caught.value.accepted == 600
        assert caught.value.problem.line == 101


async def test_many_events_are_not_kept_waiting_for_a_peer_that_does_not_stand() -> None:
    """Unlike one that is merely too slow, it may never stand: who publishes is told."""
    async with Site(join=False) as site, Peer(site.servers[0].url) as peer:
        with pytest.raises(PushedBack) as caught:
            await asyncio.wait_for(peer.publish_many([NewEvent({"price": 1})]), 5)
        assert (caught.value.status, caught.value.accepted) == (503, 0)


async def test_a_peer_that_leaves_meanwhile_has_taken_what_it_has_taken(site: Site) -> None:
    def source() -> Iterator[NewEvent]:
        for count in range(700):
            if count == 600:  # the first 500 are a batch of their own
                site.peers[0].driver.step(Leave())
            yield NewEvent({"price": 1})

    async with Peer(site.servers[0].url) as peer:
        with pytest.raises(PushedBack) as caught:
            await asyncio.wait_for(peer.publish_many(source()), 5)
        assert (caught.value.status, caught.value.accepted) == (503, 500)


async def test_an_answer_that_is_lost_publishes_nothing_twice(site: Site) -> None:
    """A proxy that drops the first answer of every request: the client asks again, the peer knows the id."""
    asked: list[bytes] = []

    async def forward(request: web.Request) -> web.Response:
        body = await request.read()
        asked.append(body)
        answer = await site.post("/v1/events", raw=body, content_type=request.content_type)
        if len(asked) == 1:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(body=answer.body, status=answer.status)

    proxy = web.Application()
    proxy.router.add_post("/v1/events", forward)
    runner = web.AppRunner(proxy)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await site.put("/v1/subscriptions/mine", {"filter": "TRUE"})
    async with Peer(f"http://127.0.0.1:{runner.addresses[0][1]}") as peer:
        id_ = await peer.publish({"price": 1})
    await runner.cleanup()
    assert len(asked) == 2
    found = (await site.get("/v1/subscriptions/mine/deliveries")).json["deliveries"]
    assert [each["event_id"] for each in found] == [id_]


async def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "ATTEMPTS", 2)
    async with Site() as site:
        url = site.servers[0].url
    async with Peer(url) as peer:
        with pytest.raises(Unreachable):
            await peer.status()


async def test_a_token_is_sent() -> None:
    async with Site(config=ApiConfig(token="secret")) as site:
        async with Peer(site.servers[0].url) as peer:
            with pytest.raises(Refused) as caught:
                await peer.status()
            assert caught.value.status == 401
        async with Peer(site.servers[0].url, token="secret") as peer:
            subscription = await peer.subscribe("TRUE")
            id_ = await peer.publish({"price": 1})
            assert [delivery.event_id for delivery in await take(subscription, 1)] == [id_]


async def test_an_answer_that_is_no_problem_is_refused_as_it_is() -> None:
    refused = errors.refusal(502, b"<html>Bad Gateway</html>")
    assert (refused.status, refused.problem.type) == (502, "about:blank")


async def test_what_the_peer_knows(site: Site) -> None:
    async with Peer(site.servers[0].url) as peer:
        status = await peer.status()
        assert (status.overlay, status.ready) == ("broadcast", True)
        await until(lambda: site.peers[0].service.links().links)
        assert [link.peer for link in (await peer.links()).links["random"]] == ["00000002"]
        assert len((await peer.topology(10)).nodes) == 2
        assert (await peer.schema()).version == 5
        assert (await peer.append_schema({"volume": {"type": "bool"}})).version == 6
