"""Boxes: what a participant routes by, and the algebra that all overlays need.

A box is a product of half-open intervals, one per attribute of the schema: `lo <= coordinate < hi`.

- A number (int, float, bool) has the index of its value on the attribute's grid as its coordinate, 0 to D-1, and -1
  when it is absent. Unbounded is [-1, D), IS NOT NULL is [0, D), IS NULL is [-1, 0).
- A string has itself as its coordinate, behind one `=`; absent is the empty string. Unbounded is ["", ">") because ">"
  is the code point after "=". Equality with 'OTE' is ["=OTE", "=OTE\\0"), the prefix 'OT' is ["=OT", "=OU").

Numbers and strings stand in tuples of their own (`lo`, `hi` and `lo_text`, `hi_text`), each in the order of the schema:
so no comparison can mix types, whatever a remote peer sends, and a schema of numbers pays nothing for strings.

Attributes are only ever appended to a schema. A box or a point that is too short for the schema comes from a peer that
does not know the newest attributes: it is unbounded there. All functions stop at the shorter one (`zip`), which is just
that and errs outward, never inward.

Differs from the design, which has closed intervals and approximates strings by integer codes: with half-open intervals
on the strings themselves every set that a filter can state is exact, and containment by colliding codes, which would
lose events, cannot happen. Codes remain where only a magnitude is asked for (`Space`: volume, margin, distance).
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from protocols.model.bounds import Coordinates, TextCoordinates

ABSENT: Final = -1
ABSENT_TEXT: Final = ""
PRESENT_TEXT: Final = "="
BEYOND_TEXT: Final = ">"
"""The code point after `PRESENT_TEXT`: above the coordinate of every string."""

CODE_BYTES: Final = 6
TEXT_SIZE: Final = 1 << 8 * CODE_BYTES
"""How many codes a string attribute has: its D in volumes and distances."""


class Box(msgspec.Struct, frozen=True, array_like=True, cache_hash=True, gc=False):
    lo: Coordinates
    hi: Coordinates
    lo_text: TextCoordinates = ()
    hi_text: TextCoordinates = ()


class Point(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where an event falls: a coordinate for every attribute, absent ones included."""

    numbers: Coordinates
    text: TextCoordinates = ()


EMPTY: Final = Box((0,), (0,), ("",), ("",))
"""The box of a peer without a subscription: it holds no point, and every box contains it."""


def is_empty(box: Box) -> bool:
    """Whether the box is `EMPTY`. (Every other box has at least one attribute, and no inverted side.)"""
    return box.lo >= box.hi and box.lo_text >= box.hi_text


def match(box: Box, point: Point) -> bool:
    """Whether the point falls into the box."""
    for lo, value, hi in zip(box.lo, point.numbers, box.hi):
        if not lo <= value < hi:
            return False
    for lo_text, text, hi_text in zip(box.lo_text, point.text, box.hi_text):
        if not lo_text <= text < hi_text:
            return False
    return True


def contains(outer: Box, inner: Box) -> bool:
    """Whether every point of `inner` is in `outer`. Never wrongly True."""
    if is_empty(inner):
        return True
    if len(outer.lo) > len(inner.lo) or len(outer.lo_text) > len(inner.lo_text):
        return False  # inner is unbounded where outer may not be
    for a, b in zip(outer.lo, inner.lo):
        if a > b:
            return False
    for a, b in zip(outer.hi, inner.hi):
        if a < b:
            return False
    for first, inner_first in zip(outer.lo_text, inner.lo_text):
        if first > inner_first:
            return False
    for last, inner_last in zip(outer.hi_text, inner.hi_text):
        if last < inner_last:
            return False
    return True


def intersects(a: Box, b: Box) -> bool:
    """Whether the two share a point."""
    for a_lo, a_hi, b_lo, b_hi in zip(a.lo, a.hi, b.lo, b.hi):
        if a_lo >= b_hi or b_lo >= a_hi:
            return False
    for a_first, a_last, b_first, b_last in zip(a.lo_text, a.hi_text, b.lo_text, b.hi_text):
        if a_first >= b_last or b_first >= a_last:
            return False
    return not (is_empty(a) or is_empty(b))


def intersection(a: Box, b: Box) -> Box:
    """The points of both; `EMPTY` if there are none."""
    if not intersects(a, b):
        return EMPTY
    if len(a.lo) < len(b.lo) or len(a.lo_text) < len(b.lo_text):
        a, b = b, a  # a knows more attributes: where b says nothing, a decides
    numbers, texts = len(b.lo), len(b.lo_text)
    return Box(
        tuple(map(max, a.lo, b.lo)) + a.lo[numbers:],
        tuple(map(min, a.hi, b.hi)) + a.hi[numbers:],
        tuple(map(max, a.lo_text, b.lo_text)) + a.lo_text[texts:],
        tuple(map(min, a.hi_text, b.hi_text)) + a.hi_text[texts:],
    )


def enclosing(a: Box, b: Box) -> Box:
    """The smallest box that contains both."""
    if is_empty(a):
        return b
    if is_empty(b):
        return a
    lo, hi = tuple(map(min, a.lo, b.lo)), tuple(map(max, a.hi, b.hi))
    if not a.lo_text:
        return Box(lo, hi)
    return Box(lo, hi, tuple(map(min, a.lo_text, b.lo_text)), tuple(map(max, a.hi_text, b.hi_text)))


def enclosing_all(boxes: Iterable[Box]) -> Box:
    """The smallest box that contains them all; `EMPTY` for none."""
    result = EMPTY
    for box in boxes:
        result = enclosing(result, box)
    return result


def code(coordinate: str) -> int:
    """A number that grows with the string (or stays: short codes collide), -1 for absent, `TEXT_SIZE` beyond all."""
    if coordinate == ABSENT_TEXT:
        return ABSENT
    if coordinate >= BEYOND_TEXT:
        return TEXT_SIZE
    raw = coordinate[1 : 1 + CODE_BYTES].encode("utf-8", "surrogatepass")[:CODE_BYTES]
    return int.from_bytes(raw.ljust(CODE_BYTES, b"\0"), "big")


def last_code(hi: str) -> int:
    """The code just beyond a half-open upper bound, so that [code(lo), last_code(hi)) is never empty nor too small."""
    if hi >= BEYOND_TEXT:
        return TEXT_SIZE
    return code(hi) + 1 if hi > PRESENT_TEXT else 0


class Space:
    """The attribute space as geometry: how large each attribute is, hence volumes, margins and distances.

    The side of a box is its share of the D+1 coordinates (absent is one), so unbounded is 1 and nothing that can match
    has volume zero.
    """

    __slots__ = ("_number_steps", "_text_step", "number_sizes", "text_count")

    def __init__(self, number_sizes: Sequence[int], text_count: int = 0) -> None:
        self.number_sizes = tuple(number_sizes)
        self.text_count = text_count
        self._number_steps = tuple(1.0 / (size + 1) for size in number_sizes)
        self._text_step = 1.0 / (TEXT_SIZE + 1)

    @property
    def unbounded(self) -> Box:
        count = self.text_count
        lo, hi = (ABSENT,) * len(self.number_sizes), self.number_sizes
        return Box(lo, hi, (ABSENT_TEXT,) * count, (BEYOND_TEXT,) * count)

    def sides(self, box: Box) -> list[float]:
        """The share of each attribute that the box covers, numbers first: all of those that it does not know."""
        numbers, texts = len(self.number_sizes), self.text_count
        if is_empty(box):
            return [0.0] * (numbers + texts)
        result = [(hi - lo) * step for lo, hi, step in zip(box.lo, box.hi, self._number_steps)]
        result += [1.0] * (numbers - len(result))
        if texts:
            step = self._text_step
            result += [(last_code(hi) - code(lo)) * step for lo, hi in zip(box.lo_text[:texts], box.hi_text)]
            result += [1.0] * (numbers + texts - len(result))
        return result

    def volume(self, box: Box) -> float:
        result = 1.0
        if box.lo_text or is_empty(box):
            for side in self.sides(box):
                result *= side
            return result
        for lo, hi, step in zip(box.lo, box.hi, self._number_steps):
            result *= (hi - lo) * step
        return result

    def margin(self, box: Box) -> float:
        """The sum of the sides."""
        return sum(self.sides(box))

    def enlargement(self, box: Box, added: Box) -> float:
        """How much volume `box` gains by enclosing `added`."""
        return self.volume(enclosing(box, added)) - self.volume(box)

    def overlap(self, a: Box, b: Box) -> float:
        """The volume that two boxes share."""
        return self.volume(intersection(a, b))

    def similarity(self, a: Box, b: Box) -> float:
        """Shared volume over joint volume: 1 for equal boxes, 0 for disjoint ones."""
        shared = self.overlap(a, b)
        joint = self.volume(a) + self.volume(b) - shared
        return shared / joint if joint > 0.0 else 0.0

    def distance(self, box: Box, point: Point) -> float:
        """0 inside, otherwise the sum over the attributes of how far outside, as a share of the attribute."""
        if is_empty(box):
            return float(len(self.number_sizes) + self.text_count)
        total = 0.0
        for lo, value, hi, step in zip(box.lo, point.numbers, box.hi, self._number_steps):
            if value < lo:
                total += (lo - value) * step
            elif value >= hi:
                total += (value - hi + 1) * step
        for lo_text, text, hi_text in zip(box.lo_text, point.text, box.hi_text):
            if text < lo_text:
                total += max(1, code(lo_text) - code(text)) * self._text_step
            elif text >= hi_text:
                total += max(1, code(text) - last_code(hi_text) + 1) * self._text_step
        return total
