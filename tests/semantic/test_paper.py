"""Paper 2, "Semantic Peer-to-Peer Overlays for Publish/Subscribe Networks": one test per statement on the tree.

The statements on the similarity graph (section 4) are in `test_similarity.py`; the figures of section 5 in
`test_accuracy.py` and `benchmarks/bench_semantic.py`.
"""

from random import Random
from typing import Any

import pytest

from peerd.sim.invariants import violations
from peerd.sim.workloads import DOCUMENTS
from peerd.sim.workloads.workload import Interest
from protocols.model.interest import contains, equivalent, matches
from protocols.model.lint import compile_filter
from protocols.model.xpath.document import read
from protocols.model.xpath.embed import matcher
from protocols.model.xpath.parse import parse
from protocols.semantic.messages import Probe
from tests.conformance.support import Stage
from tests.semantic.orchard import P_NEW, STOCKS, Orchard, figure_1

D: dict[str, Any] = {"exchange": "ATHEX", "symbol": "OTE", "price": 3.5, "high": 3.6, "low": 3.4}


@pytest.fixture(scope="module")
def grown() -> Orchard:
    return figure_1()


# --- Section 3, network description -----------------------------------------------------------------------------------


def test_figure_1(grown: Orchard) -> None:
    """The tree of Figure 1: each peer below the deepest one that contains it, equivalents together."""
    parents = grown.parents()
    assert {name for name, (kind, _) in parents.items() if kind == "top"} == {"P1", "P4", "P7"}
    assert {name: parents[name] for name in ("P2", "P5")} == {"P2": ("interest", "P1"), "P5": ("interest", "P1")}
    assert parents["P3"] == ("interest", "P2")  # "both P2 and P4 contain P3, but P2 has a greater depth"
    assert parents["P6"] == ("interest", "P5")  # "rather than P1"
    assert parents["P8"] == ("interest", "P7")
    assert {parents["P9"], parents["P10"]} == {("equal", "P8")}  # "the equivalence tree rooted at P8"
    assert violations(grown.swarm) == []


def test_depth_is_the_longest_chain_of_containers(grown: Orchard) -> None:
    depths = {name: grown.tree(name).depth for name in grown.nodes}
    assert depths == {"P1": 1, "P4": 1, "P7": 1, "P2": 2, "P5": 2, "P8": 2, "P9": 2, "P10": 2, "P3": 3, "P6": 3}


def test_of_containers_equally_deep_the_one_with_the_fewest_children_is_the_parent() -> None:
    """Section 3: "in order to keep the tree as balanced as possible"."""
    orchard = Orchard()
    orchard.plant("broad", "price < 10")
    orchard.plant("other", "symbol = 'OTE'")
    for number in range(3):
        orchard.plant(f"child{number}", f"price < {number + 2} AND exchange = 'E{number}'")
    assert orchard.parents()["child2"] == ("interest", "broad")
    orchard.plant("new", "symbol = 'OTE' AND price < 10")  # its contact is `broad`, which contains it as well
    assert orchard.parents()["new"] == ("interest", "other")


def test_a_peer_with_several_subscriptions_appears_several_times() -> None:
    orchard = Orchard()
    node = orchard.plant("both", "symbol = 'OTE'")
    price = "price > 5"
    orchard.swarm.subscribe(node, Interest(price, compile_filter(price, STOCKS).boxes))
    assert orchard.swarm.run_until(orchard.swarm.all_active, 10_000)
    orchard.plant("dear", "price > 8")
    orchard.plant("ote", "symbol = 'OTE' AND price < 3")
    parents = {name: orchard.tree(name).parent for name in ("dear", "ote")}
    assert {parent.peer for parent in parents.values() if parent} == {node.address.peer}
    assert len({parent.slot for parent in parents.values() if parent}) == 2


def test_every_peer_knows_its_grandparent(grown: Orchard) -> None:
    """Section 3: "it follows that every peer needs to know its grand-parent (or several ancestors)"."""
    assert [grown.name_of(each) for each in grown.tree("P3").ancestors[:2]] == ["P2", "P1"]
    assert [grown.name_of(each) for each in grown.tree("P6").ancestors[:2]] == ["P5", "P1"]


def test_the_virtual_root_ties_top_level_peers_together(grown: Orchard) -> None:
    linked = {
        frozenset((name, grown.name_of(grown.tree(name).parent)))
        for name in ("P1", "P4", "P7")
        if grown.tree(name).parent is not None
    }
    assert len(linked) == 2  # a tree over the three


# --- Section 2 and 3, routing -----------------------------------------------------------------------------------------


def test_figure_1_the_path_of_a_message(grown: Orchard) -> None:
    """P5 publishes D: whoever has a parent that is interested receives it, and so do all top-level peers."""
    assert grown.publish("P5", **D) == {
        "P1": "wanted",
        "P6": "wanted",
        "P2": "unwanted",
        "P4": "unwanted",
        "P7": "unwanted",
    }


def test_a_peer_may_publish_what_it_does_not_want(grown: Orchard) -> None:
    """Section 2: the assumption that peers publish what matches their own interests is relaxed."""
    results = grown.publish("P3", **D)
    assert {name for name, result in results.items() if result == "wanted"} == {"P1", "P5", "P6"}


def test_receivers_are_those_whose_parent_is_interested_and_the_top_level() -> None:
    """Section 3: "inner nodes are true positives and leaves are either false positives or leaves in the tree"."""
    stage = Stage("semantic", 5, "uniform-25:75", settings={"profile": "paper", "chain_above": "0"})
    stage.gather(40)
    overlays = [overlay for node in stage.living() for overlay in node.peer.participants.values()]
    by_address = {overlay.descriptor().address: overlay for overlay in overlays}
    for attributes in stage.events(10):
        stage.swarm.oracle.receptions.update(dict.fromkeys(stage.swarm.oracle.receptions, 0))
        publisher = stage.rng.choice(stage.living())
        event = stage.swarm.publish(attributes, publisher)
        assert event is not None
        stage.run(2_000)
        expected = {}
        for address, overlay in by_address.items():
            tree = overlay.tree  # type: ignore[attr-defined]
            parent = by_address.get(tree.parent)
            above = parent.tree.interest if parent is not None else None  # type: ignore[attr-defined]
            if tree.is_top or (tree.parent_kind != "idle" and above is not None and matches(above, event)):
                expected[address] = matches(tree.interest, event)
        published = publisher.peer.participants[next(iter(publisher.peer.participants))]
        climbed = _ancestors(by_address, published.descriptor().address)
        reached = expected | {address: matches(by_address[address].tree.interest, event) for address in climbed}  # type: ignore[attr-defined]
        reached.pop(published.descriptor().address, None)
        received = stage.swarm.oracle.receptions
        assert received["wanted"] + received["unwanted"] == len(reached)
        assert received["wanted"] == sum(reached.values())


def _ancestors(by_address: dict, address: object) -> list:  # type: ignore[type-arg]
    found = []
    while (address := by_address[address].tree.parent) is not None:
        found.append(address)
    return found


# --- Section 3, joining -----------------------------------------------------------------------------------------------


def test_figure_2() -> None:
    """P_new is inserted below P5, and P6 becomes its child because P_new is a better parent than P5."""
    orchard = figure_1()
    orchard.plant("P_new", P_NEW)
    parents = orchard.parents()
    assert parents["P_new"] == ("interest", "P5")
    assert parents["P6"] == ("interest", "P_new")
    assert orchard.tree("P6").depth == 4
    assert violations(orchard.swarm) == []
    assert orchard.publish("P_new", **D)["P6"] == "wanted"


def test_without_reorganisation_p6_stays() -> None:
    orchard = figure_1(reorganise="never", repair_ms="0")
    orchard.plant("P_new", P_NEW)
    assert orchard.parents()["P_new"] == ("interest", "P5")
    assert orchard.parents()["P6"] == ("interest", "P5")
    assert orchard.publish("P1", **D)["P6"] == "wanted"  # no event is lost by it


@pytest.mark.parametrize(("share", "parent"), [("0", "P5"), ("1", "P_new")])
def test_periodic_reorganisation_follows_its_share(share: str, parent: str) -> None:
    orchard = figure_1(reorganise="periodic", reorganise_share=share, repair_ms="0")
    orchard.plant("P_new", P_NEW)
    assert orchard.parents()["P6"] == ("interest", parent)


def test_a_new_broad_interest_takes_the_top_level_below_it() -> None:
    orchard = figure_1()
    orchard.plant("all", "TRUE")
    orchard.swarm.run(10_000)
    parents = orchard.parents()
    assert parents["all"] == ("top", None)
    assert {parents[name] for name in ("P1", "P4", "P7")} == {("interest", "all")}
    assert violations(orchard.swarm) == []


def test_a_join_message_traverses_a_fraction_of_the_tree() -> None:
    """Only the top level, and the branches that contain the newcomer."""
    orchard = figure_1(repair_ms="0")
    orchard.swarm.engine.traffic.clear()
    orchard.plant("P11", "symbol = 'ALPHA' AND price BETWEEN 2 AND 3")
    probes = orchard.swarm.engine.traffic[Probe].sent
    assert probes <= 4  # up from its parent, and through three top-level peers; P8 to P10 are not asked twice
    assert orchard.parents()["P11"] == ("interest", "P8")


def test_every_parent_is_the_deepest_container() -> None:
    """The definition of the tree, against the partial order of all interests."""
    stage = Stage("semantic", 3, "uniform-25:75", settings={"profile": "paper", "repair_ms": "5000"})
    stage.gather(40)

    def best() -> bool:
        trees = [o.tree for node in stage.living() for o in node.peer.participants.values()]  # type: ignore[attr-defined]
        return all(_deepest(tree, trees) == tree.container_depth for tree in trees if tree.is_equal_root)

    assert stage.swarm.run_until(best, 60_000, 1_000)


def _deepest(tree: object, trees: list) -> int:  # type: ignore[type-arg]
    mine = tree.interest  # type: ignore[attr-defined]
    above = [t for t in trees if contains(t.interest, mine) and not equivalent(t.interest, mine)]
    return max((t.depth for t in above), default=0)


# --- Section 3, equivalence trees -------------------------------------------------------------------------------------


def equals(count: int) -> Orchard:
    orchard = Orchard()
    orchard.plant("all", "TRUE")
    for number in range(count):
        orchard.plant(f"E{number}", "symbol = 'OTE'")
    return orchard


def test_equivalence_trees_are_balanced_and_of_limited_degree() -> None:
    orchard = equals(18)
    levels: dict[str, int] = {}
    for name in orchard.nodes:
        level, at = 0, orchard.tree(name)
        while at.parent_kind == "equal" and at.parent is not None:
            level, at = level + 1, orchard.tree(orchard.name_of(at.parent) or "")
        levels[name] = level
        assert len(orchard.tree(name).of_kind("equal")) <= 4
    assert sorted(levels.values()) == [0, 0] + [1] * 4 + [2] * 13  # 1 + 4 + 13, and the one above them
    assert orchard.parents()["E0"] == ("interest", "all")


def test_non_equivalent_children_are_connected_to_the_root_of_an_equivalence_tree() -> None:
    orchard = equals(6)
    orchard.plant("child", "symbol = 'OTE' AND price > 3")
    assert orchard.parents()["child"] == ("interest", "E0")


# --- Section 3, leaving and failing -----------------------------------------------------------------------------------


def test_a_leaver_in_an_equivalence_tree_is_replaced_by_a_leaf() -> None:
    orchard = equals(7)
    orchard.plant("child", "symbol = 'OTE' AND price > 3")
    leaves = {
        name for name in orchard.nodes if orchard.parents()[name][0] == "equal" and not orchard.tree(name).children
    }
    orchard.swarm.leave(orchard.nodes["E0"])
    orchard.swarm.run(6_000)
    [heir] = [name for name, parent in orchard.parents().items() if parent == ("interest", "all")]
    assert heir in leaves
    assert orchard.parents()["child"] == ("interest", heir)
    assert orchard.swarm.oracle.left
    assert violations(orchard.swarm) == []


def test_the_children_of_a_leaver_go_to_their_grandparent() -> None:
    orchard = figure_1()
    orchard.swarm.leave(orchard.nodes["P5"])
    orchard.swarm.run(5_000)
    assert not orchard.nodes["P5"].alive
    assert orchard.parents()["P6"] == ("interest", "P1")
    assert violations(orchard.swarm) == []


@pytest.mark.parametrize("silent", [False, True])
def test_the_children_of_a_failed_peer_go_to_their_grandparent(silent: bool) -> None:
    orchard = figure_1()
    orchard.swarm.crash(orchard.nodes["P5"], silent)
    orchard.swarm.run(20_000)
    assert orchard.parents()["P6"] == ("interest", "P1")
    assert violations(orchard.swarm) == []


def test_if_the_grandparent_has_failed_too_another_parent_is_found() -> None:
    orchard = figure_1()
    orchard.swarm.crash(orchard.nodes["P5"])
    orchard.swarm.crash(orchard.nodes["P1"])
    assert orchard.swarm.converge(60_000) is not None
    assert orchard.publish("P4", **D)["P6"] == "wanted"


@pytest.mark.parametrize(("repair", "parent"), [("grandparent", "above"), ("rejoin", "elsewhere")])
def test_the_grandparent_may_not_be_the_closest_but_joining_anew_finds_that(repair: str, parent: str) -> None:
    """Section 3: "this recovery technique may cause the accuracy of the containment hierarchy tree to degrade"."""
    orchard = Orchard(repair=repair, repair_ms="0")
    orchard.plant("above", "symbol = 'OTE'")
    orchard.plant("parent", "symbol = 'OTE' AND price < 10")
    orchard.plant("child", "symbol = 'OTE' AND price < 8 AND exchange = 'ATHEX'")
    orchard.plant("another", "exchange = 'ATHEX'")
    orchard.plant("elsewhere", "exchange = 'ATHEX' AND price < 9")
    assert orchard.parents()["child"] == ("interest", "parent")
    orchard.swarm.leave(orchard.nodes["parent"])
    orchard.swarm.run(8_000)
    assert orchard.parents()["child"] == ("interest", parent)


# --- Section 3, scalability issues ------------------------------------------------------------------------------------


def test_a_chain_of_siblings_relieves_a_parent_of_many_children() -> None:
    """The parent sends one copy, siblings pass it on, and everybody gets it all the same."""
    orchard = Orchard(chain_above="5")
    orchard.plant("all", "TRUE")
    for number in range(10):
        orchard.plant(f"C{number}", f"price BETWEEN {number} AND {number + 1}")
    chain = list(orchard.overlay("all").routing.chain)
    assert len(chain) == 10
    results = orchard.publish("all", price=4.5)
    assert results.keys() == {f"C{number}" for number in range(10)}
    assert results["C4"] == "wanted"
    results = orchard.publish("C7", price=4.5)
    assert results.keys() == orchard.nodes.keys() - {"C7"}
    ends = [orchard.tree(orchard.name_of(each) or "") for each in (chain[0], chain[-1])]
    assert ends[0].left is None
    assert ends[1].right is None


def test_a_chain_closes_when_a_sibling_leaves() -> None:
    orchard = Orchard(chain_above="4")
    orchard.plant("all", "TRUE")
    for number in range(8):
        orchard.plant(f"C{number}", f"price BETWEEN {number} AND {number + 1}")
    orchard.swarm.leave(orchard.nodes["C4"])
    orchard.swarm.run(3_000)
    results = orchard.publish("all", price=7.5)
    assert results.keys() == {f"C{number}" for number in range(8)} - {"C4"}


# --- Improvements -----------------------------------------------------------------------------------------------------


def test_with_peek_only_the_interested_and_relays_of_the_virtual_root_receive() -> None:
    orchard = figure_1(peek="true", root_degree="16")
    assert orchard.publish("P5", **D) == {"P1": "wanted", "P6": "wanted"} | _relays(orchard)


def _relays(orchard: Orchard) -> dict[str, str]:
    """Top-level peers that are not leaves of the virtual root, and do not want D."""
    return {name: "unwanted" for name in ("P4", "P7") if orchard.tree(name).of_kind("root")}


def test_the_degree_of_the_virtual_root_is_kept() -> None:
    orchard = Orchard(root_degree="2", seed=4)
    symbols = Random(1).sample(range(100), 12)
    for number in symbols:
        orchard.plant(f"T{number}", f"symbol = 'S{number}'")
    assert max(len(orchard.tree(name).of_kind("root")) for name in orchard.nodes) == 2
    assert violations(orchard.swarm) == []


# --- Section 5 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peers", [50, 400])
def test_three_peers_in_four_are_not_interested_whatever_their_number(peers: int) -> None:
    """Of the news-like workload, which stands for the paper's document types."""
    news = DOCUMENTS["xml-news"]
    patterns = [matcher(parse(each.pattern)) for each in news.subscriptions(Random(1), peers)]
    documents = [read(each.xml.encode()) for each in news.documents(Random(2), 20_000 // peers)]
    interested = sum(pattern(document) for pattern in patterns for document in documents)
    assert 0.7 <= 1 - interested / (len(patterns) * len(documents)) <= 0.8
