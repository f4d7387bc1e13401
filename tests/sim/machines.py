"""Machines for the tests of the engine: peers that do nothing but write down what they are handed."""

from collections.abc import Callable
from random import Random
from typing import Any, cast

from peerd.sim.engine import Engine, Node
from peerd.sim.network import NetworkConfig
from protocols.model.ids import PEER_SLOT, Address, in_slot
from protocols.overlay import (
    Active,
    Deliver,
    Effect,
    Received,
    Reception,
    Report,
    Send,
    SetTimer,
    TimerFired,
    Undelivered,
)
from tests.wire.samples import CODEC, Note


class Machine:
    """A peer that keeps a diary of (time, input) and answers with what `reply` says."""

    def __init__(self) -> None:
        self.diary: list[tuple[int, Any]] = []
        self.reply: Callable[[int, Any], list[Effect]] = lambda now_ms, item: []

    def handle(self, now_ms: int, item: Any) -> list[Effect]:
        self.diary.append((now_ms, item))
        return self.reply(now_ms, item)

    def heard(self) -> list[tuple[int, str]]:
        """When which text came."""
        return [(now_ms, cast(Note, item.message).text) for now_ms, item in self.diary if isinstance(item, Received)]

    def texts(self) -> list[str]:
        return [text for _, text in self.heard()]

    def returned(self) -> list[tuple[int, str, bool]]:
        """When which text came back as undelivered, and whether it was refused."""
        found = [(now_ms, item) for now_ms, item in self.diary if isinstance(item, Undelivered)]
        return [(now_ms, cast(Note, item.message).text, item.refused) for now_ms, item in found]

    def fired(self) -> list[tuple[int, str]]:
        return [(now_ms, item.key) for now_ms, item in self.diary if isinstance(item, TimerFired)]


class Silent:
    """An observer that does not look."""

    def on_active(self, now_ms: int, node: Node, effect: Active) -> None: ...
    def on_deliver(self, now_ms: int, node: Node, effect: Deliver) -> None: ...
    def on_reception(self, now_ms: int, node: Node, effect: Reception, size: int) -> None: ...
    def on_report(self, now_ms: int, node: Node, effect: Report) -> None: ...


class Room:
    """An engine with some machines in it; `say` sends a text from one to another."""

    def __init__(self, count: int = 2, seed: int = 1, **network: Any) -> None:
        config = NetworkConfig(**{"latency": "constant:20", **network})
        self.engine = Engine(CODEC, config, Random(seed), Silent())
        self.machines: list[Machine] = []
        self.nodes: list[Node] = []
        for number in range(count):
            self.add(number)

    def add(self, number: int, boot: int = 1) -> Node:
        machine = Machine()
        self.machines.append(machine)
        self.nodes.append(self.engine.add(address(number, boot), cast(Any, machine)))
        return self.nodes[-1]

    def say(self, source: int, target: int, *texts: str, boot: int = 1) -> None:
        for text in texts:
            self.engine.send(self.nodes[source], Send(0, (in_slot(address(target, boot), 0),), Note(text)))

    def later(self, at_ms: int, source: int, target: int, *texts: str) -> None:
        self.engine.at(at_ms, lambda: self.say(source, target, *texts))

    def timer(self, node: int, key: str, at_ms: int) -> None:
        self.engine.set_timer(self.nodes[node], SetTimer(0, key, at_ms))


def address(number: int, boot: int = 1) -> Address:
    return Address(f"p{number}", boot, PEER_SLOT, f"host-{number}:1")
