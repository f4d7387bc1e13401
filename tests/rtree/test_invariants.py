"""Each checker is silent on a sound tree and speaks up on one that was corrupted by hand."""

from collections.abc import Callable

import pytest

from peerd.sim import invariants
from peerd.sim.invariants import Checker
from peerd.sim.invariants.rtree import (
    CHECKERS,
    boxes_tight,
    charts_cover,
    children_bounded,
    hosts_largest,
    leaves_at_one_depth,
    one_root,
    parents_and_children_agree,
)
from peerd.sim.invariants.rtree.trees import trees
from peerd.sim.swarm import Swarm
from protocols.model.box import EMPTY
from protocols.rtree.tree import Tree
from tests.rtree.swarms import NARROW, swarm_of


@pytest.fixture
def swarm() -> Swarm:
    return swarm_of(40, NARROW)


def leaf(swarm: Swarm) -> Tree:
    return next(tree for tree in trees(swarm).values() if not tree.top)


def host(swarm: Swarm) -> Tree:
    """Somebody with a parent and children."""
    return next(tree for tree in trees(swarm).values() if tree.top and tree.parent is not None)


def two_roots(swarm: Swarm) -> None:
    leaf(swarm).parent = None


def no_root(swarm: Swarm) -> None:
    found = trees(swarm)
    root = next(tree for tree in found.values() if tree.parent is None)
    root.parent = leaf(swarm).parent


def a_child_forgotten(swarm: Swarm) -> None:
    node = host(swarm).nodes[0]
    del node.entries[list(node.entries)[-1]]


def a_parent_mistaken(swarm: Swarm) -> None:
    parent = leaf(swarm).parent
    assert parent is not None
    parent.address = leaf(swarm).me


def a_leaf_beside_nodes(swarm: Swarm) -> None:
    root = next(tree for tree in trees(swarm).values() if tree.parent is None)
    root.nodes[-1].entries[leaf(swarm).me] = root.nodes[0].entries[root.me]


def too_few_children(swarm: Swarm) -> None:
    node = host(swarm).nodes[0]
    for address in list(node.entries)[1:]:
        del node.entries[address]


def too_many_children(swarm: Swarm) -> None:
    node = host(swarm).nodes[0]
    for address, tree in trees(swarm).items():
        if tree.parent is not None:
            node.entries.setdefault(address, next(iter(node.entries.values())))


def host_not_a_child(swarm: Swarm) -> None:
    tree = host(swarm)
    del tree.nodes[0].entries[tree.me]
    tree.nodes[0].entries[leaf(swarm).me] = next(iter(tree.nodes[0].entries.values()))


def a_box_too_small(swarm: Swarm) -> None:
    tree = host(swarm)
    next(entry for address, entry in tree.nodes[0].entries.items() if address != tree.me).box = EMPTY


def a_box_too_large(swarm: Swarm) -> None:
    tree = host(swarm)
    entry = next(entry for address, entry in tree.nodes[0].entries.items() if address != tree.me)
    entry.box = entry.core = tree.space.unbounded


def a_chart_out_of_date(swarm: Swarm) -> None:
    leaf(swarm).chart.cells = 0


def a_small_host(swarm: Swarm) -> None:
    tree = host(swarm)
    tree.nodes[0].entries[tree.me].core = EMPTY


CASES: list[tuple[Checker, Callable[[Swarm], None]]] = [
    (one_root.check, two_roots),
    (one_root.check, no_root),
    (parents_and_children_agree.check, a_child_forgotten),
    (parents_and_children_agree.check, a_parent_mistaken),
    (leaves_at_one_depth.check, a_child_forgotten),
    (leaves_at_one_depth.check, a_leaf_beside_nodes),
    (children_bounded.check, too_few_children),
    (children_bounded.check, too_many_children),
    (children_bounded.check, host_not_a_child),
    (boxes_tight.check, a_box_too_small),
    (boxes_tight.check, a_box_too_large),
    (hosts_largest.check, a_small_host),
    (charts_cover.check, a_chart_out_of_date),
]


@pytest.mark.parametrize(("check", "corrupt"), CASES, ids=[f"{c.__module__[30:]}-{f.__name__}" for c, f in CASES])
def test_a_corrupted_tree_is_found_out(swarm: Swarm, check: Checker, corrupt: Callable[[Swarm], None]) -> None:
    assert list(check(swarm)) == []
    corrupt(swarm)
    found = list(check(swarm))
    assert found
    assert set(found) <= set(invariants.violations(swarm))
    assert found == list(check(swarm))  # the same words for as long as it lasts


def test_every_checker_is_shown_a_corruption() -> None:
    assert {check for check, _ in CASES} == set(CHECKERS)
