"""The sweep: exact ring links in one dimension (specification, section 5).

For every value x of a participant's span, its upper ring link is the next participant in the order whose span holds x.
Walking up the order and giving each participant that part of the span which nobody before it has taken finds all of
them at once: one pass over the sorted candidates, which ends as soon as nothing is left to give. The lower links are
the same walk downwards.

    me      |-------------------------|
    1st above   |=====|                        takes its whole span
    2nd above |=|-----|======|                 takes what the first has left
    3rd above       |----|                     takes nothing: no link
    left    ||                |=======|        nobody above covers it: there I am the last

The parts that a participant takes are disjoint, but may be several. Half-open intervals of numbers or of strings: only
comparisons are needed.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

Interval: TypeAlias = tuple[Any, Any]


class Part(NamedTuple):
    """A part of a span, and who took it."""

    lo: Any
    hi: Any
    who: Any


class Spanning(Protocol):
    """Anything with a span."""

    @property
    def lo(self) -> Any: ...

    @property
    def hi(self) -> Any: ...


def sweep(lo: Any, hi: Any, candidates: Iterable[Spanning]) -> tuple[list[Part], list[Interval]]:
    """(the parts of [lo, hi) that the candidates, nearest first, take; what nobody has taken), both by lower end."""
    left: list[Interval] = [(lo, hi)]
    parts: list[Part] = []
    for who in candidates:
        first, beyond = who.lo, who.hi
        if beyond <= lo or first >= hi:
            continue
        rest: list[Interval] = []
        for a, b in left:
            if beyond <= a or first >= b:
                rest.append((a, b))
                continue
            start, end = a, b
            if first > a:
                rest.append((a, first))
                start = first
            if beyond < b:
                rest.append((beyond, b))
                end = beyond
            parts.append(Part(start, end, who))
        left = rest
        if not left:
            break
    parts.sort(key=_lower_end)
    return parts, left


def _lower_end(part: Part) -> Any:
    return part.lo


def subtract(intervals: list[Interval], lo: Any, hi: Any) -> list[Interval]:
    """The intervals without [lo, hi)."""
    rest: list[Interval] = []
    for a, b in intervals:
        if hi <= a or lo >= b:
            rest.append((a, b))
            continue
        if lo > a:
            rest.append((a, lo))
        if hi < b:
            rest.append((hi, b))
    return rest


def find(parts: list[Part], x: Any) -> Any:
    """Who took the part that x falls into, or None. (Parts are few: looking through them beats bisection.)"""
    for part in parts:
        if part.lo <= x < part.hi:
            return part.who
    return None
