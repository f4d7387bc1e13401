"""How an API behaves, and what all its handlers share."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final, Literal, TypeAlias, get_args

import msgspec
from aiohttp import web

from peerd.api.problems import ApiProblem
from peerd.options import Count, Rate, Seconds, setting
from peerd.service import Service

MetricsRenderer: TypeAlias = Callable[[str], tuple[bytes, str]]
"""From an `Accept` header to metrics and their content type."""


class ApiConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Limits are our choice, and guesses, unless they say where they come from."""

    hosts: Annotated[
        tuple[str, ...], setting("names that `Host` may have beside loopback's and the address that was asked", "HOST")
    ] = ()
    origins: Annotated[
        tuple[str, ...], setting("origins of web pages that may use this peer, as `https://example.org`", "ORIGIN")
    ] = ()
    token: Annotated[
        str | None, setting("what clients must send as `Authorization: Bearer`; health and readiness need none", "TEXT")
    ] = None
    body_bytes_max: Annotated[Count, setting("bytes of a JSON body, or of a line of NDJSON")] = 1024 * 1024
    """An event of 64 KiB whose every byte is written as `\\u00XX` fits in."""
    batch_bytes_max: Annotated[Count, setting("bytes of a batch of events")] = 16 * 1024 * 1024
    batch_lines_max: Annotated[Count, setting("events in a batch")] = 50_000
    body_s: Annotated[Seconds, setting("patience with a body that does not come on")] = 30.0
    client_rate: Annotated[Rate, setting("requests a second from one address")] = 2_000.0
    client_burst: Annotated[Rate, setting("requests at once from one address")] = 4_000.0
    rate: Annotated[Rate, setting("requests a second in all")] = 5_000.0
    """About what one core can answer."""
    burst: Annotated[Rate, setting("requests at once in all")] = 10_000.0
    connections_max: Annotated[Count, setting("connections of clients at once")] = 1_024
    streams_max: Annotated[
        Count, setting("readers that wait or stream at once: server-sent events, WebSockets, long polls")
    ] = 512
    socket_subscriptions_max: Annotated[Count, setting("subscriptions of one WebSocket")] = 256
    heartbeat_s: Annotated[Seconds, setting("between comments in a stream of server-sent events (contract)")] = 15.0
    stall_s: Annotated[Seconds, setting("a client that takes nothing for so long is disconnected")] = 20.0
    """Longer than one heartbeat."""
    keepalive_s: Annotated[Seconds, setting("an idle connection is closed after so long")] = 75.0
    linger_s: Annotated[
        Seconds, setting("how long a client may go on sending after it was refused, so that it comes to read why")
    ] = 2.0
    stop_s: Annotated[Seconds, setting("patience with requests under way when the server stops")] = 5.0


Result: TypeAlias = Literal["answered", "refused", "failed", "stalled", "gone"]
REFUSED: Final = frozenset(
    {"foreign-host", "foreign-origin", "unauthorized", "too-many-requests", "too-many-streams", "shutting-down"}
)
"""The problems of a request that is not served at all."""
RESULT: Final[web.RequestKey[Result]] = web.RequestKey("result")
"""Where a request has its result, if it ends otherwise than its answer began."""


class Stats(msgspec.Struct):
    """What the API has counted. A request has one result, when it ends; that of a stream is its last moment."""

    requests: int = 0
    """Those that have begun."""
    answered: int = 0
    """Also with a problem of the client's making, or one that will pass."""
    refused: int = 0
    """By host, origin, token, rate or number."""
    failed: int = 0
    """Answered with 500, or a WebSocket that failed."""
    stalled: int = 0
    """Streams ended because the client did not read."""
    gone: int = 0
    """The client went before the end, as most readers of a stream do."""
    connections_refused: int = 0

    def count(self, result: Result) -> None:
        setattr(self, result, getattr(self, result) + 1)

    def results(self) -> dict[str, int]:
        return {result: getattr(self, result) for result in get_args(Result)}


class Context:
    """What the handlers of one application share. Until it is opened, there is neither service nor metrics."""

    def __init__(self, config: ApiConfig) -> None:
        self._opened: tuple[Service, MetricsRenderer] | None = None
        self.config = config
        self.stats = Stats()
        self.closing = False
        self._streams: dict[asyncio.Event, None] = {}

    def open(self, service: Service, metrics: MetricsRenderer) -> None:
        self._opened = service, metrics

    @property
    def service(self) -> Service:
        return self._behind()[0]

    @property
    def metrics(self) -> MetricsRenderer:
        return self._behind()[1]

    def _behind(self) -> tuple[Service, MetricsRenderer]:
        if self._opened is None:
            raise ApiProblem("not-joined", "this peer has not found its swarm yet; it keeps trying its contacts")
        return self._opened

    @property
    def streams(self) -> int:
        return len(self._streams)

    @contextmanager
    def stream(self) -> Iterator[asyncio.Event]:
        """Count a reader while it is there. The event is set whenever it should look, also because we close."""
        if self.closing:
            raise ApiProblem("shutting-down")
        if len(self._streams) >= self.config.streams_max:
            raise ApiProblem("too-many-streams", f"{self.config.streams_max} readers are there already")
        event = asyncio.Event()
        self._streams[event] = None
        try:
            yield event
        finally:
            del self._streams[event]

    def close(self) -> None:
        """Let every stream end."""
        self.closing = True
        for event in self._streams:
            event.set()


CONTEXT: Final[web.AppKey[Context]] = web.AppKey("context", Context)
