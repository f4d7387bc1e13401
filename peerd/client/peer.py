"""A peer as an application sees it: subscribe, publish, and what it tells of itself."""

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

import msgspec
from msgspec import UNSET, UnsetType

from peerd import documents
from peerd.client.batches import batches, encode, new_event
from peerd.client.errors import Gap, PushedBack, Refused
from peerd.client.requests import Requests
from peerd.client.subscription import Subscription, path_of
from peerd.documents import NewEvent, NewSubscription
from peerd.options import URL

T = TypeVar("T")


class Peer:
    """A peer, through its HTTP API. Closing it removes the subscriptions that were made through it."""

    def __init__(self, url: str = URL, *, token: str | None = None, timeout_s: float = 75.0) -> None:
        self._requests = Requests(url, token, timeout_s)
        self._subscriptions: dict[Subscription, None] = {}

    @property
    def url(self) -> str:
        return self._requests.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for subscription in list(self._subscriptions):
            await subscription.close()
        await self._requests.close()

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
    ) -> Subscription:
        """Subscribe, or take up the subscription `id` and read on `after` a cursor. `xpath` instead of a filter where
        the overlay takes it.

        One that was made by this call is removed when it or the peer is closed, unless `keep`.
        """
        wanted = NewSubscription(filter, xpath, retain_s, retain_max, idle_s)
        subscription = Subscription(self._requests, wanted, id, after, wait_s, on_gap, self._forget)
        await subscription.establish()
        subscription.keep = keep or not subscription.created
        self._subscriptions[subscription] = None
        return subscription

    def _forget(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription, None)

    async def subscriptions(self) -> list[documents.Subscription]:
        return (await self._get("/v1/subscriptions", documents.Subscriptions)).subscriptions

    async def unsubscribe(self, id: str) -> None:
        await self._requests.request("DELETE", path_of(id))

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
        _, body = await self._requests.request("POST", "/v1/events", encode(event), "application/json")
        return msgspec.json.decode(body, type=documents.Accepted).id

    async def publish_many(
        self,
        events: Iterable[NewEvent | Mapping[str, Any]] | AsyncIterable[NewEvent | Mapping[str, Any]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Publish events in order, as fast as the peer takes them; how many they were.

        An event is a `NewEvent`, or a mapping with its fields. `on_progress` is told how many were taken so far. If one
        is refused, `Refused.accepted` says how many were taken before it; a peer that does not stand in the overlay
        (`PushedBack`, with status 503) refuses them, too.
        """
        accepted = 0
        async for batch in batches(events):
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
            _, body = await self._requests.request("POST", "/v1/events", b"\n".join(lines), "application/x-ndjson")
        except Refused as refused:
            taken = refused.problem.accepted or 0
            if isinstance(refused, PushedBack) and refused.status == 429:
                await asyncio.sleep(refused.retry_after)
                return taken
            refused.accepted = before + taken
            raise
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
        body = encode({"attributes": attributes})
        _, raw = await self._requests.request("POST", "/v1/schema", body, "application/json")
        return msgspec.json.decode(raw, type=documents.SchemaShown)

    async def ready(self) -> bool:
        """Whether the peer stands in the overlay."""
        try:
            await self._requests.request("GET", "/readyz")
        except PushedBack:
            return False
        return True

    async def _get(self, path: str, type_: type[T]) -> T:
        _, body = await self._requests.request("GET", path)
        return msgspec.json.decode(body, type=type_)
