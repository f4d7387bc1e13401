"""How an API behaves, and what all its handlers share."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import msgspec
from aiohttp import web

from peerd.api.problems import ApiProblem
from peerd.service import Service

MetricsRenderer: TypeAlias = Callable[[str], tuple[bytes, str]]
"""From an `Accept` header to metrics and their content type."""


class ApiConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Limits are our choice, and guesses, unless they say where they come from."""

    hosts: tuple[str, ...] = ()
    """Names that `Host` may have beside those of loopback and the address that a request came to."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may use this peer beside its own, as `https://example.org`."""
    token: str | None = None
    """What clients must send as `Authorization: Bearer`; health and readiness are open to all (contract)."""
    body_bytes_max: int = 1024 * 1024
    """A JSON body, or a line of NDJSON: an event of 64 KiB whose every byte is written as `\\u00XX` fits in."""
    batch_bytes_max: int = 16 * 1024 * 1024
    batch_lines_max: int = 50_000
    body_s: float = 30.0
    """Patience with a body that does not come on."""
    client_rate: float = 2_000.0
    client_burst: float = 4_000.0
    """Requests a second of one client's address, and at once."""
    rate: float = 5_000.0
    burst: float = 10_000.0
    """Requests a second of all: about what one core can answer."""
    connections_max: int = 1_024
    streams_max: int = 512
    """Readers that wait or stream: server-sent events, WebSockets, long polls."""
    socket_subscriptions_max: int = 256
    """Subscriptions of one WebSocket."""
    heartbeat_s: float = 15.0
    """A comment in a stream of server-sent events (contract)."""
    stall_s: float = 20.0
    """A client that takes nothing for so long is disconnected: longer than one heartbeat."""
    keepalive_s: float = 75.0
    linger_s: float = 2.0
    """How long a client may go on sending after it was refused, so that it comes to read why."""
    stop_s: float = 5.0
    """Patience with requests under way when the server stops."""


class Stats(msgspec.Struct):
    """What the API has counted."""

    requests: int = 0
    refused: int = 0
    """By host, origin, token, rate or number."""
    failed: int = 0
    """Answered with 500."""
    stalled: int = 0
    """Streams ended because the client did not read."""
    connections_refused: int = 0


class Context:
    """What the handlers of one application share."""

    def __init__(self, service: Service, config: ApiConfig, metrics: MetricsRenderer) -> None:
        self.service = service
        self.config = config
        self.metrics = metrics
        self.stats = Stats()
        self.closing = False
        self._streams: dict[asyncio.Event, None] = {}

    @property
    def streams(self) -> int:
        return len(self._streams)

    @contextmanager
    def stream(self) -> Iterator[asyncio.Event]:
        """Count a reader while it is there. The event is set whenever it should look, also because we close."""
        if self.closing:
            raise ApiProblem("shutting-down")
        if len(self._streams) >= self.config.streams_max:
            self.stats.refused += 1
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
