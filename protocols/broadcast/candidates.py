"""Whom a participant could be linked with: strangers that peer sampling or others have named.

Samples come far more often than a link is sought, so they are looked through only when somebody asks.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Final

from protocols.broadcast.own import JOINING, Own
from protocols.model.descriptor import Descriptor, addresses_of
from protocols.model.ids import Address

CANDIDATES_MAX: Final = 64
"""Participants remembered from peer sampling: three views' worth."""


class Candidates:
    __slots__ = ("_known", "_own", "_refused", "_samples", "contacts")

    def __init__(self, own: Own) -> None:
        self._own = own
        self._known: list[Address] = []
        self._samples: Sequence[Descriptor] | None = None  # what peer sampling showed last, not looked through yet
        self._refused: dict[Address, int] = {}  # refused a link -> until when we do not ask again
        self.contacts: tuple[Address, ...] = ()  # through whom to join

    def known(self) -> list[Address]:
        if self._samples is not None:
            self._known = [a for a in addresses_of(self._samples) if a != self._own.me][:CANDIDATES_MAX]
            self._samples = None
        return self._known

    def choose(self, count: int, linked: Container[Address], asked: Container[Address]) -> list[Address]:
        """Strangers to ask for a link; a joiner that knows nobody yet asks its contacts."""
        if count <= 0:
            return []
        strangers = [c for c in self.known() if c not in linked and c not in asked and c not in self._refused]
        if self._own.state == JOINING and len(strangers) < count:
            taken = (linked, asked, self._refused, strangers)
            strangers += [c for c in self.contacts if not any(c in each for each in taken)]
        if count < len(strangers):
            return self._own.rng.sample(strangers, count)
        return strangers

    def sampled(self, descriptors: Sequence[Descriptor]) -> None:
        self._samples = descriptors

    def learn(self, addresses: Iterable[Address]) -> None:
        """Somebody has named these."""
        known = self.known()
        fresh = [a for a in addresses if a != self._own.me and a not in known]
        self._known = (fresh + known)[:CANDIDATES_MAX]

    def forget(self, address: Address) -> None:
        self._known = [c for c in self.known() if c != address]

    def spare(self, address: Address, until_ms: int) -> None:
        """Do not ask this one before that."""
        self._refused[address] = until_ms

    def forgive(self, now_ms: int) -> None:
        """Those whose time is over may be asked again."""
        self._refused = {to: until for to, until in self._refused.items() if until > now_ms}
