"""A plain R-tree in one memory, after Guttman (1984): what the distributed one must come to when peers join in turn.

It shares the pure functions (split, choose) with the distributed tree, and nothing else: no hosts, no messages.
"""

from collections.abc import Sequence

from protocols.model.box import Box, enclosing_all
from protocols.rtree.choose import least_enlargement
from protocols.rtree.measure import Measure
from protocols.rtree.split import METHODS


class Branch:
    def __init__(self, height: int, children: Sequence["Branch | Box"]) -> None:
        self.height = height
        self.children = list(children)

    @property
    def box(self) -> Box:
        return enclosing_all(box_of(child) for child in self.children)


def box_of(child: "Branch | Box") -> Box:
    return child.box if isinstance(child, Branch) else child


class TwinTree:
    def __init__(self, least: int, most: int, method: str, measure: Measure) -> None:
        self._least, self._most, self._split = least, most, METHODS[method]
        self._measure = measure
        self.root = Branch(1, [])

    def insert(self, box: Box) -> None:
        other = self._insert(self.root, box)
        if other is not None:
            self.root = Branch(self.root.height + 1, [self.root, other])

    def _insert(self, branch: Branch, box: Box) -> Branch | None:
        """Insert below; returns the other half if the branch had to be split."""
        if branch.height == 1:
            branch.children.append(box)
        else:
            at = least_enlargement([box_of(child) for child in branch.children], box, self._measure)
            below = branch.children[at]
            assert isinstance(below, Branch)
            other = self._insert(below, box)
            if other is not None:
                branch.children.append(other)
        if len(branch.children) <= self._most:
            return None
        group = self._split([box_of(child) for child in branch.children], self._least, self._measure)
        rest = [child for at, child in enumerate(branch.children) if at not in group]
        branch.children = [branch.children[at] for at in group]
        return Branch(branch.height, rest)

    def groups(self) -> set[frozenset[Box]]:
        """The leaves below each node."""
        found: set[frozenset[Box]] = set()
        self._collect(self.root, found)
        return found

    def _collect(self, child: "Branch | Box", found: set[frozenset[Box]]) -> frozenset[Box]:
        if not isinstance(child, Branch):
            return frozenset((child,))
        leaves = frozenset[Box]().union(*(self._collect(each, found) for each in child.children))
        found.add(leaves)
        return leaves
