"""Subscriptions: create, change, list, show, remove."""

from typing import Final

import msgspec
from aiohttp import web

from peerd.api.bodies import JSON, answer, decode, expect, read, seconds
from peerd.api.config import CONTEXT
from peerd.documents import NewSubscription, Subscriptions

WAIT_S: Final = 10.0
"""How long an answer waits until the subscription stands in the overlay (contract)."""
WAIT_S_MAX: Final = 60.0

_decoder: Final = msgspec.json.Decoder(NewSubscription)


async def _wanted(request: web.Request) -> NewSubscription:
    expect(request, JSON)
    return decode(_decoder, await read(request), "invalid-subscription")


async def create(request: web.Request) -> web.Response:
    service = request.app[CONTEXT].service
    wait_s = seconds(request, "wait", WAIT_S, WAIT_S_MAX)
    wanted = await _wanted(request)
    made = service.subscriptions.add(wanted, compiled=await service.subscriptions.compile(wanted))
    await service.subscriptions.wait_active(made.id, wait_s)
    return answer(service.subscriptions.shown(made.id), 201, {"Location": f"/v1/subscriptions/{made.id}"})


async def put(request: web.Request) -> web.Response:
    service = request.app[CONTEXT].service
    id_ = request.match_info["id"]
    wait_s = seconds(request, "wait", WAIT_S, WAIT_S_MAX)
    wanted = await _wanted(request)
    compiled = await service.subscriptions.compile(wanted, id_)
    known = id_ in service.subscriptions
    if known:
        service.subscriptions.change(id_, wanted, compiled)
    else:
        service.subscriptions.add(wanted, id_, compiled=compiled)
    await service.subscriptions.wait_active(id_, wait_s)
    headers = None if known else {"Location": f"/v1/subscriptions/{id_}"}
    return answer(service.subscriptions.shown(id_), 200 if known else 201, headers)


async def show_all(request: web.Request) -> web.Response:
    return answer(Subscriptions(request.app[CONTEXT].service.subscriptions.all()))


async def show(request: web.Request) -> web.Response:
    return answer(request.app[CONTEXT].service.subscriptions.shown(request.match_info["id"]))


async def remove(request: web.Request) -> web.Response:
    request.app[CONTEXT].service.subscriptions.remove(request.match_info["id"])
    return web.Response(status=204)
