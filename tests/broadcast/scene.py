"""Participants of the baseline under the hands of a test."""

from random import Random
from typing import Any

from protocols.broadcast.config import BroadcastConfig
from protocols.broadcast.overlay import Broadcast
from protocols.model.box import Box, Point
from protocols.model.event import Copy, Event
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import OWN_BOX, Effect, Input, Join, Received, Report, Send, SetTimer, Subscribe

SCHEMA = Schema.from_toml("[attributes.x]\ntype = 'int'\nmin = 0\nmax = 99\n")


def address(name: str) -> Address:
    return Address(name, 1, 0, f"{name}:1")


def event(name: str, x: int = 5, ttl_ms: int = 60_000) -> Event:
    return Event(name, Point((x,)), b"", ttl_ms)


def copy(name: str, x: int = 5, hops: int = 1, age_ms: int = 0) -> Copy:
    return Copy(event(name, x), hops, age_ms)


class Player:
    """One participant, and what came of its last step."""

    def __init__(self, name: str = "me", seed: int = 1, **config: Any) -> None:
        self.me = address(name)
        self.config = BroadcastConfig(**config)
        self.overlay = Broadcast(self.me, self.config, SCHEMA, Random(seed))
        self.now_ms = 0
        self.do(Subscribe(OWN_BOX, Box((0,), (10,))))

    def do(self, item: Input, at_ms: int | None = None) -> list[Effect]:
        self.now_ms = self.now_ms + 1 if at_ms is None else at_ms
        return self.overlay.handle(self.now_ms, item)

    def hear(self, name: str, message: Any, at_ms: int | None = None) -> list[Effect]:
        return self.do(Received(address(name), 0, message), at_ms)

    def begin(self) -> list[Effect]:
        return self.do(Join(()))

    def links(self) -> list[str]:
        return [link.to.peer for link in self.overlay.links()]


def sent(effects: list[Effect], type_: type | None = None) -> list[tuple[str, Any]]:
    """Who was sent what."""
    pairs = [(to.peer, effect.message) for effect in effects if isinstance(effect, Send) for to in effect.to]
    return [(to, message) for to, message in pairs if type_ is None or isinstance(message, type_)]


def facts(effects: list[Effect]) -> list[Any]:
    return [effect.fact for effect in effects if isinstance(effect, Report)]


def timers(effects: list[Effect]) -> dict[str, int]:
    return {effect.key: effect.at_ms for effect in effects if isinstance(effect, SetTimer)}
