"""Which branch a newcomer takes, and who hosts a node (paper, section 4).

R* in the paper's words has two criteria above the parents of leaves: least overlap enlargement, "upon tie" least area
enlargement. Where subscriptions contain each other both are mostly zero for several branches, and then the first of
them takes the newcomer: a few nodes get most of the newcomers, and the others stay as small as a split has left them.
That is what the degrees of Table 2 show (docs/rtree.md). Beckmann et al. 1990 (section 4.1) go on to the smallest
branch, as Guttman does; `R*-smallest` is their rule.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from protocols.model.box import Box, enclosing
from protocols.rtree.measure import Measure

Choice: TypeAlias = Literal["R", "R*", "R*-smallest"]

NEAR: Final = 32
"""Branches whose overlap is compared (Beckmann et al. 1990, section 4.1: p = 32)."""


def branch(choice: Choice, branches: Sequence[Box], box: Box, measure: Measure, hold_leaves: bool) -> int:
    """The branch that a newcomer takes; `hold_leaves`: the branches are parents of leaves, and the newcomer a leaf."""
    if choice == "R" or not hold_leaves:
        return least_enlargement(branches, box, measure)
    return least_overlap(branches, box, measure, then_smallest=choice == "R*-smallest")


def least_enlargement(branches: Sequence[Box], box: Box, measure: Measure) -> int:
    """R: the branch that needs the least enlargement; upon a tie the smallest, then the first."""
    best, best_key = 0, (float("inf"), float("inf"))
    for at, branch in enumerate(branches):
        volume = measure.volume(branch)
        key = measure.joint(branch, box) - volume, volume
        if key < best_key:
            best, best_key = at, key
    return best


def least_overlap(branches: Sequence[Box], box: Box, measure: Measure, then_smallest: bool) -> int:
    """R*, above the parents of leaves: the branch whose overlap with the others grows least; upon a tie the one that
    needs the least enlargement, then the smallest if that is asked for, then the first."""
    keys = []
    for branch in branches:
        volume = measure.volume(branch)
        keys.append((measure.joint(branch, box) - volume, volume if then_smallest else 0.0))
    order = sorted(range(len(branches)), key=keys.__getitem__)
    best, best_key = order[0], (float("inf"), float("inf"), float("inf"))
    for at in order[:NEAR]:
        grown = enclosing(branches[at], box)
        growth = 0.0
        if grown != branches[at]:
            for other, branch in enumerate(branches):
                if other != at:
                    growth += measure.overlap(grown, branch) - measure.overlap(branches[at], branch)
        key = growth, *keys[at]
        if key < best_key:
            best, best_key = at, key
    return best


def largest(boxes: Sequence[Box], measure: Measure) -> int:
    """The host of a node: "the node whose current MBR is largest". An event that hits the node, but not the child that
    hosts it, is a false positive for the host; so the largest child is the best. Upon a tie the first."""
    volumes = [(measure.volume(box), measure.margin(box)) for box in boxes]
    return max(range(len(boxes)), key=volumes.__getitem__)
