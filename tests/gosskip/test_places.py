"""Places that come, go, move and are lost: the chain closes again, and nothing owed is missing."""

from itertools import pairwise
from typing import Any

import pytest

from peerd.sim.engine import Node
from protocols.gosskip.chain import GONE, STANDING
from protocols.gosskip.messages import SUCCESSORS_MAX, Ask, Claim, Farewell, Hop
from protocols.gosskip.overlay import GosSkip
from protocols.overlay import PeerLost, Publish, Send
from tests.gosskip.scene import Scene, box, points


def in_places(scene: Scene) -> list[Node]:
    """The peers in the order of their places."""
    by_peer = {node.address.peer: node for node in scene.swarm.live.values()}
    return [by_peer[place.spot.address.peer] for place in scene.places()]


@pytest.mark.parametrize("seed", [1])
def test_many_join_at_the_same_place_at_once(seed: int) -> None:
    scene = Scene(points([10, 20, 30]), seed)
    for _ in range(30):
        scene.add(box((20, 20), (0, 0)))
    scene.settle()
    got = scene.publish(scene.nodes[0], x=20, y=0)
    assert len(got) == 31


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("count", [2, 6])
def test_several_neighbours_in_a_row_crash(count: int, seed: int) -> None:
    """Also more of them than the left neighbour knows beyond its right one."""
    scene = Scene(points(range(0, 200, 10)), seed)
    for node in in_places(scene)[6 : 6 + count]:
        scene.swarm.crash(node)
    scene.settle()
    assert len(scene.places()) == 20 - count
    for x in (40, 150):
        assert scene.publish(scene.nodes[0], x=x, y=0)


@pytest.mark.parametrize("which", [0, -1])
def test_the_ends_of_the_chain_crash(which: int) -> None:
    scene = Scene(points(range(0, 80, 10)))
    scene.swarm.crash(in_places(scene)[which])
    scene.settle()
    scene.swarm.leave(in_places(scene)[which])
    scene.settle()
    assert len(scene.places()) == 6


def test_hosts_that_have_vanished_are_not_written_to_for_ever() -> None:
    """Nobody refuses there: what is sent to them comes back whenever a connection is given up."""
    scene = Scene(points(range(0, 200, 10)))
    for node in in_places(scene)[6:10]:
        scene.swarm.crash(node, silent=True)
    scene.settle()
    scene.swarm.run(60_000)
    before = scene.sent(Ask, Claim, Farewell)
    scene.swarm.run(30_000)
    assert scene.sent(Ask, Claim, Farewell) == before > 0


def test_whom_to_turn_to_when_a_neighbour_dies_are_other_peers_than_its_own() -> None:
    """The next three places may all belong to the peer that has just died."""
    scene = Scene()
    scene.add(box((1, 1), (0, 0)))
    crowd = scene.swarm.start([scene.interest(of) for of in points(range(10, 20))])
    for of in points([30, 40, 50]):
        scene.add(of)
    scene.settle()
    first = scene.places()[0]
    known = [spot.address.peer for spot in first.chain.successors]
    assert len(set(known) - {crowd.address.peer}) == 3
    assert len(known) <= SUCCESSORS_MAX
    scene.swarm.crash(crowd)
    scene.settle()
    assert [place.spot.descriptor.box.lo[0] for place in scene.places()] == [1, 30, 40, 50]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_two_halves_of_a_list_close_like_a_zip(seed: int) -> None:
    scene = Scene(points(range(0, 240, 10)), seed)
    one_side = {node.index: 1 for at, node in enumerate(in_places(scene)) if at % 3 == 0 or at > 18}
    scene.swarm.partition(one_side)
    scene.swarm.run(30_000)
    assert any(a.chain.right is None or a.chain.right.id != b.spot.id for a, b in pairwise(scene.places()))
    scene.swarm.heal()
    scene.settle()
    got = scene.publish(scene.nodes[0], x=50, y=0)
    assert set(got) == {scene.nodes[5].index}


def test_neighbours_leave_at_the_same_time() -> None:
    scene = Scene([*points(range(0, 120, 10)), box((0, 119))])
    for node in in_places(scene)[3:10]:
        scene.swarm.leave(node)
    for x in range(5, 95, 5):
        scene.swarm.publish({"x": x, "y": 5}, scene.nodes[-1])
        scene.swarm.run(60)
    scene.settle()
    scene.assert_nothing_missing()


def test_a_participant_that_moves_keeps_its_former_place_for_a_while() -> None:
    scene = Scene(points([10, 20, 30, 40]), participants_max=1)
    node = scene.nodes[0]
    former = scene.place(node)
    (id_,) = scene.swarm.interests[node.index]
    scene.swarm.update(node, id_, scene.interest(box((35, 35), (0, 0))))
    assert scene.swarm.run_until(scene.swarm.all_active, 5_000)
    scene.swarm.run(500)
    assert former.state == STANDING
    scene.settle()
    assert former.state == GONE
    assert [place.spot.descriptor.box.lo[0] for place in scene.places()] == [20, 30, 35, 40]


def test_only_the_last_of_many_changes_is_moved_to() -> None:
    scene = Scene(points([10, 20, 30, 40]), participants_max=1)
    node = scene.nodes[0]
    (id_,) = scene.swarm.interests[node.index]
    for x in range(100, 200):
        scene.swarm.update(node, id_, scene.interest(box((x, x), (0, 0))))
    (overlay,) = node.peer.participants.values()
    assert isinstance(overlay, GosSkip)
    assert len(overlay.places) == 2
    scene.settle()
    assert scene.place(node).spot.descriptor.box.lo[0] == 199


def test_what_a_participant_that_is_gone_was_sent_is_sent_again() -> None:
    """Its peer says so only after the copy was handed in and lost."""
    scene = Scene(points(range(0, 160, 10)), profile="paper")
    nodes = in_places(scene)
    (overlay,) = nodes[0].peer.participants.values()
    assert isinstance(overlay, GosSkip)
    published = overlay.handle(scene.swarm.now_ms, Publish(nodes[0].peer.new_event({"x": 120, "y": 0}, 0)))
    (to,) = [effect.to[0] for effect in published if isinstance(effect, Send)]
    again = [e for e in overlay.handle(scene.swarm.now_ms, PeerLost(to)) if isinstance(e, Send)]
    assert [type(effect.message) for effect in again if to not in effect.to].count(Hop) == 1
    assert not any(isinstance(effect.message, Hop) for effect in again if to in effect.to)


@pytest.mark.parametrize("settings", [{"k": 3}, {"profile": "paper"}, {"cells": 16}, {"routing": "monotone"}])
def test_other_parameters_lose_nothing_either(settings: dict[str, Any]) -> None:
    boxes = [box((x, x + width)) for x, width in zip(range(0, 900, 60), (0, 3, 40, 300, 0) * 3)]
    scene = Scene([*boxes, box(None, (3, 700)), box(None, (5, 5)), box()], **settings)
    for x in range(0, 1000, 37):
        scene.swarm.publish({"x": x, "y": x % 11}, scene.nodes[x % 7])
        scene.swarm.run(20)
    scene.assert_nothing_missing()


def test_a_gap_that_nobody_was_told_of_is_closed_from_both_sides() -> None:
    """As a lost message or a lie may leave it: each has links across the gap, and no neighbour there."""
    scene = Scene(points(range(0, 100, 10)), seek_ms=3_600_000)
    places = scene.places()
    places[4].chain.set_right(None)
    places[5].chain.set_left(None)
    scene.swarm.run(4_000)
    assert [place.chain.right and place.chain.right.id for place in places] == [
        *[place.spot.id for place in places[1:]],
        None,
    ]


def test_a_place_at_the_end_that_its_left_neighbour_has_forgotten_makes_itself_known() -> None:
    """Nobody stands behind it who could tell."""
    scene = Scene(points(range(0, 100, 10)), seek_ms=3_600_000)
    *_, before, last = scene.places()
    before.chain.set_right(None)
    scene.swarm.run(8_000)
    assert before.chain.right is not None
    assert before.chain.right.id == last.spot.id


def test_somebody_stands_before_the_head_after_one_that_did_so_for_a_moment_only() -> None:
    """The head takes itself for bereft, but not for ever."""
    scene = Scene(points(range(10, 60, 10)))
    head = scene.place(scene.nodes[0])
    (overlay,) = scene.nodes[0].peer.participants.values()
    newcomer = scene.add(points([5])[0])
    assert scene.swarm.run_until(lambda: head.chain.left is not None, 2_000, every_ms=1)
    scene.swarm.crash(newcomer)
    overlay.handle(scene.swarm.now_ms, PeerLost(scene.place(newcomer).spot.address))
    assert head.chain.left is None
    scene.settle()
    scene.add(points([6])[0])
    assert scene.swarm.run_until(scene.swarm.all_active, 20_000)
