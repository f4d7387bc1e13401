"""One node under the hands of a test, with neighbours at places of the test's choice."""

from random import Random
from typing import Any

from protocols.chord.config import ChordConfig
from protocols.chord.ids import Circle
from protocols.chord.overlay import Chord
from protocols.model.box import Box
from protocols.model.ids import Address
from protocols.model.schema import Attribute, Schema
from protocols.overlay import Effect, Input, Join, Received, Report, Send
from tests.chord.rings import node_at

BITS = 8
SCHEMA = Schema((Attribute("x", "int", 0, 255),))


def at(place: int) -> Address:
    """The node with that identifier on a circle of 256."""
    return node_at(BITS, place)


def box(lo: int, hi: int) -> Box:
    return Box((lo,), (hi,))


class Node:
    """A node, and what comes of its steps."""

    def __init__(self, place: int, **config: Any) -> None:
        self.me = at(place)
        self.config = ChordConfig(**{"bits": BITS, "successors": 3, **config})
        self.circle = Circle(BITS)
        self.chord = Chord(self.me, self.config, SCHEMA, Random(1))
        self.now_ms = 0

    def do(self, item: Input, at_ms: int | None = None) -> list[Effect]:
        self.now_ms = self.now_ms + 1 if at_ms is None else at_ms
        return self.chord.handle(self.now_ms, item)

    def hear(self, sender: int, message: Any, at_ms: int | None = None) -> list[Effect]:
        return self.do(Received(at(sender), 0, message), at_ms)

    def begin(self) -> list[Effect]:
        return self.do(Join(()))

    def stand(self, predecessor: int, *successors: int) -> None:
        """Stand between these, and answer for the arc between."""
        self.begin()
        self.chord.ring.stand(at(predecessor), tuple(at(place) for place in successors), predecessor)
        self.chord.storage.copies = dict.fromkeys(self.chord.ring.successors[: self.config.replicas], True)
        self.chord.storage.assume_copied()
        self.chord._out.drain()

    def key(self, place: int) -> bytes:
        return self.circle.encode(place)

    @property
    def places(self) -> tuple[int | None, list[int]]:
        """Where predecessor and successors stand."""
        ring = self.chord.ring
        before = None if ring.predecessor is None else self.circle.node(ring.predecessor)
        return before, [self.circle.node(address) for address in ring.successors]


def sent(effects: list[Effect], type_: type) -> list[tuple[int, Any]]:
    """To whom messages of a type were sent, by place."""
    circle = Circle(BITS)
    pairs = [(to, effect.message) for effect in effects if isinstance(effect, Send) for to in effect.to]
    return [(circle.node(to), message) for to, message in pairs if isinstance(message, type_)]


def facts(effects: list[Effect], type_: type) -> list[Any]:
    return [effect.fact for effect in effects if isinstance(effect, Report) and isinstance(effect.fact, type_)]
