"""The canonical form of a pattern: the same for as many equivalent patterns as is cheap.

Three rewritings, none of which changes what is matched:

- *Chains of `*`.* Where an element is only passed through, what counts is the distance: `a//*/b` and `a/*//b` both say
  "two levels or more below". The descendant edge goes last. And since whoever is more than m levels below something
  passes through each level, a chain that ends in `*` needs no descendant edge at all: `a//*` is `a/*`.
- *Redundant branches.* A branch that a sibling implies is dropped: `a[b][b/c]` is `a[b/c]`, `a[.//c][b/c]` is `a[b/c]`.
- *Order.* Branches are sorted by their text.
"""

from msgspec.structs import replace

from protocols.model.xpath.contain import implies
from protocols.model.xpath.pattern import (
    ANY,
    CHILD,
    DESCENDANT,
    NODES_MAX,
    PATTERN_MAX,
    Axis,
    Node,
    branch,
    nodes,
    text,
)


def normalised(pattern: Node) -> Node:
    """The canonical form. Of the root, too, the edge counts: from the document to its first element.

    From the leaves up: an element is only passed through if one branch of it is left."""
    kept: list[Node] = []
    children = [normalised(child) for child in pattern.children]
    for number, child in enumerate(children):
        others = kept + children[number + 1 :]
        if not any(implies(other, child) for other in others):
            kept.append(child)
    return _straightened(replace(pattern, children=tuple(sorted(kept, key=branch))))


def _straightened(node: Node) -> Node:
    """The chain of plain stars that begins with this node, its descendant edge moved to the end, or away."""
    chain = [node]
    while chain[-1].is_plain_star and len(chain[-1].children) == 1 and not chain[-1].children[0].is_attribute:
        chain.append(chain[-1].children[0])
    if all(each.axis == CHILD for each in chain):
        return node
    last = chain[-1]
    open_ended = last.is_plain_star and not last.children
    straight = replace(last, axis=CHILD if open_ended else DESCENDANT)
    for each in reversed(chain[:-1]):
        straight = replace(each, axis=CHILD, children=(straight,))
    return straight


def joined(a: Node, b: Node) -> Node:
    """A pattern that contains both: what they have in common, node by node."""
    if implies(a, b):
        return b
    if implies(b, a):
        return a
    found = normalised(_common(a, b))
    fits = sum(1 for _ in nodes(found)) <= NODES_MAX and len(text(found)) <= PATTERN_MAX
    return found if fits else Node(ANY)  # any document at all


def _common(a: Node, b: Node) -> Node:
    """Laid over either of the two, edge by edge."""
    label = a.label if a.label == b.label else ANY
    axis: Axis = CHILD if a.axis == b.axis == CHILD else DESCENDANT
    pairs = [(x, y) for x in a.children for y in b.children if x.is_attribute == y.is_attribute]
    children = [_common(x, y) for x, y in pairs if not x.is_attribute or x.label == y.label]
    return Node(label, axis, a.value if a.value == b.value else None, tuple(children))
