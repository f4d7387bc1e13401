"""Lines: the values that an attribute can have, in order, and how a stretch of them is rounded outward to its grid.

Whether a filter can match anything has to be decided on the values themselves: `price > 8.302 AND price < 8.301` covers
a step of the grid and still matches nothing. So filters are worked out on lines, and rounded only at the end.

Every line is discrete, which lets one half-open form [lo, hi) stand for open and closed ends alike:

- `FloatLine`: the finite doubles; after 8.3 comes the next double.
- `IntegerLine`: the integers that may be published; after 3 comes 4, and `> 3.5` starts at 4. Booleans are 0 and 1.
- `GridLine`: the grid of an exact attribute, continued beyond both ends, by index; after 8.30 comes 8.31.
- `TextLine`: strings behind a `=`, as in boxes; after 'a' comes 'a' with a NUL behind it.

Below all values lies `absent`: a stretch that starts there holds the absent value too.
"""

from math import ceil, floor, inf, nextafter
from sys import float_info
from typing import Final, NamedTuple, Protocol

from protocols.model.box import ABSENT, ABSENT_TEXT, BEYOND_TEXT, PRESENT_TEXT
from protocols.model.event import Scalar
from protocols.model.grid import Grid
from protocols.model.intervals import Bound, Interval
from protocols.model.schema import INTEGER_MAX, Attribute

_BEFORE_SURROGATES: Final = "\ud7ff"
_AFTER_SURROGATES: Final = "\ue000"
_LAST: Final = "\U0010ffff"


class Cells(NamedTuple):
    """A stretch of a line as coordinates of a box, and whether the two hold the same values."""

    lo: Bound
    hi: Bound
    exact: bool


class Line(Protocol):
    @property
    def absent(self) -> Bound: ...
    @property
    def present(self) -> Bound:
        """The first value that is not absent."""
        ...

    @property
    def top(self) -> Bound:
        """Beyond all values."""
        ...

    def before(self, value: Scalar) -> Bound:
        """The first value of the line that is not below this one."""
        ...

    def after(self, value: Scalar) -> Bound:
        """The first value of the line that is above this one."""
        ...

    def cells(self, interval: Interval) -> Cells:
        """The coordinates that hold these values: rounded outward."""
        ...


class _Numbers:
    """What the lines of numbers share: all but the step from one value to its neighbours."""

    __slots__ = ("absent", "grid", "present", "top")

    def __init__(self, grid: Grid, present: float, top: float) -> None:
        self.grid = grid
        self.absent: float = -inf
        self.present = present
        self.top = top

    def cell(self, value: float) -> int:
        return self.grid.index(value)

    def previous(self, value: float) -> float:
        return value - 1

    def cells(self, interval: Interval) -> Cells:
        lo, hi = interval
        if hi <= self.present:
            return Cells(ABSENT, 0, True)
        first = ABSENT if lo < self.present else self.cell(lo)
        beyond = self.grid.size if hi >= self.top else self.cell(self.previous(hi)) + 1
        exact_below = lo <= self.present or self.cell(self.previous(lo)) < first
        exact_above = hi >= self.top or self.cell(hi) >= beyond
        return Cells(first, beyond, exact_below and exact_above)


class FloatLine(_Numbers):
    __slots__ = ()

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid, -float_info.max, inf)

    def before(self, value: Scalar) -> float:
        return float(value)

    def after(self, value: Scalar) -> float:
        return nextafter(float(value), inf)

    def previous(self, value: float) -> float:
        return nextafter(value, -inf)


class IntegerLine(_Numbers):
    __slots__ = ()

    def before(self, value: Scalar) -> float:
        assert not isinstance(value, str)
        return min(max(ceil(value), self.present), self.top)

    def after(self, value: Scalar) -> float:
        assert not isinstance(value, str)
        return min(max(floor(value) + 1, self.present), self.top)


class GridLine(_Numbers):
    __slots__ = ()

    def __init__(self, grid: Grid, largest: float) -> None:
        super().__init__(grid, grid.position(-largest)[0], grid.position(largest)[0] + 1)

    def before(self, value: Scalar) -> float:
        assert not isinstance(value, str)
        index, on_grid = self.grid.position(value)
        return index if on_grid else index + 1

    def after(self, value: Scalar) -> float:
        assert not isinstance(value, str)
        return self.grid.position(value)[0] + 1

    def cell(self, value: float) -> int:
        return min(max(int(value), 0), self.grid.size - 1)


class TextLine:
    """The same for every string attribute. Nothing is ever rounded."""

    __slots__ = ()

    absent: Final = ABSENT_TEXT
    present: Final = PRESENT_TEXT
    top: Final = BEYOND_TEXT

    def before(self, value: Scalar) -> str:
        return f"{PRESENT_TEXT}{value}"

    def after(self, value: Scalar) -> str:
        return f"{PRESENT_TEXT}{value}\0"

    def prefixed(self, prefix: str) -> Interval:
        """The strings that begin with this one."""
        return PRESENT_TEXT + prefix, successor(PRESENT_TEXT + prefix)

    def cells(self, interval: Interval) -> Cells:
        return Cells(*interval, True)


TEXT: Final = TextLine()


def successor(coordinate: str) -> str:
    """The first coordinate above all that begin with this one. (Without a prefix it is '>', beyond all strings.)"""
    stem = coordinate.rstrip(_LAST)
    last = stem[-1]
    return stem[:-1] + (_AFTER_SURROGATES if last == _BEFORE_SURROGATES else chr(ord(last) + 1))


def line(attribute: Attribute, grid: Grid | None) -> Line:
    """The line of an attribute; `grid` is that of a number attribute."""
    if grid is None:
        return TEXT
    if attribute.type == "bool":
        return IntegerLine(grid, 0, 2)
    if attribute.type == "int":
        every_integer = not attribute.exact or attribute.precision == 1
        return IntegerLine(grid, -INTEGER_MAX, INTEGER_MAX + 1) if every_integer else GridLine(grid, INTEGER_MAX)
    return GridLine(grid, float_info.max) if attribute.exact else FloatLine(grid)
