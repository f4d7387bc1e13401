"""HTTP requests to a peer. One whose connection breaks is made again, with patience that grows."""

import asyncio
from random import random
from typing import Final

import aiohttp

from peerd.client.errors import Unreachable, refusal

SILENCE_S: Final = 45.0
"""A stream that says nothing for so long is dead: three of the peer's comments are missing."""
BACK_OFF_S: Final = 0.1
BACK_OFF_S_MAX: Final = 5.0
ATTEMPTS: Final = 5
"""Times that a request is made whose connection breaks."""
LINE_BYTES: Final = 2 * 1024 * 1024
"""A line of a stream: an event of the greatest size, with every byte escaped, and then some."""


class Requests:
    """Made anywhere; the first request needs a running event loop."""

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        self.url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=10)
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=self._timeout)
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

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
                    raise Unreachable(f"{self.url} {_why(error)}") from None
            await asyncio.sleep(back_off(attempt))
        raise AssertionError("unreachable")

    async def stream(self, path: str, after: str | None) -> aiohttp.ClientResponse:
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


def _why(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientResponseError):  # whose words are the bytes that came
        return "answers with something else than HTTP; a peer has one port for other peers and one for clients"
    return f"does not answer: {str(error) or type(error).__name__}"


def back_off(attempt: int) -> float:
    """Seconds to wait after so many attempts: twice as long each time, and never the same for two clients."""
    return min(BACK_OFF_S_MAX, BACK_OFF_S * 2.0 ** (attempt - 1)) * (0.5 + random() / 2)
