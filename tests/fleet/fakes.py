"""A Docker engine that only remembers what it was told, behind a socket as the real one's."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web


class FakeEngine:
    """Has `count` running containers of service `peer` in project `p`; `failing` actions are refused."""

    def __init__(self, count: int, failing: tuple[str, ...] = ()) -> None:
        self.told: list[tuple[str, str, Any]] = []
        """Action, container, and what came with it."""
        self.failing = failing
        self.listed = [_container(number) for number in range(count)]

    async def list_all(self, request: web.Request) -> web.Response:
        filters = json.loads(request.query["filters"])
        if "id" in filters:
            mine = [{"Labels": {"com.docker.compose.project": "p"}}]
            return web.json_response(mine if filters["id"] == ["me"] else [])
        labels = filters["label"]
        wanted = labels == ["com.docker.compose.project=p", "com.docker.compose.service=peer"]
        return web.json_response(self.listed if wanted else [])

    async def act(self, request: web.Request) -> web.Response:
        action = request.match_info["action"]
        if action in self.failing:
            return web.json_response({"message": "no"}, status=409)
        self.told.append((action, request.match_info["id"], dict(request.query)))
        return web.Response(status=204)

    async def connect(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.told.append((request.match_info["action"], body["Container"], body.get("EndpointConfig")))
        return web.Response(status=200)

    @asynccontextmanager
    async def serve(self, at: Path) -> AsyncIterator[str]:
        app = web.Application()
        app.add_routes(
            [
                web.get("/containers/json", self.list_all),
                web.post("/containers/{id}/{action}", self.act),
                web.post("/networks/{id}/{action}", self.connect),
            ]
        )
        runner = web.AppRunner(app)
        await runner.setup()
        path = str(at / "engine.sock")
        await web.UnixSite(runner, path).start()
        try:
            yield path
        finally:
            await runner.cleanup()


def _container(number: int) -> dict[str, Any]:
    return {
        "Id": f"{number:064x}",
        "Names": [f"/p_peer_{number}"],
        "Labels": {"com.docker.compose.service": "peer"},
        "NetworkSettings": {"Networks": {"p_swarm": {"NetworkID": "n1", "IPAddress": f"10.0.0.{number + 2}"}}},
    }


class FakeDriver:
    """A workload driver that remembers announcements."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.risky = 0
        """How often it still says that events are at risk."""

    async def announce(self, request: web.Request) -> web.Response:
        self.told.append(("announced", await request.json()))
        return web.json_response({"id": "7"}, status=201)

    async def heal(self, request: web.Request) -> web.Response:
        self.told.append(("healed", request.match_info["id"]))
        return web.Response(status=204)

    async def show(self, request: web.Request) -> web.Response:
        self.risky -= 1
        return web.json_response({"peers": 5, "at_risk": self.risky > 0})

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        app = web.Application()
        app.add_routes(
            [
                web.post("/v1/faults", self.announce),
                web.delete("/v1/faults/{id}", self.heal),
                web.get("/v1/workload", self.show),
            ]
        )
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
