"""Does a document match a pattern?

From the last element to the first, so children before parents, each element gets the set of pattern nodes whose whole
subtree can be laid over it: a node belongs to it if the label agrees and its own children were found, those of child
edges among the element's children, the others anywhere below. Sets are bits of an integer, so an element whose label
the pattern does not name costs two ORs, and a document never costs more than its elements times the pattern's nodes.

(libxml2's evaluator takes exponential time for nested `//` that fail: a stranger's pattern and document must not do
that to a relay. It serves as the twin in the tests. Before all else the names are compared: most patterns ask for one
that the document does not have.)
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import msgspec

from protocols.model.xpath.document import Document
from protocols.model.xpath.pattern import ANY, CHILD, Node, nodes

Test: TypeAlias = Callable[[Document], bool]


class _Rule(msgspec.Struct, frozen=True, gc=False):
    """One node of the pattern: its bit, the bits of its children by edge, and what the element itself must have."""

    bit: int
    children: int
    below: int
    value: str | None
    attributes: tuple[tuple[str, str | None], ...]


@lru_cache(maxsize=4096)
def matcher(pattern: Node) -> Test:
    """A function that says whether a document matches."""
    rules: dict[str, list[_Rule]] = {ANY: []}
    top = _rules(pattern, rules)
    stars = tuple(rules.pop(ANY))
    by_label = {label: (*found, *stars) for label, found in rules.items()}
    wanted = frozenset(node.label for node in nodes(pattern) if node.label != ANY)
    from_root = pattern.axis == CHILD

    def test(document: Document) -> bool:
        if not wanted <= document.names:
            return False
        parents, labels = document.parents, document.labels
        count = len(labels)
        children, below = [0] * (count + 1), [0] * (count + 1)  # the last one, at -1, is the document itself
        for number in range(count - 1, -1, -1):
            here, deep, found = children[number], below[number], 0
            for rule in by_label.get(labels[number], stars):
                if (
                    rule.children & here == rule.children
                    and rule.below & deep == rule.below
                    and (rule.value is None or rule.value == document.text_of(number))
                    and (not rule.attributes or _has(document.attributes.get(number, {}), rule.attributes))
                ):
                    found |= rule.bit
            parent = parents[number]
            children[parent] |= found
            below[parent] |= found | deep
        return bool(top & (children if from_root else below)[-1])

    return test


def _rules(node: Node, rules: dict[str, list[_Rule]]) -> int:
    """Number the nodes, children first; the bit of this one."""
    children = below = 0
    attributes = []
    for child in node.children:
        if child.is_attribute:
            attributes.append((child.label, child.value))
        elif child.axis == CHILD:
            children |= _rules(child, rules)
        else:
            below |= _rules(child, rules)
    bit = 1 << sum(map(len, rules.values()))
    rules.setdefault(node.label, []).append(_Rule(bit, children, below, node.value, tuple(attributes)))
    return bit


def _has(attributes: dict[str, str], wanted: tuple[tuple[str, str | None], ...]) -> bool:
    return all(name in attributes and value in (None, attributes[name]) for name, value in wanted)
