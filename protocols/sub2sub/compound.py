"""Rings of several attributes.

In the ring of one attribute everybody who asks for `symbol = 'OTE'` stands in one line, whatever price they ask for,
and an event visits them all. Where a box holds a single value of an attribute, its ring can be one of several: the ones
with a single value, and the one on which the box is narrowest besides. Their coordinates are put together as in a
dictionary, first the one, then the next:

    symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69        ['=OTE' 831, '=OTE' 870)

So a span is still one interval and a ring one line, and in it stands only who wants the event by all of these. Boxes
that are not made alike do not meet: an event enters one ring for each way in which those who may want it are made.

**Coordinates** are strings that sort as their parts do. No part is the beginning of another one: a number has its count
of digits before it, a string ends with two zeros (one inside is followed by a one). So the first difference of two
coordinates decides, and it lies in the first part that differs.

**Places** name the attributes, each by its own place: numbers of nine bits, one after another, and below them a one,
which says as of all places that coordinates are strings.

A box with more than one value of an attribute before the last, which is one that its owner moves from or to, has as its
span all from its lowest corner to its highest: too much, never too little.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

from protocols.model.box import ABSENT, ABSENT_TEXT, Box

ATTRIBUTES_IN_RING_MAX: Final = 4
"""As many as names fit. A guess: filters of a kind seldom ask for three single values."""
_BITS: Final = 9
_MASK: Final = (1 << _BITS) - 1
PLACE_MAX: Final = 1 << _BITS * (ATTRIBUTES_IN_RING_MAX + 1)
"""No place is higher: nine bits are enough for two places of each of `ATTRIBUTES_MAX` attributes."""

KEPT: Final = 1 << 11
"""Spans and coordinates that are remembered: of as many boxes and events as a participant keeps anyway. Kept by
the sides of a box alone, and coordinates not at all, 60 simulated peers take a fifth more of a processor."""

Numbers: TypeAlias = tuple[int, ...]
Texts: TypeAlias = tuple[str, ...]


def is_compound(place: int) -> bool:
    return place > _MASK


def compound(parts: tuple[int, ...]) -> int:
    """The place of the ring of several places; that of a single one is itself."""
    if len(parts) == 1:
        return parts[0]
    packed = 0
    for part in parts:
        packed = packed << _BITS | part + 1
    return packed << _BITS | 1


@lru_cache(maxsize=1 << 10)
def parts_of(place: int) -> tuple[int, ...]:
    """The places that it is made of; none if it makes no sense."""
    parts: list[int] = []
    packed = place >> _BITS
    while packed:
        parts.append((packed & _MASK) - 1)
        packed >>= _BITS
    well_formed = 1 < len(parts) <= ATTRIBUTES_IN_RING_MAX and min(parts) >= 0 and place & _MASK == 1
    return tuple(reversed(parts)) if well_formed else ()


@lru_cache(maxsize=KEPT)
def coordinate(place: int, numbers: Numbers, text: Texts) -> str:
    """Where an event falls; its publisher may not know an attribute yet, then it has no value there."""
    found: list[str] = []
    for part in parts_of(place):
        at = part >> 1
        if part & 1:
            found.append(_of_text(text[at] if at < len(text) else ABSENT_TEXT))
        else:
            found.append(_of_number(numbers[at] if at < len(numbers) else ABSENT))
    return "".join(found)


@lru_cache(maxsize=KEPT)
def span(place: int, box: Box) -> tuple[str, str] | None:
    """What a box takes up; None if it has not all of the attributes."""
    sides = list(_sides(place, box))
    if not sides or len(sides) < len(parts_of(place)):
        return None
    prefix = ""
    for lo, hi, is_one in sides[:-1]:
        if not is_one:
            return "".join([lo for lo, _, _ in sides]), prefix + hi
        prefix += lo
    return prefix + sides[-1][0], prefix + sides[-1][1]


def _sides(place: int, box: Box) -> Iterator[tuple[str, str, bool]]:
    """Of each attribute: its bounds, and whether there is a single value between them."""
    for part in parts_of(place):
        at = part >> 1
        if part & 1 and at < min(len(box.lo_text), len(box.hi_text)):
            yield _of_text(box.lo_text[at]), _of_text(box.hi_text[at]), is_single(box, part)
        elif not part & 1 and at < min(len(box.lo), len(box.hi)):
            yield _of_number(box.lo[at]), _of_number(box.hi[at]), is_single(box, part)


def is_single(box: Box, place: int) -> bool:
    """Whether the box holds a single value of an attribute. (What has no value at all is as good as a single one.)"""
    at = place >> 1
    return box.hi_text[at] == box.lo_text[at] + "\0" if place & 1 else box.hi[at] == box.lo[at] + 1


def _of_number(index: int) -> str:
    digits = f"{index + 1:x}"
    return f"={len(digits):02x}{digits}"


def _of_text(text: str) -> str:
    return text.replace("\0", "\0\1") + "\0\0"
