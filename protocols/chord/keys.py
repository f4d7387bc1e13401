"""Where subscriptions and events meet: from values to keys.

A subscription id is stored under keys that are hashed from the values of an attribute, and an event asks under the keys
of its own values (paper, section 3.1). What a side of a box becomes:

| side | keys |
|---|---|
| numbers, `hash = "opchord"` | s_o(attribute) + floor(index * 2^m / D) for each index: an arc of the circle |
| numbers, `hash = "chord"` | SHA-1 of attribute and index, for each index |
| one string | SHA-1 of attribute and string |
| strings with a common beginning | SHA-1 of attribute and the first `prefix_max` characters of it |
| anything else | cannot be indexed |

A box of which no side can be indexed stands under the one key that every event asks (`ANY`); the metadata of a
subscription under the identifier of its access node, c1 (`HOME`).

Differs from the paper: it divides by v_max - v_min, so that the greatest value falls onto the least (`ophf = "paper"`);
the number of values D is right. And SHA-1 is taken of attribute and value: of the value alone, as printed, all
attributes of one domain would share their nodes.

A *list* is what the paper keeps per attribute, L_ai. Here it is a number: 2 * position, plus 1 for a string.
Attributes that were appended to the schema after the ring was begun are neither indexed nor asked, since a node that
does not know them could not ask: participants are made for the attributes of the beginning.
"""

from bisect import bisect_right
from typing import Final

from protocols.chord.config import ChordConfig
from protocols.chord.ids import Circle
from protocols.model.box import ABSENT, BEYOND_TEXT, PRESENT_TEXT, Box, Point
from protocols.model.ids import Address
from protocols.model.lines import successor
from protocols.model.schema import Schema

ANY: Final = -1
HOME: Final = -2
LIST_MAX: Final = 255
"""Two per attribute of the greatest schema."""

END_OF_TEXT: Final = "\0"
FAR: Final = 2**62
"""Beyond every value."""
HASHED_MAX: Final = 64
"""Ranges of hashed values that are kept at hand. A guess."""


class Values:
    """The values that one row stands for, as the grid's indices `first` to `last`, and the key of each.

    *Ordered*: keys grow with the values. *Hashed*: each value has a key of its own. *Single*: there is one key, such as
    that of a string, and one value, 0.
    """

    __slots__ = ("_circle", "_key", "_name", "_offset", "_size", "_sorted", "first", "last", "ordered")

    def __init__(self, circle: Circle, first: int = 0, last: int = 0) -> None:
        self._circle = circle
        self.first = first
        self.last = last
        self.ordered = False
        self._offset = 0
        self._size = 1
        self._name = ""
        self._key = 0
        self._sorted: list[tuple[int, int]] | None = None  # keys and values, where they are not in the same order

    @classmethod
    def in_order(cls, circle: Circle, first: int, last: int, offset: int, size: int) -> "Values":
        made = cls(circle, first, last)
        made.ordered, made._offset, made._size = True, offset, max(1, size)
        return made

    @classmethod
    def hashed(cls, circle: Circle, first: int, last: int, name: str) -> "Values":
        made = cls(circle, first, last)
        made._name = name
        return made

    @classmethod
    def single(cls, circle: Circle, key: int) -> "Values":
        made = cls(circle)
        made._key = key
        return made

    @property
    def greatest(self) -> int:
        """No value of the attribute is greater, be it one of these or not."""
        return self._size if self.ordered else FAR

    def key(self, value: int, rotation: int = 0) -> int:
        circle = self._circle
        if self.ordered:
            return (self._offset + rotation + value * circle.size // self._size) & circle.mask
        key = circle.hash(f"{self._name}={value}") if self._name else self._key
        return (key + rotation) & circle.mask

    def on_arc(self, lo: int, hi: int, rotation: int = 0) -> list[tuple[int, int]]:
        """The runs of values whose keys lie on the arc (lo, hi]."""
        if not self.ordered:
            return self._hashed_on_arc((lo - rotation) & self._circle.mask, (hi - rotation) & self._circle.mask)
        if lo == hi:
            return [(self.first, self.last)]
        mask = self._circle.mask
        start, end = (lo - self._offset - rotation) & mask, (hi - self._offset - rotation) & mask
        first, beyond = self._first_at(start + 1), self._first_at(end + 1)
        runs = [(first, beyond - 1)]
        if start >= end:  # the arc holds the place where the hash begins anew
            runs = [(0, beyond - 1), (first, self._size - 1)]
        if self.last >= self._size and self._circle.within(self.key(self.last, rotation), lo, hi):
            runs.append((self._size, self.last))  # the paper's hash: the greatest value stands with the least
        clipped = [(max(a, self.first), min(b, self.last)) for a, b in runs]
        return [(a, b) for a, b in clipped if a <= b]

    def _hashed_on_arc(self, lo: int, hi: int) -> list[tuple[int, int]]:
        if self._sorted is None:
            self._sorted = sorted((self.key(value), value) for value in range(self.first, self.last + 1))
        start, end = bisect_right(self._sorted, (lo, FAR)), bisect_right(self._sorted, (hi, FAR))
        found = self._sorted[start:end] if lo < hi else self._sorted[start:] + self._sorted[:end]
        return [(value, value) for _, value in found]

    def touches(self, lo: int, hi: int, rotations: tuple[int, ...]) -> bool:
        return any(self.on_arc(lo, hi, rotation) for rotation in rotations)

    def beyond(self, value: int, node: int, rotation: int = 0) -> int | None:
        """The first value whose key lies beyond a node, which stands at the key of `value` or after it."""
        if not self.ordered:
            return None
        reach = value * self._circle.size // self._size + self._circle.distance(self.key(value, rotation), node)
        return self._first_at(reach + 1)

    def _first_at(self, place: int) -> int:
        """The least value whose key stands at that distance from the beginning of the hash, or later."""
        return -(-place * self._size // self._circle.size)


class Keys:
    """The hashes of one schema."""

    __slots__ = ("_any", "_config", "_hashed", "_numbers", "_order", "_texts", "circle", "rotations")

    def __init__(self, schema: Schema, config: ChordConfig, circle: Circle) -> None:
        self.circle = circle
        self._config = config
        self.rotations = tuple([turn * circle.size // config.rotations for turn in range(config.rotations)])
        self._numbers: list[tuple[str, int, int]] = []
        self._texts: list[str] = []
        self._order = [schema.place(attribute.name) for attribute in schema.attributes]
        for attribute in schema.attributes:
            if attribute.is_text:
                self._texts.append(attribute.name)
            else:
                size = schema.grid(attribute.name).size
                self._numbers.append((attribute.name, size, circle.hash(attribute.name)))
        self._any = circle.hash("")
        self._hashed: dict[tuple[str, int, int], Values] = {}  # made lately: to hash every value of a range takes long

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def values(self, list_: int, box: Box, access: Address) -> Values | None:
        """What a row in that list stands for; None if this box cannot be in it."""
        if list_ == ANY:
            return Values.single(self.circle, self._any)
        if list_ == HOME:
            return Values.single(self.circle, self.circle.node(access))
        position, is_text = divmod(list_, 2)
        return self._texts_of(position, box) if is_text else self._numbers_of(position, box)

    def _numbers_of(self, position: int, box: Box) -> Values | None:
        if position >= min(len(self._numbers), len(box.lo), len(box.hi)):
            return None
        first, last = box.lo[position], min(box.hi[position], self._numbers[position][1]) - 1
        if first < 0 or first > last:
            return None
        if self._config.hash == "chord" and last - first >= self._config.values_max:
            return None
        return self._run(position, first, last)

    def _texts_of(self, position: int, box: Box) -> Values | None:
        if position >= min(len(self._texts), len(box.lo_text), len(box.hi_text)):
            return None
        name, lo, hi = self._texts[position], box.lo_text[position], box.hi_text[position]
        if is_one_text(lo, hi):
            return Values.single(self.circle, self._text(name, lo))
        prefix = self.prefix(lo, hi)
        return None if prefix is None else Values.single(self.circle, self._prefix(name, prefix))

    def prefix(self, lo: str, hi: str) -> str | None:
        """The longest beginning, up to `prefix_max` characters, that all strings of the side have."""
        if not lo.startswith(PRESENT_TEXT):
            return None
        for length in range(min(len(lo) - 1, self._config.prefix_max), 0, -1):
            if hi <= successor(lo[: 1 + length]):
                return lo[: 1 + length]
        return None

    def sides(self, box: Box) -> list[tuple[int, float]]:
        """The lists that a box can be in, in the order of the schema, and which share of the events falls into each.

        A string's share is a guess: below that of any range of numbers one would index, and a prefix above it.
        """
        found: list[tuple[int, float]] = []
        for is_text, position in self._order:
            list_ = 2 * position + is_text
            if is_text:
                if position < len(box.lo_text) and self._texts_of(position, box) is not None:
                    one = is_one_text(box.lo_text[position], box.hi_text[position])
                    found.append((list_, ONE_TEXT if one else PREFIX))
            elif position < len(box.lo):
                size = self._numbers[position][1]
                lo, hi = box.lo[position], box.hi[position]
                if (lo, hi) != (0, size) and self._numbers_of(position, box) is not None:
                    found.append((list_, (hi - lo) / size))
        return found

    # --- events -------------------------------------------------------------------------------------------------------

    def asked(self, point: Point, rotation: int = 0) -> list[int]:
        """The keys under which whatever matches an event at this point is stored (paper, section 3.2)."""
        keys = [self._any]
        for position, (number, value) in enumerate(zip(self._numbers, point.numbers)):
            if ABSENT < value < number[1]:
                keys.append(self.asked_number(position, value))
        for name, text in zip(self._texts, point.text):
            if text.startswith(PRESENT_TEXT):
                keys.append(self._text(name, text))
                last = min(len(text) - 1, self._config.prefix_max)
                keys += [self._prefix(name, text[: 1 + length]) for length in range(1, last + 1)]
        return list(dict.fromkeys((key + rotation) & self.circle.mask for key in keys))

    def asked_number(self, position: int, value: int) -> int:
        """The key of one value of an attribute of numbers."""
        return self._run(position, value, value).key(value)

    def run(self, list_: int, first: int, last: int) -> Values:
        """These values in a list of numbers."""
        return self._run(list_ // 2, first, last)

    def _run(self, position: int, first: int, last: int) -> Values:
        name, size, offset = self._numbers[position]
        if self._config.hash == "chord":
            made = self._hashed.get((name, first, last))
            if made is None:
                if len(self._hashed) >= HASHED_MAX:
                    del self._hashed[next(iter(self._hashed))]
                made = self._hashed[name, first, last] = Values.hashed(self.circle, first, last, name)
            return made
        divisor = size - 1 if self._config.ophf == "paper" else size
        return Values.in_order(self.circle, first, last, offset, divisor)

    def _text(self, name: str, coordinate: str) -> int:
        return self.circle.hash(name + coordinate)

    def _prefix(self, name: str, coordinate: str) -> int:
        return self.circle.hash(f"{name}^{coordinate}")


ONE_TEXT: Final = 0.001
PREFIX: Final = 0.02


def is_one_text(lo: str, hi: str) -> bool:
    """Whether a side holds one string and no other."""
    return PRESENT_TEXT <= lo < BEYOND_TEXT and hi == lo + END_OF_TEXT
