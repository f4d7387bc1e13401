"""Tree patterns: what an XPath interest asks of a document.

A pattern is a tree. Each node has a label (an element's name, `*` for any element, `@name` for an attribute), perhaps a
value that its text must equal, and an edge from its parent: a child, or any descendant. A document matches if the
pattern can be laid over it: every node on an element with that label, every edge on a child or descendant.

`text` writes a pattern as XPath again, every branch as a predicate. On a normalised pattern (`normal.py`) that is the
canonical text: what travels in messages, and what is compared.
"""

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from protocols.model.bounds import TEXT_MAX

Axis: TypeAlias = Literal["/", "//"]

CHILD: Final = "/"
DESCENDANT: Final = "//"
ANY: Final = "*"

NODES_MAX: Final = 32
"""Nodes of a pattern. Our choice: several times what the workloads draw; matching costs their number."""
PATTERN_MAX: Final = TEXT_MAX
"""Characters of a pattern's text, so that it fits into a descriptor (`protocols/model/descriptor.py`)."""


class Node(msgspec.Struct, frozen=True, cache_hash=True):
    label: str
    axis: Axis = CHILD
    value: str | None = None
    children: "tuple[Node, ...]" = ()

    @property
    def is_attribute(self) -> bool:
        return self.label.startswith("@")

    @property
    def is_plain_star(self) -> bool:
        """Any element, whatever its text."""
        return self.label == ANY and self.value is None


def nodes(pattern: Node) -> Iterator[Node]:
    """The pattern's nodes, parents before children."""
    yield pattern
    for child in pattern.children:
        yield from nodes(child)


def text(pattern: Node) -> str:
    """The pattern as absolute XPath."""
    return pattern.axis + _step(pattern)


def _step(node: Node) -> str:
    own = "" if node.value is None or node.is_attribute else f"[.={_quoted(node.value)}]"
    return node.label + own + "".join(f"[{branch(child)}]" for child in node.children)


def branch(node: Node) -> str:
    """The pattern below a step, as the inside of a predicate."""
    path = _step(node) if node.axis == CHILD else f".//{_step(node)}"
    return f"{path}={_quoted(node.value)}" if node.is_attribute and node.value is not None else path


def _quoted(value: str) -> str:
    return f"'{value}'" if "'" not in value else f'"{value}"'  # a literal never holds both kinds
