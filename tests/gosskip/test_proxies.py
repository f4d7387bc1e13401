"""Proxy filters save hops, and never cost an owed event."""

from typing import Any

import pytest

from peerd.sim.engine import Node
from protocols.gosskip.messages import Hop, Proxy, Revoke
from protocols.gosskip.proxies import CALLED_MS
from protocols.model.box import Box
from tests.gosskip.scene import Scene, box, descriptor, points

GAP = range(210, 290, 20)


def with_a_filter(seed: int = 1, publisher_at: int = 0, **settings: Any) -> tuple[Scene, Node]:
    """A swarm, and a publisher that has been told that nobody wants x from 211 to 299."""
    scene = Scene(points([*range(0, 210, 10), *range(300, 400, 10)]), seed, proxy_after=3, **settings)
    publisher = scene.nodes[publisher_at]
    for _ in range(3):
        scene.publish(publisher, x=211, y=0)
    assert scene.sent(Proxy) == 1
    before = scene.sent(Hop)
    for x in GAP[1:]:
        scene.publish(publisher, x=x, y=0)
    assert scene.sent(Hop) == before
    return scene, publisher


def test_a_filter_ends_by_itself() -> None:
    scene, publisher = with_a_filter(proxy_ms=20_000)
    scene.swarm.run(20_000)
    before = scene.sent(Hop)
    scene.publish(publisher, x=250, y=0)
    assert scene.sent(Hop) > before


def test_other_publishers_are_not_affected() -> None:
    scene, _ = with_a_filter(proxy_ms=60_000)
    before = scene.sent(Hop)
    scene.publish(scene.nodes[1], x=250, y=0)
    assert scene.sent(Hop) > before


INSIDE = {"point": box((250, 250), (0, 0)), "from-before": box((150, 250)), "across": box((205, 320))}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("of", INSIDE.values(), ids=INSIDE)
@pytest.mark.parametrize("publisher_at", [0, -1], ids=["from-the-left", "from-the-right"])
def test_who_subscribes_inside_is_active_only_when_the_filter_is_dropped(of: Box, seed: int, publisher_at: int) -> None:
    scene, publisher = with_a_filter(seed, publisher_at, proxy_ms=60_000)
    node = scene.add(of)
    start_ms = scene.swarm.now_ms
    assert scene.swarm.run_until(scene.swarm.all_active, 59_000, every_ms=1)
    assert scene.swarm.now_ms - start_ms < 10_000  # the holder answers: nobody waits for the end of the lease
    assert node.index in scene.publish(publisher, x=250, y=0)
    assert scene.sent(Revoke)


@pytest.mark.parametrize(("publisher_at", "home_at"), [(0, 20), (-1, 21)], ids=["left-of-it", "right-of-it"])
@pytest.mark.parametrize("crashes", [False, True], ids=["leaves", "crashes"])
def test_a_filter_is_reckoned_with_when_the_home_that_gave_it_is_gone(
    crashes: bool, publisher_at: int, home_at: int
) -> None:
    scene, publisher = with_a_filter(publisher_at=publisher_at, proxy_ms=30_000)
    home = scene.nodes[home_at]  # at 200, or at 300
    (scene.swarm.crash if crashes else scene.swarm.leave)(home)
    scene.swarm.run(3_000)
    node = scene.add(box((250, 250), (0, 0)))
    assert scene.swarm.run_until(scene.swarm.all_active, 60_000, every_ms=5)
    assert node.index in scene.publish(publisher, x=250, y=0)


def test_who_comes_right_after_another_waits_for_the_same_holders() -> None:
    """The word to them may still be on its way, and they go on keeping events to themselves."""
    scene = Scene(points([0, 500]), proxy_after=1, proxy_ms=10_000)
    leases = scene.place(scene.nodes[0]).leases
    publisher, one, other = (descriptor(name, points([10])[0]) for name in ("publisher", "one", "other"))
    now_ms = scene.swarm.now_ms
    assert leases.missed(now_ms, publisher.address)
    assert leases.revoke(now_ms, one, 1) == (10_000, 1)
    assert leases.revoke(now_ms + 5, other, 2) == (9_995, 1)
    assert leases.leased_ms(now_ms + CALLED_MS) == 0  # who stands in for this place need not wait
    assert leases.revoke(now_ms + 10_000, other, 3) == (0, 0)


def test_a_filter_that_comes_late_does_not_last_longer() -> None:
    """The publisher stalls while the filter is on its way, and subscribers inside wait for its end by their clock."""
    scene = Scene(points([*range(0, 210, 10), *range(300, 400, 10)]), proxy_after=1, proxy_ms=6_000)
    publisher = scene.nodes[0]
    scene.swarm.publish({"x": 211, "y": 0}, publisher)
    scene.swarm.run(15)
    scene.swarm.stall(publisher, 5_000)
    scene.swarm.run(6_500)
    before = scene.sent(Hop)
    scene.publish(publisher, x=250, y=0)
    assert scene.sent(Hop) > before


def test_no_filter_covers_a_part_that_somebody_might_want() -> None:
    """An event may be unwanted although a range reaches there: its other attributes do not fit."""
    scene = Scene([*points([10, 20, 30]), box((15, 27), (100, 900))], proxy_after=1, attribute_order="x,y")
    assert {place.spot.list for place in scene.places()} == {0}
    for _ in range(4):
        scene.publish(scene.nodes[0], x=22, y=0)
    assert scene.sent(Proxy) == 0
    for _ in range(4):
        scene.publish(scene.nodes[0], x=28, y=0)
    assert scene.sent(Proxy) >= 1
