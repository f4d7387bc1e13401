"""Broad ranges are kept in cells: few of them, found by every event, whoever joins, leaves or dies."""

from math import ceil
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.sim.engine import Node
from peerd.sim.invariants.gosskip import cells_kept
from protocols.gosskip.keepers import LEASE_MS
from protocols.gosskip.messages import Store
from protocols.gosskip.order import NUMBERS, Dictionary, Spot, is_raster
from protocols.gosskip.overlay import GosSkip
from protocols.model.box import Box, Point, match
from protocols.model.schema import Attribute, Schema
from protocols.overlay import PeerLost, Received, Rejected, Report
from tests.conformance.support import Stage, gaps, seeds
from tests.conformance.test_graceful import Changes
from tests.gosskip.scene import Scene, box, descriptor, points

SIZES = (100, 7, 100_000)
SCHEMA = Schema([*[Attribute(name, "int", 0, size - 1) for name, size in zip("abc", SIZES)], Attribute("s", "string")])
WORDS = ("", "a", "b", "ba", "m", "mm", "zz", "é", "漢")


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    lo, hi = [], []
    for size in SIZES:
        first = draw(st.integers(-1, size - 1))
        lo.append(first)
        hi.append(draw(st.sampled_from((first + 1, size, draw(st.integers(first + 1, size))))))
    first_word, last_word = sorted([draw(st.sampled_from(WORDS)) for _ in range(2)])
    text = draw(
        st.sampled_from(((first_word, first_word + "\0"), ("", ">"), ("=" + first_word, "=" + last_word + "z")))
    )
    return Box(tuple(lo), tuple(hi), (text[0],), (text[1],))


@st.composite
def boxes_and_points(draw: st.DrawFn) -> tuple[Box, Point]:
    of = draw(boxes())
    numbers = tuple([draw(st.integers(lo, hi - 1)) for lo, hi in zip(of.lo, of.hi)])
    words = [word for word in ("", *["=" + word for word in WORDS]) if of.lo_text[0] <= word < of.hi_text[0]]
    return of, Point(numbers, (draw(st.sampled_from([*words, of.lo_text[0]])),))


@given(boxes_and_points(), st.sampled_from((1, 3, 4, 16)), st.sampled_from((1, 2, 32)))
def test_an_event_in_a_broad_range_falls_into_one_of_its_cells(
    drawn: tuple[Box, Point], cells: int, broad: int
) -> None:
    of, point = drawn
    assert match(of, point)
    dictionary = Dictionary(SCHEMA, cells=cells, broad=broad)
    spot = dictionary.spot(descriptor("p", of))
    assert dictionary.is_number(spot.number)
    if spot.is_broad:
        keys = [dictionary.cell_key(spot, cell) for cell in dictionary.cells(spot)]
        assert dictionary.event_key(spot.number, point) in keys
        assert keys == sorted(keys)
        assert len(keys) <= cells + 1


def test_only_broad_ranges_are_kept_in_cells() -> None:
    dictionary = Dictionary(Schema([Attribute("x", "int", 0, 998)]), cells=16, broad=10)
    numbers = [dictionary.spot(descriptor("p", Box((10,), (10 + width,)))).number for width in (1, 100, 101, 300)]
    assert [is_raster(number) for number in numbers] == [False, False, True, True]
    assert numbers[2] != numbers[3]  # of another order of width
    assert not Dictionary(Schema([Attribute("x", "int", 0, 998)])).is_number(numbers[2])
    assert not dictionary.is_number(NUMBERS)


# --- In a swarm -------------------------------------------------------------------------------------------------------

CELLS: dict[str, Any] = {"cells": 4, "broad": 8}


def keepers_of(scene: Scene, node: Node) -> list[int]:
    """At which places a peer's range is kept, by their order."""
    spot = scene.place(node).spot
    return [at for at, place in enumerate(scene.places()) if spot.id in place.keeper]


def test_a_broad_range_is_kept_by_few_and_reached_by_all() -> None:
    scene = Scene([*points(range(0, 1000, 20)), box((5, 964))], **CELLS)
    broad = scene.nodes[-1]
    assert 4 <= len(keepers_of(scene, broad)) <= 2 * (CELLS["cells"] + 1)  # and their deputies
    assert all(scene.place(broad).spot.id not in place.known for place in scene.places())
    for x in (5, 6, 333, 964):
        assert broad.index in scene.publish(scene.nodes[x % 50], x=x, y=3)
    for x in (4, 965):
        assert broad.index not in scene.publish(scene.nodes[x % 50], x=x, y=3)
    scene.assert_nothing_missing()


def test_a_range_that_ends_is_kept_no_more() -> None:
    scene = Scene([*points(range(0, 1000, 50)), box((5, 964)), box((400, 900))], **CELLS)
    gone = scene.place(scene.nodes[-1]).spot.id
    scene.swarm.leave(scene.nodes[-1])
    assert scene.swarm.run_until(lambda: not any(gone in place.keeper for place in scene.places()), 2_000)
    assert keepers_of(scene, scene.nodes[-2])


@pytest.mark.parametrize("which", ["keeper", "head"])
@pytest.mark.parametrize("crash", [False, True])
def test_when_a_keeper_goes_its_neighbour_keeps_what_it_kept(which: str, crash: bool) -> None:
    scene = Scene([*points(range(80, 1000, 40)), box((180, 990)), box((190, 900))], **CELLS)
    for _ in range(3):
        nodes = {scene.place(node).spot.id: node for node in scene.nodes if node.alive}
        order = [nodes[place.spot.id] for place in scene.places()]
        broad = [node for node in order if scene.place(node).spot.is_broad]
        kept = [order[at] for at in keepers_of(scene, broad[0]) if order[at] not in broad]
        goes = order[0] if which == "head" else kept[len(kept) // 2]
        assert len(scene.place(goes).keeper) == 2
        if crash:
            scene.swarm.crash(goes)
        else:
            scene.swarm.leave(goes)
        scene.swarm.run_until(lambda goes=goes: not goes.alive, 5_000)  # type: ignore[misc]
        scene.swarm.run_until(lambda: not list(cells_kept.check(scene.swarm)), 3_000)
        assert not list(cells_kept.check(scene.swarm))
        if crash:
            scene.settle()  # or the next one may be its deputy, who has not heard of it yet
        else:
            x = Random(1).randrange(190, 900)
            assert {node.index for node in broad} <= set(scene.publish(order[-1], x=x, y=0))


def test_who_joins_gets_what_it_keeps_from_now_on() -> None:
    scene = Scene([*points([0, 990]), box((100, 900)), box((150, 950))], **CELLS)
    for x in (500, 300, 700, 120, 880, 50):
        scene.add(points([x])[0])
        assert scene.swarm.run_until(scene.swarm.all_active, 5_000, every_ms=1)
        assert not list(cells_kept.check(scene.swarm))
    before_the_head = scene.add(box((-1, -1), (0, 0)))
    assert scene.swarm.run_until(scene.swarm.all_active, 5_000, every_ms=1)
    assert scene.places()[0] is scene.place(before_the_head)
    assert not list(cells_kept.check(scene.swarm))


def test_a_range_is_stored_again_where_keeper_and_deputy_died_together() -> None:
    scene = Scene([*points(range(0, 1000, 20)), box((5, 964))], **CELLS)
    broad = scene.nodes[-1]
    order = {place.spot.id: at for at, place in enumerate(scene.places())}
    kept = keepers_of(scene, broad)
    dying = [n for n in scene.nodes[:-1] if order[scene.place(n).spot.id] in kept[-4:]]
    for node in dying:
        scene.swarm.crash(node)
    scene.settle()
    assert broad.index in scene.publish(scene.nodes[0], x=950, y=0)


def test_a_range_is_active_whichever_of_its_stores_is_answered() -> None:
    """Answers are lost now and then, and what the place stores again proves as much."""
    scene = Scene([*points(range(0, 1000, 50)), box((5, 964))], **CELLS)
    place = scene.place(scene.nodes[-1])
    place.activation.done = place.activation._held = False
    place.activation._patience.begin(scene.swarm.now_ms + 3_600_000)
    place.keeper._due_ms = 0
    assert scene.swarm.run_until(lambda: place.active, 4_000)


def test_of_two_recalls_in_a_row_the_second_is_heeded_too() -> None:
    """The range was stored again between the two, while the list was not whole yet."""
    scene = Scene([*points(range(0, 1000, 50)), box((5, 964))], **CELLS)
    now_ms = scene.swarm.now_ms
    for pause_ms in (0, 2_000):
        scene.swarm.run(pause_ms)
        for place in scene.places():
            place.keeper.lost(lambda spot: True)
            place._recall(scene.swarm.now_ms)
    scene.swarm.run_until(lambda: not list(cells_kept.check(scene.swarm)), 8_000)
    assert scene.swarm.now_ms - now_ms < 10_000


def test_a_range_is_kept_while_its_owner_is_only_thought_dead() -> None:
    """It does not know that it was, so it would not store its range again for a minute."""
    scene = Scene([*points(range(0, 1000, 50)), box((5, 964))], **CELLS)
    broad = scene.place(scene.nodes[-1]).spot
    before = keepers_of(scene, scene.nodes[-1])
    for node in scene.nodes[:-1]:
        (overlay,) = node.peer.participants.values()
        overlay.handle(scene.swarm.now_ms, PeerLost(broad.address))
    assert keepers_of(scene, scene.nodes[-1]) == before
    scene.settle()


@seeds(1, 2)
def test_nothing_is_missing_while_peers_come_and_go(seed: int) -> None:
    stage = Stage("gosskip", seed, "mixed", settings={"cells": "8", "broad": "16"})
    stage.gather(15, each=2)
    Changes(stage, every_ms=250, count=60)
    stage.publish(150, 15_000)
    stage.run(15_000)
    stage.converge()
    verdict = stage.finish(least_expected=10)
    assert verdict.at_risk == 0
    assert gaps(stage.swarm.oracle) == []


def test_a_range_is_not_stored_where_it_has_no_cell() -> None:
    scene = Scene(points([10, 20]), **CELLS)
    (overlay,) = scene.nodes[0].peer.participants.values()
    assert isinstance(overlay, GosSkip)
    spot: Spot = scene.place(scene.nodes[0]).spot
    for liar, cell in ((descriptor("liar", box((5, 964))), 17), (descriptor("liar", box((5, 6))), 0)):
        effects = overlay.handle(scene.swarm.now_ms, Received(liar.address, 0, Store(spot.version, liar, cell, 1)))
        assert any(isinstance(e, Report) and isinstance(e.fact, Rejected) for e in effects)
    assert len(scene.place(scene.nodes[0]).keeper) == 0


@pytest.mark.slow
def test_entries_do_not_grow_with_the_number_of_places() -> None:
    def entries(places: int) -> float:
        """At how many places a range is kept, on average."""
        starts = [ceil(number * 500 / places) for number in range(places)]
        scene = Scene([box((x, x + 400)) for x in starts], cells=4, broad=8)
        scene.swarm.run(LEASE_MS + 5_000)  # copies of those that have handed over are forgotten
        return sum(len(place.keeper) for place in scene.places()) / places

    assert entries(80) < 1.2 * entries(30)
