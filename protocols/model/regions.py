"""Regions: products of intervals over several attributes, and unions of them that stay small.

A region maps attributes, by number, to one interval each; an attribute that it does not name is unbounded. It is what a
box is, but sparse and indifferent to what the bounds are, so the same functions serve values (`lines`) and grid
coordinates.

A filter can state a union of exponentially many regions: `(a=1 OR b=1) AND (c=1 OR d=1) AND …`. `Union` holds the limit
at every step. It joins what can be joined without loss (`tidied`); what is still too many is sorted and enclosed in
runs of neighbours (`coarsened`), which errs outward and is remembered. Work is limited too: when `EFFORT_MAX` pairs
have been looked at, each further union becomes one region.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from protocols.model.intervals import Interval, Intervals, union

Region: TypeAlias = Mapping[int, Interval]
Everywhere: TypeAlias = Sequence[Interval]
"""The unbounded interval of each attribute."""

LIMIT: Final = 64
"""Boxes of one filter (design)."""
EFFORT_MAX: Final = 200_000
"""Pairs of regions looked at for one filter. Our choice: about 0.1 s at the worst, while real filters need a few."""
TIDIED_MAX: Final = 4
"""How many times the limit may be compared pair by pair; more regions are enclosed first. Our choice."""

ALL: Final[Region] = {}


def within(inner: Region, outer: Region) -> bool:
    """Whether every point of `inner` is in `outer`."""
    for attribute, (lo, hi) in outer.items():
        mine = inner.get(attribute)
        if mine is None or mine[0] < lo or mine[1] > hi:
            return False
    return True


def meet(a: Region, b: Region) -> Region | None:
    """The points of both; None if there are none."""
    if len(a) < len(b):
        a, b = b, a
    result = dict(a)
    for attribute, (lo, hi) in b.items():
        mine = result.get(attribute)
        if mine is not None:
            lo, hi = max(lo, mine[0]), min(hi, mine[1])
            if lo >= hi:
                return None
        result[attribute] = (lo, hi)
    return result


def enclosing(regions: Sequence[Region]) -> Region:
    """The smallest region around all of them."""
    result: dict[int, Interval] = {}
    for attribute in regions[0]:
        if all(attribute in region for region in regions):
            intervals = [region[attribute] for region in regions]
            result[attribute] = (min(lo for lo, _ in intervals), max(hi for _, hi in intervals))
    return result


def absorbed(regions: Sequence[Region]) -> list[Region]:
    """The regions without those that lie within another; of equal ones the first stays."""
    kept: list[Region] = []
    for region in regions:
        if any(within(region, other) for other in kept):
            continue
        kept = [other for other in kept if not within(other, region)]
        kept.append(region)
    return kept


def tidied(regions: Sequence[Region], everywhere: Everywhere) -> list[Region]:
    """The same points in fewer regions: contained ones dropped, those that differ in one attribute and touch joined."""
    result = absorbed(regions)
    before = len(result) + 1
    while 1 < len(result) < before:
        before = len(result)
        for attribute in sorted({attribute for region in result for attribute in region}):
            result = _joined(result, attribute, everywhere[attribute])
        result = absorbed(result)
    return result


def _joined(regions: Sequence[Region], attribute: int, unbounded: Interval) -> list[Region]:
    """Regions that are alike in everything but this attribute become as few as its intervals allow."""
    groups: dict[tuple[tuple[int, Interval], ...], list[Interval]] = {}
    for region in regions:
        alike = tuple(sorted(item for item in region.items() if item[0] != attribute))
        groups.setdefault(alike, []).append(region.get(attribute, unbounded))
    result: list[Region] = []
    for alike, intervals in groups.items():
        joined = union([tuple(intervals)])
        result += [dict(alike) if one == unbounded else {**dict(alike), attribute: one} for one in joined]
    return result


def coarsened(regions: Sequence[Region], limit: int, everywhere: Everywhere) -> list[Region]:
    """At most `limit` regions around them: sorted by their lower bounds, and enclosed in runs of equal length."""
    attributes = sorted({attribute for region in regions for attribute in region})
    ordered = sorted(regions, key=lambda region: [region.get(a, everywhere[a]) for a in attributes])
    count = len(ordered)
    cuts = [count * part // limit for part in range(limit + 1)]
    runs = [ordered[start:end] for start, end in pairwise(cuts) if start < end]
    return [enclosing(run) for run in runs]


class Union:
    """Builds unions of regions under one limit, and remembers whether it had to err outward."""

    def __init__(self, everywhere: Everywhere, limit: int = LIMIT, effort: int = EFFORT_MAX) -> None:
        self.everywhere = everywhere
        self.limit = limit
        self.effort = effort
        self.coarse = False

    def of_intervals(self, attribute: int, intervals: Intervals) -> list[Region]:
        unbounded = self.everywhere[attribute]
        regions: list[Region] = [ALL if one == unbounded else {attribute: one} for one in intervals]
        return self._within_limit(regions)

    def either(self, unions: Iterable[Sequence[Region]]) -> list[Region]:
        """The union of unions. Tidied on the way, so that it never holds more than a few times the limit."""
        result: list[Region] = []
        for regions in unions:
            result += regions
            if len(result) > 2 * self.limit:
                result = self._within_limit(self._tidied(result))
        return self._within_limit(self._tidied(result))

    def both(self, a: Sequence[Region], b: Sequence[Region]) -> list[Region]:
        """The intersection of two unions."""
        if not self._afford(len(a) * len(b)):
            a, b = self._within_limit(a), self._within_limit(b)
        met = [meet(one, other) for one in a for other in b]
        result = [region for region in met if region is not None]
        if 1 in (len(a), len(b)):
            return self._within_limit(result)  # nothing was multiplied, so there is nothing to tidy
        return self._within_limit(self._tidied(result))

    def _tidied(self, regions: Sequence[Region]) -> list[Region]:
        if len(regions) > TIDIED_MAX * self.limit:
            self.coarse = True
            regions = coarsened(regions, TIDIED_MAX * self.limit, self.everywhere)
        if len(regions) > 1 and self._afford(len(regions) ** 2 // 2):
            return tidied(regions, self.everywhere)
        return list(regions)

    def _within_limit(self, regions: Sequence[Region]) -> list[Region]:
        if len(regions) <= self.limit:
            return list(regions)
        self.coarse = True
        return coarsened(regions, self.limit, self.everywhere)

    def _afford(self, pairs: int) -> bool:
        self.effort -= pairs
        if self.effort < 0:
            self.limit = 1
        return self.effort >= 0
