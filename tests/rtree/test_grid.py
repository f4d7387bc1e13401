"""The grid against an obvious twin: a box touches a cell if some point of it lies there."""

from itertools import product
from zlib import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.model.box import EMPTY, Box, Point, Space, match
from protocols.rtree.grid import AXES_MAX, CELLS_MAX, Grid, apply, difference
from protocols.rtree.messages import CHART_BYTES

SPACE = Space((7, 5), 0)
POINTS = [Point(numbers) for numbers in product(range(-1, 7), range(-1, 5))]


def coarse() -> Grid:
    """Three cells to a side, so that several coordinates share one."""
    return Grid(SPACE, side_max=3)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    lo = (draw(st.integers(-1, 6)), draw(st.integers(-1, 4)))
    return Box(lo, (draw(st.integers(lo[0] + 1, 7)), draw(st.integers(lo[1] + 1, 5))))


@given(boxes())
def test_a_box_touches_the_cells_of_its_points_and_no_others(box: Box) -> None:
    grid = coarse()
    cells = 0
    for point in POINTS:
        if match(box, point):
            cells |= grid.around(point)
    assert grid.touched(box) == cells


def test_nothing_wants_nothing_and_all_wants_all() -> None:
    grid = coarse()
    assert grid.touched(EMPTY) == 0
    assert grid.touched(SPACE.unbounded) == grid.everything


@pytest.mark.parametrize(("axes", "side"), [(0, 64), (1, 64), (2, 64), (3, 16), (4, 8), (6, 4), (9, 4)])
def test_as_many_cells_as_there_is_room_for(axes: int, side: int) -> None:
    grid = Grid(Space((1000,) * axes, 1))
    assert grid.side == side
    assert grid.axes == min(axes, AXES_MAX)
    assert grid.everything.bit_length() == max(side**grid.axes, 1) <= CELLS_MAX


def test_values_outside_the_domain_count_as_the_nearest() -> None:
    grid = coarse()
    assert grid.around(Point((-1, 99))) == grid.around(Point((0, 4)))


def test_who_knows_fewer_attributes_errs_outward() -> None:
    """A box is unbounded, and a point lies anywhere, in an attribute that it does not know."""
    grid = coarse()
    assert grid.touched(Box((2,), (3,))) == grid.touched(Box((2, -1), (3, 5)))
    assert grid.touched(Box((2, 3), (3,))) == grid.touched(Box((2,), (3,)))  # forged: nobody makes such a box
    assert grid.around(Point((2,))) == grid.everything


@given(boxes())
def test_cells_survive_the_wire(box: Box) -> None:
    grid = coarse()
    assert grid.decode(grid.encode(grid.touched(box))) == grid.touched(box)


def test_the_cells_of_another_grid_are_unknown() -> None:
    grid = Grid(SPACE)
    assert grid.decode(grid.encode(None)) is None
    assert grid.decode(Grid(Space((7,), 0)).encode(1)) is None
    assert grid.decode(bytes((2,)) + b"\xff" * 512) == grid.everything


@given(st.integers(0, (1 << CELLS_MAX) - 1), st.integers(0, (1 << CELLS_MAX) - 1))
def test_a_difference_makes_one_set_out_of_another(old: int, new: int) -> None:
    grid = Grid(Space((1_000,) * 4, 0))
    change = difference(grid.encode(old), grid.encode(new))
    assert apply(grid.encode(old), change) == grid.encode(new)


def test_a_few_cells_more_are_a_few_bytes() -> None:
    grid = Grid(Space((1_000,) * 4, 0))
    old = (1 << 4_095) | (1 << 77)
    assert len(difference(grid.encode(old), grid.encode(old | 0b111 << 2_000))) < 40


@given(st.binary(max_size=600))
def test_what_is_no_difference_changes_nothing_or_little(raw: bytes) -> None:
    """A bomb ends at the size of a chart."""
    made = apply(b"\x04", compress(raw * 2_000))
    assert made is None or len(made) <= CHART_BYTES
    apply(b"\x04", raw)
