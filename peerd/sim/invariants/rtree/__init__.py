"""What must hold in a swarm of the distributed R-tree (paper, section 3.2 and 4; specification, section 4)."""

from typing import Final

from peerd.sim.invariants.rtree import (
    boxes_tight,
    charts_cover,
    children_bounded,
    hosts_largest,
    leaves_at_one_depth,
    one_root,
    parents_and_children_agree,
)

CHECKERS: Final = (
    one_root.check,
    parents_and_children_agree.check,
    leaves_at_one_depth.check,
    children_bounded.check,
    boxes_tight.check,
    hosts_largest.check,
    charts_cover.check,
)
