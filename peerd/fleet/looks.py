"""A look at a peer over HTTP, with little patience: one that does not answer is not waited for."""

import asyncio
from collections.abc import Iterable
from typing import Final, TypeVar

import aiohttp
import msgspec

from peerd.documents import Links

ANSWER_S: Final = 5.0
"""Longer than it takes the system to find out that an address leads nowhere, which is 3 s on Linux."""
AT_ONCE: Final = 16
"""Questions under way at once: looking must not become the load."""


T = TypeVar("T")


class Seen(msgspec.Struct, frozen=True):
    """A peer as it describes itself; unknown fields of its answer are ignored."""

    id: str
    boot: int
    ready: bool
    overlay: str


class Silent(msgspec.Struct, frozen=True):
    """No answer. `gone`: nobody listens there, which is more than that somebody takes long."""

    gone: bool


class Structure(msgspec.Struct, frozen=True):
    """What `peerd.testbed.structure` wants to know of a peer."""

    ready: bool
    links: tuple[str, ...]


class Looks:
    """Asks peers; one connection for each question, so that a peer that is gone is noticed."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._gate = asyncio.Semaphore(AT_ONCE)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=ANSWER_S)
            self._session = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(force_close=True))
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def peer(self, at: str) -> Seen | Silent:
        """Who is at that address."""
        answer = await self._get(at, "/v1/peer")
        if isinstance(answer, Silent):
            return answer
        return _decoded(answer, Seen) or Silent(gone=False)

    async def structures(self, peers: Iterable[tuple[int, str]]) -> dict[int, Structure]:
        """By number, how those peers stand that answer."""
        asked = list(peers)
        found = await asyncio.gather(*(self._structure(at) for _, at in asked))
        return {number: structure for (number, _), structure in zip(asked, found) if structure is not None}

    async def _structure(self, at: str) -> Structure | None:
        answer = await self._get(at, "/v1/links")
        shown = None if isinstance(answer, Silent) else _decoded(answer, Links)
        if shown is None:
            return None
        links = {link.peer: None for kind in shown.links.values() for link in kind}
        links.pop(shown.peer, None)
        ready = await self._get(at, "/readyz")
        return Structure(not isinstance(ready, Silent), tuple(links))

    async def _get(self, at: str, path: str) -> bytes | Silent:
        try:
            async with self._gate, self._open().get(f"http://{at}{path}") as response:
                body = await response.read()
                return body if response.status == 200 else Silent(gone=False)
        except aiohttp.ClientConnectorError:
            return Silent(gone=True)
        except (aiohttp.ClientError, TimeoutError):
            return Silent(gone=False)


def _decoded(answer: bytes, type_: type[T]) -> T | None:
    try:
        return msgspec.json.decode(answer, type=type_)
    except msgspec.DecodeError:
        return None
