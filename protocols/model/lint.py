"""The one way from a filter's text to a subscription, with everything that its author should be told.

A filter that nothing can match is an error: somebody would wait for ever. It is placed at the condition that
contradicts those before it, if the filter is a plain AND. Warnings are single lines: the filter matches everything, is
contained in another subscription, has bounds outside of the domain, or was too complex for exact boxes.

Containment is decided on what the filters say, before rounding, so it is never claimed wrongly; a filter that lies
within several regions of another only taken together is not recognised.
"""

from collections.abc import Mapping, Sequence

import msgspec

from protocols.model.box import Box
from protocols.model.describe import Description, describe_box
from protocols.model.filter import And, Expression, FilterError, Matcher, compiled
from protocols.model.normalise import Normalised, normalise
from protocols.model.parse import parse
from protocols.model.regions import LIMIT, Region, within
from protocols.model.schema import Schema


class CompiledFilter(msgspec.Struct, frozen=True):
    """A filter ready for use."""

    text: str
    expression: Expression
    matcher: Matcher
    boxes: tuple[Box, ...]
    regions: tuple[Region, ...]
    exact: bool
    """The boxes hold exactly what the filter matches."""
    coarse: bool
    warnings: tuple[str, ...]
    schema: Schema
    """That which numbers the attributes of the regions. (Boxes are the same in every schema of a swarm.)"""

    def describe_boxes(self, schema: Schema) -> list[Description]:
        """What it is routed by, on the grid."""
        return [describe_box(schema, box) for box in self.boxes]


def compile_filter(
    text: str, schema: Schema, others: Mapping[str, CompiledFilter] | None = None, limit: int = LIMIT
) -> CompiledFilter:
    """Parse, normalise and check a filter; `FilterError` if it cannot be used. `others`: this peer's subscriptions."""
    expression = parse(text, schema)
    normal = normalise(expression, schema, limit)
    if not normal.boxes:
        raise FilterError("nothing can match this filter", _contradiction(expression, schema, limit))
    warnings = _warnings(normal, schema, limit, others or {})
    return CompiledFilter(
        text,
        expression,
        compiled(expression),
        normal.boxes,
        normal.regions,
        normal.exact,
        normal.coarse,
        warnings,
        schema,
    )


def contained(inner: Sequence[Region], outer: Sequence[Region]) -> bool:
    """Whether each region of one union lies within a region of the other. Never wrongly True."""
    return all(any(within(region, other) for other in outer) for region in inner)


def _numbered_by(schema: Schema, other: CompiledFilter) -> tuple[Region, ...]:
    """The regions of another filter, with the attributes numbered as in this schema; those that it does not have as
    they were then are left out."""
    if other.schema.attributes == schema.attributes[: other.schema.version]:
        return other.regions
    numbers = {attribute: number for number, attribute in enumerate(schema.attributes)}
    now = [numbers.get(attribute) for attribute in other.schema.attributes]
    found: list[Region] = []
    for region in other.regions:
        renumbered = {now[number]: interval for number, interval in region.items()}
        if None not in renumbered:
            found.append({number: interval for number, interval in renumbered.items() if number is not None})
    return tuple(found)


def _warnings(normal: Normalised, schema: Schema, limit: int, others: Mapping[str, CompiledFilter]) -> tuple[str, ...]:
    warnings = list(normal.cut)
    if normal.coarse:
        warnings.append(f"too complex for {limit} boxes: routed by larger ones that enclose them")
    elif any(not region for region in normal.regions):
        warnings.append("matches everything")
    for id_, other in others.items():
        if not other.coarse and contained(normal.regions, _numbered_by(schema, other)):
            warnings.append(f"contained in subscription {id_}")
    return tuple(warnings)


def _contradiction(expression: Expression, schema: Schema, limit: int) -> int:
    """Where the first part of an AND stands that leaves nothing of those before it."""
    if not isinstance(expression, And):
        return expression.at
    possible, impossible = 0, len(expression.parts)  # how many parts, from the left, still can match; cannot any more
    while impossible - possible > 1:
        middle = (possible + impossible) // 2
        if normalise(And(expression.parts[:middle]), schema, limit).boxes:
            possible = middle
        else:
            impossible = middle
    return expression.parts[impossible - 1].at
