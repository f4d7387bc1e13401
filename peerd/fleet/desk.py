"""The driver's own HTTP: its metrics, how far it is, and where faults are announced.

GET    /metrics         for Prometheus
GET    /healthz
GET    /v1/workload     the ledger, as JSON
POST   /v1/faults       {"fault": "kill|stop|pause|cut", "about": [ADDRESS…]} -> 201 {"id"}
DELETE /v1/faults/ID    it is over -> 204
"""

from typing import Final

import msgspec
from aiohttp import web

from peerd.fleet.driver import Driver
from peerd.fleet.faults import Announcement, TooMany
from peerd.net.endpoints import split_endpoint

BODY_BYTES_MAX: Final = 64 * 1024


class Desk:
    def __init__(self, driver: Driver, http: str) -> None:
        self._driver = driver
        self._http = http
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._health),
                web.get("/v1/workload", self._workload),
                web.post("/v1/faults", self._announce),
                web.delete("/v1/faults/{id}", self._heal),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        self.port = 0

    async def start(self) -> None:
        """`OSError` if the address cannot be had."""
        host, port = split_endpoint(self._http)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        body, content_type = self._driver.exporter.render(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _health(self, request: web.Request) -> web.Response:
        return _json({"status": "ok"})

    async def _workload(self, request: web.Request) -> web.Response:
        return _json(self._driver.ledger)

    async def _announce(self, request: web.Request) -> web.Response:
        try:
            announcement = msgspec.json.decode(await request.read(), type=Announcement)
        except msgspec.DecodeError as error:
            return _problem(422, str(error))
        try:
            return _json({"id": self._driver.announced(announcement)}, 201)
        except TooMany:
            return _problem(429, "too many faults at once")

    async def _heal(self, request: web.Request) -> web.Response:
        if self._driver.healed(request.match_info["id"]):
            return web.Response(status=204)
        return _problem(404, "no such fault goes on")


def _json(document: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), status=status, content_type="application/json")


def _problem(status: int, detail: str) -> web.Response:
    return web.Response(
        body=msgspec.json.encode({"type": "about:blank", "status": status, "detail": detail}),
        status=status,
        content_type="application/problem+json",
    )
