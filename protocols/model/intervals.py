"""Sets of values of one attribute, as sorted, disjoint, half-open intervals `lo <= value < hi`.

The bounds of one set are all numbers or all strings (see `lines`); the functions here only compare them, so one algebra
serves both. Intersection is the complement of the union of complements: each operation is then a sort and one sweep,
however many sets there are.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

Bound: TypeAlias = Any
"""A number or a string, never mixed within one attribute. (No type says "comparable with its own kind".)"""
Interval: TypeAlias = tuple[Bound, Bound]
Intervals: TypeAlias = tuple[Interval, ...]


def union(sets: Iterable[Intervals]) -> Intervals:
    """The values that are in any of the sets. Takes intervals in any order; empty ones vanish, touching ones join."""
    merged: list[Interval] = []
    for lo, hi in sorted(interval for one in sets for interval in one):
        if lo >= hi:
            continue
        if merged and lo <= merged[-1][1]:
            last_lo, last_hi = merged[-1]
            merged[-1] = (last_lo, max(last_hi, hi))
        else:
            merged.append((lo, hi))
    return tuple(merged)


def complement(intervals: Intervals, bottom: Bound, top: Bound) -> Intervals:
    """The values from `bottom` up to `top` that are not in the set, which has none beyond these."""
    result: list[Interval] = []
    at = bottom
    for lo, hi in intervals:
        if at < lo:
            result.append((at, lo))
        at = hi
    if at < top:
        result.append((at, top))
    return tuple(result)


def intersection(sets: list[Intervals], bottom: Bound, top: Bound) -> Intervals:
    """The values from `bottom` up to `top` that are in all of the sets."""
    if len(sets) == 1:
        return sets[0]
    return complement(union(complement(one, bottom, top) for one in sets), bottom, top)
