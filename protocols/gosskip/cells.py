"""Cells: how a broad range is cut up, and which cell an event falls into.

A range is told to every place under it (`ranges`), which for a broad one among many places is too much: at a hundred
thousand places a range over half of them would be fifty thousand entries. A *broad* range (parameter `broad`) is kept
in cells instead:

    order of width   4^0, 4^1, 4^2, ...; a range belongs to the first that is at least as wide as it is
    raster           equal cells, `cells` of them as wide as the order; each order has its own
    keeper           the home of the first value of a cell: one place for each cell

    order of 64      |   .   .   .   |   .   .   .   |   .   .   .   |        cells=4: 16 values each
    a range of 40             ---------------------                           is kept for each cell that it touches
    an event                                *                                 asks the keeper of its cell

So a range is kept in at most `cells` + 1 cells, however many places stand under it, and an event asks one keeper for
each order of width that is in use. Cells depend on the values alone, never on who is linked with whom: the owner of a
range and the publisher of an event reckon out the same cell, and its keeper is whoever is home there at the moment.
That a cell reaches beyond the range does no harm: the keeper tests the event against the whole box.

A raster divides the first attribute of which the range holds more than one value; the values before it are the same
for the whole range, and part of the cell (`depth` of them).

Why not a cover by halves of halves (segments of 2^i values, or links of level i)? A range is stored at as many nodes
there (2·log2 of its width), but an event has to ask one for each i, whatever is in use, and the one of the largest i
is asked for every second event. Here a keeper is asked for 1/`cells` of what its ranges hold.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from protocols.model.box import ABSENT_TEXT, CODE_BYTES, PRESENT_TEXT, TEXT_SIZE, code, last_code
from protocols.model.order import Corner

RATIO: Final = 4
"""Of one order of width to the next. Each order in use costs an event one more copy, each range has up to so many
times fewer cells than it could have."""
ORDERS: Final = 32
"""4^31 is beyond 2^53 steps."""
DEPTHS: Final = 32
"""Attributes of a schema."""

Raster: TypeAlias = int
"""0: none; else one more than depth · ORDERS + order."""
RASTERS: Final = 1 + DEPTHS * ORDERS


def _coordinate(value: int | str) -> int:
    """From 0 on, which is absent."""
    return (code(value) if isinstance(value, str) else value) + 1


def _value(coordinate: int, is_text: bool) -> int | str:
    """A value that stands for a coordinate, the same for everyone. For strings it need not be one of those that have
    this coordinate, only to sort like them."""
    if not is_text:
        return coordinate - 1
    if coordinate == 0:
        return ABSENT_TEXT
    return PRESENT_TEXT + (coordinate - 1).to_bytes(CODE_BYTES, "big").decode("latin-1")


def _span(lo: int | str, hi: int | str) -> tuple[int, int]:
    """The coordinates of [lo, hi)."""
    if isinstance(hi, str):
        return _coordinate(lo), min(last_code(hi), TEXT_SIZE) + 1
    return _coordinate(lo), hi + 1


class Rasters:
    """The cells of one list, whose attributes have these sizes, absent included (see `Space`)."""

    __slots__ = ("_broad", "_cells", "_sizes")

    def __init__(self, sizes: Sequence[int], cells: int, broad: int) -> None:
        self._sizes = sizes
        self._cells = cells
        self._broad = broad

    def raster_of(self, depth: int, lo: int | str, hi: int | str) -> Raster:
        """In which raster a range is kept that holds [lo, hi) of the attribute at that depth; 0: it is not broad."""
        if not self._cells or depth >= DEPTHS:
            return 0
        size = self._sizes[depth]
        first, beyond = _span(lo, hi)
        width = min(beyond, size) - first
        if width * self._broad <= size:
            return 0
        order = 0
        while RATIO**order < width:
            order += 1
        return 1 + depth * ORDERS + order

    def is_raster(self, raster: Raster) -> bool:
        return 0 < raster < RASTERS and bool(self._cells) and (raster - 1) // ORDERS < len(self._sizes)

    def _step(self, raster: Raster) -> int:
        """How many values a cell holds."""
        step: int = -(-(RATIO ** ((raster - 1) % ORDERS)) // self._cells)
        return step

    def cells(self, raster: Raster, lower: Corner, upper: Corner) -> range:
        """The cells that a range touches."""
        depth = (raster - 1) // ORDERS
        step = self._step(raster)
        first, beyond = _span(lower[depth], upper[depth])
        return range(first // step, (min(beyond, self._sizes[depth]) - 1) // step + 1)

    def start(self, raster: Raster, corner: Corner, cell: int) -> Corner:
        """Where a cell starts; of the corner the values count that stand before what is divided."""
        depth = (raster - 1) // ORDERS
        is_text = isinstance(corner[depth], str)
        return (*corner[:depth], _value(cell * self._step(raster), is_text))

    def start_of(self, raster: Raster, point: Corner) -> Corner:
        """Where the cell of an event starts."""
        cell = _coordinate(point[(raster - 1) // ORDERS]) // self._step(raster)
        return self.start(raster, point, cell)
