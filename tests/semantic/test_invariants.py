"""Each checker of the semantic overlay is silent on a sound swarm and speaks up on one that was corrupted by hand."""

from collections.abc import Callable

import pytest

from peerd.sim.invariants import Checker, violations
from peerd.sim.invariants.semantic import (
    CHECKERS,
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
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import workload
from protocols.model.interest import NOTHING
from protocols.semantic.similarity import Similarity
from protocols.semantic.tree import Child
from tests.semantic.orchard import Orchard, figure_1


@pytest.fixture
def orchard() -> Orchard:
    return figure_1()


def two_origins(orchard: Orchard) -> None:
    orchard.tree("P3").parent = None


def a_cycle(orchard: Orchard) -> None:
    orchard.tree("P2").parent = orchard.overlay("P3").descriptor().address


def a_child_forgotten(orchard: Orchard) -> None:
    orchard.tree("P2").children.clear()


def a_child_invented(orchard: Orchard) -> None:
    orchard.tree("P4").children[orchard.overlay("P6").descriptor().address] = Child(NOTHING, "interest")


def a_wrong_kind(orchard: Orchard) -> None:
    orchard.tree("P3").parent_kind = "equal"


def a_narrower_parent(orchard: Orchard) -> None:
    orchard.tree("P2").interest = orchard.tree("P6").interest


def a_relay_taken_for_a_leaf(orchard: Orchard) -> None:
    for name in orchard.nodes:
        for child in orchard.tree(name).children.values():
            child.tops = 1 if child.tops > 1 else 2


def a_wrong_depth(orchard: Orchard) -> None:
    orchard.tree("P3").parent_depth = 7


def too_many_equals(orchard: Orchard) -> None:
    for child in orchard.tree("P1").children.values():
        child.kind = "equal"
    for name in ("P3", "P6", "P8", "P9", "P10"):
        orchard.tree("P1").children[orchard.overlay(name).descriptor().address] = Child(NOTHING, "equal")


def an_idle_parent(orchard: Orchard) -> None:
    orchard.tree("P2").interest = NOTHING


CASES: list[tuple[Checker, Callable[[Orchard], None]]] = [
    (one_tree.check, two_origins),
    (one_tree.check, a_cycle),
    (parents_and_children_agree.check, a_child_forgotten),
    (parents_and_children_agree.check, a_child_invented),
    (parents_contain_children.check, a_wrong_kind),
    (parents_contain_children.check, a_narrower_parent),
    (parents_know_what_is_below.check, a_relay_taken_for_a_leaf),
    (depths_add_up.check, a_wrong_depth),
    (equivalence_trees_bounded.check, too_many_equals),
    (idle_are_leaves.check, an_idle_parent),
]


@pytest.mark.parametrize(("check", "corrupt"), CASES, ids=[corrupt.__name__ for _, corrupt in CASES])
def test_a_corrupted_tree_is_found_out(orchard: Orchard, check: Checker, corrupt: Callable[[Orchard], None]) -> None:
    assert list(check(orchard.swarm)) == []
    corrupt(orchard)
    found = list(check(orchard.swarm))
    assert found
    assert set(found) <= set(violations(orchard.swarm))


@pytest.fixture(scope="module")
def graph() -> Swarm:
    stocks = workload("stocks")
    config = SwarmConfig(overlay="semantic", schema=stocks.schema, seed=1, parameters={"organisation": "similarity"})
    swarm = Swarm(config)
    interests = stocks.subscriptions(swarm.stream("subscriptions"), 8)
    swarm.start_many([[interest] for interest in interests], 50)
    assert swarm.run_until(lambda: len(swarm.live) == 8 and swarm.all_active(), 30_000)
    assert swarm.converge(30_000) is not None
    return swarm


def graph_participants(swarm: Swarm) -> list[Similarity]:
    found = [overlay for node in swarm.live.values() for overlay in node.peer.participants.values()]
    return [overlay for overlay in found if isinstance(overlay, Similarity)]


def test_a_corrupted_graph_is_found_out(graph: Swarm) -> None:
    assert list(neighbours_agree.check(graph)) == list(graph_connected.check(graph)) == []
    for overlay in graph_participants(graph):
        overlay.circle.choosers.clear()
    assert list(neighbours_agree.check(graph))
    for overlay in graph_participants(graph):
        overlay.circle.chosen.clear()
        overlay.circle.random.clear()
    assert list(graph_connected.check(graph))


def test_every_checker_is_shown_a_corruption() -> None:
    assert {check for check, _ in CASES} | {neighbours_agree.check, graph_connected.check} == set(CHECKERS)
