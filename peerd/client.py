"""An asynchronous client of a peer's HTTP API.

    async with Peer("http://127.0.0.1:6480") as peer:
        subscription = await peer.subscribe("symbol = 'OTE' AND price > 8")
        await peer.publish({"symbol": "OTE", "price": 8.5})
        async for delivery in subscription:
            print(delivery.attributes)

A subscription is read from a stream of server-sent events. When the connection breaks it is opened again, with patience
that grows, and read on from the last cursor: nothing is read twice, and nothing is left out but what the peer does not
keep any more. Of that the reader is told with a `Gap`, which is raised out of the loop, or handed to `on_gap` if that
was given; iterating again goes on behind it. Should the peer have forgotten the subscription (it was idle, or the peer
came back without its state), it is made anew, with a gap of unknown size between.

Every event is published under an id, so that one whose answer was lost can be sent again without being published twice.

    ClientError
    ├── Unreachable     nobody answers at that address
    ├── Refused         the peer said no: `problem` says why
    │   └── PushedBack  not now: try again in `retry_after` seconds
    └── Gap             `lost` deliveries are gone for this reader (None: nobody knows how many)
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from random import random
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote
from uuid import uuid4

import aiohttp
import msgspec
from msgspec import UNSET, UnsetType

from peerd import documents
from peerd.documents import NewEvent, NewSubscription, Problem
from peerd.options import URL

SILENCE_S: Final = 45.0
"""A stream that says nothing for so long is dead: three of the peer's comments are missing."""
BACK_OFF_S: Final = 0.1
BACK_OFF_S_MAX: Final = 5.0
ATTEMPTS: Final = 5
"""Times that a request is made whose connection breaks."""
BATCH_EVENTS: Final = 500
BATCH_BYTES: Final = 512 * 1024
"""Events in one request of `publish_many`. A guess: some 10 ms of the peer's time."""
LINE_BYTES: Final = 2 * 1024 * 1024
"""A line of a stream: an event of the greatest size, with every byte escaped, and then some."""

T = TypeVar("T")


class ClientError(Exception):
    """Something did not work out."""


class Unreachable(ClientError):
    """Nobody answers at that address."""


class Refused(ClientError):
    """The peer said no. `accepted` counts the events of a batch that were taken before."""

    def __init__(self, problem: Problem, accepted: int = 0) -> None:
        super().__init__(problem.detail or problem.title)
        self.problem = problem
        self.accepted = accepted

    @property
    def status(self) -> int:
        return self.problem.status


class PushedBack(Refused):
    """Not now. Try again in `retry_after` seconds."""

    @property
    def retry_after(self) -> float:
        return self.problem.retry_after or 1.0


class Gap(ClientError):
    """Deliveries are gone for this reader: `lost` of them, or nobody knows how many."""

    def __init__(self, lost: int | None) -> None:
        super().__init__(f"{'an unknown number of' if lost is None else lost} deliveries are lost")
        self.lost = lost


class Delivery(msgspec.Struct, frozen=True):
    """An event, delivered."""

    cursor: str
    event_id: str
    subscription_id: str
    attributes: dict[str, str | int | float | bool]
    published_at: datetime
    delivered_at: datetime
    hops: int
    publisher: str
    sequence: int
    boot: int = 0
    payload: Any = None
    payload_base64: bytes | None = None
    content_type: str | None = None
    headers: dict[str, str] = {}

    @property
    def data(self) -> Any:
        """The payload, whether it was JSON or bytes."""
        return self.payload if self.payload_base64 is None else self.payload_base64


_encode: Final = msgspec.json.Encoder().encode
_delivery: Final = msgspec.json.Decoder(Delivery)
_gap: Final = msgspec.json.Decoder(documents.Gap)


class Peer:
    """A peer, through its HTTP API. Closing it removes the subscriptions that were made through it."""

    def __init__(self, url: str = URL, *, token: str | None = None, timeout_s: float = 75.0) -> None:
        self.url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=10)
        self._session: aiohttp.ClientSession | None = None
        self._subscriptions: dict[Subscription, None] = {}

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=self._timeout)
        return self._session

    async def close(self) -> None:
        for subscription in list(self._subscriptions):
            await subscription.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # --- subscriptions ------------------------------------------------------------------------------------------------

    async def subscribe(
        self,
        filter: str | UnsetType = UNSET,
        *,
        xpath: str | UnsetType = UNSET,
        id: str | None = None,
        after: str | None = None,
        retain_s: float | UnsetType = UNSET,
        retain_max: int | UnsetType = UNSET,
        idle_s: float | UnsetType | None = UNSET,
        wait_s: float = 10.0,
        keep: bool = False,
        on_gap: Callable[[Gap], None] | None = None,
    ) -> "Subscription":
        """Subscribe, or take up the subscription `id` and read on `after` a cursor. `xpath` instead of a filter where
        the overlay takes it.

        One that was made by this call is removed when it or the peer is closed, unless `keep`.
        """
        wanted = NewSubscription(filter, xpath, retain_s, retain_max, idle_s)
        subscription = Subscription(self, wanted, id, after, wait_s, on_gap)
        await subscription.establish()
        subscription.keep = keep or not subscription.created
        self._subscriptions[subscription] = None
        return subscription

    def forget(self, subscription: "Subscription") -> None:
        self._subscriptions.pop(subscription, None)

    async def subscriptions(self) -> list[documents.Subscription]:
        return (await self._get("/v1/subscriptions", documents.Subscriptions)).subscriptions

    async def unsubscribe(self, id: str) -> None:
        await self.request("DELETE", _path(id))

    # --- events -------------------------------------------------------------------------------------------------------

    async def publish(
        self,
        attributes: Mapping[str, documents.Scalar],
        *,
        payload: Any = None,
        content_type: str | None = None,
        headers: Mapping[str, str] | None = None,
        ttl_s: float | None = None,
        id: str | None = None,
    ) -> str:
        """Publish an event; its id in the swarm. `PushedBack` if the peer wants to be asked later."""
        event = new_event(
            attributes, payload=payload, content_type=content_type, headers=headers, ttl_s=ttl_s, id=id or uuid4().hex
        )
        _, body = await self.request("POST", "/v1/events", _encode(event), "application/json")
        return msgspec.json.decode(body, type=documents.Accepted).id

    async def publish_many(
        self,
        events: Iterable[NewEvent | Mapping[str, Any]] | AsyncIterable[NewEvent | Mapping[str, Any]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Publish events in order, as fast as the peer takes them; how many they were.

        An event is a `NewEvent`, or a mapping with its fields. `on_progress` is told how many were taken so far. If one
        is refused, `Refused.accepted` says how many were taken before it.
        """
        accepted = 0
        async for batch in _batches(events):
            while batch:
                taken = await self._publish_batch(batch, accepted)
                accepted += taken
                batch = batch[taken:]
                if on_progress is not None:
                    on_progress(accepted)
        return accepted

    async def _publish_batch(self, lines: list[bytes], before: int) -> int:
        """Publish these; how many were taken before the peer had enough."""
        try:
            _, body = await self.request("POST", "/v1/events", b"\n".join(lines), "application/x-ndjson")
        except PushedBack as pushed:
            await asyncio.sleep(pushed.retry_after)
            return pushed.problem.accepted or 0
        except Refused as refused:
            raise Refused(refused.problem, before + (refused.problem.accepted or 0)) from None
        return msgspec.json.decode(body, type=documents.BatchAccepted).accepted

    # --- the peer -----------------------------------------------------------------------------------------------------

    async def status(self) -> documents.PeerShown:
        return await self._get("/v1/peer", documents.PeerShown)

    async def links(self) -> documents.Links:
        return await self._get("/v1/links", documents.Links)

    async def topology(self, limit: int = 200) -> documents.Topology:
        return await self._get(f"/v1/topology?limit={limit}", documents.Topology)

    async def schema(self) -> documents.SchemaShown:
        return await self._get("/v1/schema", documents.SchemaShown)

    async def append_schema(
        self, attributes: list[dict[str, Any]] | dict[str, dict[str, Any]]
    ) -> documents.SchemaShown:
        """Append attributes: a list of them, or a table by name as in a schema file."""
        body = _encode({"attributes": attributes})
        _, raw = await self.request("POST", "/v1/schema", body, "application/json")
        return msgspec.json.decode(raw, type=documents.SchemaShown)

    async def ready(self) -> bool:
        """Whether the peer stands in the overlay."""
        try:
            await self.request("GET", "/readyz")
        except PushedBack:
            return False
        return True

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _get(self, path: str, type_: type[T]) -> T:
        _, body = await self.request("GET", path)
        return msgspec.json.decode(body, type=type_)

    async def request(
        self, method: str, path: str, body: bytes | None = None, content_type: str | None = None
    ) -> tuple[int, bytes]:
        """Status and body of an answer that is not a problem. Tried again while the connection breaks."""
        headers = {} if content_type is None else {"Content-Type": content_type}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self._open().request(method, self.url + path, data=body, headers=headers) as response:
                    raw = await response.read()
                    if response.status >= 400:
                        raise refusal(response.status, raw)
                    return response.status, raw
            except (aiohttp.ClientError, TimeoutError) as error:
                if attempt == ATTEMPTS:
                    raise Unreachable(f"{self.url} does not answer: {str(error) or type(error).__name__}") from None
            await asyncio.sleep(back_off(attempt))
        raise AssertionError("unreachable")

    async def open_stream(self, path: str, after: str | None) -> aiohttp.ClientResponse:
        """A stream of server-sent events that follow a cursor."""
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = after
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_S)
        response = await self._open().get(self.url + path, headers=headers, timeout=timeout, read_bufsize=LINE_BYTES)
        if response.status != 200:
            raw = await response.read()
            raise refusal(response.status, raw)
        return response


def new_event(
    attributes: Mapping[str, documents.Scalar],
    *,
    payload: Any = None,
    content_type: str | None = None,
    headers: Mapping[str, str] | None = None,
    ttl_s: float | None = None,
    id: str | None = None,
) -> NewEvent:
    """An event to publish. A payload of bytes travels as such."""
    raw = None
    if isinstance(payload, (bytes, bytearray, memoryview)):
        payload, raw = None, msgspec.to_builtins(bytes(payload))
    return NewEvent(dict(attributes), id, payload, raw, content_type, dict(headers or {}), ttl_s)


def refusal(status: int, raw: bytes) -> Refused:
    """What an answer that is a problem says; also when it comes from somebody who knows no problems."""
    try:
        problem = msgspec.json.decode(raw, type=Problem)
    except (ValueError, RecursionError):
        problem = Problem("about:blank", f"HTTP {status}", status, raw[:200].decode("utf-8", "replace"))
    return PushedBack(problem) if status in (429, 503) else Refused(problem)


def back_off(attempt: int) -> float:
    """Seconds to wait after so many attempts: twice as long each time, and never the same for two clients."""
    return min(BACK_OFF_S_MAX, BACK_OFF_S * 2.0 ** (attempt - 1)) * (0.5 + random() / 2)


def _path(id_: str, rest: str = "") -> str:
    return f"/v1/subscriptions/{quote(id_, safe='')}{rest}"


async def _batches(
    events: Iterable[NewEvent | Mapping[str, Any]] | AsyncIterable[NewEvent | Mapping[str, Any]],
) -> AsyncIterator[list[bytes]]:
    """The events as lines of JSON, each with an id, in batches of a sensible size."""
    lines: list[bytes] = []
    size = 0
    async for event in _each(events):
        line = _line(event)
        if lines and (len(lines) >= BATCH_EVENTS or size + len(line) > BATCH_BYTES):
            yield lines
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield lines


async def _each(events: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield event
    else:
        for event in events:
            yield event


def _line(event: NewEvent | Mapping[str, Any]) -> bytes:
    if isinstance(event, NewEvent):
        return _encode(event if event.id is not None else msgspec.structs.replace(event, id=uuid4().hex))
    return _encode({"id": uuid4().hex, **event})


# --- Reading ----------------------------------------------------------------------------------------------------------


class Subscription:
    """Iterate over it for its deliveries. `cursor` is that of the last one: keep it to read on after a restart."""

    def __init__(
        self,
        peer: Peer,
        wanted: NewSubscription,
        id_: str | None,
        after: str | None,
        wait_s: float,
        on_gap: Callable[[Gap], None] | None,
    ) -> None:
        self._peer = peer
        self._wanted = wanted
        self._id = id_ or uuid4().hex  # chosen here, so that asking again never makes a second one
        self._wait_s = wait_s
        self._on_gap = on_gap
        self._response: aiohttp.ClientResponse | None = None
        self._failures = 0
        self._closed = False
        self._shown: documents.Subscription | None = None
        self.cursor = after
        self.created = id_ is None
        self.keep = False

    @property
    def shown(self) -> documents.Subscription:
        """The subscription as the peer last described it."""
        assert self._shown is not None
        return self._shown

    @property
    def id(self) -> str:
        return self._id

    @property
    def warnings(self) -> list[str]:
        return self.shown.warnings

    async def establish(self) -> None:
        """Make the subscription, or take it up if there is one of that name."""
        path = _path(self._id, f"?wait={self._wait_s:g}")
        status, raw = await self._peer.request("PUT", path, _encode(self._wanted), "application/json")
        self._shown = msgspec.json.decode(raw, type=documents.Subscription)
        self.created = self.created or status == 201

    async def change(self, filter: str) -> documents.Subscription:
        """Give it another filter, without a gap in delivery."""
        wanted = msgspec.structs.replace(self._wanted, filter=filter, xpath=UNSET)
        path = _path(self.id, f"?wait={self._wait_s:g}")
        _, raw = await self._peer.request("PUT", path, _encode(wanted), "application/json")
        self._wanted = wanted
        self._shown = msgspec.json.decode(raw, type=documents.Subscription)
        return self._shown

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        while not self._closed:
            try:
                if self._response is None:
                    self._response = await self._peer.open_stream(_path(self.id, "/deliveries"), self.cursor)
                found = await self._next(self._response)
                self._failures = 0
                if isinstance(found, Delivery):
                    self.cursor = found.cursor
                    return found
                if found is not None:
                    self._tell(found)
                    continue
            except Refused as refused:
                await self._recover(refused)
                continue
            except (aiohttp.ClientError, TimeoutError):
                pass
            self._drop()  # the stream has ended or broken
            self._failures += 1
            if not self._closed:
                await asyncio.sleep(back_off(self._failures))
        raise StopAsyncIteration

    async def _recover(self, refused: Refused) -> None:
        """Go on after the peer has refused to stream, if there is a way."""
        self._drop()
        if isinstance(refused, PushedBack):
            self._failures += 1
            await asyncio.sleep(max(refused.retry_after, back_off(self._failures)))
        elif refused.status == 410:
            self.cursor = refused.problem.oldest
            self._tell(Gap(None))
        elif refused.status == 404:
            try:
                await self.establish()
            except (Unreachable, PushedBack):
                self._failures += 1
                await asyncio.sleep(back_off(self._failures))
            else:
                self.cursor = None
                self._tell(Gap(None))
        else:
            raise refused

    async def _next(self, response: aiohttp.ClientResponse) -> Delivery | Gap | None:
        """The next delivery or gap of a stream; None when it ends."""
        kind, data = b"", b""
        while line := await response.content.readline():
            line = line.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                data += line[5:].lstrip(b" ")
            elif line.startswith(b"event:"):
                kind = line[6:].strip()
            elif not line:
                if data and kind in (b"", b"message"):
                    return _delivery.decode(data)
                if data and kind == b"gap":
                    return Gap(_gap.decode(data).lost)
                kind, data = b"", b""
        return None

    def _tell(self, gap: Gap) -> None:
        if self._on_gap is None:
            raise gap
        self._on_gap(gap)

    def _drop(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()

    async def close(self) -> None:
        """Stop reading; a subscription that was made here is removed."""
        if self._closed:
            return
        self._closed = True
        self._drop()
        self._peer.forget(self)
        if not self.keep:
            with suppress(ClientError):  # it is gone already, or it will be when it is idle
                await self._peer.unsubscribe(self.id)
