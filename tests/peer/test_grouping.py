"""Grouping against an obvious twin: whatever comes and goes, covers enclose, promises hold, and the limit is kept."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from protocols.grouping import Change, Grouping
from protocols.model.box import EMPTY, Box, Space, contains, enclosing_all

SPACE = Space((100, 10))


def stripe(lo: int, hi: int) -> Box:
    return Box((lo, -1), (hi, 10))


boxes = st.builds(lambda lo, length: stripe(lo, lo + length), st.integers(0, 90), st.integers(1, 40))


class Overlay:
    """The twin's overlay: which version of which box each participant was asked for, and which of them stands."""

    def __init__(self) -> None:
        self.asked: dict[int, dict[int, Box]] = {}
        self.stands: dict[int, int] = {}
        self.leaving: set[int] = set()

    def apply(self, changes: list[Change]) -> None:
        for change in changes:
            assert change.slot not in self.leaving, "a participant that was dismissed is left alone"
            if change.action == "create":
                assert change.slot not in self.asked, "slots are never used again"
                assert change.version == 0
                self.asked[change.slot] = {0: change.box}
            elif change.action == "update":
                versions = self.asked[change.slot]
                assert change.version == max(versions) + 1
                versions[change.version] = change.box
            else:
                self.leaving.add(change.slot)

    def present(self) -> list[int]:
        return [slot for slot in self.asked if slot not in self.leaving]

    def newest(self, slot: int) -> Box:
        return self.asked[slot][max(self.asked[slot])]


class GroupingMachine(RuleBasedStateMachine):
    keys = Bundle("keys")

    def __init__(self) -> None:
        super().__init__()
        self.overlay = Overlay()
        self.placed: dict[str, tuple[Box, ...]] = {}
        self.active: dict[str, None] = {}
        self.number = 0

    @initialize(participants_max=st.integers(1, 4), early=st.booleans())
    def begin(self, participants_max: int, early: bool) -> None:
        self.participants_max = participants_max
        self.grouping = Grouping(SPACE, participants_max)
        if early:
            self.overlay.apply([self.grouping.first()])

    @rule(target=keys, wanted=st.lists(boxes, min_size=1, max_size=3))
    def place(self, wanted: list[Box]) -> str:
        self.number += 1
        key = f"k{self.number}"
        self.overlay.apply(self.grouping.place(key, tuple(wanted)))
        self.placed[key] = tuple(wanted)
        if self.grouping.is_active(key):
            self.active[key] = None
        return key

    @rule(key=consumes(keys))
    def remove(self, key: str) -> None:
        self.overlay.apply(self.grouping.remove(key))
        del self.placed[key]
        self.active.pop(key, None)

    @rule(data=st.data())
    def a_version_stands(self, data: st.DataObject) -> None:
        """Versions come to stand in their order; some are skipped."""
        slots = [
            slot for slot in self.overlay.asked if max(self.overlay.asked[slot]) > self.overlay.stands.get(slot, -1)
        ]
        if not slots:
            return
        slot = data.draw(st.sampled_from(slots))
        version = data.draw(st.integers(self.overlay.stands.get(slot, -1) + 1, max(self.overlay.asked[slot])))
        self.overlay.stands[slot] = version
        for key in self.grouping.activated(slot, version):
            assert key not in self.active, "a subscription becomes active once"
            self.active[key] = None

    @rule(data=st.data())
    def a_dismissed_participant_is_gone(self, data: st.DataObject) -> None:
        if self.overlay.leaving:
            slot = data.draw(st.sampled_from(sorted(self.overlay.leaving)))
            self.overlay.leaving.discard(slot)
            del self.overlay.asked[slot]
            self.grouping.left(slot)

    @invariant()
    def every_box_lies_in_the_cover_of_its_participant(self) -> None:
        for key, wanted in self.placed.items():
            for slot, box in zip(self.grouping._placed[key], wanted, strict=True):
                assert contains(self.overlay.newest(slot), box)

    @invariant()
    def covers_are_no_larger_than_they_need_to_be(self) -> None:
        members: dict[int, list[Box]] = {slot: [] for slot in self.overlay.present()}
        for key, wanted in self.placed.items():
            for slot, box in zip(self.grouping._placed[key], wanted, strict=True):
                members[slot].append(box)
        for slot, held in members.items():
            assert self.overlay.newest(slot) == enclosing_all(held)
            assert held or len(members) == 1, "a participant with nothing to do has left, unless it is the last"

    @invariant()
    def what_is_active_was_promised(self) -> None:
        """Each of its boxes lies in all versions of the cover from the one that stands to the newest."""
        for key in self.active:
            assert self.grouping.is_active(key)
            for slot, box in zip(self.grouping._placed[key], self.placed[key], strict=True):
                stands = self.overlay.stands.get(slot, -1)
                assert stands >= 0, f"{key} is active in a participant that never stood"
                for version, cover in self.overlay.asked[slot].items():
                    if version >= stands:
                        assert contains(cover, box)

    @invariant()
    def what_is_promised_is_active(self) -> None:
        """Nothing waits any more once the newest version of every cover stands."""
        newest = all(
            self.overlay.stands.get(slot, -1) == max(self.overlay.asked[slot]) for slot in self.overlay.present()
        )
        if newest:
            assert list(self.placed) == [key for key in self.placed if key in self.active]

    @invariant()
    def the_limit_is_kept(self) -> None:
        assert len(self.overlay.asked) <= self.participants_max
        if self.placed:
            assert self.overlay.present()


GroupingMachine.TestCase.settings = settings(
    settings.get_profile("repeatable"), max_examples=200, stateful_step_count=40
)
TestGrouping: Any = GroupingMachine.TestCase


def test_a_peer_without_subscriptions_has_one_participant_with_the_empty_box() -> None:
    grouping = Grouping(SPACE, 4)
    assert grouping.first() == Change("create", 0, EMPTY, 0)
    [change] = grouping.place("a", (stripe(0, 10),))
    assert change == Change("update", 0, stripe(0, 10), 1)


def test_boxes_get_participants_of_their_own_while_there_is_room() -> None:
    grouping = Grouping(SPACE, 3)
    for number in range(3):
        [change] = grouping.place(f"k{number}", (stripe(20 * number, 20 * number + 5),))
        assert change.action == "create"
    [change] = grouping.place("k3", (stripe(41, 48),))
    assert (change.action, change.slot) == ("update", 2)  # the one that grows least
    assert change.box == stripe(40, 48)


def test_placing_a_key_twice_is_misuse() -> None:
    grouping = Grouping(SPACE, 3)
    grouping.place("a", (stripe(0, 5),))
    with pytest.raises(ValueError, match="placed already"):
        grouping.place("a", (stripe(0, 5),))


def test_what_a_cover_gives_up_is_not_promised_any_more() -> None:
    grouping = Grouping(SPACE, 1)
    grouping.place("wide", (stripe(0, 50),))
    grouping.place("narrow", (stripe(0, 10),))
    assert sorted(grouping.activated(0, 0)) == ["narrow", "wide"]
    grouping.remove("wide")
    grouping.place("again", (stripe(0, 50),))
    assert not grouping.is_active("again")
    assert grouping.is_active("narrow")
    assert grouping.activated(0, 1) == []
    assert grouping.activated(0, 2) == ["again"]
