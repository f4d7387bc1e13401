"""One WebSocket for all: subscribe, unsubscribe, publish, deliveries.

Two tasks share a connection: one takes what the client says and answers it in order, the other writes deliveries. A
subscription that waits to stand in the overlay holds up neither: its answer comes when it is due, and deliveries of it
after the answer. Subscriptions that were made here end with the connection; those that were merely attached to by their
id do not.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

import msgspec
from aiohttp import WSMsgType, web

from peerd.api import rendering
from peerd.api.bodies import decode, encode
from peerd.api.config import CONTEXT, RESULT, Context
from peerd.api.problems import ApiProblem, as_problem
from peerd.documents import (
    NewSubscription,
    Ref,
    WsDelivery,
    WsError,
    WsGap,
    WsOk,
    WsPublish,
    WsRequest,
    WsSubscribe,
    WsUnsubscribe,
)
from peerd.service.deliveries import CursorExpired, Reader

TAKE: Final = 100
"""Deliveries of one subscription before the next one has its turn."""
GOING_AWAY: Final = 1001
INTERNAL: Final = 1011
"""Why we close (RFC 6455, section 7.4.1)."""

_log = logging.getLogger(__name__)
_decoder: Final[msgspec.json.Decoder[WsRequest]] = msgspec.json.Decoder(WsRequest)


async def connect(request: web.Request) -> web.StreamResponse:
    context = request.app[CONTEXT]
    config = context.config
    socket = web.WebSocketResponse(heartbeat=config.heartbeat_s, max_msg_size=config.body_bytes_max, compress=False)
    if not socket.can_prepare(request):
        raise ApiProblem("upgrade-required", "", {"Upgrade": "websocket", "Connection": "Upgrade"})
    with context.stream() as event:
        await socket.prepare(request)
        connection = Connection(context, request, socket, event)
        try:
            await connection.run()
        finally:
            connection.close()
    return socket


class Connection:
    def __init__(
        self, context: Context, request: web.Request, socket: web.WebSocketResponse, event: asyncio.Event
    ) -> None:
        self._context = context
        self._service = context.service
        self._request = request
        self._socket = socket
        self._event = event
        self._readers: dict[str, Reader] = {}
        self._own: dict[str, None] = {}
        self._joining: dict[asyncio.Task[None], str] = {}

    async def run(self) -> None:
        pump = asyncio.create_task(self._pump())
        try:
            async for message in self._socket:
                if message.type == WSMsgType.TEXT:
                    await self._take(message.data.encode("utf-8", "surrogatepass"))
                elif message.type == WSMsgType.BINARY:
                    await self._take(message.data)
        except ConnectionError:
            pass
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    def close(self) -> None:
        for task in self._joining:
            task.cancel()
        for reader in self._readers.values():
            reader.close()
        for id_ in self._own:
            if id_ in self._service.subscriptions:
                self._service.subscriptions.remove(id_)

    # --- what the client says -----------------------------------------------------------------------------------------

    async def _take(self, raw: bytes) -> None:
        ref: Ref = None
        try:
            ref = _ref_of(raw)
            item = decode(_decoder, raw, "invalid-message")
            if isinstance(item, WsPublish):
                await self._send(WsOk(ref, self._service.publisher.publish(item.event).id))
            elif isinstance(item, WsSubscribe):
                await self._subscribe(item)
            else:
                self._unsubscribe(item)
                await self._send(WsOk(ref, None, item.subscription_id))
        except Exception as error:
            await self._refuse(ref, error)

    async def _refuse(self, ref: Ref, error: Exception) -> None:
        problem = as_problem(error)
        if problem is None:
            raise error
        await self._send(WsError(ref, problem.document()))

    async def _subscribe(self, item: WsSubscribe) -> None:
        most = self._context.config.socket_subscriptions_max
        if len(self._readers) + len(self._joining) >= most:
            raise ApiProblem("too-many-subscriptions", f"a WebSocket has at most {most}")
        id_ = item.subscription_id
        if id_ is None:
            wanted = NewSubscription(item.filter, item.xpath, item.retain_s, item.retain_max, None)
            compiled = await self._service.subscriptions.compile(wanted)
            id_ = self._service.subscriptions.add(wanted, lasting=False, compiled=compiled).id
            self._own[id_] = None
        elif id_ in self._readers or id_ in self._joining.values():
            raise ApiProblem("invalid-subscription", "this WebSocket reads that subscription already")
        self._service.subscriptions.shown(id_)
        task = asyncio.create_task(self._join(item, id_))
        self._joining[task] = id_
        task.add_done_callback(self._joining.pop)

    async def _join(self, item: WsSubscribe, id_: str) -> None:
        """Answer when the subscription stands, and read it from then on."""
        try:
            await self._service.subscriptions.wait_active(id_, item.wait)
            await self._attach(item, id_)
        except ConnectionError:
            pass
        except Exception as error:
            if id_ in self._own and id_ in self._service.subscriptions:
                del self._own[id_]
                self._service.subscriptions.remove(id_)
            with suppress(ConnectionError):
                await self._refuse(item.ref, error)

    async def _attach(self, item: WsSubscribe, id_: str) -> None:
        try:
            gap, reader = False, self._service.subscriptions.reader(id_, item.after, self._event.set)
        except CursorExpired:
            if id_ not in self._own:
                raise
            gap, reader = True, self._service.subscriptions.reader(id_, None, self._event.set)
        try:
            await self._send(WsOk(item.ref, None, id_, self._service.subscriptions.shown(id_)))
            if gap:  # what came between an earlier connection and this one, nobody knows
                await self._send(WsGap(id_, None))
        except BaseException:  # also cancelled: a reader that is left behind keeps the subscription from being idle
            reader.close()
            raise
        self._readers[id_] = reader
        self._event.set()

    def _unsubscribe(self, item: WsUnsubscribe) -> None:
        id_ = item.subscription_id
        reader = self._readers.pop(id_, None)
        if reader is None:
            raise ApiProblem("unknown-subscription", "this WebSocket does not read such a subscription")
        reader.close()
        if id_ in self._own:
            del self._own[id_]
            self._service.subscriptions.remove(id_)

    # --- what the client is told --------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        """Write deliveries, a few of each subscription in turn, until the server closes."""
        try:
            while not self._context.closing:
                await self._event.wait()
                self._event.clear()
                more = True
                while more:
                    more = await self._write_some()
                    await asyncio.sleep(0)  # let others have their turn, too
            await self._socket.close(code=GOING_AWAY)
        except ConnectionError:
            pass
        except Exception:
            _log.exception("a WebSocket failed")
            self._request[RESULT] = "failed"
            await self._socket.close(code=INTERNAL)

    async def _write_some(self) -> bool:
        wrote = False
        for id_, reader in list(self._readers.items()):
            if reader.closed:  # removed by somebody else
                del self._readers[id_]
                self._own.pop(id_, None)
                gone = ApiProblem("unknown-subscription", f"subscription {id_} was removed")
                await self._send(WsError(None, gone.document()))
                continue
            batch = reader.take(TAKE)
            if batch.lost:
                await self._send(WsGap(id_, batch.lost))
            for item in batch.items:
                await self._send(WsDelivery(id_, rendering.document(reader, id_, item)))
            wrote = wrote or bool(batch.items)
        return wrote

    async def _send(self, document: WsOk | WsError | WsDelivery | WsGap) -> None:
        try:
            async with asyncio.timeout(self._context.config.stall_s):
                await self._socket.send_str(encode(document).decode())
        except TimeoutError:
            self._request[RESULT] = "stalled"
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionResetError("the client does not read") from None


class _Head(msgspec.Struct):
    ref: str | int | None = None


_head: Final = msgspec.json.Decoder(_Head)


def _ref_of(raw: bytes) -> Ref:
    """The reference of a message, also of one that is wrong otherwise."""
    try:
        return _head.decode(raw).ref
    except (ValueError, RecursionError):
        return None
