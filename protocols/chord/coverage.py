"""Which values of a row are stored: the arcs that their owners have answered for.

Every `Stored` names the arc of the node that sent it. The values whose keys lie on it are covered. A row is in place
when all its values are; what is not covered has to be stored, run by run.

A range may take hundreds of nodes, each of which answers, so the covered runs are kept merged while arcs only come
(`_runs`), and made anew from the arcs when one goes or changes.
"""

from bisect import bisect_left
from typing import Final, NamedTuple

from protocols.chord.keys import FAR, Values
from protocols.model.ids import Address

OWNERS_MAX: Final = 65_536
"""Owners of one row, beyond any ring that this is made for: whoever is not remembered is asked again."""


class Arc(NamedTuple):
    """An owner, the arc it answers for, and which of a row's values its answer was about."""

    owner: Address
    low: int
    high: int
    first: int = 0
    last: int = FAR


class Coverage:
    """Of the values `first` to `last`, on each of the rotated rings."""

    __slots__ = ("_arcs", "_rotations", "_runs", "_values")

    def __init__(self, values: Values, rotations: tuple[int, ...]) -> None:
        self._values = values
        self._rotations = rotations
        self._arcs: dict[Address, Arc] = {}
        self._runs: list[list[tuple[int, int]]] | None = None  # covered, by rotation: in order, and apart

    def owners(self) -> list[Address]:
        return list(self._arcs)

    def add(self, arc: Arc) -> None:
        """An owner has answered; what it said before is outdated.

        One whose arc holds none of the values any more is forgotten: its lease is not renewed, and its row goes.
        """
        if self._arcs.get(arc.owner) == arc:
            return  # as nearly always, when a lease is renewed
        self.without(arc.owner)
        runs = [self._on(arc, rotation) for rotation in self._rotations]
        if not any(runs) or len(self._arcs) >= OWNERS_MAX:
            return
        self._arcs[arc.owner] = arc
        if self._runs is not None:
            _cover(self._runs, runs)

    def renew(self, owner: Address, low: int, high: int) -> None:
        """An owner still has what it had, and answers for this arc now."""
        former = self._arcs.get(owner)
        if former is not None:
            self.add(former._replace(low=low, high=high))

    def without(self, owner: Address) -> bool:
        """Forget what an owner has; whether it had anything."""
        if self._arcs.pop(owner, None) is None:
            return False
        self._runs = None
        return True

    def shared(self, first: int, last: int) -> list[Arc]:
        """What is covered already of these values, as far as they are values of this row too."""
        first, last = max(first, self._values.first), min(last, self._values.last)
        arcs = [Arc(a.owner, a.low, a.high, max(first, a.first), min(last, a.last)) for a in self._arcs.values()]
        return [arc for arc in arcs if arc.first <= arc.last]

    def missing(self) -> list[tuple[int, int, int]]:
        """The runs of values that nobody has, each as (which rotation, first, last)."""
        if self._runs is None:
            self._runs = [[] for _ in self._rotations]
            for arc in self._arcs.values():
                _cover(self._runs, [self._on(arc, rotation) for rotation in self._rotations])
        found: list[tuple[int, int, int]] = []
        for turn, runs in enumerate(self._runs):
            at = self._values.first
            for first, last in runs:
                if at < first:
                    found += self._each(turn, at, first - 1)
                at = last + 1
            if at <= self._values.last:
                found += self._each(turn, at, self._values.last)
        return found

    def _on(self, arc: Arc, rotation: int) -> list[tuple[int, int]]:
        """The runs of values that an arc covers."""
        found = self._values.on_arc(arc.low, arc.high, rotation)
        clipped = [(max(first, arc.first), min(last, arc.last)) for first, last in found]
        return [(first, last) for first, last in clipped if first <= last]

    def _each(self, turn: int, first: int, last: int) -> list[tuple[int, int, int]]:
        """A run of ordered values is stored in one go, others one by one."""
        if self._values.ordered:
            return [(turn, first, last)]
        return [(turn, value, value) for value in range(first, last + 1)]


def _cover(covered: list[list[tuple[int, int]]], more: list[list[tuple[int, int]]]) -> None:
    """Add runs, rotation by rotation."""
    for runs, added in zip(covered, more):
        for first, last in added:
            _merge(runs, first, last)


def _merge(runs: list[tuple[int, int]], first: int, last: int) -> None:
    """Add a run to others, which are in order and neither touch nor overlap."""
    start = bisect_left(runs, (first, first))
    if start and runs[start - 1][1] >= first - 1:
        start -= 1
    end = start
    while end < len(runs) and runs[end][0] <= last + 1:
        first, last = min(first, runs[end][0]), max(last, runs[end][1])
        end += 1
    runs[start:end] = [(first, last)]
