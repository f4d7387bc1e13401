"""Who may ask, and how often."""

import asyncio

import pytest

from peerd.api import ApiConfig
from tests.support.http import Site
from tests.support.waiting import until


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1234", "127.0.0.1", "127.9.9.9:80", "[::1]:6480", "peer.example", "localhost."]
)
async def test_own_hosts(host: str) -> None:
    async with Site(config=ApiConfig(hosts=("Peer.example",))) as site:
        assert (await site.get("/v1/peer", headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "peer", "10.0.0.1", "", "[", "127.0.0.1.evil.example", "@localhost:x"],
)
async def test_foreign_hosts(host: str) -> None:
    async with Site(config=ApiConfig(hosts=("peer.example",))) as site:
        for path in ("/v1/peer", "/healthz", "/v1/events"):
            answer = await site.get(path, headers={"Host": host})
            assert (answer.status, answer.slug) == (403, "foreign-host")


async def test_origins(site: Site) -> None:
    own = site.servers[0].url
    assert (await site.get("/v1/peer", headers={"Origin": own})).status == 200
    for origin in ("null", "http://evil.example", "http://127.0.0.1:1", own.replace("http", "https"), own + "x", ""):
        answer = await site.get("/v1/peer", headers={"Origin": origin})
        assert (answer.status, answer.slug) == (403, "foreign-origin")


async def test_configured_origins() -> None:
    async with Site(config=ApiConfig(origins=("https://console.example/",))) as site:
        assert (await site.get("/v1/peer", headers={"Origin": "https://Console.example"})).status == 200
        assert (await site.get("/v1/peer", headers={"Origin": "http://console.example"})).status == 403


async def test_a_token_opens_all_but_health_and_the_console_need_none() -> None:
    async with Site(config=ApiConfig(token="s3cret-ä")) as site:
        for path in ("/healthz", "/readyz"):
            assert (await site.get(path)).status == 200
        assert "s3cret" not in (await site.get("/")).body.decode()  # the console, which asks for the token
        for path in ("/v1/peer", "/metrics", "/openapi.json", "/v1/ws", "/nothing"):
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": "Basic s3cret-ä"},
                {"Authorization": "Bearer"},
            ):
                answer = await site.get(path, headers=headers)
                assert (answer.status, answer.slug) == (401, "unauthorized")
                assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert (await site.get("/v1/peer", headers={"Authorization": "bearer s3cret-ä"})).status == 200


async def test_one_client_has_a_rate() -> None:
    async with Site(config=ApiConfig(client_rate=0.1, client_burst=3)) as site:
        statuses = [(await site.get("/v1/peer")).status for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert (await site.get("/v1/peer")).slug == "too-many-requests"
        assert (await site.get("/healthz")).status == 200
        assert site.servers[0].context.stats.refused == 3


async def test_all_clients_together_have_a_rate() -> None:
    async with Site(config=ApiConfig(rate=0.1, burst=2)) as site:
        assert [(await site.get("/v1/peer")).status for _ in range(3)] == [200, 200, 429]


async def talk(site: Site, raw: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.servers[0].port)
    writer.write(raw)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 10_000 + b"\r\n\r\n",
        b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
    ids=lambda raw: repr(raw[:30]),
)
async def test_what_is_no_http_gets_a_problem(site: Site, raw: bytes) -> None:
    answer = await talk(site, raw)
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b"urn:peerd:problem:bad-request" in answer


async def test_no_host_at_all(site: Site) -> None:
    assert b"foreign-host" in await talk(site, b"GET /healthz HTTP/1.0\r\n\r\n")


async def test_an_unknown_expectation(site: Site) -> None:
    answer = await site.get("/healthz", headers={"Expect": "the unexpected"})
    assert (answer.status, answer.slug) == (417, "expectation-failed")


async def test_there_are_only_so_many_connections() -> None:
    async with Site(config=ApiConfig(connections_max=2)) as site:
        held = [await asyncio.open_connection("127.0.0.1", site.servers[0].port) for _ in range(2)]
        answer = await talk(site, b"")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"too-many-connections" in answer
        assert b"\r\nRetry-After: 1\r\n" in answer
        assert site.servers[0].context.stats.connections_refused == 1
        for _, writer in held:
            writer.close()

        async def served() -> bool:
            return (await talk(site, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))[
                9:12
            ] == b"200"

        assert await eventually(served)


async def eventually(asked: object) -> bool:
    for _ in range(200):
        if await asked():  # type: ignore[operator]
            return True
        await asyncio.sleep(0.01)
    return False


async def test_a_body_that_does_not_come_is_408() -> None:
    async with Site(config=ApiConfig(body_s=0.05, linger_s=0.05)) as site:
        for content_type in (b"application/json", b"application/x-ndjson"):
            answer = await talk(
                site,
                b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nContent-Type: "
                + content_type
                + b"\r\n\r\n{",
            )
            assert b" 408 " in answer.split(b"\r\n")[0]
            assert b"request-timeout" in answer


async def test_a_connection_that_asks_nothing_is_closed() -> None:
    async with Site(config=ApiConfig(keepalive_s=0.05)) as site:
        for raw in (b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            answer = await talk(site, raw)
            assert answer.startswith(b"HTTP/1.1 200" if raw.endswith(b"\r\n\r\n") else b"")


async def test_every_request_ends_as_one_thing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    stats = site.servers[0].context.stats
    await site.put("/v1/subscriptions/mine", {"filter": "TRUE"})
    await site.get("/nowhere")
    await site.get("/healthz", headers={"Host": "elsewhere"})
    waiting = asyncio.create_task(site.get("/v1/subscriptions/mine/deliveries?wait=30"))
    await until(lambda: site.peers[0].service.subscriptions.shown("mine").readers == 1)
    assert (stats.requests, stats.answered) == (4, 2), "a request counts as answered when it was"
    waiting.cancel()
    await until(lambda: stats.gone)
    monkeypatch.setattr(site.peers[0].service, "peer", None)
    await site.get("/v1/peer")
    assert stats.results() == {"answered": 2, "refused": 1, "failed": 1, "stalled": 0, "gone": 1}
    assert sum(stats.results().values()) == stats.requests


async def test_a_defect_is_a_500_that_tells_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(site.peers[0].service, "peer", broken)
    answer = await site.get("/v1/peer")
    assert (answer.status, answer.slug) == (500, "internal")
    assert b"secret" not in answer.body
    assert site.servers[0].context.stats.failed == 1


async def test_a_client_that_breaks_off_its_body_is_no_failure(site: Site) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", site.servers[0].port)
    writer.write(
        b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\n{"
    )
    await until(lambda: site.servers[0].context.stats.requests == 1)
    writer.close()
    assert (await site.get("/healthz")).status == 200
    assert site.servers[0].context.stats.failed == 0


async def test_a_client_that_asks_before_it_sends(site: Site) -> None:
    body = b'{"attributes": {"price": 1}}'
    answer = await talk(
        site,
        b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body),
    )
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 ")
