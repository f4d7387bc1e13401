"""Where a participant stands: its ring attribute, its span on it, its cell, and its rank in the order of the rings.

**Ring attribute.** The paper has one attribute. With several, a participant stands in the ring of the attribute on
which its box is most selective (specification, section 5): whoever matches an event matches it there, so the ring
misses nobody, and what else the box asks for is checked on receipt. An attribute is named by its *place*: twice its
position among the numbers or among the strings, plus one for a string. Attributes are only ever appended, so places
last. Where a box holds a single value of an attribute, its ring may be one of several (`compound`), as if those were
one.

**Span.** The side of the box on that attribute, a half-open interval of numbers or of strings.

**Order.** Sub-2-Sub orders the participants of a ring by id, the bandwidth-aware system by cell and then by id (paper,
section IV.A). Its first cell is the number of binary digits of the subscription's length (2^(C-1) <= L < 2^C): the
shorter a range, the more bandwidth there is for each unit of it, and the lower the cell.

What others must know of this stands in a descriptor's extension: the cell, then the places. While a participant moves
from one ring to another it stands in both.
"""

from functools import lru_cache
from typing import Any, Final, TypeAlias
from zlib import crc32

from protocols.model.box import ABSENT, ABSENT_TEXT, BEYOND_TEXT, Box, Point, Space, is_empty
from protocols.model.descriptor import Descriptor
from protocols.sub2sub import compound as compounds
from protocols.sub2sub.compound import PLACE_MAX, compound, is_compound, is_single

Coordinate: TypeAlias = Any
"""A number or a string; all of one place are of one kind, so they compare."""
Span: TypeAlias = tuple[Coordinate, Coordinate]
Rank: TypeAlias = tuple[int, str, int]
"""Cell, peer, slot: who is smaller stands lower in every ring."""

CELL_MAX: Final = 64
"""No cell is higher: lengths are at most 100 units, and a participant moves by one cell at a time."""
UNITS: Final = 100
"""Lengths are counted in hundredths of the attribute's domain, as in the paper's experiments (section V)."""


def place_of(is_text: bool, position: int) -> int:
    return 2 * position + is_text


def best_place(space: Space, box: Box, several: int = 1) -> int | None:
    """The place of the attribute on which the box is most selective, or of up to `several`; None for the empty box."""
    if is_empty(box):
        return None
    numbers = len(space.number_sizes)
    shares = {
        place_of(False, at) if at < numbers else place_of(True, at - numbers): share
        for at, share in enumerate(space.sides(box))
    }
    # a box from before an attribute was appended does not know it, and is unbounded there
    known = [place for place in shares if span_at(box, place) is not None]
    narrowest = min(known, key=shares.__getitem__)
    if several == 1:
        return narrowest
    single = [place for place in known if is_single(box, place)][: several - 1]
    others = [place for place in known if place not in single and not _is_unbounded(space, box, place)]
    if not single:
        return narrowest
    return compound((*single, *sorted(others, key=shares.__getitem__)[:1]))


def _is_unbounded(space: Space, box: Box, place: int) -> bool:
    at = place >> 1
    if place & 1:
        return (box.lo_text[at], box.hi_text[at]) == (ABSENT_TEXT, BEYOND_TEXT)
    return box.hi[at] - box.lo[at] > space.number_sizes[at]


def span_at(box: Box, place: int) -> Span | None:
    """The side of a box at a place; None if it has none there."""
    position = place >> 1
    if place & 1:
        if position < len(box.lo_text) and position < len(box.hi_text):
            return box.lo_text[position], box.hi_text[position]
    elif position < len(box.lo) and position < len(box.hi):
        return box.lo[position], box.hi[position]
    return None


def coordinate_at(point: Point, place: int) -> Coordinate:
    """Where an event falls at a place; its publisher may not know the attribute yet, then it has no value there."""
    if is_compound(place):
        return compounds.coordinate(place, point.numbers, point.text)
    position = place >> 1
    if place & 1:
        return point.text[position] if position < len(point.text) else ABSENT_TEXT
    return point.numbers[position] if position < len(point.numbers) else ABSENT


def length(space: Space, box: Box, place: int) -> float:
    """L: how many hundredths of the attribute's domain the box covers, at least one; one of several attributes, since
    of all but one a single value.

    The paper's ranges [a, b] have the length b - a (section V): a closed range of whole numbers has one value more.
    """
    if is_compound(place):
        return 1.0
    position, numbers = place >> 1, len(space.number_sizes)
    if place & 1:
        sides = space.sides(box)
        share = sides[numbers + position] if numbers + position < len(sides) else 1.0
        return max(1.0, UNITS * share)
    if position >= numbers:
        return float(UNITS)
    size = max(1, space.number_sizes[position] - 1)
    return max(1.0, UNITS * (box.hi[position] - box.lo[position] - 1) / size)


def first_cell(length_: float) -> int:
    """C with 2^(C-1) <= L < 2^C (paper, section IV.A)."""
    return max(1, min(CELL_MAX, int(length_).bit_length()))


def places(descriptor: Descriptor) -> tuple[int, ...]:
    """In whose rings a participant says it stands; what makes no sense is left out."""
    return tuple([place for place in descriptor.ext[1:3] if type(place) is int and 0 <= place < PLACE_MAX])


def span(descriptor: Descriptor, place: int) -> Span | None:
    """A participant's span in the ring of a place; None if it does not stand in it, or with nothing in between."""
    ext, box, position = descriptor.ext, descriptor.box, place >> 1
    if len(ext) < 2 or (ext[1] != place and (len(ext) < 3 or ext[2] != place)):
        return None
    if is_compound(place):
        its = compounds.span(place, box)
        return its if its is not None and its[0] < its[1] else None
    los, his = (box.lo_text, box.hi_text) if place & 1 else (box.lo, box.hi)
    if position >= len(los) or position >= len(his):
        return None
    lo, hi = los[position], his[position]
    return (lo, hi) if lo < hi else None  # type: ignore[operator]


def cell(descriptor: Descriptor) -> int:
    ext = descriptor.ext
    if ext and type(ext[0]) is int and 0 <= ext[0] <= CELL_MAX:
        return ext[0]
    return CELL_MAX


def rank(descriptor: Descriptor) -> Rank:
    address = descriptor.address
    return cell(descriptor), address.peer, address.slot


@lru_cache(maxsize=1 << 16)
def lot(peer: str, slot: int) -> int:
    """A participant's number in drawing lots: the same everywhere, and unrelated to the order of the rings."""
    return crc32(f"{peer}/{slot}".encode("utf-8", "surrogatepass"))
