"""What the default settings do beyond the paper: few relays, shallow trees, probes that spare most of the virtual root.

The statements of the paper itself are in `test_paper.py`, whose trees have profile `paper`.
"""

from peerd.sim.invariants import violations
from protocols.model.box import Box, Point
from protocols.model.event import Event
from protocols.model.interest import Interest
from protocols.overlay import Publish
from protocols.semantic.messages import Attach, Attached, Below, Probe, Refused, Reorganise, Routed
from tests.conformance.support import Stage
from tests.semantic.alone import Origin, at, attach, sent
from tests.semantic.orchard import Orchard


def relays(stage: Stage) -> tuple[int, int]:
    """Top-level participants with others below them in the virtual root, and all top-level participants."""
    trees = [overlay.tree for node in stage.living() for overlay in node.peer.participants.values()]  # type: ignore[attr-defined]
    top = [tree for tree in trees if tree.is_top]
    return sum(1 for tree in top if tree.of_kind("root")), len(top)


def test_few_top_level_peers_relay_though_all_join_at_once() -> None:
    stage = Stage("semantic", 1, "stocks", settings={"root_degree": "8"})
    stage.swarm.start_many([stage.interests(1) for _ in range(100)], 20)
    stage.run(2_001)
    stage.all_stand()
    stage.converge()
    inner, top = relays(stage)
    assert top > 50
    assert inner <= 2 * top / 8  # half as full as they could be; placed at random it was one in three


def test_only_relays_receive_what_they_do_not_want() -> None:
    stage = Stage("semantic", 2, "stocks", settings={"root_degree": "8"})
    stage.gather(60)
    inner, _ = relays(stage)
    counted = stage.swarm.oracle.receptions
    stage.publish(50, 2_000)
    stage.run(2_000)
    stage.finish(least_expected=40)
    deepest = 4  # a publisher's ancestors, which pass an event up whether they want it or not
    assert counted["unwanted"] <= 50 * (inner + deepest)


def test_nobody_hangs_deeper_than_the_limit() -> None:
    """Twelve interests within one another: a chain in the paper's tree, four levels here."""
    depths = {}
    for profile in ("paper", "tuned"):
        orchard = Orchard(profile=profile)
        for number in range(12):
            orchard.plant(f"P{number}", f"price >= {number}")
        depths[profile] = max(orchard.tree(name).depth for name in orchard.nodes)
        assert violations(orchard.swarm) == []
        results = orchard.publish("P3", price=11.5)
        assert set(results.values()) == {"wanted"}
        assert results.keys() == orchard.nodes.keys() - {"P3"}
    assert depths == {"paper": 12, "tuned": 4}


def test_whoever_is_too_deep_moves_up() -> None:
    """A newcomer takes a branch below it, which is too deep then; background repair puts that right."""
    orchard = Orchard(profile="tuned", repair_ms="3000")
    for number in (2, 4, 6, 8, 3, 5, 7, 1):
        orchard.plant(f"P{number}", f"price >= {number}")
    orchard.swarm.run(15_000)
    assert max(orchard.tree(name).depth for name in orchard.nodes) <= 4
    assert violations(orchard.swarm) == []


def test_a_probe_spares_the_leaves_of_the_virtual_root() -> None:
    orchard = Orchard(repair_ms="0")
    for number in range(12):
        orchard.plant(f"T{number}", f"symbol = 'S{number}'")
    orchard.swarm.engine.traffic.clear()
    orchard.plant("new", "symbol = 'S3' AND price > 5")
    assert orchard.parents()["new"] == ("interest", "T3")
    assert orchard.swarm.engine.traffic[Probe].sent <= 3  # to its parent, the origin, and nobody else that cannot help


def test_whoever_becomes_a_relay_is_given_what_came_before_it_was_known_to_be_one() -> None:
    """Somebody has attached to it and is active; its word of that comes after an event."""
    origin = Origin()
    assert sent(origin.hear("a", attach("a", 50, 60)), Attached) == {"a"}
    assert sent(origin.do(Publish(Event("e-1-1", Point((70,))))), Routed) == set()  # a leaf that does not want it
    assert sent(origin.hear("a", Below(1, 2, False, False)), Routed) == {"a"}
    assert sent(origin.do(Publish(Event("e-1-2", Point((70,))))), Routed) == {"a"}


def test_a_joiner_that_was_passed_on_is_counted_at_once() -> None:
    origin = Origin(root_degree=2)
    for name, lo in (("a", 20), ("b", 30)):
        assert sent(origin.hear(name, attach(name, lo, lo + 5)), Attached) == {name}
    [relay] = sent(origin.hear("c", attach("c", 40, 45)), Attach)
    assert sent(origin.hear("d", attach("d", 50, 55)), Attach) == {relay}  # it relays anyway, and has room
    [other] = {"a", "b"} - {relay}
    assert sent(origin.hear("e", attach("e", 60, 65)), Attach) == {other}  # now it has not
    origin.hear(relay, Below(1, 1, False, False))
    assert origin.overlay.tree.children[at(relay)].is_leaf  # it has taken nobody in after all, and says so


def test_equivalence_trees_that_move_below_each_other_at_once_make_no_cycle() -> None:
    """Both have asked, and neither has an answer yet: whoever is on the move takes no equal in."""
    origin = Origin()
    mine = Interest(Box((0,), (10,)))
    assert sent(origin.hear("a", Reorganise(at("a"), 1, mine, 1)), Attach) == {"a"}
    assert sent(origin.hear("a", Attach(at("a"), 7, mine, "below")), Refused) == {"a"}
