"""A plain R-tree in one memory, after Guttman (1984) and Beckmann et al. (1990): what the distributed one must come to
when peers join in turn.

It shares the pure functions (split, choose) with the distributed tree, and nothing else: no hosts, no messages.
"""

from collections.abc import Sequence
from math import ceil

from protocols.model.box import Box, enclosing_all
from protocols.rtree.choose import least_enlargement, least_overlap
from protocols.rtree.measure import Measure
from protocols.rtree.split import METHODS, farthest


class Branch:
    def __init__(self, height: int, children: Sequence["Branch | Box"]) -> None:
        self.height = height
        self.children = list(children)
        self.fit()

    def fit(self) -> None:
        """The children have changed."""
        self.box = enclosing_all(box_of(child) for child in self.children)


def box_of(child: "Branch | Box") -> Box:
    return child.box if isinstance(child, Branch) else child


def height_of(child: "Branch | Box") -> int:
    return child.height if isinstance(child, Branch) else 0


class TwinTree:
    def __init__(
        self, least: int, most: int, method: str, measure: Measure, choose: str = "R", reinsert_share: float = 0.0
    ) -> None:
        self._least, self._most, self._split = least, most, METHODS[method]
        self._measure = measure
        self._choose = choose
        self._reinserted = ceil(reinsert_share * most)
        self._treated: set[int] = set()
        self.root = Branch(1, [])

    def insert(self, box: Box) -> None:
        self._treated = set()
        self._place(box)

    def _place(self, child: "Branch | Box") -> None:
        """From the root down to just above the child's own height, and up again where there are too many."""
        path = [self.root]
        while path[-1].height > height_of(child) + 1:
            path.append(self._branch(path[-1], child))
        path[-1].children.append(child)
        movers: list[Branch | Box] = []
        for branch, above in zip(reversed(path), [*path[-2::-1], None]):
            if len(branch.children) > self._most:
                if above is not None and self._reinserted and branch.height not in self._treated:
                    movers = self._farthest(branch)
                elif above is not None:
                    above.children.append(self._divide(branch))
                else:
                    self.root = Branch(branch.height + 1, [self._divide(branch), branch])
            branch.fit()
        for each in movers:
            self._place(each)

    def _branch(self, branch: Branch, child: "Branch | Box") -> Branch:
        boxes, box = [box_of(each) for each in branch.children], box_of(child)
        if self._choose == "R" or branch.height != 2:
            chosen = branch.children[least_enlargement(boxes, box, self._measure)]
        else:
            chosen = branch.children[least_overlap(boxes, box, self._measure, self._choose == "R*-smallest")]
        assert isinstance(chosen, Branch)
        return chosen

    def _farthest(self, branch: Branch) -> "list[Branch | Box]":
        """Forced reinsertion, once for each height and insertion: these are to find a better place."""
        self._treated.add(branch.height)
        far = farthest([box_of(child) for child in branch.children], self._reinserted, self._measure)
        movers = [branch.children[at] for at in far]
        branch.children = [child for at, child in enumerate(branch.children) if at not in far]
        return movers

    def _divide(self, branch: Branch) -> Branch:
        group = self._split([box_of(child) for child in branch.children], self._least, self._measure)
        rest = [child for at, child in enumerate(branch.children) if at not in group]
        branch.children = [branch.children[at] for at in group]
        branch.fit()
        return Branch(branch.height, rest)

    def leaves_per_parent(self) -> float:
        """One less than the average degree of interior peers: each hosts one parent of leaves, and has a parent."""
        parents = leaves = 0
        waiting = [self.root]
        while waiting:
            branch = waiting.pop()
            waiting += [child for child in branch.children if isinstance(child, Branch)]
            if branch.height == 1:
                parents, leaves = parents + 1, leaves + len(branch.children)
        return leaves / parents

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
