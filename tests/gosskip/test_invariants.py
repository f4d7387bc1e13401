"""Each checker is silent on a sound swarm and speaks up on one that was corrupted by hand."""

from collections.abc import Callable

import pytest

from peerd.sim import invariants
from peerd.sim.invariants.gosskip import (
    cells_kept,
    chain_sorted_and_complete,
    links_bounded,
    lists_known,
    one_place_each,
    ranges_known,
    skip_list_perfect,
)
from protocols.gosskip.levels import Held
from tests.gosskip.scene import Scene, box, points


@pytest.fixture
def scene() -> Scene:
    return Scene([*points(range(0, 90, 10)), box((25, 65)), box((300, 800))], cells=4, broad=8)


def neighbour_forgotten(scene: Scene) -> None:
    scene.places()[3].chain.right = None


def order_broken(scene: Scene) -> None:
    one, other = scene.places()[2:4]
    one.chain.left, other.chain.left = other.chain.left, one.chain.left


def long_link_too_short(scene: Scene) -> None:
    places = scene.places()
    places[0].levels.right[2] = Held(places[3].spot, 0, places[3].spot.id)


def long_link_missing(scene: Scene) -> None:
    del scene.places()[0].levels.right[1]


def long_link_to_nobody(scene: Scene) -> None:
    places = scene.places()
    places[0].levels.right[5] = Held(places[3].spot, 0, places[3].spot.id)


def too_many_links(scene: Scene) -> None:
    places = scene.places()
    places[0].levels.right = {level: Held(places[3].spot, 0, places[3].spot.id) for level in range(1, 20)}


def range_forgotten(scene: Scene) -> None:
    next(place for place in scene.places() if len(place.known)).known.forget_all()


def cell_forgotten(scene: Scene) -> None:
    [place for place in scene.places() if len(place.keeper)][-1].keeper.lost(lambda spot: True)


def list_forgotten(scene: Scene) -> None:
    overlay = scene.nodes[4].peer.participants[0]
    overlay._lists.expire(scene.swarm.now_ms + 1_000_000)  # type: ignore[attr-defined]


def not_active(scene: Scene) -> None:
    scene.places()[3].activation.done = False


CASES: list[tuple[invariants.Checker, Callable[[Scene], None]]] = [
    (chain_sorted_and_complete.check, neighbour_forgotten),
    (chain_sorted_and_complete.check, order_broken),
    (skip_list_perfect.check, long_link_too_short),
    (skip_list_perfect.check, long_link_missing),
    (skip_list_perfect.check, long_link_to_nobody),
    (links_bounded.check, too_many_links),
    (ranges_known.check, range_forgotten),
    (cells_kept.check, cell_forgotten),
    (lists_known.check, list_forgotten),
    (one_place_each.check, not_active),
]


@pytest.mark.parametrize(("check", "corrupt"), CASES, ids=[corrupt.__name__ for _, corrupt in CASES])
def test_a_corrupted_swarm_is_found_out(
    scene: Scene, check: invariants.Checker, corrupt: Callable[[Scene], None]
) -> None:
    assert list(check(scene.swarm)) == []
    corrupt(scene)
    found = list(check(scene.swarm))
    assert found
    assert set(found) <= set(invariants.violations(scene.swarm))


def test_every_checker_is_shown_a_corruption() -> None:
    assert {check for check, _ in CASES} == {*invariants.OF_OVERLAY["gosskip"]}
