"""An overlay that does what the test says, and a peer that hosts it."""

from random import Random
from typing import Any

import msgspec

from protocols.model.box import EMPTY, Box
from protocols.model.descriptor import Descriptor
from protocols.model.event import Attributes, Event
from protocols.model.ids import PEER_SLOT, Address, in_slot
from protocols.model.schema import Schema
from protocols.overlay import (
    OWN_BOX,
    Active,
    Deliver,
    Effect,
    Input,
    Join,
    Joined,
    Kind,
    Leave,
    Left,
    Link,
    Outbox,
    Received,
    Report,
    Send,
    Subscribe,
    Update,
)
from protocols.peer import Peer, PeerConfig, PeerInput

SCHEMA = Schema.from_toml(
    "[attributes.x]\ntype = 'int'\nmin = 0\nmax = 99\n[attributes.y]\ntype = 'int'\nmin = 0\nmax = 9\n"
)
ME = Address("me", 5, PEER_SLOT, "here:1")


class Word(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="word"):
    """The one message of the scripted overlay."""

    number: int


class Scripted:
    """A participant that stands and is active when the test lets it, and writes down what it is handed."""

    def __init__(self, me: Address, config: Any, schema: Schema, rng: Random) -> None:
        self.me = me
        self.schema = schema
        self.inputs: list[Input] = []
        self.box: Box = EMPTY
        self.version = 0
        self.joined = False
        self.out = Outbox(me.slot)
        self.roomy = True
        self.slow = False
        """Do nothing by itself: the test calls `stand` and `activate`."""

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        self.inputs.append(item)
        if isinstance(item, Subscribe | Update):
            self.box, self.version = item.box, item.version
            if self.joined and not self.slow:
                self.activate()
        elif isinstance(item, Join) and not self.slow:
            self.stand()
        elif isinstance(item, Leave) and not self.slow:
            self.out.report(Left())
        return self.out.drain()

    def stand(self) -> None:
        self.joined = True
        self.out.report(Joined())
        self.activate()

    def activate(self, version: int | None = None) -> None:
        self.out.active(OWN_BOX, self.version if version is None else version)

    def descriptor(self) -> Descriptor:
        return Descriptor(self.me, self.box, self.version)

    def links(self) -> list[Link]:
        return []

    def has_room(self, now_ms: int) -> bool:
        return self.roomy


class Hosted:
    """A peer with scripted participants. `slow` participants wait for the test at every step."""

    def __init__(self, participants_max: int = 1, slow: bool = False, **kind_: Any) -> None:
        self.made: dict[int, Scripted] = {}
        self.now_ms = 0
        self._slow = slow
        kind = Kind("scripted", "", msgspec.defstruct("Nothing", [], frozen=True), (Word,), self._create, **kind_)
        self.peer = Peer(ME, kind, kind.config(), SCHEMA, PeerConfig(participants_max=participants_max), Random(1))

    def _create(self, me: Address, config: Any, schema: Schema, rng: Random) -> Scripted:
        made = self.made[me.slot] = Scripted(me, config, schema, rng)
        made.slow = self._slow
        return made

    def do(self, item: PeerInput) -> list[Effect]:
        self.now_ms += 1
        return self.peer.handle(self.now_ms, item)

    def nudge(self, slot: int) -> list[Effect]:
        """Let a participant say what the test has put into its outbox."""
        return self.do(Received(Address("other", 1, 0, "there:1"), slot, Word(0)))

    def stand(self, slot: int) -> list[Effect]:
        self.made[slot].stand()
        return self.nudge(slot)

    def activate(self, slot: int, version: int | None = None) -> list[Effect]:
        self.made[slot].activate(version)
        return self.nudge(slot)

    def leave(self, slot: int) -> list[Effect]:
        self.made[slot].out.report(Left())
        return self.nudge(slot)

    def begin(self) -> list[Effect]:
        """Start as the first peer of a swarm."""
        return self.do(Join(()))

    def event(self, x: int, y: int = 0, number: int = 1) -> Event:
        """An event of somebody else's."""
        attributes: Attributes = {"x": x, "y": y}
        made = self.peer.new_event(attributes, 0)
        return msgspec.structs.replace(made, id=f"other-1-{number}")

    def arrives(self, event: Event, slot: int = 0, hops: int = 3) -> list[Effect]:
        """The event reaches a participant whose box holds it."""
        self.made[slot].out.deliver(event, hops)
        return self.nudge(slot)


def box(lo: int, hi: int) -> Box:
    """A stripe in x."""
    return Box((lo, -1), (hi, 10))


def only(effects: list[Effect], *types: type) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, types)]


def facts(effects: list[Effect], slot: int = PEER_SLOT) -> list[Any]:
    return [effect.fact for effect in effects if isinstance(effect, Report) and effect.slot == slot]


def delivered(effects: list[Effect]) -> list[tuple[str, ...]]:
    found = [effect for effect in effects if isinstance(effect, Deliver)]
    assert all(effect.slot == PEER_SLOT for effect in found)
    return [effect.subscription_ids for effect in found]


def activated(effects: list[Effect]) -> list[str]:
    found = [effect for effect in effects if isinstance(effect, Active)]
    assert all(effect.slot == PEER_SLOT for effect in found)
    return [effect.id for effect in found]


def sent(effects: list[Effect]) -> list[tuple[Address, Any]]:
    return [(to, effect.message) for effect in effects if isinstance(effect, Send) for to in effect.to]


def own(slot: int) -> Address:
    return in_slot(ME, slot)


def handed(participant: Scripted, type_: type) -> list[Any]:
    return [item for item in participant.inputs if isinstance(item, type_)]
