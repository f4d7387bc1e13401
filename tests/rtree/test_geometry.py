"""Splits, choices and measures against slow, obvious twins."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.model.box import BEYOND_TEXT, EMPTY, Box, Point, Space, enclosing, enclosing_all, intersection
from protocols.rtree.choose import largest, least_enlargement, least_overlap
from protocols.rtree.config import RtreeConfig
from protocols.rtree.handover import one_of_two
from protocols.rtree.measure import Measure
from protocols.rtree.split import METHODS, Method, farthest, quadratic, rstar
from tests.rtree.twin import TwinTree

SPACE = Space((100, 100), 0)
MIXED = Space((100,), 1)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    if draw(st.integers(0, 9)) == 0:
        return EMPTY
    lo = [draw(st.integers(-1, 98)) for _ in range(2)]
    return Box(tuple(lo), tuple(draw(st.integers(first + 1, 100)) for first in lo))


@st.composite
def mixed_boxes(draw: st.DrawFn) -> Box:
    lo = draw(st.integers(-1, 98))
    first = draw(st.sampled_from(["", "=", "=OT", "=a"]))
    return Box(
        (lo,), (draw(st.integers(lo + 1, 100)),), (first,), (draw(st.sampled_from([first + "\0", BEYOND_TEXT])),)
    )


many = st.lists(boxes(), min_size=4, max_size=14)


def enlargement(space: Space, branch: Box, box: Box) -> float:
    return space.volume(enclosing(branch, box)) - space.volume(branch)


# --- Measures ---------------------------------------------------------------------------------------------------------


@given(boxes(), boxes())
def test_joint_and_overlap_without_boxes(a: Box, b: Box) -> None:
    measure = Measure(SPACE)
    assert measure.joint(a, b) == SPACE.volume(enclosing(a, b))
    assert measure.overlap(a, b) == pytest.approx(SPACE.volume(intersection(a, b)))


@given(mixed_boxes(), mixed_boxes())
def test_joint_and_overlap_with_strings(a: Box, b: Box) -> None:
    measure = Measure(MIXED)
    assert measure.joint(a, b) == MIXED.volume(enclosing(a, b))
    assert measure.overlap(a, b) == MIXED.volume(intersection(a, b))


@given(mixed_boxes())
def test_extents_lie_within_the_space(box: Box) -> None:
    for low, high in Measure(MIXED).extents(box):
        assert -1.0 <= low <= high <= 1.0


@given(boxes(), boxes(), st.lists(st.tuples(st.integers(-1, 99), st.integers(-1, 99)), max_size=50))
def test_weighted_volumes_grow_with_the_box(a: Box, b: Box, events: list[tuple[int, int]]) -> None:
    measure = Measure(SPACE, weighted=True)
    for event in events:
        measure.observe(Point(event))
    both = enclosing(a, b)
    assert 0.0 <= measure.volume(a) <= measure.volume(both) * (1 + 1e-9)
    assert measure.volume(SPACE.unbounded) == pytest.approx(1.0)
    if a != EMPTY:
        assert measure.volume(a) > 0.0


def test_where_events_fall_is_large() -> None:
    measure = Measure(SPACE, weighted=True)
    busy, idle = Box((0, 0), (10, 10)), Box((80, 80), (100, 100))
    assert measure.volume(busy) < measure.volume(idle)
    for _ in range(200):
        measure.observe(Point((5, 5)))
    assert measure.volume(busy) > measure.volume(idle)


def test_old_events_fade() -> None:
    measure = Measure(SPACE, weighted=True)
    for _ in range(4000):
        measure.observe(Point((5, 5)))
    before = measure.volume(Box((0, 0), (10, 10)))
    for _ in range(12_000):
        measure.observe(Point((95, 95)))
    assert measure.volume(Box((0, 0), (10, 10))) < before / 4


# --- Splits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@given(many)
def test_both_groups_are_large_enough(method: str, given_boxes: list[Box]) -> None:
    least = len(given_boxes) // 2 if len(given_boxes) < 6 else 2
    group = METHODS[method](given_boxes, least, Measure(SPACE))
    assert len(set(group)) == len(group)
    assert set(group) <= set(range(len(given_boxes)))
    assert least <= len(group) <= len(given_boxes) - least


@given(many)
def test_quadratic_parts_the_most_wasteful_pair(given_boxes: list[Box]) -> None:
    measure = Measure(SPACE)

    def waste(pair: tuple[int, int]) -> float:
        a, b = given_boxes[pair[0]], given_boxes[pair[1]]
        return SPACE.volume(enclosing(a, b)) - SPACE.volume(a) - SPACE.volume(b)

    pairs = list(combinations(range(len(given_boxes)), 2))
    worst = max(pairs, key=waste)
    if sum(waste(pair) == waste(worst) for pair in pairs) == 1:
        group = quadratic(given_boxes, 2, measure)
        assert (worst[0] in group) != (worst[1] in group)


@given(many)
def test_rstar_finds_the_least_overlap_along_its_axis(given_boxes: list[Box]) -> None:
    """Against all distributions along all axes: none along the chosen axis is better."""
    measure, least = Measure(SPACE), 2
    group = rstar(given_boxes, least, measure)

    def key(group: list[int]) -> tuple[float, float]:
        one = enclosing_all(given_boxes[at] for at in group)
        other = enclosing_all(box for at, box in enumerate(given_boxes) if at not in group)
        return measure.overlap(one, other), measure.volume(one) + measure.volume(other)

    by_axis: dict[int, tuple[float, list[tuple[float, float]]]] = {}
    for axis in range(2):
        margins, keys = 0.0, []
        for end in (0, 1):
            extents = [measure.extents(box)[axis] for box in given_boxes]
            order = sorted(range(len(given_boxes)), key=lambda at: extents[at] if end == 0 else extents[at][::-1])
            for count in range(least, len(given_boxes) - least + 1):
                one = enclosing_all(given_boxes[at] for at in order[:count])
                other = enclosing_all(given_boxes[at] for at in order[count:])
                margins += SPACE.margin(one) + SPACE.margin(other)
                keys.append(key(order[:count]))
        by_axis[axis] = margins, keys
    axis = min(by_axis, key=lambda axis: by_axis[axis][0])
    assert key(group) == pytest.approx(min(by_axis[axis][1]))


def test_linear_takes_the_pair_that_lies_farthest_apart() -> None:
    row = [Box((at, 0), (at + 4, 10)) for at in (0, 30, 35, 90)]
    group = METHODS["linear"](row, 1, Measure(SPACE))
    assert (0 in group) != (3 in group)


def test_reinsertion_takes_the_farthest_and_begins_with_the_nearest_of_them() -> None:
    row = [Box((at, 40), (at + 2, 60)) for at in (0, 40, 50, 55, 90)]
    nearest, *others = farthest(row, 3, Measure(SPACE))
    assert nearest == 3
    assert set(others) == {0, 4}


# --- Choices ----------------------------------------------------------------------------------------------------------


@given(many, boxes())
def test_least_enlargement(branches: list[Box], box: Box) -> None:
    chosen = least_enlargement(branches, box, Measure(SPACE))
    keys = [(enlargement(SPACE, branch, box), SPACE.volume(branch)) for branch in branches]
    assert keys[chosen] == min(keys)


@given(many, boxes(), st.booleans())
def test_least_overlap(branches: list[Box], box: Box, then_smallest: bool) -> None:
    chosen = least_overlap(branches, box, Measure(SPACE), then_smallest)

    def growth(at: int) -> float:
        grown = enclosing(branches[at], box)
        others = [branch for other, branch in enumerate(branches) if other != at]
        return sum(SPACE.overlap(grown, other) - SPACE.overlap(branches[at], other) for other in others)

    assert growth(chosen) == pytest.approx(min(growth(at) for at in range(len(branches))))


def test_where_nothing_grows_the_paper_takes_the_first_branch_and_beckmann_the_smallest() -> None:
    branches = [Box((50, 50), (99, 99)), Box((0, 0), (80, 80)), Box((0, 0), (40, 40))]
    inside = Box((10, 10), (20, 20))
    assert least_overlap(branches, inside, Measure(SPACE), then_smallest=False) == 1
    assert least_overlap(branches, inside, Measure(SPACE), then_smallest=True) == 2


def test_the_host_is_the_largest_child() -> None:
    rng = Random(1)
    children = [Box((0, 0), (rng.randrange(1, 100), rng.randrange(1, 100))) for _ in range(20)]
    assert children[largest(children, Measure(SPACE))] == max(children, key=SPACE.volume)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_is_split_late_is_split_as_if_they_had_come_in_turn(method: Method, seed: int) -> None:
    rng, measure = Random(seed), Measure(Space((10**6, 10**6), 0))
    corners = [[sorted(rng.sample(range(10**6), 2)) for _ in range(2)] for _ in range(14)]
    given_boxes = [Box(tuple(lo for lo, _ in sides), tuple(hi for _, hi in sides)) for sides in corners]
    config = RtreeConfig(children_min=3, children_max=8, split=method, choose="R")
    group = one_of_two(config, given_boxes, measure, leaves=True)
    twin = TwinTree(3, 8, method, measure)
    for count, box in enumerate(given_boxes, 1):
        twin.insert(box)
        halves = {
            frozenset(given_boxes[at] for at in range(count) if (at in group) == is_in) for is_in in (True, False)
        }
        if count > 8 and max(map(len, halves)) <= 8:
            assert halves < twin.groups()
