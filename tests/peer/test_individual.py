"""Where the overlay takes each box by itself."""

from random import Random
from typing import Any

import msgspec

from protocols.grouping import Change
from protocols.individual import SLOT, Individual
from protocols.model.box import EMPTY
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import OWN_BOX, Effect, Input, Kind, Subscribe, Unsubscribe, Update
from protocols.peer import AddSubscription, ChangeSubscription, Peer, PeerConfig, RemoveSubscription
from tests.peer.scripted import ME, SCHEMA, Hosted, Scripted, Word, activated, box, delivered, handed


def ids(changes: list[Change], action: str) -> list[str]:
    return [change.id for change in changes if change.action == action]


def test_the_first_box_makes_the_participant() -> None:
    individual = Individual()
    changes = individual.place("a#0", (box(0, 5), box(7, 9)))
    assert [change.action for change in changes] == ["create", "subscribe", "subscribe"]
    assert changes[0] == Change("create", SLOT, EMPTY, 0)
    assert individual.place("b#0", (box(0, 5),)) == [Change("subscribe", SLOT, box(0, 5), 0, "2")]
    assert list(individual.covers) == [SLOT]


def test_a_subscription_is_active_when_all_its_boxes_are() -> None:
    individual = Individual()
    individual.place("a#0", (box(0, 5), box(7, 9)))
    assert individual.activated(SLOT, 0, "0") == []
    assert not individual.is_active("a#0")
    assert individual.activated(SLOT, 0, "1") == ["a#0"]
    assert individual.is_active("a#0")
    assert individual.activated(SLOT, 0, "never made") == []


def test_a_box_in_both_versions_stays_and_the_others_are_updated() -> None:
    individual = Individual()
    individual.place("a#0", (box(0, 5), box(7, 9)))
    individual.activated(SLOT, 0, "0")
    individual.activated(SLOT, 0, "1")
    changes = individual.place("a#1", (box(7, 9), box(1, 6)), "a#0")
    assert changes == [Change("update", SLOT, box(1, 6), 1, "0")]
    assert individual.activated(SLOT, 0, "0") == []  # a late word about the former version
    assert individual.activated(SLOT, 1, "0") == ["a#1"]
    assert individual.remove("a#0") == []  # both of its boxes go on under the new version


def test_what_the_new_version_does_not_need_goes_when_the_old_one_does() -> None:
    individual = Individual()
    individual.place("a#0", (box(0, 5), box(7, 9)))
    changes = individual.place("a#1", (box(0, 5),), "a#0")
    assert changes == []
    assert ids(individual.remove("a#0"), "unsubscribe") == ["1"]
    assert ids(individual.remove("a#1"), "unsubscribe") == ["0"]


def test_a_version_that_is_overtaken_gives_its_boxes_to_the_next() -> None:
    individual = Individual()
    individual.place("a#0", (box(0, 5),))
    individual.activated(SLOT, 0, "0")
    individual.place("a#1", (box(1, 5), box(8, 9)), "a#0")
    assert ids(individual.remove("a#1"), "unsubscribe") == ["1"]
    assert individual.place("a#2", (box(2, 5),), "a#0") == [Change("update", SLOT, box(2, 5), 2, "0")]
    assert individual.activated(SLOT, 1, "0") == []
    assert individual.activated(SLOT, 2, "0") == ["a#2"]


class Shelf(Scripted):
    """Takes every box by itself and says at once that it stands."""

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        if isinstance(item, Subscribe | Update) and item.id != OWN_BOX:
            self.inputs.append(item)
            self.out.active(item.id, item.version)
            return self.out.drain()
        return super().handle(now_ms, item)


class Shelved(Hosted):
    """A peer whose overlay takes each box."""

    def __init__(self) -> None:
        super().__init__()
        nothing = msgspec.defstruct("Nothing", [], frozen=True)
        kind = Kind("shelf", "", nothing, (Word,), self._create, grouped=False)
        self.peer = Peer(ME, kind, kind.config(), SCHEMA, PeerConfig(participants_max=4), Random(1))

    def _create(self, me: Address, config: Any, schema: Schema, rng: Random) -> Scripted:
        made = self.made[me.slot] = Shelf(me, config, schema, rng)
        return made


def test_the_peer_hands_each_box_over_and_delivers_exactly() -> None:
    host = Shelved()
    host.begin()
    effects = host.do(AddSubscription("a", "", (box(0, 5), box(7, 9))))
    assert activated(effects) == ["a"]
    assert activated(host.do(AddSubscription("b", "", (box(0, 5),)))) == ["b"]
    assert [item.id for item in handed(host.made[0], Subscribe)] == [OWN_BOX, "0", "1", "2"]
    assert delivered(host.arrives(host.event(8))) == [("a",)]
    assert len(host.peer.participants) == 1


def test_the_peer_updates_and_unsubscribes_boxes() -> None:
    host = Shelved()
    host.begin()
    host.do(AddSubscription("a", "", (box(0, 5), box(7, 9))))
    assert activated(host.do(ChangeSubscription("a", "", (box(3, 6),)))) == ["a"]
    assert [(item.id, item.version) for item in handed(host.made[0], Update)] == [("0", 1)]
    assert [item.id for item in handed(host.made[0], Unsubscribe)] == ["1"]
    host.do(RemoveSubscription("a"))
    assert [item.id for item in handed(host.made[0], Unsubscribe)] == ["1", "0"]
    assert delivered(host.arrives(host.event(4))) == []
