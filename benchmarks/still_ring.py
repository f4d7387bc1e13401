"""A ring in which everything is in place from the start: exact neighbours, arcs and fingers, made by an oracle.

For counting hops at any size without waiting for a ring to form. Messages arrive at once, in the order in which they
were sent; there are no peers around the nodes, no timers, no liveness.
"""

from bisect import bisect_left
from collections import Counter, deque
from random import Random
from typing import Any

from protocols.chord.config import ChordConfig
from protocols.chord.ids import Circle
from protocols.chord.overlay import STANDING, Chord
from protocols.model.box import Box, Point
from protocols.model.event import Event
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import Active, Deliver, Effect, Message, Publish, Received, Send, Subscribe, Unsubscribe, Update


def addresses(count: int) -> list[Address]:
    return [Address(f"{number:032x}", 1, 0, f"node-{number}:1") for number in range(count)]


def _nothing(now_ms: int, answer: object) -> None:
    """Whoever looks up only wants to have done so."""


class StillRing:
    """The nodes stand in the order of the ring. `sent` counts messages by type; `active` and `delivered` collect what
    nodes have said, `carried` every message of a type that is listed in `kept`."""

    def __init__(self, at: list[Address], schema: Schema, **config: Any) -> None:
        self.config = ChordConfig(**config)
        self.circle = Circle(self.config.bits)
        at = sorted(at, key=self.circle.node)
        self.ids = [self.circle.node(address) for address in at]
        self.nodes = [Chord(address, self.config, schema, Random(number)) for number, address in enumerate(at)]
        self.by_address = dict(zip(at, self.nodes))
        for place in range(len(at)):
            self._install(place, at)
        self.sent: Counter[type] = Counter()
        self.kept: tuple[type, ...] = ()
        self.carried: list[tuple[Address, Address, Any]] = []
        self.active: list[str] = []
        self.delivered: list[Address] = []
        self._queue: deque[tuple[Address, Address, Message]] = deque()

    def _install(self, place: int, at: list[Address]) -> None:
        count, chord = len(at), self.nodes[place]
        ring = chord.ring
        chord.state = STANDING
        length = min(self.config.successors, count - 1)
        successors = tuple([at[(place + step) % count] for step in range(1, length + 1)])
        ring.stand(at[place - 1], successors, self.ids[place - 1])
        for number in range(chord.fingers.first(), self.circle.bits):
            node = at[self.owner(chord.fingers.start(number))]
            if node != ring.me:
                chord.fingers.table[number] = node
        chord.storage.copies = dict.fromkeys(ring.successors[: self.config.replicas], True)
        chord.storage.assume_copied()
        chord._out.drain()

    def owner(self, key: int) -> int:
        """The place of the node that a key belongs to."""
        return bisect_left(self.ids, key) % len(self.ids)

    # --- what nodes are asked to do -----------------------------------------------------------------------------------

    def subscribe(self, place: int, id_: str, box: Box, version: int = 0) -> None:
        kind = Update if id_ in self.nodes[place].placements.subscribed else Subscribe
        self._do(place, kind(id_, box, "", version))

    def unsubscribe(self, place: int, id_: str) -> None:
        self._do(place, Unsubscribe(id_))

    def publish(self, place: int, point: Point, name: str = "event") -> None:
        self._do(place, Publish(Event(f"{name}-1-{place}", point)))

    def look_up(self, place: int, key: int) -> None:
        """The answer carries the hops."""
        chord = self.nodes[place]
        chord.lookups.begin(0, key, _nothing)
        self._collect(chord.ring.me, chord._out.drain())
        self.run()

    def at_ms(self, place: int, now_ms: int) -> None:
        """Let a node do what is due by then for its subscriptions."""
        chord = self.nodes[place]
        chord.placements.again(now_ms)
        self._collect(chord.ring.me, chord._out.drain())
        self.run(now_ms)

    def _do(self, place: int, item: Any) -> None:
        chord = self.nodes[place]
        self._collect(chord.ring.me, chord.handle(0, item))
        self.run()

    # --- messages -----------------------------------------------------------------------------------------------------

    def run(self, now_ms: int = 0) -> None:
        """Until no message is under way."""
        while self._queue:
            sender, to, message = self._queue.popleft()
            self.sent[type(message)] += 1
            if isinstance(message, self.kept):
                self.carried.append((sender, to, message))
            effects = self.by_address[to].handle(now_ms, Received(sender, to.slot, message))
            self._collect(to, effects)

    def _collect(self, origin: Address, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._queue.extend((origin, to, effect.message) for to in effect.to)
            elif isinstance(effect, Active):
                self.active.append(effect.id)
            elif isinstance(effect, Deliver):
                self.delivered.append(origin)
