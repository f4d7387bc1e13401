"""Reading a subscription's deliveries from a stream of server-sent events.

When the stream breaks it is opened again and read on from the last cursor. What the peer does not keep any more is told
as a `Gap`; a subscription that it has forgotten is made anew, with a gap of unknown size between.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Self
from urllib.parse import quote
from uuid import uuid4

import aiohttp
import msgspec
from msgspec import UNSET

from peerd import documents
from peerd.client.batches import encode
from peerd.client.errors import ClientError, Gap, PushedBack, Refused, Unreachable
from peerd.client.requests import Requests, back_off
from peerd.documents import NewSubscription


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


_delivery: Final = msgspec.json.Decoder(Delivery)
_gap: Final = msgspec.json.Decoder(documents.Gap)


def path_of(id_: str, rest: str = "") -> str:
    return f"/v1/subscriptions/{quote(id_, safe='')}{rest}"


class Subscription:
    """Iterate over it for its deliveries. `cursor` is that of the last one: keep it to read on after a restart."""

    def __init__(
        self,
        requests: Requests,
        wanted: NewSubscription,
        id_: str | None,
        after: str | None,
        wait_s: float,
        on_gap: Callable[[Gap], None] | None,
        on_close: Callable[["Subscription"], None],
    ) -> None:
        self._requests = requests
        self._wanted = wanted
        self._id = id_ or uuid4().hex  # chosen here, so that asking again never makes a second one
        self._wait_s = wait_s
        self._on_gap = on_gap
        self._on_close = on_close
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
        path = path_of(self._id, f"?wait={self._wait_s:g}")
        status, raw = await self._requests.request("PUT", path, encode(self._wanted), "application/json")
        self._shown = msgspec.json.decode(raw, type=documents.Subscription)
        self.created = self.created or status == 201

    async def change(self, filter: str) -> documents.Subscription:
        """Give it another filter, without a gap in delivery."""
        wanted = msgspec.structs.replace(self._wanted, filter=filter, xpath=UNSET)
        path = path_of(self.id, f"?wait={self._wait_s:g}")
        _, raw = await self._requests.request("PUT", path, encode(wanted), "application/json")
        self._wanted = wanted
        self._shown = msgspec.json.decode(raw, type=documents.Subscription)
        return self._shown

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        while not self._closed:
            try:
                if self._response is None:
                    self._response = await self._requests.stream(path_of(self.id, "/deliveries"), self.cursor)
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
        self._on_close(self)
        if not self.keep:
            with suppress(ClientError):  # it is gone already, or it will be when it is idle
                await self._requests.request("DELETE", path_of(self.id))
