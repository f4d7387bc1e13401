"""Reading deliveries: server-sent events, and a long poll.

A stream takes what there is from its reader, writes it, and waits for its event, which the reader sets. What the
client has not taken waits in the log of its subscription, which is bounded, and not in buffers of the connection: a
write waits until there is room there, and a client that leaves none for `stall_s` is disconnected.

Whoever streams is told of deliveries that it has missed by a gap. An answer to a poll has no place for one: there the
cursor has expired, also when that happens while the poll waits. Only a poll without a cursor, which asks for whatever
is kept, cannot have missed anything before it waits.
"""

import asyncio
from typing import Any, Final

from aiohttp import hdrs, web

from peerd.api import cloudevents, rendering
from peerd.api.bodies import answer, encode, number, seconds
from peerd.api.config import CONTEXT, RESULT, Context
from peerd.api.problems import ApiProblem
from peerd.documents import Deliveries, Gap
from peerd.service.deliveries import Batch, Reader

SSE: Final = "text/event-stream"
LIMIT: Final = 100
LIMIT_MAX: Final = 1_000
WAIT_S_MAX: Final = 60.0
"""Of a long poll (contract)."""
CURSOR_HEADER: Final = "Peerd-Cursor"
"""Where an answer in CloudEvents has the cursor."""

_HEADERS: Final = {
    hdrs.CONTENT_TYPE: SSE,
    hdrs.CACHE_CONTROL: "no-store",
    "X-Accel-Buffering": "no",  # proxies of nginx' kind must not collect it
    "X-Content-Type-Options": "nosniff",
}


async def read(request: web.Request) -> web.StreamResponse:
    accept = request.headers.get(hdrs.ACCEPT, "").lower()
    as_cloudevents = cloudevents.TYPE in accept or cloudevents.BATCH_TYPE in accept
    if SSE in accept:
        return await _stream(request, as_cloudevents)
    return await _poll(request, as_cloudevents)


# --- Long poll --------------------------------------------------------------------------------------------------------


async def _poll(request: web.Request, as_cloudevents: bool) -> web.Response:
    context = request.app[CONTEXT]
    id_ = request.match_info["id"]
    limit = number(request, "limit", LIMIT, LIMIT_MAX)
    wait_s = seconds(request, "wait", 0.0, WAIT_S_MAX)
    with context.stream() as event:
        after = request.query.get("after")
        reader = context.service.subscriptions.reader(id_, after, event.set)
        try:
            batch = reader.take(limit, whole=after is not None)
            if not batch.items and wait_s:
                batch = await _wait(context, reader, event, limit, wait_s)
            return _answer(reader, id_, batch, as_cloudevents)
        finally:
            reader.close()


async def _wait(context: Context, reader: Reader, event: asyncio.Event, limit: int, wait_s: float) -> Batch:
    batch = Batch(0, [])
    try:
        async with asyncio.timeout(wait_s):
            while not batch.items and not context.closing:
                event.clear()
                await event.wait()
                if reader.closed:
                    raise ApiProblem("unknown-subscription", "it was removed")
                batch = reader.take(limit, whole=True)
    except TimeoutError:
        pass
    return batch


def _answer(reader: Reader, id_: str, batch: Batch, as_cloudevents: bool) -> web.Response:
    documents = [rendering.document(reader, id_, item) for item in batch.items]
    if not as_cloudevents:
        return answer(Deliveries(documents, reader.cursor))
    body = encode([cloudevents.written(document) for document in documents])
    headers = {CURSOR_HEADER: reader.cursor}
    return web.Response(body=body, headers=headers, content_type=cloudevents.BATCH_TYPE)


# --- Server-sent events -----------------------------------------------------------------------------------------------


async def _stream(request: web.Request, as_cloudevents: bool) -> web.StreamResponse:
    context = request.app[CONTEXT]
    id_ = request.match_info["id"]
    after = request.headers.get("Last-Event-ID") or request.query.get("after")
    with context.stream() as event:
        reader = context.service.subscriptions.reader(id_, after, event.set)
        response = web.StreamResponse(headers=_HEADERS)
        try:
            await response.prepare(request)
            await _write(context, request, response, b"retry: 1000\n\n")
            await _run(context, request, response, reader, id_, event, as_cloudevents)
            await response.write_eof()
        except (ConnectionError, Stalled):
            pass
        finally:
            reader.close()
        return response


async def _run(
    context: Context,
    request: web.Request,
    response: web.StreamResponse,
    reader: Reader,
    id_: str,
    event: asyncio.Event,
    as_cloudevents: bool,
) -> None:
    """Write until the subscription or the server ends, or the client goes."""
    while not reader.closed and not context.closing:
        event.clear()
        batch = reader.take(LIMIT)
        if batch.lost or batch.items:
            await _write(context, request, response, _frames(reader, id_, batch, as_cloudevents))
            await asyncio.sleep(0)
            continue
        try:
            async with asyncio.timeout(context.config.heartbeat_s):
                await event.wait()
        except TimeoutError:
            await _write(context, request, response, b": alive\n\n")


def _frames(reader: Reader, id_: str, batch: Batch, as_cloudevents: bool) -> bytes:
    parts = []
    if batch.lost:
        parts.append(b"event: gap\ndata: %b\n\n" % encode(Gap(batch.lost)))
    for item in batch.items:
        document: Any = rendering.document(reader, id_, item)
        cursor = document.cursor.encode()
        if as_cloudevents:
            document = cloudevents.written(document)
        parts.append(b"id: %b\ndata: %b\n\n" % (cursor, encode(document)))
    return b"".join(parts)


class Stalled(Exception):
    """The client does not read."""


async def _write(context: Context, request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    try:
        async with asyncio.timeout(context.config.stall_s):
            await response.write(data)
    except TimeoutError:
        request[RESULT] = "stalled"
        if request.transport is not None:
            request.transport.abort()
        raise Stalled from None
