"""How many events come per cycle, by hundredths of the ring attribute: windows of about ten cycles.

The paper limits a cell to M events per cycle for every length of 2^(C-1) (section IV.C), so rates are kept for each
unit of length. A window is an exponential mean with the weight of a tenth: it needs one number for each unit, and
forgets in about ten cycles. Strings have no lengths that people think in; they count as one unit.
"""

from typing import Final

from protocols.model.box import Space
from protocols.sub2sub.order import UNITS, Coordinate

WEIGHT: Final = 0.1
"""Ten cycles (specification, section 5)."""
SCALE_MIN: Final = 1e-9
"""Then the factor is written down; two hundred cycles."""


class Units:
    """Which unit a value of a place falls into."""

    __slots__ = ("_size",)

    def __init__(self, space: Space, place: int) -> None:
        position = place >> 1
        known = not place & 1 and position < len(space.number_sizes)
        self._size = space.number_sizes[position] if known else 0

    def of(self, x: Coordinate) -> int:
        unit = x * UNITS // self._size if self._size else 0
        return unit if 0 <= unit < UNITS else (0 if unit < 0 else UNITS - 1)

    def between(self, lo: Coordinate, hi: Coordinate) -> tuple[int, int]:
        """The units of a span, half-open."""
        return (self.of(lo), self.of(hi - 1) + 1) if self._size else (0, 1)


class Rates:
    """Events per cycle in each unit.

    A cycle makes all that came before it count for less. So that a cycle costs nothing, nothing is written down: what
    comes later counts for more instead, and the common factor (`_scale`) is applied when somebody asks.
    """

    __slots__ = ("_coming", "_scale", "_sums")

    def __init__(self) -> None:
        self._coming: dict[int, int] = {}  # in this cycle
        self._sums: dict[int, float] = {}
        self._scale = 1.0

    def count(self, unit: int) -> None:
        self._coming[unit] = self._coming.get(unit, 0) + 1

    def turn(self, cycles: int = 1) -> None:
        """So many cycles end, over which what came is spread."""
        if not self._sums and not self._coming:
            return
        kept = (1.0 - WEIGHT) ** cycles
        self._scale *= kept
        if self._scale < SCALE_MIN:
            self._sums = {unit: sum_ * self._scale for unit, sum_ in self._sums.items()}
            self._scale = 1.0
        if self._coming:
            sums, gain = self._sums, (1.0 - kept) / cycles / self._scale
            for unit, count in self._coming.items():
                sums[unit] = sums.get(unit, 0.0) + gain * count
            self._coming = {}

    def total(self, first: int, beyond: int) -> float:
        return self._scale * sum([sum_ for unit, sum_ in self._sums.items() if first <= unit < beyond])

    def peak(self, first: int, beyond: int, width: int) -> float:
        """The most that comes into any stretch of `width` units."""
        width = min(width, beyond - first)
        return max([self.total(start, start + width) for start in range(first, beyond - width + 1)], default=0.0)

    def excess(self, first: int, beyond: int, width: int, most: float) -> tuple[int, int] | None:
        """The range in which some stretch of `width` units has more than `most` events per cycle."""
        get, most = self._sums.get, most / self._scale
        width = min(width, beyond - first)
        total = sum([get(unit, 0.0) for unit in range(first, first + width)])
        found: tuple[int, int] | None = None
        for start in range(first, beyond - width + 1):
            if total > most:
                found = (start if found is None else found[0], start + width)
            total += get(start + width, 0.0) - get(start, 0.0)
        return found
