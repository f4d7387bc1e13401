"""One participant of the containment tree without a swarm: the test says what it hears, and sees what it does."""

from random import Random
from typing import Any

from protocols.model.box import Box
from protocols.model.ids import Address
from protocols.model.interest import Interest
from protocols.model.schema import Schema
from protocols.overlay import Effect, Join, Received, Send, Subscribe
from protocols.semantic.config import SemanticConfig
from protocols.semantic.containment import Containment
from protocols.semantic.messages import Attach

SCHEMA = Schema.from_toml("[attributes.x]\ntype = 'int'\nmin = 0\nmax = 99\n")


def at(name: str) -> Address:
    return Address(name, 1, 0, f"{name}:1")


class Alone:
    """A participant that wants x in [0, 10), and joins through these contacts."""

    def __init__(self, contacts: tuple[Address, ...], **config: Any) -> None:
        self.overlay = Containment(at("me"), SemanticConfig(**config), SCHEMA, Random(1))
        self.now_ms = 0
        self.do(Subscribe("box", Box((0,), (10,))))
        self.do(Join(contacts))

    def do(self, item: Any) -> list[Effect]:
        self.now_ms += 1
        return self.overlay.handle(self.now_ms, item)

    def hear(self, name: str, message: Any) -> list[Effect]:
        return self.do(Received(at(name), 0, message))


class Origin(Alone):
    """One that began the tree."""

    def __init__(self, **config: Any) -> None:
        super().__init__((), **config)


def attach(name: str, lo: int, hi: int) -> Attach:
    return Attach(at(name), 1, Interest(Box((lo,), (hi,))), "climb")


def sent(effects: list[Effect], type_: type) -> set[str]:
    sends = [e for e in effects if isinstance(e, Send) and isinstance(e.message, type_)]
    return {to.peer for send in sends for to in send.to}
