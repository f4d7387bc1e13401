"""The local index: which of a peer's subscriptions an event matches, exactly.

A peer may hold thousands of subscriptions behind a few participants, and asks this question once for every event that
reaches it. Two steps: boxes find the candidates, the exact filter decides. The event's attributes are in its body,
which is decoded only if there is a candidate.

Few boxes are looked at one after the other. From `VECTOR_FROM` on they are rows of a table with two columns of integers
per attribute, and numpy compares a whole column at a time: first the attribute that lately let the fewest rows pass,
each next one only on the rows that are left. Strings stand in the table as intervals of codes (`box.code`), which hold
every string of the interval and perhaps more; where a string is bounded, the box itself is asked before the filter is.

A removed row loses its owner and is used again by the next subscription; columns double when they are full. So adding
and removing cost the same on average whatever the size.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from protocols.model.box import BEYOND_TEXT, Box, Point, code, is_empty, last_code, match
from protocols.model.event import Attributes
from protocols.model.filter import Matcher
from protocols.model.interest import matches_document
from protocols.model.xpath.document import Document

if TYPE_CHECKING:
    import numpy as np

    _Column: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]

VECTOR_FROM: Final = 64
"""Boxes from which on the table is used. Measured: the two break even between 16 and 32 boxes, and at 64 the table
takes a quarter to two thirds of the loop's time; below that the gain does not pay for loading numpy."""

_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1
"""The ends of 64 bits, below and above every coordinate: an unbounded row."""
_FIRST_ROWS: Final = 256
_LEARNING: Final = 0.1
"""How fast an attribute's share of passing rows follows the latest event. A guess; only speed depends on it."""


class _Entry(msgspec.Struct):
    id: str
    order: int
    boxes: tuple[Box, ...]
    matcher: Matcher
    in_doubt: bool
    """A string is bounded, so the table's codes alone do not settle that a point is in a box."""
    pattern: str
    """What the event's document has to match; empty for most."""
    rows: tuple[int, ...] = ()


def _no_document() -> None:
    """An event without one."""


class LocalIndex:
    """Subscriptions by id. Answers come in the order in which they were added."""

    def __init__(self, vector_from: int = VECTOR_FROM) -> None:
        self._entries: dict[str, _Entry] = {}
        self._added = 0
        self._boxes = 0
        self._vector_from = vector_from
        self._table: _Table | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._entries

    def add(self, id_: str, boxes: Sequence[Box], matcher: Matcher, pattern: str = "") -> None:
        """Take up a subscription. `ValueError` if the id is taken: remove it first."""
        if id_ in self._entries:
            raise ValueError(f"subscription {id_!r} is in the index already")
        held = tuple([box for box in boxes if not is_empty(box)])
        in_doubt = any(any(box.lo_text) or min(box.hi_text, default=BEYOND_TEXT) < BEYOND_TEXT for box in held)
        entry = _Entry(id_, self._added, held, matcher, in_doubt, pattern)
        self._added += 1
        self._entries[id_] = entry
        self._boxes += len(entry.boxes)
        if self._table is not None:
            self._table.add(entry)
        elif self._boxes >= self._vector_from:
            self._table = _Table()
            for each in self._entries.values():
                self._table.add(each)

    def remove(self, id_: str) -> None:
        """Forget a subscription; `KeyError` if there is none of that id."""
        entry = self._entries.pop(id_)
        self._boxes -= len(entry.boxes)
        if self._table is None:
            return
        if self._boxes < self._vector_from // 2:
            self._table = None  # half of the threshold: no flapping at it
        else:
            self._table.remove(entry)

    def match(
        self,
        point: Point,
        attributes: Attributes | Callable[[], Attributes],
        document: Callable[[], Document | None] = _no_document,
    ) -> list[str]:
        """The ids of the subscriptions that an event matches. `attributes` may be a function that decodes them, and
        `document` reads the event's document, if there is anybody who asks for it."""
        if self._table is None:
            found: Iterable[_Entry] = self._entries.values()
        else:
            found = self._table.candidates(point)
        sure = self._table is not None
        values: Attributes | None = None
        ids: list[str] = []
        for entry in found:
            if (sure and not entry.in_doubt) or _in_a_box(entry, point):
                if values is None:
                    values = attributes() if callable(attributes) else attributes
                if entry.matcher(values) and (not entry.pattern or matches_document(entry.pattern, document())):
                    ids.append(entry.id)
        return ids


def _in_a_box(entry: _Entry, point: Point) -> bool:
    for box in entry.boxes:
        if match(box, point):
            return True
    return False


class _Columns:
    """The bounds of one attribute for all rows, and which share of the rows has passed them lately."""

    __slots__ = ("common", "hi", "lo", "passing")

    def __init__(self, numpy: Any, rows: int) -> None:
        self.lo: _Column = numpy.full(rows, _LOWEST, numpy.int64)
        self.hi: _Column = numpy.full(rows, _HIGHEST, numpy.int64)
        self.passing = 0.5
        self.common: tuple[int, int] | None = None
        """The bounds, as long as they are the same in all rows: most often, that nobody asks for this attribute."""

    def grow(self, numpy: Any) -> None:
        rows = len(self.lo)
        self.lo = numpy.concatenate((self.lo, numpy.full(rows, _LOWEST, numpy.int64)))
        self.hi = numpy.concatenate((self.hi, numpy.full(rows, _HIGHEST, numpy.int64)))


class _Table:
    """Rows of boxes. A row that nobody owns keeps its bounds until it is used again."""

    def __init__(self) -> None:
        import numpy

        self._numpy = numpy
        self._numbers: list[_Columns] = []
        self._texts: list[_Columns] = []
        self._owners: list[_Entry | None] = []
        self._free: list[int] = []
        self._capacity = _FIRST_ROWS

    def add(self, entry: _Entry) -> None:
        rows: list[int] = []
        for box in entry.boxes:
            row = self._row(entry)
            rows.append(row)
            self._set(self._numbers, row, box.lo, box.hi)
            lo, hi = [code(text) for text in box.lo_text], [last_code(text) for text in box.hi_text]
            self._set(self._texts, row, lo, hi)
        entry.rows = tuple(rows)

    def remove(self, entry: _Entry) -> None:
        for row in entry.rows:
            self._owners[row] = None
            self._free.append(row)
        entry.rows = ()

    def candidates(self, point: Point) -> list[_Entry]:
        """The owners of the rows that the point falls into, each once, in the order of their adding."""
        values: list[tuple[_Columns, int]] = list(zip(self._numbers, point.numbers))
        values += zip(self._texts, map(code, point.text))
        values.sort(key=_passing)
        count = len(self._owners)
        left: Any = None
        for column, value in values:
            if column.common is not None:
                if column.common[0] <= value < column.common[1]:
                    continue
                return []
            value = min(max(value, _LOWEST), _HIGHEST - 1)
            lo, hi = (column.lo[:count], column.hi[:count]) if left is None else (column.lo[left], column.hi[left])
            hits = ((lo <= value) & (value < hi)).nonzero()[0]
            column.passing += _LEARNING * (len(hits) / len(lo) - column.passing)
            left = hits if left is None else left[hits]
            if not len(left):
                return []
        rows: Sequence[int] = range(count) if left is None else left.tolist()
        by_order = {entry.order: entry for row in rows if (entry := self._owners[row]) is not None}
        return [by_order[order] for order in sorted(by_order)]

    def _row(self, entry: _Entry) -> int:
        """A free row for a box of this entry."""
        if self._free:
            row = self._free.pop()
            self._owners[row] = entry
            return row
        if len(self._owners) == self._capacity:
            for column in (*self._numbers, *self._texts):
                column.grow(self._numpy)
            self._capacity *= 2
        self._owners.append(entry)
        return len(self._owners) - 1

    def _set(self, columns: list[_Columns], row: int, lo: Sequence[int], hi: Sequence[int]) -> None:
        while len(columns) < len(lo):
            column = _Columns(self._numpy, self._capacity)
            column.common = (lo[len(columns)], hi[len(columns)]) if len(self._owners) == 1 else None
            columns.append(column)
        for column, first, beyond in zip_longest(columns, lo, hi):
            # A box that is too short for the newest attributes is unbounded there.
            bounds = (_LOWEST, _HIGHEST) if first is None else (first, beyond)
            column.lo[row], column.hi[row] = bounds
            if bounds != column.common:
                column.common = None


def _passing(pair: tuple[_Columns, int]) -> float:
    return pair[0].passing
