"""Which lists are active is known to everyone before it matters, and forgotten when it does not."""

from heapq import heappop, heappush

import pytest

from protocols.gosskip.config import GosSkipConfig
from protocols.gosskip.messages import Spread
from protocols.gosskip.order import NUMBERS
from protocols.gosskip.overlay import GosSkip
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
