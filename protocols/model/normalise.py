"""From an expression to boxes: what a subscription is routed by.

The expression (in negation normal form) is worked out bottom-up on exact values: what speaks about one attribute only
is a set of intervals (`intervals`), AND of several attributes their product, OR a union (`regions`). Unknown counts as
false, which negation normal form allows (see `filter`): a comparison covers present values only, so `NOT (price = 5)`
does not hold for an absent price. Only at the end are the values rounded outward to the grid (`lines`), and what is
said of attributes that no box knows (`schema`) is left out. So it is known exactly whether a filter can match at all,
and every event that a filter matches falls into one of its boxes.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from protocols.model.box import Box
from protocols.model.event import Scalar
from protocols.model.filter import And, Between, Compare, Constant, Expression, In, IsNull, Leaf, Or, Prefix
from protocols.model.intervals import Interval, Intervals, complement, intersection, union
from protocols.model.lines import TEXT, Line, line
from protocols.model.regions import ALL, LIMIT, Region, Union, tidied
from protocols.model.schema import Schema

_Flat: TypeAlias = tuple[int, Intervals]
"""A union over one attribute."""

SCHEMAS_KEPT: Final = 16
"""Schemas whose lines are kept at hand. A daemon has one; tests have many."""


class Normalised(msgspec.Struct, frozen=True):
    """A filter as a union of boxes. No box: nothing can match."""

    boxes: tuple[Box, ...]
    regions: tuple[Region, ...]
    """The same before rounding, on the values of the attributes' lines."""
    exact: bool
    """An event falls into a box if *and only if* the filter matches it."""
    coarse: bool
    """There were too many boxes; enclosing ones were taken."""
    cut: tuple[str, ...]
    """One warning for each bound outside of its attribute's domain."""


@lru_cache(SCHEMAS_KEPT)
def lines_of(schema: Schema) -> tuple[Line, ...]:
    """The line of each attribute of a schema."""
    return tuple([line(a, None if a.is_text else schema.grid(a.name)) for a in schema.attributes])


def normalise(expression: Expression, schema: Schema, limit: int = LIMIT) -> Normalised:
    """The boxes of an expression over a schema, at most `limit`."""
    worker = _Worker(schema, limit)
    regions = worker.regions(worker.work(expression))
    rounded, exact = _rounded(regions, lines_of(schema)[: schema.beginning])
    boxes = [_box(region, schema) for region in _tidy_cells(rounded, schema)]
    boxes.sort(key=lambda box: (box.lo, box.lo_text, box.hi, box.hi_text))
    coarse, cut = worker.union.coarse, _cut_bounds(expression, schema)
    return Normalised(tuple(boxes), tuple(regions), exact and not coarse, coarse, tuple(cut))


class _Worker:
    """One expression's way to regions."""

    def __init__(self, schema: Schema, limit: int) -> None:
        self.schema = schema
        self.lines = lines_of(schema)
        self.numbers = {name: number for number, name in enumerate(schema.names)}
        self.union = Union([(line.absent, line.top) for line in self.lines], limit)

    def regions(self, result: _Flat | list[Region]) -> list[Region]:
        return result if isinstance(result, list) else self.union.of_intervals(*result)

    def work(self, expression: Expression) -> _Flat | list[Region]:
        """A set of one attribute's values as long as one attribute is all there is, otherwise regions."""
        if isinstance(expression, (And, Or)):
            flat, deep = self._parts(expression)
            return self._and(flat, deep) if isinstance(expression, And) else self._or(flat, deep)
        if isinstance(expression, Constant):
            return [ALL] if expression.value else []
        number = self.numbers[expression.attribute]
        return number, leaf_intervals(expression, self.lines[number])

    def _parts(self, expression: And | Or) -> tuple[dict[int, list[Intervals]], list[list[Region]]]:
        flat: dict[int, list[Intervals]] = {}
        deep: list[list[Region]] = []
        for part in expression.parts:
            result = self.work(part)
            if isinstance(result, list):
                deep.append(result)
            else:
                flat.setdefault(result[0], []).append(result[1])
        return flat, deep

    def _or(self, flat: dict[int, list[Intervals]], deep: list[list[Region]]) -> _Flat | list[Region]:
        joined = [(number, union(sets)) for number, sets in flat.items()]
        if len(joined) == 1 and not deep:
            return joined[0]
        return self.union.either([*[self.regions(one) for one in joined], *deep])

    def _and(self, flat: dict[int, list[Intervals]], deep: list[list[Region]]) -> _Flat | list[Region]:
        joined: list[_Flat] = []
        for number, sets in flat.items():
            absent, top = self.union.everywhere[number]
            joined.append((number, intersection(sets, absent, top)))
        if len(joined) == 1 and not deep:
            return joined[0]
        result: list[Region] = [ALL]
        # Few regions first: they keep the product small, and one that is empty ends it.
        for factor in sorted([*[self.regions(one) for one in joined], *deep], key=len):
            result = self.union.both(result, factor)
        return result


# --- Leaves -----------------------------------------------------------------------------------------------------------


def leaf_intervals(leaf: Compare | Between | In | Prefix | IsNull, line: Line) -> Intervals:
    """The values of a line for which the leaf is true."""
    if isinstance(leaf, IsNull):
        bounds = (line.present, line.top) if leaf.negated else (line.absent, line.present)
        return (bounds,)
    if isinstance(leaf, Compare):
        return _compared(leaf, line)
    if isinstance(leaf, Prefix):
        inside: Intervals = (TEXT.prefixed(leaf.prefix),)
    elif isinstance(leaf, Between):
        inside = union([((line.before(leaf.low), line.after(leaf.high)),)])
    else:
        inside = union([tuple([_only(line, value) for value in leaf.values])])
    return complement(inside, line.present, line.top) if leaf.negated else inside


def _compared(leaf: Compare, line: Line) -> Intervals:
    value = leaf.value
    if leaf.operator in ("=", "<>"):
        equal = union([(_only(line, value),)])
        return equal if leaf.operator == "=" else complement(equal, line.present, line.top)
    if leaf.operator in ("<", "<="):
        interval = (line.present, line.before(value) if leaf.operator == "<" else line.after(value))
    else:
        interval = (line.before(value) if leaf.operator == ">=" else line.after(value), line.top)
    return union([(interval,)])


def _only(line: Line, value: Scalar) -> Interval:
    """The one value, or nothing where the line does not have it (an int is never 3.5)."""
    return line.before(value), line.after(value)


def _leaves(expression: Expression) -> Iterator[Leaf]:
    if isinstance(expression, (And, Or)):
        for part in expression.parts:
            yield from _leaves(part)
    else:
        yield expression


def _cut_bounds(expression: Expression, schema: Schema) -> list[str]:
    warnings: dict[str, None] = {}  # an ordered set
    for leaf in _leaves(expression):
        if isinstance(leaf, (Constant, IsNull, Prefix)):
            continue
        attribute = schema.attribute(leaf.attribute)
        if attribute.min is None or attribute.max is None:
            continue
        bounds = leaf.values if isinstance(leaf, In) else _bounds(leaf)
        for bound in bounds:
            if not isinstance(bound, str) and not attribute.min <= bound <= attribute.max:
                domain = f"{attribute.min!r} to {attribute.max!r}"
                text = f"{attribute.name}: {bound!r} lies outside of {domain}; it is routed as the nearest bound"
                warnings[text] = None
    return list(warnings)


def _bounds(leaf: Compare | Between) -> tuple[Scalar, ...]:
    return (leaf.value,) if isinstance(leaf, Compare) else (leaf.low, leaf.high)


# --- Rounding ---------------------------------------------------------------------------------------------------------


def _rounded(regions: Sequence[Region], lines: Sequence[Line]) -> tuple[list[Region], bool]:
    """The regions on the grid coordinates of these lines, and whether that changed nothing."""
    result: list[Region] = []
    all_exact = True
    for region in regions:
        rounded: dict[int, Interval] = {}
        for number, interval in region.items():
            if number >= len(lines):
                all_exact = False
                continue
            lo, hi, exact = lines[number].cells(interval)
            rounded[number] = (lo, hi)
            all_exact = all_exact and exact
        result.append(rounded)
    return result, all_exact


def _tidy_cells(regions: list[Region], schema: Schema) -> list[Region]:
    """Rounding can make regions touch, overlap, or reach all of an attribute."""
    unbounded = schema.space.unbounded
    everywhere: list[Interval] = []
    for name in schema.first.names:
        is_text, at = schema.place(name)
        lo, hi = (unbounded.lo_text, unbounded.hi_text) if is_text else (unbounded.lo, unbounded.hi)
        everywhere.append((lo[at], hi[at]))
    return tidied(regions, everywhere)


def _box(region: Region, schema: Schema) -> Box:
    unbounded = schema.space.unbounded
    lo, hi = list(unbounded.lo), list(unbounded.hi)
    lo_text, hi_text = list(unbounded.lo_text), list(unbounded.hi_text)
    for number, (first, beyond) in region.items():
        is_text, at = schema.place(schema.names[number])
        if is_text:
            lo_text[at], hi_text[at] = first, beyond
        else:
            lo[at], hi[at] = first, beyond
    return Box(tuple(lo), tuple(hi), tuple(lo_text), tuple(hi_text))
