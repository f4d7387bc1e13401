"""The dictionary order of boxes (GosSkip, section 2: "Ordering subscription filters").

Peers agree on an order of the attributes; a filter's key is the tuple of its values in that order. Here a box stands at
its lowest corner: its lower bounds, with the upper bounds behind them to tell boxes apart that start at the same place.
An unbounded attribute starts at "absent", which is below every value, so a filter that leaves its last attributes open
comes just before all that it could be continued to, like a word before its compounds.

Keys of one schema compare with each other and with those of points. The key of a point stands just before that of every
box that starts there, so "the leftmost box with a key not below the event's" is well defined, and every box that holds
a point has a key that is not above that of its upper corner. The empty box comes last, as it never matches
(specification, section 6); ties are for the caller to break by address, hence equal boxes are neighbours.

Differs from the paper's example only in what it leaves open: names in alphabetical order would put `city` before
`country` and so f1 before f4. Its printed order f3 < f2 < f4 < f1 needs `class` first and `country` before `city`, the
order in which it writes the predicates; that is `attribute_order` with these names given.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from protocols.model.box import ABSENT, ABSENT_TEXT, BEYOND_TEXT, Box, Point, Space, is_empty
from protocols.model.schema import Place, Schema

Order: TypeAlias = tuple[Place, ...]
"""Where the coordinates of the attributes stand, in the agreed order."""
Corner: TypeAlias = tuple[int | str, ...]
Key: TypeAlias = tuple[int] | tuple[int, Corner] | tuple[int, Corner, Corner]
"""`(0, lower corner, upper corner)` of a box, `(0, coordinates)` of a point, `(1,)` of the empty box."""

_EMPTY_KEY: Final = (1,)
_BEYOND: Final = 1 << 62
"""The upper bound of a number attribute that a box is too short to know: above every size of a grid."""


def attribute_order(schema: Schema, names: Sequence[str] = ()) -> Order:
    """The named attributes first, the others behind them in the order of their names.

    Only of those that the swarm began with: peers learn of appended ones at different times, and must not sort
    differently meanwhile.
    """
    first = schema.first.names
    unknown = [name for name in names if name not in first]
    if unknown:
        raise ValueError(f"attribute_order names {unknown[0]!r}; the schema has {', '.join(first)}")
    rest = sorted(set(first) - set(names))
    return tuple([schema.place(name) for name in (*dict.fromkeys(names), *rest)])


def plain_order(space: Space) -> Order:
    """Numbers, then strings, as they stand: an order for those who know no names."""
    numbers = [Place(False, at) for at in range(len(space.number_sizes))]
    return (*numbers, *[Place(True, at) for at in range(space.text_count)])


def key(box: Box, order: Order) -> Key:
    """The place of a box in the dictionary."""
    if is_empty(box):
        return _EMPTY_KEY
    lower = _corner(box.lo, box.lo_text, order, ABSENT, ABSENT_TEXT)
    return 0, lower, _corner(box.hi, box.hi_text, order, _BEYOND, BEYOND_TEXT)


def point_key(point: Point, order: Order) -> Key:
    """The place of an event: just before the boxes that start where it falls."""
    return 0, _corner(point.numbers, point.text, order, ABSENT, ABSENT_TEXT)


def last_key(box: Box, order: Order) -> Key:
    """A key above those of all points in the box, and of all boxes that start inside of it."""
    if is_empty(box):
        return _EMPTY_KEY
    return 0, _corner(box.hi, box.hi_text, order, _BEYOND, BEYOND_TEXT)


def _corner(
    numbers: Sequence[int], text: Sequence[str], order: Order, missing: int, missing_text: str
) -> tuple[int | str, ...]:
    """Coordinates in order; what the sender of a short box or point does not know yet is filled in."""
    known, known_text = len(numbers), len(text)
    return tuple(
        [
            (text[at] if at < known_text else missing_text) if is_text else (numbers[at] if at < known else missing)
            for is_text, at in order
        ]
    )
