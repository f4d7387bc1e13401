"""Reading a stream of server-sent events the way its specification says, one event at a time."""

from typing import Any, NamedTuple

import aiohttp
import msgspec


class Event(NamedTuple):
    kind: str
    id: str | None
    data: Any


class EventStream:
    """Comments are collected in `comments`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.comments: list[str] = []

    async def next(self) -> Event | None:
        """The next event; None when the stream ends."""
        kind, id_, data = "message", None, ""
        while raw := await self.response.content.readline():
            line = raw.decode().removesuffix("\n")
            if line.startswith(":"):
                self.comments.append(line[1:].strip())
            elif line:
                field, _, value = line.partition(": ")
                kind = value if field == "event" else kind
                id_ = value if field == "id" else id_
                data += value if field == "data" else ""
            elif data:
                return Event(kind, id_, msgspec.json.decode(data))
        return None

    async def take(self, count: int) -> list[Event]:
        found = [await self.next() for _ in range(count)]
        return [event for event in found if event is not None]
