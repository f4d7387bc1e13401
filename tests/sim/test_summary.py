"""Percentiles by nearest rank, and spreads."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.sim.summary import Spread, nearest_rank, spread

values = st.lists(st.integers(0, 1_000), min_size=1, max_size=200)


def slow_rank(ordered: list[int], percent: int) -> int:
    """The smallest value that at least that many percent of the values do not exceed."""
    for value in ordered:
        if Fraction(sum(other <= value for other in ordered), len(ordered)) >= Fraction(percent, 100):
            return value
    raise AssertionError("the largest value always qualifies")


@given(values, st.sampled_from([1, 50, 90, 99, 100]))
def test_nearest_rank_against_its_definition(data: list[int], percent: int) -> None:
    ordered = sorted(data)
    # 0.99 is not 99/100: where the two fall to different sides of a rank, either neighbour is right
    exact = percent * len(ordered) / 100
    if ceil(exact) == ceil(percent / 100 * len(ordered)):
        assert nearest_rank(ordered, percent / 100) == slow_rank(ordered, percent)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([], Spread(0.0, 0.0, 0.0, 0.0)),
        ([7], Spread(7.0, 7, 7, 7)),
        ([3, 1], Spread(2.0, 1, 3, 3)),
        ([1, 2, 3], Spread(2.0, 2, 3, 3)),
        (range(1, 101), Spread(50.5, 50, 99, 100)),
        (range(1, 201), Spread(100.5, 100, 198, 200)),
        ([1, 1, 2], Spread(1.333333, 1, 2, 2)),
    ],
)
def test_spread(data: list[int], expected: Spread) -> None:
    assert spread(data) == expected


@given(values)
def test_a_percentile_is_one_of_the_values(data: list[int]) -> None:
    found = spread(data)
    assert found.p50 in data
    assert found.p99 in data
    assert found.p50 <= found.p99 <= found.max == max(data)
    assert abs(found.mean - sum(data) / len(data)) < 1e-5
