"""What must hold in a swarm of the semantic overlay."""

from typing import Final

from peerd.sim.invariants.semantic import (
    depths_add_up,
    equivalence_trees_bounded,
    graph_connected,
    idle_are_leaves,
    neighbours_agree,
    one_tree,
    parents_and_children_agree,
    parents_contain_children,
    parents_know_what_is_below,
)

CHECKERS: Final = (
    one_tree.check,
    parents_and_children_agree.check,
    parents_contain_children.check,
    parents_know_what_is_below.check,
    depths_add_up.check,
    equivalence_trees_bounded.check,
    idle_are_leaves.check,
    neighbours_agree.check,
    graph_connected.check,
)
