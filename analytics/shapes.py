"""Along which attributes the range join cuts publications and regions into buckets.

A *shape* is a few attributes, and into how many stretches the numbers among them are cut. A region that is filed under
a shape takes a box of buckets, a publication that is looked up under it just one. Which shapes are worth while is
reckoned here, from a sample of both sides: every bucket of a region is a row to be made and sent to all executors,
every publication that shares a bucket with a region has to be compared with it, and every shape in use is one more
lookup for each publication. All three are counted in comparisons, and shapes are taken one after the other, that which
saves most first, until none saves anything. The shape without attributes, under which everything is compared with
everything, is always in use: a region that was not in the sample may fit no other.

A bad sample makes a slow join, never a wrong one.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import isfinite
from operator import mul
from typing import Any, Final, NamedTuple

from analytics.bounds import ABSENT, ONE, PRESENT, Attribute

STRETCHES: Final = 32
"""Of a number, at the finest, with about as many publications in each."""
COARSER_MAX: Final = 3
"""How often stretches are doubled at the most: there are 32, 16, 8 or 4."""
AXES_MAX: Final = 4
"""Attributes of a shape: a bucket's number has room for that many."""
KEYS_MAX: Final = 5
"""Attributes that shapes are made of, those that regions are narrowest in: with each the shapes to try are doubled."""
SHAPES_MAX: Final = 8
CELLS_MAX: Final = 4_096
"""Buckets of one region."""
FILING: Final = 100.0
"""What it costs to file a region in one bucket, in comparisons. Measured by the processor: 60, 100 and 250 differ by
less than a tenth."""
LOOKUP: Final = 10.0
"""What it costs to look a publication up, in comparisons. Measured by the processor: 6, 10 and 15 differ by less."""
NEVER: Final = 1e300
"""The cost of what cannot be done."""


class Key(NamedTuple):
    """An attribute that regions may be filed under."""

    number: int
    is_text: bool
    cuts: tuple[float, ...]
    """Where a number's stretches begin, but for the first."""
    values: int
    """How many values a text has, were all as frequent: as many as give two texts the same chance to be equal."""

    def places(self, coarser: int) -> int:
        """How many buckets it has, but for publications that lack it."""
        return self.values if self.is_text else (len(self.cuts) >> coarser) + 1


class Axis(NamedTuple):
    place: int
    """Of the key, among all keys."""
    coarser: int
    """How often its stretches are doubled."""


Shape = tuple[Axis, ...]


EVERYTHING: Final[Shape] = ()


class Along(NamedTuple):
    """Regions of the sample along an axis."""

    taken: list[float]
    """How many buckets each takes; too many if it cannot be filed under it."""
    shares: list[float]
    """Of the publications, in these buckets."""


class Filed(NamedTuple):
    """Regions of the sample under a shape."""

    costs: list[float]
    cells: list[float]


class Plan(NamedTuple):
    keys: list[Key]
    shapes: list[Shape]
    """`EVERYTHING` first."""
    publications: float
    """How many there are, about."""
    rows: float
    """How many rows the regions will be filed in, about."""


def plan(
    attributes: Sequence[Attribute],
    points: Sequence[Mapping[str, Any]],
    regions: Sequence[Mapping[str, Any]],
    publications: float,
    times: float,
) -> Plan:
    """How to cut, from a sample of both sides (rows as `analytics.bounds` makes them), how many publications there are
    in all, and how many times as many regions."""
    found = [_key(i, each.is_text, [row[f"v{i}"] for row in points]) for i, each in enumerate(attributes)]
    edges = {key: [_edges(key, row) for row in regions] for key in found}
    wide = {key: sum(_along(key, own, 0).shares) for key, own in edges.items()}
    keys = sorted(sorted(found, key=lambda key: wide[key])[:KEYS_MAX])
    along = {Axis(place, c): _along(key, edges[key], c) for place, key in enumerate(keys) for c in _levels(key)}
    tried = {shape: _filed([along[axis] for axis in shape], publications) for shape in _possible(keys)}
    nothing_cut = Filed([cost(1, 1.0, publications)] * len(regions), [1.0] * len(regions))
    used = _worth_while(nothing_cut, tried, LOOKUP * publications / times)
    best = [
        min(each) for each in zip(*[zip(*filed, strict=True) for filed in (nothing_cut, *used.values())], strict=True)
    ]
    slim, shapes = _slim(keys, [EVERYTHING, *used])
    return Plan(slim, shapes, publications, times * sum(cells for _, cells in best))


def _worth_while(nothing_cut: Filed, tried: Mapping[Shape, Filed], lookup: float) -> dict[Shape, Filed]:
    """Shapes that save more than they cost. A first one that suits many a little may be in vain once others suit each
    of them better."""
    used: dict[Shape, Filed] = {}
    best = nothing_cut.costs
    while len(used) < SHAPES_MAX - 1:
        left = {shape: sum(map(min, best, filed.costs)) for shape, filed in tried.items() if shape not in used}
        most = min(left, key=lambda shape: left[shape], default=EVERYTHING)
        if most not in tried or sum(best) - left[most] <= lookup:
            break
        used[most] = tried[most]
        best = list(map(min, best, tried[most].costs))
    for shape in list(used):
        others = [nothing_cut.costs, *[filed.costs for other, filed in used.items() if other != shape]]
        without = [min(each) for each in zip(*others, strict=True)]
        if sum(without) - sum(best) <= lookup:
            del used[shape]
            best = without
    return used


def _slim(keys: Sequence[Key], shapes: Sequence[Shape]) -> tuple[list[Key], list[Shape]]:
    """The same without keys and cuts that no shape needs."""
    finest: dict[int, int] = {}
    for axis in sorted(axis for shape in shapes for axis in shape):
        finest.setdefault(axis.place, axis.coarser)
    slim = [keys[at]._replace(cuts=keys[at].cuts[2**coarser - 1 :: 2**coarser]) for at, coarser in finest.items()]
    place = {at: number for number, at in enumerate(finest)}
    return slim, [tuple(Axis(place[at], coarser - finest[at]) for at, coarser in shape) for shape in shapes]


def cost(cells: float, share: float, publications: float) -> float:
    """What a region costs that takes so many buckets, in which that share of the publications lies."""
    return cells * FILING + share * publications


def cost_as_sql(cells: str, share: str, publications: float) -> str:
    return f"({cells}) * {FILING}D + ({share}) * {publications!r}D"


def _filed(along: Sequence[Along], publications: float) -> Filed:
    """What the regions come to under a shape with these axes."""
    cells, shares = along[0]
    for each in along[1:]:
        cells, shares = list(map(mul, cells, each.taken)), list(map(mul, shares, each.shares))
    pairs = zip(cells, shares, strict=True)
    return Filed([cost(n, share, publications) if n <= CELLS_MAX else NEVER for n, share in pairs], cells)


def _possible(keys: Sequence[Key]) -> Iterator[Shape]:
    for axes in range(1, AXES_MAX + 1):
        for places in combinations(range(len(keys)), axes):
            levels = sorted({level for place in places for level in _levels(keys[place])})
            for coarser in levels:
                yield tuple(Axis(place, 0 if keys[place].is_text else coarser) for place in places)


def _levels(key: Key) -> range:
    return range(1 if key.is_text else COARSER_MAX + 1)


def _along(key: Key, edges: Sequence[tuple[int, int]], coarser: int) -> Along:
    takens, places = [], key.places(coarser)
    for first, last in edges:
        begin, end = ((edge - 1 >> coarser) + 1 if edge > 0 else edge for edge in (first, last))
        takens.append(max(0.0, end - begin + 1.0) if last >= 0 else NEVER)
    return Along(takens, [min(1.0, taken / places) for taken in takens])


def _key(number: int, is_text: bool, values: Sequence[Any]) -> Key:
    if is_text:
        known = [value for value in values if value is not None]
        twice = sum(count**2 for count in Counter(known).values())
        return Key(number, True, (), max(1, len(known) ** 2 // max(1, twice)))
    known = sorted(value for value in values if value is not None and isfinite(value))
    cuts = {known[len(known) * step // STRETCHES] for step in range(1, STRETCHES)} if known else ()
    return Key(number, False, tuple(sorted(cuts)), 1)


def _edges(key: Key, region: Mapping[str, Any]) -> tuple[int, int]:
    """The first and the last bucket that a region takes along a key, at the finest; the last is -1 if it cannot be
    filed under it: it asks for more than one text. Publications that lack the key have bucket 0."""
    i = key.number
    low, high, how = region[f"lo{i}"], region[f"hi{i}"], region[f"how{i}"]
    first = 0 if how & ABSENT else 1 if key.is_text else bisect_right(key.cuts, low) + 1
    if not how & PRESENT:
        return first, 0
    if not key.is_text:
        return first, bisect_right(key.cuts, high) + 1
    return first, 1 if how & ONE and not how & ABSENT else -1
