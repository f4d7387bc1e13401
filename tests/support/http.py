"""Living peers with their HTTP APIs on free ports, and a way to talk to one."""

from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from peerd.api import ApiConfig, ApiServer, create_app
from peerd.service import ServiceConfig
from tests.support.memory import LivingPeer, MemorySwarm


def metrics(accept: str) -> tuple[bytes, str]:
    return b"peerd_up 1\n", "text/plain; version=0.0.4; charset=utf-8"


class Answer:
    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def slug(self) -> str:
        """Which problem it is; the answer must be one in every respect."""
        document = self.json
        assert self.headers["Content-Type"] == "application/problem+json", self.body
        assert document["status"] == self.status
        assert document["title"]
        assert document["detail"]
        if self.status in (429, 503):
            assert int(self.headers["Retry-After"]) >= 1
            assert document["retry_after"] > 0
        kind, _, slug = document["type"].rpartition(":")
        assert kind == "urn:peerd:problem"
        return str(slug)


class Site:
    """Peers of one swarm with their servers; requests go to the first one unless `to` says otherwise."""

    def __init__(
        self, peers: int = 1, config: ApiConfig | None = None, service: ServiceConfig | None = None, join: bool = True
    ) -> None:
        self.swarm = MemorySwarm()
        self.servers: list[ApiServer] = []
        self._count = peers
        self._config = config or ApiConfig()
        self._service = service
        self._join = join

    async def __aenter__(self) -> Self:
        for _ in range(self._count):
            living = self.swarm.add(self._service, join=self._join)
            server = ApiServer(create_app(self._config), "127.0.0.1", 0)
            await server.start()
            server.open(living.service, metrics)
            self.servers.append(server)
        if self._join:
            await self.swarm.ready()
        self.session = aiohttp.ClientSession()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()
        for server in self.servers:
            await server.stop()
        self.swarm.close()

    @property
    def peers(self) -> list[LivingPeer]:
        return self.swarm.peers

    def url(self, path: str, to: int = 0) -> str:
        return self.servers[to].url + path

    async def ask(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        raw: bytes | None = None,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        to: int = 0,
    ) -> Answer:
        given = dict(headers or {})
        if document is not None or raw is not None:
            raw = msgspec.json.encode(document) if raw is None else raw
            given["Content-Type"] = content_type
        async with self.session.request(method, self.url(path, to), data=raw, headers=given) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, document: Any = None, **more: Any) -> Answer:
        return await self.ask("POST", path, document, **more)

    async def put(self, path: str, document: Any = None, **more: Any) -> Answer:
        return await self.ask("PUT", path, document, **more)

    async def publish(self, price: float, to: int = 0, **more: Any) -> str:
        answer = await self.post("/v1/events", {"attributes": {"symbol": "OTE", "price": price}, **more}, to=to)
        assert answer.status == 202, answer.body
        return str(answer.json["id"])
