"""Lookups: who answers for a key?

*Recursive* (`Find`): each node passes the question on, the owner answers whoever asked: one message per hop and one
back. *Iterative* (`Step`): the node that asks is told a nearer one and asks that next: two messages per hop, but it
sees which node does not answer, and goes around it.

The `Answer` says who answers for the key, and how many hops it took, the last one to the owner included (as in the
paper, 1/2 log2 N and a little: the hop from the node before the key counts). Whoever begins a lookup says what is to be
done with it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from protocols.chord.config import ChordConfig
from protocols.chord.fingers import Fingers, Locations
from protocols.chord.ids import Circle
from protocols.chord.messages import HOPS_MAX, Find, Nearer, Owner, Step
from protocols.chord.ring import Ring
from protocols.model.ids import Address
from protocols.overlay import Message, Outbox
from protocols.parts.pending import Pending

ALTERNATIVES: Final = 3
"""Nodes that an iterative lookup is told of at each step."""


class Answer(NamedTuple):
    """`owner` answers for the keys from `low` to itself; None if nobody was found."""

    owner: Address | None
    low: int = 0
    hops: int = 0


NOBODY: Final = Answer(None)
Then: TypeAlias = Callable[[int, Answer], None]
"""What is to be done with the answer, and when: `then(now_ms, answer)`."""


class _Search:
    __slots__ = ("candidates", "hops", "key", "silent", "then", "to")

    def __init__(self, key: int, then: Then) -> None:
        self.key = key
        self.then = then
        self.to: Address | None = None  # whom we have asked last
        self.silent: list[Address] = []  # whom we have asked in vain
        self.hops = 0
        self.candidates: list[Address] = []


class Lookups:
    __slots__ = ("_circle", "_config", "_fingers", "_locations", "_out", "_pending", "_ring")

    def __init__(
        self, ring: Ring, fingers: Fingers, locations: Locations, config: ChordConfig, circle: Circle, out: Outbox
    ) -> None:
        self._ring = ring
        self._fingers = fingers
        self._locations = locations
        self._config = config
        self._circle = circle
        self._out = out
        self._pending: Pending[_Search] = Pending(config.rpc_ms)

    def __len__(self) -> int:
        """Lookups that wait for their answer."""
        return len(self._pending)

    def begin(self, now_ms: int, key: int, then: Then, via: Address | None = None) -> None:
        """Look a key up. If the answer is known already, or cannot be had, it comes at once.

        `via`: whom to ask first, because it was the owner when last heard of.
        """
        ring = self._ring
        if ring.low is not None and ring.answers_for(key):
            then(now_ms, Answer(ring.me, ring.low))
            return
        search = _Search(key, then)
        to = via or self._fingers.next_hop(key)
        req_id = None if to is None else self._pending.open(now_ms, search)
        if to is None or req_id is None:
            then(now_ms, NOBODY)
        else:
            self._ask(req_id, search, to)

    def _ask(self, req_id: int, search: _Search, to: Address) -> None:
        search.to = to
        key = self._circle.encode(search.key)
        if self._config.lookup == "recursive":
            self._out.send(to, Find(req_id, (key,), self._ring.me, 1))
        else:
            search.hops = min(search.hops + 1, HOPS_MAX)
            self._out.send(to, Step(req_id, key, search.hops))

    def again(self, now_ms: int) -> None:
        """Ask again, another way, where no answer has come; what is given up is answered with nobody."""
        again, failed = self._pending.due(now_ms)
        for req_id, search in again:
            self._ask_another(req_id, search)
        for _, search in failed:
            search.then(now_ms, NOBODY)

    def _ask_another(self, req_id: int, search: _Search) -> None:
        if search.to is not None:
            search.silent.append(search.to)
            self._fingers.doubt(search.to)
        to = search.candidates.pop() if search.candidates else self._fingers.next_hop(search.key, search.silent)
        if to is not None:
            self._ask(req_id, search, to)

    def undelivered(self, to: Address, message: Step) -> None:
        """A step has not arrived: ask another one at once, as often as there are others."""
        search = self._pending.get(message.req_id)
        if search is not None and search.to == to and to not in search.silent:
            self._ask_another(message.req_id, search)

    # --- messages -----------------------------------------------------------------------------------------------------

    def on_find(self, now_ms: int, sender: Address, message: Find) -> None:
        """Answer for what is ours, and pass the rest on: keys that share a way travel together."""
        ring = self._ring
        onward: dict[Address, list[bytes]] = {}
        mine: list[bytes] = []
        for raw in message.keys:
            key = self._circle.decode(raw)
            if ring.answers_for(key):
                mine.append(raw)
            elif (to := self._fingers.next_hop(key)) is not None:
                onward.setdefault(to, []).append(raw)
        if mine and ring.low is not None:
            self._out.send(
                message.origin, Owner(message.req_id, tuple(mine), self._circle.encode(ring.low), message.hops)
            )
        if message.hops < HOPS_MAX:
            for to, keys in onward.items():
                self._out.send(to, Find(message.req_id, tuple(keys), message.origin, message.hops + 1))

    def on_step(self, now_ms: int, sender: Address, message: Step) -> None:
        ring, key = self._ring, self._circle.decode(message.key)
        answer: Message
        if ring.low is not None and ring.answers_for(key):
            answer = Owner(message.req_id, (message.key,), self._circle.encode(ring.low), message.hops)
        else:
            answer = Nearer(message.req_id, tuple(self._nearer(key)))
        self._out.send(sender, answer)

    def _nearer(self, key: int) -> list[Address]:
        """The next hop, and others that are on the way."""
        best = self._fingers.next_hop(key)
        if best is None:
            return []
        behind = self._fingers.between(self._ring.id, self._circle.node(best))[-ALTERNATIVES:]
        return [best, *[node for node in reversed(behind) if node != best]]

    def on_nearer(self, now_ms: int, sender: Address, message: Nearer) -> None:
        search = self._pending.get(message.req_id)
        nodes = [] if search is None else [node for node in message.nodes if node not in search.silent]
        if search is None or not nodes or search.hops >= HOPS_MAX:
            return
        best, *others = nodes
        search.candidates = (search.candidates + list(reversed(others)))[-2 * ALTERNATIVES :]
        self._ask(message.req_id, search, best)

    def on_owner(self, now_ms: int, sender: Address, message: Owner) -> None:
        search = self._pending.get(message.req_id)
        if search is None or self._circle.encode(search.key) not in message.keys:
            return
        low = self._circle.decode(message.low)
        if self._circle.within(search.key, low, self._circle.node(sender)):
            self._pending.close(message.req_id)
            if sender != self._ring.me:
                self._locations.learn(sender, low)
            search.then(now_ms, Answer(sender, low, message.hops))
