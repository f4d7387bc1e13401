"""Conversations of a few participants, word for word.

A golden file reads like a protocol of what was said: what each participant was handed and what it did about it. It is
there to be read, and to show in a review what a change of the protocol changes between participants. After a change
that is meant, write it anew:

    PEERD_GOLDEN=write python -m pytest tests/broadcast/test_golden.py
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocols.model.box import EMPTY
from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy
from protocols.model.ids import Address
from protocols.overlay import (
    Active,
    CancelTimer,
    Deliver,
    Effect,
    Input,
    Join,
    Leave,
    PeerLost,
    Publish,
    Received,
    Reception,
    Report,
    Sampled,
    Send,
    SetTimer,
    TimerFired,
    Unwatch,
    Watch,
)
from tests.broadcast.scene import Player, address, event

GOLDEN = Path(__file__).parent / "golden"
LATENCY_MS = 10


class Conversation:
    """Participants in one room: messages take 10 ms, timers fire on time, and everything is written down."""

    def __init__(self, *names: str) -> None:
        self._players = {name: Player(name, seed=number, links=2, links_max=4) for number, name in enumerate(names)}
        self._now_ms = 0
        self._due: list[tuple[int, int, str, Input]] = []
        self._count = 0
        self._timers: dict[tuple[str, str], int] = {}
        self._gone: set[str] = set()
        self.lines: list[str] = []

    def hand(self, name: str, item: Input) -> None:
        """Hand somebody an input, and write down what comes of it."""
        effects = self._players[name].do(item, self._now_ms)
        told = [line for line in (self._perform(name, effect) for effect in effects) if line]
        if told or not isinstance(item, TimerFired):
            self.lines += ["", f"{self._now_ms:6} {name} {_heard(item)}"]
            self.lines += [f"           {line}" for line in told]

    def run(self, for_ms: int) -> None:
        end_ms = self._now_ms + for_ms
        while self._due and min(self._due)[0] <= end_ms:
            next_ = min(self._due, key=lambda due: due[:2])
            self._due.remove(next_)
            self._now_ms, _, name, item = next_
            if name in self._gone:
                continue
            if isinstance(item, TimerFired):
                if self._timers.get((name, item.key)) != self._now_ms:
                    continue
                del self._timers[name, item.key]
            self.hand(name, item)
        self._now_ms = end_ms

    def crash(self, name: str) -> None:
        self._gone.add(name)
        self.lines += ["", f"{self._now_ms:6} {name} crashes"]

    def _put(self, at_ms: int, name: str, item: Input) -> None:
        self._count += 1
        self._due.append((at_ms, self._count, name, item))

    def _perform(self, name: str, effect: Effect) -> str:
        match effect:
            case Send(_, to, message):
                for each in to:
                    self._put(self._now_ms + LATENCY_MS, each.peer, Received(address(name), 0, message))
                return f"-> {', '.join(each.peer for each in to)}: {_text(message)}"
            case SetTimer(_, key, at_ms):
                self._timers[name, key] = at_ms
                self._put(at_ms, name, TimerFired(0, key))
                return ""
            case CancelTimer(_, key):
                self._timers.pop((name, key), None)
                return ""
            case Watch(_, to):
                return f"watches {to.peer}"
            case Unwatch(_, to):
                return f"watches {to.peer} no more"
            case Active(_, id_, version):
                return f"{id_} is active, version {version}"
            case Deliver(_, delivered, _, hops):
                return f"delivers {delivered.id} after {hops} hops"
            case Reception(_, event_id, sender, hops, result):
                return f"has got {event_id} from {sender.peer} after {hops} hops: {result}"
            case Report(_, fact):
                return f"reports {_text(fact)}"
        raise TypeError(f"no words for {effect}")


def _heard(item: Input) -> str:
    match item:
        case Received(sender, _, message):
            return f"<- {sender.peer}: {_text(message)}"
        case TimerFired(_, key):
            return f"it is time to {key}"
        case Publish(published):
            return f"publishes {published.id}"
        case Join(contacts):
            return f"joins through {', '.join(each.peer for each in contacts) or 'nobody'}"
        case Leave():
            return "leaves"
        case PeerLost(lost):
            return f"has lost {lost.peer}"
        case Sampled(descriptors):
            return f"comes across {', '.join(each.address.peer for each in descriptors)}"
    raise TypeError(f"no words for {item}")


def _text(value: Any) -> str:
    """A message or a fact in words: its name and its fields."""
    match value:
        case Address(peer):
            return peer
        case Copy(copied, hops):
            return f"{copied.id} hop {hops}"
        case tuple():
            return "[" + " ".join(map(_text, value)) + "]"
        case msgspec.Struct():
            name = value.__struct_config__.tag or type(value).__name__
            fields = [f"{field}={_text(getattr(value, field))}" for field in value.__struct_fields__]
            return " ".join([str(name), *fields])
        case int() if value > 1 << 32:
            return f"#{value % 10_000:04}"  # a digest: its end will do
    return str(value)


def three_meet_and_part() -> Conversation:
    """One begins, two join, events go round, and the one in the middle leaves."""
    room = Conversation("ann", "bob", "eve")
    room.hand("ann", Join(()))
    room.hand("bob", Join((address("ann"),)))
    room.hand("eve", Join((address("bob"),)))  # who has not joined yet: she waits there
    room.run(100)
    room.hand("eve", Publish(event("e1")))
    room.run(400)
    room.hand("bob", Publish(event("e2", x=50)))
    room.run(3_500)
    room.hand("bob", Leave())
    room.run(5_000)
    return room


def one_crashes() -> Conversation:
    """The one in the middle crashes with an event on its way to it, which the next link brings to the third."""
    room = Conversation("ann", "bob", "eve")
    room.hand("ann", Join(()))
    room.hand("bob", Join((address("ann"),)))
    room.run(100)
    room.hand("eve", Join((address("bob"),)))
    room.run(100)
    room.crash("bob")
    room.hand("ann", Publish(event("e1")))
    room.run(1_000)
    room.hand("ann", PeerLost(address("bob")))
    room.hand("eve", PeerLost(address("bob")))
    room.hand("ann", Sampled((Descriptor(address("eve"), EMPTY),)))
    room.run(3_000)
    return room


SCENES: list[Callable[[], Conversation]] = [three_meet_and_part, one_crashes]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_conversation(scene: Callable[[], Conversation]) -> None:
    path = GOLDEN / f"{scene.__name__}.txt"
    text = f"{scene.__doc__}\n" + "\n".join(scene().lines) + "\n"
    if os.environ.get("PEERD_GOLDEN") == "write":
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text


def test_no_file_is_left_over() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(scene.__name__ for scene in SCENES)
