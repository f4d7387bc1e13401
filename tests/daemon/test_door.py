"""Who is let in. Almost every greeting says of the swarm what one's own says, and is let in without being parsed."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from peerd import registry, swarms
from peerd.daemon.door import Door
from peerd.net import Greeting
from peerd.net.greeting import BadGreeting, FirstFrame, encode_first
from peerd.store import StoredSwarm
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import STOCKS, Attribute, Schema

SWARM = StoredSwarm(
    name="test",
    overlay="broadcast",
    parameters=msgspec.to_builtins(registry.parameters("broadcast", {})),
    schema=STOCKS,
    first_schema=STOCKS,
)


class Scene:
    def __init__(self) -> None:
        self.steps: list[Any] = []
        peer = SimpleNamespace(schema=STOCKS, me=Address("a" * 32, 1, PEER_SLOT, "127.0.0.1:1"))
        driver: Any = SimpleNamespace(peer=peer, step=self.steps.append)
        driver.received = driver.arrived = driver.undelivered = driver.dropped = None
        store: Any = None
        self.door = Door(SWARM, store, lambda: False)
        self.door.hand_to(driver)

    def like_own(self, **changes: Any) -> Greeting:
        """As another peer of the swarm says it."""
        other = {"peer": "b" * 32, "boot": 7, "at": "127.0.0.1:2", **changes}
        return msgspec.structs.replace(self.door.greeting(), **other)


def decoded(frame: bytes) -> Greeting | None:
    try:
        found = FirstFrame().feed(frame)
    except BadGreeting:
        return None
    return found if isinstance(found, Greeting) else None


def test_a_greeting_like_ones_own_is_accepted_without_being_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    greeting = decoded(encode_first(scene.like_own()))
    assert greeting is not None
    monkeypatch.delattr("peerd.swarms.check")
    monkeypatch.delattr("protocols.model.schema.Schema.from_dict")
    assert scene.door.accepts(greeting) is None
    scene.door.greeted(greeting)
    assert scene.steps == []


def test_one_that_differs_in_any_byte_is_judged_as_if_nothing_was_known_by_heart() -> None:
    scene = Scene()
    frame = encode_first(scene.like_own())
    welcome = refused = 0
    for at in range(4, len(frame)):
        for bit in range(8):
            changed = bytearray(frame)
            changed[at] ^= 1 << bit
            greeting = decoded(bytes(changed))
            if greeting is None:
                continue
            judged = swarms.check(greeting, SWARM)
            assert scene.door.accepts(greeting) == judged
            welcome, refused = welcome + (judged is None), refused + (judged is not None)
    assert welcome > 100  # another id, boot or endpoint
    assert refused > 100


def test_an_attribute_more_is_handed_to_the_peer() -> None:
    scene = Scene()
    grown = Schema([*STOCKS.attributes, Attribute("volume", "int", 0, 1000, 1)])
    greeting = scene.like_own(schema=grown.to_dict()["attributes"], schema_version=grown.version)
    assert scene.door.accepts(greeting) is None
    scene.door.greeted(greeting)
    assert [step.schema.attributes for step in scene.steps] == [grown.attributes]
