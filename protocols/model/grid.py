"""Grids: how a number becomes an integer coordinate.

A number attribute is cut into D steps: index = floor((value - min) / precision), kept within 0 to D-1. The arithmetic
is decimal and exact, on the shortest text that names the double: (8.30 - 0) / 0.01 is 830 there, while binary floating
point says 830.0000000000001 or 829.9999999999999 as it pleases. That reading keeps order (a double's shortest text lies
nearer to it than to its neighbours), so a larger value never has a smaller index, which is all that routing relies on.

Values beyond the domain belong to the first or the last step. Where a grid is *exact*, published values lie on the grid
continued beyond both ends, so each step but the outer two stands for one value.
"""

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from math import inf, nextafter
from typing import Final

_EXACT: Final = Context(prec=800, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
"""Enough digits for any difference and quotient of two doubles (they span 10^-324 to 10^308): nothing is rounded."""


def decimal(value: float) -> Decimal:
    """The number that a person would write for this value."""
    return Decimal(repr(value))


class Grid:
    """The steps of one number attribute."""

    __slots__ = ("_first", "_integers", "_max", "_min", "_step", "exact", "size")

    def __init__(self, low: float, high: float, precision: float, integers: bool, exact: bool) -> None:
        self._min, self._max = low, high
        self._first, self._step = decimal(low), decimal(precision)
        self._integers = integers
        self.exact = exact
        self.size = self.position(high)[0] + 1

    def position(self, value: float) -> tuple[int, bool]:
        """The index on the grid continued without end (floor), and whether the value lies exactly there."""
        distance = _EXACT.subtract(decimal(value), self._first)
        quotient, rest = _EXACT.divmod(distance, self._step)
        index = int(quotient)
        return (index - 1 if rest < 0 else index), not rest

    def index(self, value: float) -> int:
        """The step that the value falls into, the nearest one if it is outside."""
        if value <= self._min:
            return 0
        if value >= self._max:
            return self.size - 1
        if self._integers and isinstance(value, int):
            return int(value - self._min) // int(self._step)
        return int(_EXACT.divide_int(_EXACT.subtract(decimal(value), self._first), self._step))

    def value(self, index: int) -> float:
        """The lowest value of a step; with integers an integer."""
        written = _EXACT.add(self._first, _EXACT.multiply(self._step, Decimal(index)))
        if self._integers:
            return int(written)
        value = float(written)
        if self.position(value)[0] < index:  # the step has no short name: take the first double inside
            value = nextafter(value, inf)
        return value
