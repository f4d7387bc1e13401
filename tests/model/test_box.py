"""Each operation on boxes against its twin, which looks at every point of a small space."""

from itertools import product
from math import isclose, prod

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.model import box as algebra
from protocols.model.box import BEYOND_TEXT, EMPTY, TEXT_SIZE, Box, Point, Space

SIZES = (3, 2)
SPACE = Space(SIZES)
MIXED = Space((2,), 2)
NUMBERS = [Point(p) for p in product(range(-1, 3), range(-1, 2))]

# Bounds of strings, such that every interval that they can form contains its own lower bound as a point.
CUTS = ("", "=", "=\0", "=a", "=a\0", "=aa", "=aaaaaaa", "=aaaaaab", "=b", "=\ud7ff", "=\U0010ffff", BEYOND_TEXT)
POINTS = [Point((n,), (s, t)) for n in range(-1, 2) for s, t in product(CUTS[:-1], repeat=2)]


@st.composite
def number_boxes(draw: st.DrawFn) -> Box:
    if draw(st.integers(0, 9)) == 0:
        return EMPTY
    sides = [draw(st.sampled_from([(a, b) for a in range(-1, d) for b in range(a + 1, d + 1)])) for d in SIZES]
    return Box(tuple(a for a, _ in sides), tuple(b for _, b in sides))


@st.composite
def mixed_boxes(draw: st.DrawFn) -> Box:
    if draw(st.integers(0, 9)) == 0:
        return EMPTY
    lo, hi = draw(st.sampled_from([(a, b) for a in range(-1, 2) for b in range(a + 1, 3)]))
    pairs = [(a, b) for i, a in enumerate(CUTS) for b in CUTS[i + 1 :]]
    first, second = draw(st.sampled_from(pairs)), draw(st.sampled_from(pairs))
    return Box((lo,), (hi,), (first[0], second[0]), (first[1], second[1]))


def holds(box: Box, point: Point) -> bool:
    """The definition, dimension by dimension."""
    if box is EMPTY:
        return False
    coordinates = [*zip(box.lo, point.numbers, box.hi), *zip(box.lo_text, point.text, box.hi_text)]
    return all(lo <= value and value < hi for lo, value, hi in coordinates)  # type: ignore[operator]


def points_in(box: Box, points: list[Point]) -> set[int]:
    return {number for number, point in enumerate(points) if holds(box, point)}


def padded(box: Box, space: Space) -> Box:
    if algebra.is_empty(box):
        return box
    whole = space.unbounded
    lo, hi = box.lo + whole.lo[len(box.lo) :], box.hi + whole.hi[len(box.hi) :]
    count = len(box.lo_text)
    return Box(lo, hi, box.lo_text + whole.lo_text[count:], box.hi_text + whole.hi_text[count:])


@given(mixed_boxes(), st.sampled_from(POINTS))
def test_match(box: Box, point: Point) -> None:
    assert algebra.match(box, point) is holds(box, point)


@given(mixed_boxes(), mixed_boxes())
def test_contains(a: Box, b: Box) -> None:
    assert algebra.contains(a, b) is (points_in(b, POINTS) <= points_in(a, POINTS))


@given(mixed_boxes(), mixed_boxes())
def test_intersects(a: Box, b: Box) -> None:
    assert algebra.intersects(a, b) is bool(points_in(a, POINTS) & points_in(b, POINTS))


@given(mixed_boxes(), mixed_boxes())
def test_intersection(a: Box, b: Box) -> None:
    shared = algebra.intersection(a, b)
    assert points_in(shared, POINTS) == points_in(a, POINTS) & points_in(b, POINTS)
    assert algebra.is_empty(shared) is (not points_in(shared, POINTS))


@given(mixed_boxes(), mixed_boxes(), mixed_boxes())
def test_enclosing_is_the_smallest(a: Box, b: Box, other: Box) -> None:
    around = algebra.enclosing(a, b)
    assert points_in(a, POINTS) | points_in(b, POINTS) <= points_in(around, POINTS)
    if algebra.contains(other, a) and algebra.contains(other, b):
        assert algebra.contains(other, around)


@given(st.lists(mixed_boxes(), max_size=5))
def test_enclosing_all(boxes: list[Box]) -> None:
    around = algebra.enclosing_all(boxes)
    assert all(algebra.contains(around, box) for box in boxes)
    assert algebra.is_empty(around) is all(algebra.is_empty(box) for box in boxes)


@given(number_boxes())
def test_volume_counts_points(box: Box) -> None:
    count = len(points_in(box, NUMBERS))
    assert isclose(SPACE.volume(box) * prod(d + 1 for d in SIZES), count, abs_tol=1e-9)


@given(number_boxes(), number_boxes())
def test_enlargement_overlap_and_similarity_count_points(a: Box, b: Box) -> None:
    all_points = prod(d + 1 for d in SIZES)
    mine, theirs = points_in(a, NUMBERS), points_in(b, NUMBERS)
    around = points_in(algebra.enclosing(a, b), NUMBERS)
    assert isclose(SPACE.enlargement(a, b) * all_points, len(around) - len(mine), abs_tol=1e-9)
    assert isclose(SPACE.overlap(a, b) * all_points, len(mine & theirs), abs_tol=1e-9)
    expected = len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0
    assert isclose(SPACE.similarity(a, b), expected, abs_tol=1e-9)


@given(number_boxes())
def test_margin_adds_the_sides(box: Box) -> None:
    points = [NUMBERS[number] for number in points_in(box, NUMBERS)]
    sides = [len({point.numbers[d] for point in points}) / (SIZES[d] + 1) for d in range(len(SIZES))]
    assert isclose(SPACE.margin(box), sum(sides), abs_tol=1e-9)


@given(number_boxes(), st.sampled_from(NUMBERS))
def test_distance_is_that_of_the_nearest_point(box: Box, point: Point) -> None:
    inside = [NUMBERS[number] for number in points_in(box, NUMBERS)]
    steps = [
        sum(abs(a - b) / (size + 1) for a, b, size in zip(point.numbers, other.numbers, SIZES)) for other in inside
    ]
    assert isclose(SPACE.distance(box, point), min(steps, default=2.0), abs_tol=1e-9)


@given(mixed_boxes(), st.sampled_from(POINTS))
def test_distance_is_zero_only_inside(box: Box, point: Point) -> None:
    assert (MIXED.distance(box, point) == 0.0) is holds(box, point)


@given(mixed_boxes())
def test_sides_lie_between_nothing_and_everything(box: Box) -> None:
    sides = MIXED.sides(box)
    assert len(sides) == 3
    assert all(side == 0.0 for side in sides) if algebra.is_empty(box) else all(0.0 < side <= 1.0 for side in sides)


@given(mixed_boxes(), mixed_boxes(), st.sampled_from(POINTS), st.integers(0, 1), st.integers(0, 2))
def test_a_short_box_is_unbounded_beyond_its_end(a: Box, b: Box, point: Point, numbers: int, texts: int) -> None:
    if algebra.is_empty(a) or numbers + texts == 0:
        return
    short = Box(a.lo[:numbers], a.hi[:numbers], a.lo_text[:texts], a.hi_text[:texts])
    full = padded(short, MIXED)
    assert algebra.match(short, point) is algebra.match(full, point)
    assert algebra.intersects(short, b) is algebra.intersects(full, b)
    assert algebra.contains(short, b) is algebra.contains(full, b)
    assert not algebra.contains(b, short) or algebra.contains(b, full)
    assert padded(algebra.enclosing(short, b), MIXED) == algebra.enclosing(full, b)
    assert MIXED.sides(short) == pytest.approx(MIXED.sides(full))
    assert MIXED.volume(short) == pytest.approx(MIXED.volume(full))
    if numbers == 1 and algebra.intersects(short, b):  # as from an older schema: the one is a prefix of the other
        assert algebra.intersection(short, b) == algebra.intersection(full, b) == algebra.intersection(b, short)


def test_a_box_longer_than_the_space_has_no_more_sides_than_it() -> None:
    assert len(MIXED.sides(Box((0, 0), (1, 1), ("", "", "=a"), (">", ">", "=b")))) == 3


@given(st.text(max_size=9), st.text(max_size=9))
def test_codes_never_put_strings_in_the_wrong_order(a: str, b: str) -> None:
    low, high = sorted(("=" + a, "=" + b))
    assert 0 <= algebra.code(low) <= algebra.code(high) < TEXT_SIZE
    assert algebra.code(low) < algebra.last_code(high + "\0")


def test_codes_of_what_is_no_string() -> None:
    assert algebra.code("") == -1
    assert algebra.last_code("=") == 0
    assert algebra.code(BEYOND_TEXT) == algebra.last_code(BEYOND_TEXT) == TEXT_SIZE


def test_everything_and_nothing() -> None:
    assert points_in(MIXED.unbounded, POINTS) == set(range(len(POINTS)))
    assert MIXED.volume(MIXED.unbounded) == 1.0
    assert MIXED.volume(EMPTY) == MIXED.margin(EMPTY) == 0.0
    assert algebra.contains(EMPTY, EMPTY)
    assert algebra.contains(MIXED.unbounded, EMPTY)
    assert not algebra.intersects(EMPTY, MIXED.unbounded)


@given(mixed_boxes())
def test_boxes_survive_the_wire(box: Box) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(box), type=Box) == box
