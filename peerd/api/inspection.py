"""The peer seen from outside: itself, its links, the overlay, the schema, health and metrics."""

from typing import Final

import msgspec
from aiohttp import hdrs, web

from peerd.api.bodies import JSON, answer, decode, expect, number, read
from peerd.api.config import CONTEXT
from peerd.api.problems import ApiProblem
from peerd.documents import Health, NewAttributes, Readiness

TOPOLOGY_LIMIT: Final = 200
TOPOLOGY_LIMIT_MAX: Final = 2_000
"""Peers in a picture of the overlay. A guess: what a person, and what a program, can make use of."""

_attributes: Final = msgspec.json.Decoder(NewAttributes)


async def peer(request: web.Request) -> web.Response:
    return answer(request.app[CONTEXT].service.peer())


async def links(request: web.Request) -> web.Response:
    return answer(request.app[CONTEXT].service.links())


async def topology(request: web.Request) -> web.Response:
    limit = number(request, "limit", TOPOLOGY_LIMIT, TOPOLOGY_LIMIT_MAX)
    context = request.app[CONTEXT]
    with context.stream():
        return answer(await context.service.topology(limit))


async def schema(request: web.Request) -> web.Response:
    return answer(request.app[CONTEXT].service.schema_shown())


async def append_schema(request: web.Request) -> web.Response:
    expect(request, JSON)
    wanted = decode(_attributes, await read(request), "invalid-schema")
    return answer(request.app[CONTEXT].service.append_schema(wanted.attributes))


async def health(request: web.Request) -> web.Response:
    return answer(Health("ok"))


async def readiness(request: web.Request) -> web.Response:
    if not request.app[CONTEXT].service.ready:
        raise ApiProblem("not-joined", "this peer does not stand in the overlay yet")
    return answer(Readiness(True))


async def metrics(request: web.Request) -> web.Response:
    body, content_type = request.app[CONTEXT].metrics(request.headers.get(hdrs.ACCEPT, ""))
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})
