"""Which participant answers for which box.

The papers say "one peer, one subscription". Here that reads "one participant, one box": a peer has a participant per
box while it has few, and beyond `participants_max` several boxes share a participant, whose own box (its *cover*)
encloses them. A cover grows before it is needed and shrinks after:

- a box inside a standing cover is active at once;
- otherwise a cover is made or enlarged, and the box is active when the overlay says that this version of the cover is;
- when boxes go, the cover shrinks to what is left; a participant with nothing left leaves, except the last one, which
  stays with the empty box: a peer always has a participant.

A subscription may narrow its boxes by a pattern on the event's document (`protocols/model/interest.py`). A cover then
has a pattern too, as long as one encloses all that it is made for.

`Grouping` only decides. It returns what to do as `Change`s, which the peer turns into inputs of its overlay objects.
"""

from functools import reduce
from typing import Literal

import msgspec

from protocols.model.box import EMPTY, Box, Space
from protocols.model.interest import NOTHING, Interest, contains, enclosing, intersection, is_empty
from protocols.overlay import OWN_BOX


class Change(msgspec.Struct, frozen=True, gc=False):
    """What a participant has to do: appear with a box, change its box, or leave; or take up and give up further boxes,
    where it takes them one by one (`individual`)."""

    action: Literal["create", "update", "leave", "subscribe", "unsubscribe"]
    slot: int
    box: Box
    version: int
    id: str = OWN_BOX
    pattern: str = ""


class Cover(msgspec.Struct):
    """A participant's interest: the version asked for, the version that stands, and the members it is made for."""

    interest: Interest
    version: int = 0
    active_version: int = -1
    active: Interest = NOTHING
    members: dict[tuple[str, int], Interest] = {}

    @property
    def box(self) -> Box:
        return self.interest.box


class Awaited:
    """What has to stand before a subscription is active: for its key, slots or ids, each with a version."""

    __slots__ = ("_wanted",)

    def __init__(self) -> None:
        self._wanted: dict[str, dict[int | str, int]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._wanted

    def add(self, key: str, wanted: dict[int | str, int]) -> None:
        if wanted:
            self._wanted[key] = wanted

    def drop(self, key: str) -> None:
        self._wanted.pop(key, None)

    def stands(self, what: int | str, version: int) -> list[str]:
        """One of them stands in this version: for which keys was it the last?"""
        done: list[str] = []
        for key, wanted in self._wanted.items():
            if wanted.get(what, version + 1) <= version:
                del wanted[what]
                if not wanted:
                    done.append(key)
        for key in done:
            del self._wanted[key]
        return done


class Grouping:
    __slots__ = ("_awaited", "_covers", "_leaving", "_next_slot", "_participants_max", "_placed", "_space")

    def __init__(self, space: Space, participants_max: int) -> None:
        self._space = space
        self._participants_max = participants_max
        self._covers: dict[int, Cover] = {}
        self._leaving: dict[int, None] = {}  # dismissed, and still there
        self._next_slot = 0
        self._placed: dict[str, list[int]] = {}  # key -> the slot of each of its boxes
        self._awaited = Awaited()

    @property
    def covers(self) -> dict[int, Cover]:
        return self._covers

    def first(self) -> Change:
        """The participant that a peer without a subscription has."""
        return self._create(NOTHING)

    def place(self, key: str, boxes: tuple[Box, ...], former: str | None = None, pattern: str = "") -> list[Change]:
        """Find a participant for each box of a subscription, all of them narrowed by its pattern; its former version
        keeps its own until it is removed."""
        if key in self._placed:
            raise ValueError(f"{key} is placed already")
        changes: list[Change] = []
        wanted: dict[int | str, int] = {}
        slots: list[int] = []
        for number, box in enumerate(boxes):
            interest = Interest(box, pattern)
            slot = self._choose(interest)
            if slot is None:
                change = self._create(interest)
                slot = change.slot
                changes.append(change)
            elif not contains(self._covers[slot].interest, interest):
                changes.append(self._resize(slot, enclosing(self._covers[slot].interest, interest)))
            cover = self._covers[slot]
            cover.members[key, number] = interest
            slots.append(slot)
            if cover.active_version < 0 or not contains(cover.active, interest):
                wanted[slot] = cover.version
        self._placed[key] = slots
        self._awaited.add(key, wanted)
        return changes

    def remove(self, key: str) -> list[Change]:
        """Take a subscription's boxes away."""
        self._awaited.drop(key)
        changes: list[Change] = []
        for slot in dict.fromkeys(self._placed.pop(key)):
            cover = self._covers[slot]
            cover.members = {member: each for member, each in cover.members.items() if member[0] != key}
            if not cover.members and len(self._covers) > 1:
                del self._covers[slot]
                self._leaving[slot] = None
                changes.append(Change("leave", slot, EMPTY, cover.version))
                continue
            interest = reduce(enclosing, cover.members.values(), NOTHING)
            if interest != cover.interest:
                changes.append(self._resize(slot, interest))
        return changes

    def activated(self, slot: int, version: int, id_: str = OWN_BOX) -> list[str]:
        """The overlay says that this version of a cover stands: which subscriptions are active now?"""
        cover = self._covers.get(slot)
        if cover is None or version < cover.active_version:
            return []
        cover.active_version = version
        if version == cover.version:
            cover.active = cover.interest
        return self._awaited.stands(slot, version)

    def left(self, slot: int) -> None:
        """A participant that was dismissed is gone, and another may take its place."""
        self._leaving.pop(slot, None)

    def is_active(self, key: str) -> bool:
        return key in self._placed and key not in self._awaited

    def _choose(self, interest: Interest) -> int | None:
        """The participant to hold an interest; None for a new one."""
        for slot, cover in self._covers.items():
            if cover.active_version >= 0 and contains(cover.active, interest) and contains(cover.interest, interest):
                return slot
        for slot, cover in self._covers.items():
            if is_empty(cover.interest):
                return slot
        if len(self._covers) + len(self._leaving) < self._participants_max:
            return None
        return min(self._covers, key=lambda slot: (self._enlargement(self._covers[slot].interest, interest), slot))

    def _enlargement(self, cover: Interest, added: Interest) -> float:
        """How much more would be asked for. A pattern that has to be given up counts as much as the whole space."""
        given_up = bool(cover.pattern) and not added.pattern
        return given_up + self._space.enlargement(cover.box, added.box)

    def _create(self, interest: Interest) -> Change:
        slot, self._next_slot = self._next_slot, self._next_slot + 1
        self._covers[slot] = Cover(interest)
        return Change("create", slot, interest.box, 0, pattern=interest.pattern)

    def _resize(self, slot: int, interest: Interest) -> Change:
        cover = self._covers[slot]
        cover.interest = interest
        cover.version += 1
        cover.active = intersection(cover.active, interest)  # what it gives up is no longer promised
        return Change("update", slot, interest.box, cover.version, pattern=interest.pattern)
