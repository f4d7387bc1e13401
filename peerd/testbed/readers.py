"""Applications that read their deliveries over HTTP, one for each subscription, as a stream of server-sent events.

What a peer has delivered is told by its watch. That it also reaches an application is another matter, and these count
it: every delivery must be read, once.
"""

import asyncio
from contextlib import suppress

from peerd.client import ClientError, Subscription
from peerd.testbed.bed import Member


class Readers:
    def __init__(self) -> None:
        self.read: dict[tuple[int, str, str], int] = {}
        """How often: by number of the peer, subscription and event."""
        self.gaps = 0
        self._tasks: dict[asyncio.Task[None], Member] = {}

    def start(self, member: Member, subscription: Subscription) -> None:
        self._tasks[asyncio.create_task(self._read(member, subscription))] = member

    async def _read(self, member: Member, subscription: Subscription) -> None:
        with suppress(ClientError):  # of a peer that is gone nothing can be read
            async for delivery in subscription:
                key = member.index, delivery.subscription_id, delivery.event_id
                self.read[key] = self.read.get(key, 0) + 1

    def gap(self, gap: object) -> None:
        self.gaps += 1

    async def drop(self, member: Member) -> None:
        """A peer is gone, and with it what was to be read there."""
        await _end([task for task, of in self._tasks.items() if of is member])

    async def close(self) -> None:
        await _end(list(self._tasks))

    @property
    def twice(self) -> int:
        return sum(times - 1 for times in self.read.values())


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
