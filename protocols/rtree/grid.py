"""The attribute space, divided into cells: the paper of a chart (`chart`).

A grid has at most `CELLS_MAX` cells, as many to a side as that allows: 64 with two attributes, 8 with four. A set of
cells is an integer with a bit for each, so that a union is one operation, whatever the number of subscriptions.

All of it errs outward: a box covers every cell that it touches. Strings have no axis, and of many numbers the first
`AXES_MAX` have one. Who knows more attributes than others may divide the space otherwise; so a set of cells is sent
with the number of its axes, and one with other axes counts as unknown.
"""

from functools import cache
from typing import Final
from zlib import compress, decompressobj, error

from protocols.model.box import Box, Point, Space, is_empty
from protocols.rtree.messages import CHART_BYTES

CELLS_MAX: Final = 8 * (CHART_BYTES - 1)
"""Half a kilobyte. Sixteen times as much would hold back a fifth to a half more events (docs/rtree.md)."""
AXES_MAX: Final = 6
"""With 4,096 cells and more axes, each would only be halved."""
SIDE_MAX: Final = 64


class Grid:
    """How a space is divided, and what falls where."""

    __slots__ = ("_runs", "axes", "everything", "side", "sizes")

    def __init__(self, space: Space, side_max: int = SIDE_MAX) -> None:
        self.sizes = space.number_sizes[:AXES_MAX]
        self.axes = len(self.sizes)
        self.side = max(side for side in range(1, side_max + 1) if _cells(side, self.axes) <= CELLS_MAX)
        self.everything = (1 << _cells(self.side, self.axes)) - 1
        self._runs = _runs(self.side, self.axes)

    def touched(self, box: Box) -> int:
        """The cells that a box touches: along each axis a run of ones, repeated for the cells of the axes before it."""
        if is_empty(box):
            return 0
        cells = 1
        known = min(len(box.lo), len(box.hi))  # whoever sent it
        for axis, (size, runs) in enumerate(zip(self.sizes, self._runs)):
            first, last = 0, self.side - 1
            if axis < known:
                first, last = self._place(box.lo[axis], size), self._place(box.hi[axis] - 1, size)
            if last < first:
                return 0  # nothing lies in it, whoever sent it
            cells *= runs[last + 1] - runs[first]
        return cells

    def around(self, point: Point) -> int:
        """The cell of a point; all of them if it comes from somebody who does not know all axes."""
        if len(point.numbers) < self.axes:
            return self.everything
        cell, stride = 0, 1
        for value, size in zip(point.numbers, self.sizes):
            cell += self._place(value, size) * stride
            stride *= self.side
        return 1 << cell

    def _place(self, value: int, size: int) -> int:
        """Absent and what lies outside the domain count as the nearest value."""
        return min(max(value, 0), size - 1) * self.side // size

    def encode(self, cells: int | None) -> bytes:
        if cells is None:
            return b""
        return bytes((self.axes,)) + cells.to_bytes((cells.bit_length() + 7) // 8, "little")

    def decode(self, raw: bytes) -> int | None:
        """The cells; None if they are unknown, or those of another grid."""
        if not raw or raw[0] != self.axes:
            return None
        return int.from_bytes(raw[1:], "little") & self.everything


# --- Differences ------------------------------------------------------------------------------------------------------


def difference(old: bytes, new: bytes) -> bytes:
    """What makes one encoded set of cells out of another: a few bytes, if little has changed."""
    size = max(len(old), len(new))
    bits = int.from_bytes(old, "little") ^ int.from_bytes(new, "little")
    return compress(bits.to_bytes(size, "little"))


def apply(old: bytes, change: bytes) -> bytes | None:
    """The other set; None if that is no difference."""
    try:
        raw = decompressobj().decompress(change, CHART_BYTES)
    except error:
        return None
    bits = int.from_bytes(old, "little") ^ int.from_bytes(raw, "little")
    return bits.to_bytes(max(1, (bits.bit_length() + 7) // 8), "little")


@cache
def _runs(side: int, axes: int) -> tuple[tuple[int, ...], ...]:
    """For each axis and n: the first n places along it. All participants share them."""
    found, stride = [], 1
    for _ in range(axes):
        runs = [0]
        for place in range(side):
            runs.append(runs[-1] | 1 << place * stride)
        found.append(tuple(runs))
        stride *= side
    return tuple(found)


def _cells(side: int, axes: int) -> int:
    count = 1
    for _ in range(axes):
        count *= side
    return count
