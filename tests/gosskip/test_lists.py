"""Which lists are active is known to everyone before it matters, and forgotten when it does not."""

from heapq import heappop, heappush

import pytest

from protocols.gosskip.config import GosSkipConfig
from protocols.gosskip.messages import ANY, Echo, Spread
from protocols.gosskip.order import NUMBERS
from protocols.gosskip.overlay import GosSkip
from protocols.overlay import Received
from tests.gosskip.scene import Scene, box, points

OF_Y = NUMBERS


def lists_of(scene: Scene) -> list[tuple[int, ...]]:
    found = []
    for node in scene.swarm.live.values():
        for overlay in node.peer.participants.values():
            assert isinstance(overlay, GosSkip)
            found.append(overlay.lists())
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_a_list_is_known_to_all_when_its_first_subscription_is_active(seed: int) -> None:
    scene = Scene(points(range(0, 300, 10)), seed)
    assert set(lists_of(scene)) == {(0,)}
    node = scene.add(box(None, (7, 9)))
    assert scene.swarm.run_until(scene.swarm.all_active, 10_000, every_ms=1)
    assert set(lists_of(scene)) == {(0, OF_Y)}
    assert set(scene.publish(scene.nodes[13], x=777, y=8)) == {node.index}


def test_peers_that_join_while_a_list_is_announced_know_it_too() -> None:
    scene = Scene(points(range(0, 200, 10)))
    first = scene.add(box(None, (7, 9)))
    joined_before = []
    for x in range(5, 200, 10):
        joined_before.append(scene.add(box((x, x), (0, 0))))
        scene.swarm.run(7)
    scene.swarm.run_until(
        lambda: not any(key[0] == first.index for key in scene.swarm.oracle.inactive), 10_000, every_ms=1
    )
    scene.swarm.run(1)
    for node in joined_before:
        if node.peer.ready:
            scene.swarm.publish({"x": 999, "y": 8}, node)
    scene.swarm.run_until(scene.swarm.all_active, 10_000)
    scene.assert_nothing_missing()


def test_a_list_is_announced_though_messages_are_lost() -> None:
    """The echo of a place that has left never comes: the origin announces again."""
    scene = Scene(points(range(0, 200, 10)))
    node = scene.add(box(None, (7, 9)))
    for each in scene.nodes[3:15]:
        scene.swarm.run(3)
        scene.swarm.leave(each)
    assert scene.swarm.run_until(scene.swarm.all_active, 30_000)
    assert set(scene.publish(scene.nodes[1], x=777, y=8)) == {node.index}


def test_whoever_has_died_is_not_told_for_ever() -> None:
    scene = Scene(points(range(0, 200, 10)))
    scene.swarm.crash(scene.nodes[10])
    scene.add(box(None, (7, 9)))
    scene.settle()
    scene.swarm.run(10_000)
    before = scene.sent(Spread)
    scene.swarm.run(60_000)
    assert scene.sent(Spread) == before > 0


def test_a_list_is_announced_though_every_message_takes_a_second() -> None:
    """Each newcomer is the first of its list. Before, an announcement that took longer than 12 s never came back."""
    scene = Scene(latency="constant:1000")
    for y in range(140, 100, -2):
        scene.add(box((20, 20), (0, y)))
        scene.swarm.run(100)
    assert scene.swarm.run_until(scene.swarm.all_active, 60_000)


def test_who_comes_before_the_first_of_a_list_asks_it_instead_of_announcing() -> None:
    scene = Scene([*points(range(0, 200, 10)), box(None, (7, 9))])
    before = scene.sent(Spread)
    newcomer = scene.add(box(None, (5, 6)))
    assert scene.swarm.run_until(scene.swarm.all_active, 2_000)
    right = scene.place(newcomer).chain.right
    assert right is not None
    assert right.id == scene.place(scene.nodes[20]).spot.id
    assert scene.sent(Spread) == before


def test_of_many_who_come_to_a_new_list_at_once_one_announces_it() -> None:
    scene = Scene(points(range(0, 200, 10)))
    before = scene.sent(Spread)
    for y in range(10):
        scene.add(box(None, (y, y + 1)))
    assert scene.swarm.run_until(scene.swarm.all_active, 10_000)
    assert set(lists_of(scene)) == {(0, OF_Y)}
    assert scene.sent(Spread) - before < 3 * 30  # before, each of the ten told all 30


def test_who_waits_for_its_neighbour_asks_the_next_one_when_that_leaves() -> None:
    scene = Scene(points(range(0, 200, 10)))
    nodes = [scene.add(box(None, (y, y + 1))) for y in range(10)]
    scene.swarm.run(60)
    for node in nodes[:5]:
        scene.swarm.leave(node)
    assert scene.swarm.run_until(scene.swarm.all_active, 30_000)
    assert set(scene.publish(scene.nodes[1], x=777, y=8)) == {nodes[7].index, nodes[8].index}


@pytest.mark.parametrize("alone", [False, True])
def test_when_who_was_asked_has_gone_nobody_waits_for_its_patience(alone: bool) -> None:
    """The next one of the list is asked at once; the first one of the list announces it at once."""
    others = [] if alone else [box(None, (3, 4))]
    scene = Scene([*points(range(0, 50, 10)), *others, box(None, (5, 6)), box(None, (7, 9))])
    asked, waits = scene.nodes[-2:]
    place = scene.place(waits)
    announcements = place.announcements
    announcements.done = place.activation.done = False
    announcements._reqs = [7]
    announcements._patience.begin(scene.swarm.now_ms + 3_600_000)
    scene.swarm.leave(asked)
    assert scene.swarm.run_until(lambda: place.active, 3_000)


def test_nobody_takes_a_list_for_known_on_an_echo_to_another_request() -> None:
    scene = Scene(points(range(0, 50, 10)))
    newcomer = scene.add(box(None, (7, 9)))
    (overlay,) = newcomer.peer.participants.values()
    assert isinstance(overlay, GosSkip)
    assert scene.swarm.run_until(
        lambda: any(place.announcements._reqs for place in overlay.places.values()), 2_000, every_ms=1
    )
    place = scene.place(newcomer)
    (req,) = place.announcements._reqs
    origin = place.spot.descriptor
    for each in (req + 1, req):
        assert not place.announcements.done
        echo = Echo(place.version, ANY, origin, each)
        overlay.handle(scene.swarm.now_ms, Received(scene.nodes[0].address, 0, echo))
    assert place.announcements.done


def test_an_empty_list_is_forgotten() -> None:
    scene = Scene([*points(range(0, 50, 10)), box(None, (7, 9))], lists_keep_ms=8_000)
    assert set(lists_of(scene)) == {(0, OF_Y)}
    scene.swarm.leave(scene.nodes[-1])
    scene.swarm.run(40_000)
    assert set(lists_of(scene)) == {(0,)}


def test_a_list_that_is_in_use_is_not_forgotten() -> None:
    scene = Scene([*points(range(0, 50, 10)), box(None, (7, 9))], lists_keep_ms=24_000)
    scene.swarm.run(180_000)
    assert set(lists_of(scene)) == {(0, OF_Y)}


@pytest.mark.parametrize(("places", "keep_ms"), [(6, 24_000), (10_000, GosSkipConfig().lists_keep_ms)])
def test_a_list_is_kept_for_longer_than_the_word_of_it_takes(places: int, keep_ms: int) -> None:
    """In calm, from the last place to any other, if it just misses the turn of every link that it passes."""
    config = GosSkipConfig()
    links, level, distance = [(1, config.t_ms)], 1, config.k
    while distance < places:
        turn_ms = config.t_ms * (level + 1) * config.calm_turns
        links.append((-distance if level % 2 else distance, turn_ms))
        level, distance = level + 1, distance * config.k
    known = {places - 1: 0}
    waiting = [(0, places - 1)]
    while waiting:
        at_ms, at = heappop(waiting)
        for step, turn_ms in links:
            to = at + step
            if 0 <= to < places and at_ms + turn_ms < known.get(to, at_ms + turn_ms + 1):
                known[to] = at_ms + turn_ms
                heappush(waiting, (known[to], to))
    assert len(known) == places
    slowest_ms = max(known.values())
    assert slowest_ms * 1.1 < keep_ms  # periods are jittered by a tenth
    if places > 6:
        assert 2 * slowest_ms * 1.1 < keep_ms  # one message may be lost on each link
