"""An XPath interest ready for use: what `protocols/model/lint.py` is for filters.

It is routed by its pattern and the unbounded box, and everything that its author is told is here too.
"""

from collections.abc import Mapping

import msgspec

from protocols.model.box import Box
from protocols.model.describe import Description, describe_box
from protocols.model.filter import Values
from protocols.model.schema import Schema
from protocols.model.xpath.contain import contains
from protocols.model.xpath.parse import parse
from protocols.model.xpath.pattern import text


class CompiledXPath(msgspec.Struct, frozen=True):
    text: str
    pattern: str
    """The canonical text."""
    boxes: tuple[Box, ...]
    warnings: tuple[str, ...] = ()

    def matcher(self, attributes: Values) -> bool:
        """Attributes do not matter: the pattern decides."""
        return True

    def describe_boxes(self, schema: Schema) -> list[Description]:
        return [describe_box(schema, box) for box in self.boxes]


def compile_xpath(source: str, schema: Schema, others: Mapping[str, CompiledXPath] | None = None) -> CompiledXPath:
    """Parse and normalise an XPath interest; `XPathError` if it cannot be used. `others`: those of this peer."""
    pattern = parse(source)
    warnings = [
        f"contained in subscription {id_}"
        for id_, other in (others or {}).items()
        if contains(parse(other.pattern), pattern)
    ]
    return CompiledXPath(source, text(pattern), (schema.space.unbounded,), tuple(warnings))
