"""Peers that are slow for so long that they are taken for dead: whoever is awake is served all the same, and they are
served again as soon as they wake up."""

import pytest

from peerd.sim.engine import Node
from peerd.sim.invariants import violations
from protocols.gosskip.overlay import GosSkip
from tests.conformance.support import seeds
from tests.gosskip.scene import Scene, box, points
from tests.gosskip.test_places import in_places

AWAKE_MS = 12_000
"""After so long those who stall are taken for dead, and the gaps are closed."""


def publish_for(scene: Scene, for_ms: int, x: int) -> list[str]:
    """Publish an event four times a second; their ids."""
    ids: list[str] = []
    for _ in range(for_ms // 250):
        event = scene.swarm.publish({"x": x, "y": 0}, scene.nodes[0])
        assert event is not None
        ids.append(event.id)
        scene.swarm.run(250)
    return ids


def without(scene: Scene, ids: list[str], nodes: list[Node]) -> set[tuple[str, int]]:
    """Which of these events did not reach which of these peers."""
    arrivals = scene.swarm.oracle.arrivals
    return {(id_, n.index) for id_ in ids for n in nodes if n.index not in {at for at, _ in arrivals.get(id_, {})}}


@seeds(1, 2)
def test_who_is_awake_is_served_while_others_are_taken_for_dead(seed: int) -> None:
    """On both sides of them: a gap must not make those beyond it forget who stands before it."""
    scene = Scene(points([0, *range(5, 15), *[20] * 12, *range(25, 35)]), seed)
    places = in_places(scene)
    equal = places[11:23]
    asleep = [places[number] for number in (8, 9, 10, 12, 17, 18, 22)]
    for node in asleep:
        scene.swarm.stall(node, 40_000)
    scene.swarm.run(AWAKE_MS)
    ids = publish_for(scene, 20_000, 20)
    scene.swarm.run(30_000)
    assert scene.swarm.oracle.lost
    assert not without(scene, ids, [node for node in equal if node not in asleep])


def test_what_a_new_left_neighbour_does_not_know_is_served_until_the_gap_is_closed() -> None:
    """It stands too far left, beyond others that live, and whose ranges it has never been told."""
    scene = Scene([box((x, 500)) for x in range(0, 100, 10)], seek_ms=3_600_000)
    first, *between, last = scene.places()
    last.chain.set_left(None)
    last.chain.set_left(first.spot)
    first.chain.set_right(last.spot)
    scene.swarm.run(300)
    assert all(place.spot.id in last.known for place in between)
    assert set(scene.publish(scene.nodes[9], x=300, y=0)) == set(range(10))
    scene.settle(10)


def test_a_range_that_nobody_tells_any_more_is_forgotten() -> None:
    scene = Scene([box((x, 500)) for x in range(0, 100, 10)])
    gone = in_places(scene)[4]
    scene.swarm.crash(gone, silent=True)
    scene.settle(40)
    assert not any(place.known.doubted() for place in scene.places())


def test_an_event_beside_a_gap_goes_on_when_it_is_closed() -> None:
    scene = Scene(points(range(0, 100, 10)), profile="paper")
    nodes = in_places(scene)
    places = scene.places()
    places[4].chain.set_right(None)
    assert places[4].is_beside_gap(places[5].spot.key)
    event = scene.swarm.publish({"x": 50, "y": 0}, nodes[4])
    assert event is not None
    scene.swarm.run(8_000)
    assert nodes[5].index in {index for index, _ in scene.swarm.oracle.arrivals[event.id]}


def test_a_range_is_not_active_before_it_is_known_beyond_a_gap() -> None:
    """A place that has lost its right neighbour is not the last one: it does not answer for those behind."""
    scene = Scene(points(range(0, 200, 10)), seek_ms=3_600_000)
    places = scene.places()
    for node in in_places(scene)[10:12]:
        scene.swarm.stall(node, 60_000)
    assert scene.swarm.run_until(lambda: places[9].chain.right is None, 20_000, every_ms=1)
    newcomer = scene.add(box((55, 185)))
    assert scene.swarm.run_until(scene.swarm.all_active, 20_000, every_ms=1)
    place = scene.place(newcomer)
    assert all(place.spot.id in known.known for known in (*places[6:10], *places[12:19]))


def test_who_has_just_lost_its_right_neighbour_does_not_take_itself_for_active() -> None:
    scene = Scene(points(range(0, 100, 10)))
    newcomer = scene.add(box((45, 75)))
    (overlay,) = newcomer.peer.participants.values()
    assert isinstance(overlay, GosSkip)
    assert scene.swarm.run_until(lambda: any(p.chain.right for p in overlay.places.values()), 5_000, every_ms=1)
    place = scene.place(newcomer)
    right = place.chain.right
    assert right is not None
    place.lost(scene.swarm.now_ms, lambda spot: spot.id == right.id, surely=False)
    assert place.chain.right is None
    place.strive(scene.swarm.now_ms)
    assert not place.active
    scene.settle()


@pytest.mark.parametrize("for_s", [15, 60])
def test_who_was_taken_for_dead_is_served_again_as_soon_as_it_wakes_up(for_s: int) -> None:
    scene = Scene([*points([0, *range(5, 15), *[20] * 12, *range(25, 35)]), box((3, 30))])
    places = in_places(scene)
    asleep = places[3:9:2] + places[14:20:2]
    for node in asleep:
        scene.swarm.stall(node, for_s * 1_000)
    scene.swarm.run(for_s * 1_000)
    assert scene.swarm.oracle.lost
    scene.swarm.run(4_000)
    assert not list(violations(scene.swarm))
    ids = publish_for(scene, 2_000, 20)
    scene.swarm.run(2_000)
    assert not without(scene, ids, [node for node in scene.swarm.live.values() if node in places[12:24]])
