"""Joining: a newcomer asks a contact for what it knows, and stands when it has the answer.

Whoever asks one that is joining itself waits until that one stands: so a swarm has one origin, which stands at once.
"""

from random import Random
from typing import Final

from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.overlay import Outbox, Rejected
from protocols.sub2sub.claiming import Claiming
from protocols.sub2sub.claims import ALL_PARTS
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.links import ENTRIES, Sending
from protocols.sub2sub.messages import JoinReply, JoinRequest
from protocols.sub2sub.neighbourhood import Neighbourhood

WAITING_MAX: Final = 1_024
"""Joiners that wait until this participant stands itself."""


class Joining:
    """Both ends of it. `send` charges what it sends."""

    __slots__ = ("_asked", "_claiming", "_config", "_contacts", "_hood", "_out", "_rng", "_send", "_waiting")

    def __init__(
        self,
        hood: Neighbourhood,
        config: Sub2SubConfig,
        claiming: Claiming,
        send: Sending,
        out: Outbox,
        rng: Random,
    ) -> None:
        self._hood = hood
        self._config = config
        self._claiming = claiming
        self._send = send
        self._out = out
        self._rng = rng
        self._contacts: list[Address] = []
        self._asked = 0
        self._waiting: dict[Address, None] = {}

    def begin(self, now_ms: int, contacts: tuple[Address, ...]) -> None:
        self._contacts = list(contacts)
        self.ask(now_ms)

    def ask(self, now_ms: int) -> None:
        """Ask the next contact for what it knows."""
        known = dict.fromkeys((*self._contacts, *(d.address for d in self._hood.alive(self._hood.samples))))
        known.pop(self._hood.me, None)
        contacts = list(known) or self._contacts
        contact = contacts[self._asked % len(contacts)]
        self._asked += 1
        self._send(contact, JoinRequest(self._hood.own))
        self._out.timer("join", now_ms + int(self._config.rpc_ms * self._rng.uniform(0.9, 1.1)))

    def lost(self, address: Address) -> None:
        """A contact is gone; the last one is kept, for want of another."""
        self._contacts = [c for c in self._contacts if c != address] or self._contacts

    def wait(self, joiner: Address) -> None:
        """Somebody asks us before we stand."""
        if len(self._waiting) < WAITING_MAX:
            self._waiting[joiner] = None
        else:
            self._out.report(Rejected(joiner, "too many joiners wait already"))

    def welcome_all(self, now_ms: int) -> None:
        """We stand: answer those who waited."""
        waiting, self._waiting = self._waiting, {}
        for joiner in waiting:
            self.welcome(now_ms, joiner)

    def welcome(self, now_ms: int, joiner: Address) -> None:
        known: dict[Address, Descriptor] = {d.address: d for d in self._hood.everyone() if d.address != joiner}
        entries = list(known.values())
        if len(entries) > ENTRIES // 2:
            entries = self._rng.sample(entries, ENTRIES // 2)
        self._claiming.tell(now_ms, joiner, ALL_PARTS)  # before it stands: it would claim everything itself
        self._send(joiner, JoinReply(self._hood.own, tuple(self._hood.alive(entries))))
