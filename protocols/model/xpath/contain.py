"""Does every document that matches one pattern match another?

Decided by looking for a homomorphism (Miklau and Suciu, "Containment and equivalence for an XPath fragment", PODS
2002): `outer` contains `inner` if the nodes of `outer` can be laid over those of `inner` so that labels agree, child
edges fall on child edges and descendant edges on paths downwards. Laid over `inner`, which itself is laid over the
document, it is laid over the document: so a yes is always right. A no may be wrong where `//`, `*` and branches meet;
deciding that exactly is coNP-complete. The containment tree can afford it: a containment that is not seen costs a
flatter tree, never an event.

Two gaps are closed because they are common. A chain of `*` that only passes through is taken as one edge with a minimal
length, so that `a/*//b` is found to contain `a//c/b`; and a `*` at the end of it as "so many levels", so that `a/*`
contains `a//b`.
"""

from functools import lru_cache
from typing import TypeAlias

from protocols.model.xpath.pattern import ANY, CHILD, Node, nodes

_Below: TypeAlias = list[tuple[Node, int, bool]]
"""Nodes below another: how many edges away, and whether all of those are child edges."""


def contains(outer: Node, inner: Node) -> bool:
    """Whether whatever matches `inner` matches `outer`. Never wrongly True."""
    return names(outer) <= names(inner) and implies(inner, outer)


@lru_cache(maxsize=4096)
def names(pattern: Node) -> frozenset[str]:
    """The labels that a pattern asks for by name: laid over another they fall on the same ones, so most pairs of
    patterns need no closer look."""
    return frozenset(node.label for node in nodes(pattern) if node.label != ANY)


def implies(given: Node, wanted: Node) -> bool:
    """Whether an element with the branch `given` has the branch `wanted`, as far as a homomorphism shows."""
    return _Search().edge(wanted, _below(Node("", CHILD, None, (given,))))


class _Search:
    """Remembers which pairs of nodes fit: there are few pairs, but very many ways that lead to them."""

    __slots__ = ("_fitting",)

    def __init__(self) -> None:
        self._fitting: dict[tuple[Node, Node], bool] = {}

    def edge(self, wanted: Node, below: _Below) -> bool:
        """Whether something below fits a wanted node, at the distance that its edge asks for."""
        least, exactly = 1, wanted.axis == CHILD
        while wanted.is_plain_star and len(wanted.children) == 1 and not wanted.children[0].is_attribute:
            wanted = wanted.children[0]
            least, exactly = least + 1, exactly and wanted.axis == CHILD
        if wanted.is_plain_star and not wanted.children:
            exactly = False  # the way to something further down passes through that level
        for node, distance, by_children in below:
            if distance < least or (exactly and not (by_children and distance == least)):
                continue
            if self._fits(wanted, node):
                return True
        return False

    def _fits(self, wanted: Node, node: Node) -> bool:
        if wanted.label != node.label and (wanted.label != ANY or node.is_attribute):
            return False
        if wanted.value is not None and wanted.value != node.value:
            return False
        if not wanted.children:
            return True
        pair = wanted, node
        found = self._fitting.get(pair)
        if found is None:
            below = _below(node)
            found = self._fitting[pair] = all(self.edge(child, below) for child in wanted.children)
        return found


def _below(node: Node, distance: int = 1, by_children: bool = True) -> _Below:
    found: _Below = []
    for child in node.children:
        plain = by_children and child.axis == CHILD
        found.append((child, distance, plain))
        found += _below(child, distance + 1, plain)
    return found
