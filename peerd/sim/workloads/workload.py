"""What a workload is: a schema, subscriptions and events, all drawn from a random generator that the caller owns.

Papers describe a workload as a *set of interests* and a *stream of events*. Here an interest is filter text together
with the boxes that the text compiles to, so that an experiment with 50,000 subscriptions need not parse 50,000 filters.
The generators of most families draw a box and let `interest_in` write the text; that the text compiles to exactly
that box is what the tests check. Only `mixed`, which exists to try the language, goes the other way.

The same generator state gives the same interests and events, in any process: nothing here reads the clock, the global
`random` or the order of a set.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import msgspec

from protocols.model.box import ABSENT, ABSENT_TEXT, BEYOND_TEXT, PRESENT_TEXT, Box
from protocols.model.event import Attributes
from protocols.model.grid import Grid
from protocols.model.lint import CompiledFilter, compile_filter
from protocols.model.schema import Attribute, Schema

Side: TypeAlias = tuple[int, int] | tuple[str, str]
"""One side of a box, half-open: grid indices for a number, coordinates for a string."""

END_OF_TEXT: Final = "\0"
"""What makes a half-open side out of one string: nothing lies between a string and the string with this appended."""


class Interest(msgspec.Struct, frozen=True, gc=False):
    """What one subscriber wants, as text and as the boxes that the text compiles to, in the compiler's order."""

    filter: str
    boxes: tuple[Box, ...]
    pattern: str = ""
    """Of an interest in XPath, the canonical text; its box is unbounded."""


@lru_cache(maxsize=2_048)
def understood(text: str, schema: Schema) -> CompiledFilter:
    """A filter, compiled. It is wanted for its boxes first, for its matcher later, and by the next run once more."""
    return compile_filter(text, schema)


class Document(msgspec.Struct, frozen=True, gc=False):
    """An event that carries an XML document beside its attributes."""

    xml: str
    attributes: Attributes = {}


class Workload(Protocol):
    """A named workload. Implementations are frozen dataclasses; `PARAMETERS` are the fields that a user may change."""

    PARAMETERS: ClassVar[tuple[str, ...]]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> Schema: ...

    def subscriptions(self, rng: Random, count: int) -> list[Interest]:
        """`count` interests, in the order in which they should join."""

    def events(self, rng: Random, count: int, subscriptions: Sequence[Interest] = ()) -> list[Attributes]:
        """`count` events. Only `mixed` looks at `subscriptions`: it aims half of its events at them."""

    def update(self, rng: Random, interest: Interest) -> Interest:
        """What the same subscriber might want next: another interest, never the same boxes."""


def equal_to(text: str) -> tuple[str, str]:
    """The side that holds one string."""
    coordinate = PRESENT_TEXT + text
    return coordinate, coordinate + END_OF_TEXT


def product(schema: Schema, sides: Mapping[str, Side], base: Box | None = None) -> Box:
    """The box with the given sides; in all other attributes that of `base`, or unbounded."""
    base = base or schema.space.unbounded
    lo, hi = list(base.lo), list(base.hi)
    lo_text, hi_text = list(base.lo_text), list(base.hi_text)
    for name, (first, beyond) in sides.items():
        is_text, position = schema.place(name)
        if isinstance(first, str) and isinstance(beyond, str):
            assert is_text, name
            lo_text[position], hi_text[position] = first, beyond
        elif isinstance(first, int) and isinstance(beyond, int):
            assert not is_text, name
            lo[position], hi[position] = first, beyond
    return Box(tuple(lo), tuple(hi), tuple(lo_text), tuple(hi_text))


def number_side(schema: Schema, box: Box, name: str) -> tuple[int, int]:
    """The side of a box in a number attribute."""
    position = schema.place(name).position
    return box.lo[position], box.hi[position]


def interest_in(schema: Schema, box: Box) -> Interest:
    """The interest whose one box is `box`. Of strings it can write equality only.

    Bounds are written inclusive and on the grid: then the box is exact whether or not published values may lie between
    two steps.
    """
    constraints: list[str] = []
    for attribute in schema.attributes:
        is_text, position = schema.place(attribute.name)
        if is_text:
            constraint = _text_constraint(attribute.name, box.lo_text[position], box.hi_text[position])
        else:
            grid = schema.grid(attribute.name)
            constraint = _number_constraint(attribute, grid, box.lo[position], box.hi[position])
        if constraint:
            constraints.append(constraint)
    return Interest(" AND ".join(constraints) or "TRUE", (box,))


def _number_constraint(attribute: Attribute, grid: Grid, lo: int, hi: int) -> str:
    """The constraint for a side, empty for an unbounded one."""
    name = attribute.name
    if hi == 0:
        return f"{name} IS NULL"
    if lo == ABSENT:
        assert hi == grid.size, f"{name}: absent or small is not one constraint"
        return ""
    if (lo, hi) == (0, grid.size):
        return f"{name} IS NOT NULL"
    first, last = _literal(attribute, grid, lo), _literal(attribute, grid, hi - 1)
    if first == last:
        return f"{name} = {first}"
    if lo == 0:
        return f"{name} <= {last}"
    return f"{name} >= {first}" if hi == grid.size else f"{name} BETWEEN {first} AND {last}"


def _literal(attribute: Attribute, grid: Grid, index: int) -> str:
    return ("FALSE", "TRUE")[index] if attribute.type == "bool" else repr(grid.value(index))


def _text_constraint(name: str, lo: str, hi: str) -> str:
    if (lo, hi) == (ABSENT_TEXT, BEYOND_TEXT):
        return ""
    assert hi == lo + END_OF_TEXT, f"{name}: only equality of strings is written, not {lo!r} to {hi!r}"
    quoted = lo.removeprefix(PRESENT_TEXT).replace("'", "''")
    return f"{name} = '{quoted}'"


def inside(rng: Random, schema: Schema, box: Box) -> Attributes:
    """An event that falls into the box, each number drawn uniformly from its side.

    A string is the first one that its side holds: the value of an equality, the prefix of a prefix, none if it may be.
    """
    attributes: Attributes = {}
    for attribute in schema.attributes:
        name, (is_text, position) = attribute.name, schema.place(attribute.name)
        if is_text:
            text = box.lo_text[position]
            if text != ABSENT_TEXT:
                attributes[name] = text.removeprefix(PRESENT_TEXT)
        else:
            index = rng.randrange(box.lo[position], box.hi[position])
            if index != ABSENT:
                value = schema.grid(name).value(index)
                attributes[name] = bool(value) if attribute.type == "bool" else value
    return attributes
