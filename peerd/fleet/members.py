"""The peers that a few names stand for.

A name has as many addresses as peers that answer to it: a service of Compose, a headless service of Kubernetes. Names
are looked up again and again, since containers come and go and come back under other addresses. Who a peer is it says
itself: its id lasts, its boot tells a life from the one before.

    unknown --stands--> living --silent for long, or announced--> gone --stands again--> living
                          |  ^
             announced    v  |   announced
                          away          cut off or paused: it lives, and nobody can reach it
"""

import logging
from collections.abc import Sequence
from typing import Final

from peerd.client import Peer
from peerd.fleet.looks import Looks, Seen
from peerd.net.endpoints import resolve

CLIENT_S: Final = 20.0
"""Patience with one request. A guess: on a busy machine a subscription takes a second or two to stand."""

_log = logging.getLogger("peerd.fleet")


class Member:
    """A peer, as the driver sees it. `index` is its number for the oracle."""

    def __init__(self, index: int, at: str, seen: Seen) -> None:
        self.index = index
        self.id = seen.id
        self.living = False
        self.away = False
        """It lives, but somebody has announced that it cannot be reached."""
        self.standing = False
        """All its subscriptions stand: it takes part."""
        self.silence = 0.0
        """How much speaks for its death: 1 is enough."""
        self.seen_ms = 0.0
        self._former: list[Peer] = []
        self.at, self.boot, self.client = at, seen.boot, _client(at)

    def move(self, at: str, seen: Seen) -> None:
        """It was met there, perhaps in a new life."""
        self._former.append(self.client)
        self.at, self.boot, self.client = at, seen.boot, _client(at)

    async def close_former(self) -> None:
        """Let go of clients of earlier meetings."""
        while self._former:
            await self._former.pop().close()

    async def close(self) -> None:
        await self.close_former()
        await self.client.close()

    @property
    def host(self) -> str:
        return self.at.rpartition(":")[0]

    @property
    def usable(self) -> bool:
        return self.standing and not self.away


def _client(at: str) -> Peer:
    return Peer(f"http://{at}", timeout_s=CLIENT_S)


class Members:
    """All peers that were ever met, and where they live now."""

    def __init__(self, names: Sequence[str], looks: Looks) -> None:
        self._names = names
        self._looks = looks
        self.all: dict[str, Member] = {}
        """By the peer's id."""

    @property
    def living(self) -> list[Member]:
        return [member for member in self.all.values() if member.living]

    @property
    def usable(self) -> list[Member]:
        return [member for member in self.all.values() if member.usable]

    def at_host(self, host: str) -> Member | None:
        """The living peer with that address."""
        return next((member for member in self.living if member.host == host), None)

    async def addresses(self) -> list[str]:
        """What the names stand for now. A name that nobody knows yet stands for nothing."""
        found: dict[str, None] = {}
        for name in self._names:
            try:
                found |= dict.fromkeys(await resolve(name))
            except OSError as error:
                _log.warning("%s; trying again", error)
        return list(found)

    async def unknown(self) -> list[str]:
        """Addresses at which no living peer is known."""
        taken = {member.at for member in self.living}
        return [at for at in await self.addresses() if at not in taken]

    def met(self, at: str, seen: Seen) -> Member:
        """The peer that was found at an address: a new one, or one that was gone."""
        member = self.all.get(seen.id)
        if member is None:
            member = self.all[seen.id] = Member(len(self.all), at, seen)
        else:
            member.move(at, seen)
        return member
