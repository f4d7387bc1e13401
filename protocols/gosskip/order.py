"""The dictionary: where a box stands, how far its range reaches, and where an event falls.

**Order** (paper, section 2). The attributes have an agreed order. A box stands at its lower corner, compared attribute
by attribute; its upper corner, address and version tell equal boxes apart, so that equal filters are distinct places
side by side.

**Lists.** A filter that leaves the first attributes open would be a range over nearly everything. So there is one list
per first attribute: the same order with that attribute moved to the front. A box belongs to the list in which its range
is narrowest. All lists stand one behind the other in *one* chain, since the number of the list is the first part of the
key: there is one structure to join, repair and merge, and an event that is routed into a list which is empty merely
lands on the place behind it. Boxes that hold nothing come last, by address.

**Ranges** (paper, section 3.5). A box that starts at its place reaches to its `end`: the values of its leading
single-valued attributes, then the upper bound of the next one. `(weather, [2..5), *)` holds points from `(weather, 2)`
up to `(weather, 5)`; that the points between also have to satisfy the rest (a wildcard in the middle) is for the
residual test, which is the box itself.

An event's key stands behind all boxes that start where it falls. Whoever stands last at or before it is its *home*.

Differs from the paper and the specification, which route to the leftmost peer at or behind the event: with the home
before the event, every range that holds the event starts at the home or left of it. So the ranges that a place must
know are those that its left neighbour knows or has, as far as they reach, and nothing needs to be handed over when a
place leaves or dies: its left neighbour knows enough to stand in for it.

**Numbers.** Events are sent to what has a number: to a list, or to a raster of one, which serves its broad ranges
(`cells`). The number of a raster is that of its list and its own; a place has the number under which events find it.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from protocols.gosskip.cells import RASTERS, Rasters
from protocols.model.box import ABSENT_TEXT, PRESENT_TEXT, TEXT_SIZE, Box, Point, is_empty
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.model.order import Corner, Order, attribute_order, key, point_key
from protocols.model.schema import Schema

Key: TypeAlias = tuple[Any, ...]
"""Of a place: list, lower corner, 0, upper corner, address, version. Of an event: list, coordinates, 1."""
PlaceId: TypeAlias = tuple[Address, int]
"""Whose place it is, and for which version of its box."""

NUMBERS: Final = 1 << 11
"""Per list: its own, and those of its rasters."""
assert RASTERS <= NUMBERS
NOWHERE: Final = 1 << 30
"""The list of the empty boxes, behind all others."""
CACHE_MAX: Final = 1_000
"""Places whose keys are remembered. A guess: several times the links of a participant, and the ranges that it knows."""


class Spot(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A place of the list as everyone sees it: who stands there, for which box, and what follows from the box."""

    descriptor: Descriptor
    id: PlaceId
    list: int
    key: Key
    end: Corner
    number: int
    """Under which events find it: that of its list, or of a raster."""

    @property
    def address(self) -> Address:
        return self.id[0]

    @property
    def version(self) -> int:
        return self.id[1]

    @property
    def is_told(self) -> bool:
        """Whether the range is told to the places under it: it is one, and is not kept in cells."""
        return self.number == self.list != NOWHERE

    @property
    def is_broad(self) -> bool:
        return self.number != self.list


def covers(owner: Spot, spot: Spot) -> bool:
    """Whether the range of a place reaches to another one, which stands right of it."""
    return owner.list == spot.list and spot.key[1] < owner.end


def is_single(lo: int | str, hi: int | str) -> bool:
    """Whether an interval holds one value."""
    if isinstance(lo, int):
        return isinstance(hi, int) and hi - lo == 1
    return hi == lo + "\0" or (lo == ABSENT_TEXT and hi == PRESENT_TEXT)


class Dictionary:
    """The agreed order of one swarm."""

    __slots__ = ("_cache", "_orders", "_rasters", "_rotations", "_schema")

    def __init__(self, schema: Schema, names: Sequence[str] = (), cells: int = 0, broad: int = 1) -> None:
        agreed = attribute_order(schema, names)
        self._schema = schema
        self._orders: list[Order] = [(first, *[p for p in agreed if p != first]) for first in agreed]
        numbers = len(schema.space.number_sizes)
        flat = [place.position + numbers if place.is_text else place.position for place in agreed]
        self._rotations = [[first, *[at for at in flat if at != first]] for first in flat]
        sizes = [*[size + 1 for size in schema.space.number_sizes], *[TEXT_SIZE + 1] * schema.space.text_count]
        self._rasters = [Rasters([sizes[at] for at in rotation], cells, broad) for rotation in self._rotations]
        self._cache: dict[PlaceId, Spot] = {}

    def spot(self, descriptor: Descriptor) -> Spot:
        """The place of a box. Remembered, for the same few neighbours are named again and again."""
        id_ = descriptor.address, descriptor.version
        known = self._cache.get(id_)
        if known is not None and known.descriptor.box == descriptor.box:
            return known
        spot = self._spot(id_, Descriptor(descriptor.address, descriptor.box, descriptor.version))
        if len(self._cache) >= CACHE_MAX:
            self._cache.clear()
        self._cache[id_] = spot
        return spot

    def _spot(self, id_: PlaceId, descriptor: Descriptor) -> Spot:
        address, version = id_
        behind = (address.peer, address.boot, address.slot, version)
        box = descriptor.box
        if is_empty(box):
            return Spot(descriptor, id_, NOWHERE, (NOWHERE, (), 0, (), *behind), (), NOWHERE)
        number = self.list_of(box)
        lower, upper = _corners(box, self._orders[number // NUMBERS])
        depth = _depth(lower, upper)
        end = (*lower[:depth], upper[depth])
        raster = self._rasters[number // NUMBERS].raster_of(depth, lower[depth], upper[depth])
        return Spot(descriptor, id_, number, (number, lower, 0, upper, *behind), end, number + raster)

    def list_of(self, box: Box) -> int:
        """The list in which the range of a box is narrowest; of equals the first."""
        sides = self._schema.space.sides(box)
        lower, upper = _corners(box, self._orders[0])
        for at, (lo, hi) in zip(self._rotations[0], zip(lower, upper)):
            if is_single(lo, hi):
                sides[at] = 0.0
        first = min(range(len(self._rotations)), key=lambda a: [sides[at] for at in self._rotations[a]])
        return first * NUMBERS

    def is_number(self, number: int) -> bool:
        """Whether there is a list of that number, or a raster."""
        first, raster = divmod(number, NUMBERS)
        return 0 <= first < len(self._orders) and (raster == 0 or self._rasters[first].is_raster(raster))

    def event_key(self, number: int, point: Point) -> Key:
        """Where an event falls in a list, behind all boxes that start there; in a raster, where its cell starts."""
        first, raster = divmod(number, NUMBERS)
        corner: Corner = point_key(point, self._orders[first])[1]  # type: ignore[misc]
        if raster:
            return number - raster, self._rasters[first].start_of(raster, corner), 1
        return number, corner, 1

    def cells(self, spot: Spot) -> range:
        """The cells of a broad range."""
        first, raster = divmod(spot.number, NUMBERS)
        return self._rasters[first].cells(raster, spot.key[1], spot.key[3])

    def cell_key(self, spot: Spot, cell: int) -> Key:
        """Where a cell of a broad range starts."""
        first, raster = divmod(spot.number, NUMBERS)
        return spot.list, self._rasters[first].start(raster, spot.key[1], cell), 1


def is_raster(number: int) -> bool:
    return number % NUMBERS != 0 and number != NOWHERE


def _corners(box: Box, order: Order) -> tuple[Corner, Corner]:
    """The lower and the upper corner of a box that is not empty."""
    _, lower, upper = key(box, order)  # type: ignore[misc]
    return lower, upper


def _depth(lower: Corner, upper: Corner) -> int:
    """Where the first attribute stands of which a box holds more than one value, else the last one."""
    for at, (lo, hi) in enumerate(zip(lower, upper)):
        if not is_single(lo, hi):
            return at
    return len(lower) - 1
