"""Participants of Sub-2-Sub under the hands of a test, and small swarms of them."""

from random import Random
from typing import Any

from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads.workload import interest_in
from protocols.model.box import Box, Point
from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy, Event
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import OWN_BOX, Effect, Input, Join, Received, Report, Send, Subscribe
from protocols.sub2sub.config import PROFILES, Sub2SubConfig
from protocols.sub2sub.messages import JoinReply, RingReply
from protocols.sub2sub.overlay import Sub2Sub

SCHEMA = Schema.from_toml("[attributes.x]\ntype = 'int'\nmin = 0\nmax = 100\n")
SCHEMA_OF_TWO = Schema.from_toml("".join(f"[attributes.{x}]\ntype = 'int'\nmin = 0\nmax = 100\n" for x in "xy"))


def address(name: str, slot: int = 0) -> Address:
    return Address(name, 1, slot, f"{name}:1")


def described(name: str, lo: int, hi: int, cell: int = 0, version: int = 1) -> Descriptor:
    """A participant with the closed range [lo, hi]."""
    return Descriptor(address(name), Box((lo,), (hi + 1,)), version, 0, (cell, 0))


def copy(name: str, x: int = 5, hops: int = 1, age_ms: int = 0) -> Copy:
    return Copy(Event(name, Point((x,))), hops, age_ms)


class Player:
    """One participant, and what came of its last step."""

    def __init__(
        self, name: str = "m", lo: int = 0, hi: int = 10, profile: str = "", box: Box | None = None, **config: Any
    ) -> None:
        """With a `box` of two attributes instead of a range it lives where there are two."""
        self.me = address(name)
        self.config = Sub2SubConfig(**{**PROFILES.get(profile, {}), **config})
        self.overlay = Sub2Sub(self.me, self.config, SCHEMA if box is None else SCHEMA_OF_TWO, Random(1))
        self.now_ms = 0
        self.do(Subscribe(OWN_BOX, Box((lo,), (hi + 1,)) if box is None else box))

    def do(self, item: Input, at_ms: int | None = None) -> list[Effect]:
        self.now_ms = self.now_ms + 1 if at_ms is None else at_ms
        return self.overlay.handle(self.now_ms, item)

    def hear(self, sender: str, message: Any, at_ms: int | None = None) -> list[Effect]:
        return self.do(Received(address(sender), 0, message), at_ms)

    def stand(self, *others: Descriptor) -> list[Effect]:
        """Join next to these, all of which know it already."""
        if not others:
            return self.do(Join(()))
        self.do(Join((others[0].address,)))
        effects = self.hear(others[0].address.peer, JoinReply(others[0], others))
        for other in others:
            self.meet(other)
        return effects

    def meet(self, other: Descriptor) -> list[Effect]:
        """Another one tells that it knows us as we are."""
        return self.hear(other.address.peer, RingReply(0, other, (), self.overlay.descriptor().version))

    def hops(self, x: int) -> tuple[str, str]:
        """Upper and lower ring link for a value."""
        upper, lower, _ = self.overlay.rings[0].next_hops(x)
        return (upper.peer if upper else ""), (lower.peer if lower else "")


def sent(effects: list[Effect], type_: type | None = None) -> list[tuple[str, Any]]:
    """Who was sent what."""
    pairs = [(to.peer, effect.message) for effect in effects if isinstance(effect, Send) for to in effect.to]
    return [(to, message) for to, message in pairs if type_ is None or isinstance(message, type_)]


def facts(effects: list[Effect]) -> list[Any]:
    return [effect.fact for effect in effects if isinstance(effect, Report)]


def swarm_of(ranges: list[tuple[int, int]], seed: int = 1, uploads: tuple[float, ...] = (), **settings: Any) -> Swarm:
    """A converged swarm in which every peer has one closed range."""
    parameters = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}
    swarm = Swarm(
        SwarmConfig(
            overlay="sub2sub", schema=SCHEMA, seed=seed, parameters=parameters, uploads=uploads, exact_boxes=True
        )
    )
    interests = [[interest_in(SCHEMA, Box((lo,), (hi + 1,)))] for lo, hi in ranges]
    swarm.start_many(interests, 20)
    swarm.run(20 * len(ranges) + 1)
    assert swarm.converge(60_000) is not None
    return swarm


def participants(swarm: Swarm) -> list[Sub2Sub]:
    return [p for node in swarm.live.values() for p in node.peer.participants.values() if isinstance(p, Sub2Sub)]
