"""Rates by unit of length, and where there is too much."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from protocols.model.schema import STOCKS
from protocols.sub2sub.rates import SCALE_MIN, WEIGHT, Rates, Units
from tests.sub2sub.scene import SCHEMA


def test_values_fall_into_hundredths_of_the_domain() -> None:
    units = Units(SCHEMA.space, 0)
    assert [units.of(x) for x in (-1, 0, 50, 100)] == [0, 0, 49, 99]
    assert units.between(0, 101) == (0, 100)


def test_strings_are_one_unit() -> None:
    assert Units(STOCKS.space, 1).between("=a", "=b") == (0, 1)


def test_a_steady_rate_is_learned_in_some_ten_cycles_and_forgotten_again() -> None:
    rates = Rates()
    for _ in range(40):
        for _ in range(5):
            rates.count(3)
        rates.turn()
    assert rates.total(0, 100) == pytest.approx(5.0, rel=0.02)
    for _ in range(40):
        rates.turn()
    assert rates.total(0, 100) < 0.1


def test_too_much_is_found_where_it_is() -> None:
    rates = Rates()
    for _ in range(60):
        for unit in range(20, 24):
            rates.count(unit)
        rates.turn()
    assert rates.excess(0, 100, 4, 3.5) == (20, 24)
    assert rates.excess(0, 100, 4, 4.5) is None
    assert rates.excess(0, 100, 2, 1.5) == (20, 24)


def test_the_most_on_any_stretch() -> None:
    rates = Rates()
    for _ in range(60):
        for unit in range(20, 24):
            rates.count(unit)
        rates.turn()
    assert rates.peak(0, 100, 4) == pytest.approx(4.0, rel=0.02)
    assert rates.peak(0, 100, 2) == pytest.approx(2.0, rel=0.02)
    assert rates.peak(0, 22, 4) == pytest.approx(2.0, rel=0.02)
    assert rates.peak(23, 24, 8) == pytest.approx(1.0, rel=0.02), "where there is less than a stretch"


class Plain:
    """The same, with every decay written down in every cycle."""

    def __init__(self) -> None:
        self.sums = [0.0] * 100
        self.coming = [0] * 100

    def turn(self, cycles: int) -> None:
        for _ in range(cycles):
            self.sums = [
                (1 - WEIGHT) * sum_ + WEIGHT * came / cycles for sum_, came in zip(self.sums, self.coming, strict=True)
            ]
        self.coming = [0] * 100

    def stretches(self, first: int, beyond: int, width: int) -> dict[tuple[int, int], float]:
        width = min(width, beyond - first)
        return {(at, at + width): sum(self.sums[at : at + width]) for at in range(first, beyond - width + 1)}

    def excess(self, first: int, beyond: int, width: int, most: float) -> tuple[int, int] | None:
        found = [each for each, total in self.stretches(first, beyond, width).items() if total > most]
        return (found[0][0], found[-1][1]) if found else None


UNIT = st.integers(0, 99)
PAUSE = st.lists(st.integers(1, 9), min_size=10, max_size=40)
"""Of so many cycles each: how long nothing comes."""
COMING = st.lists(UNIT, min_size=1, max_size=60)


@given(
    steps=st.lists(st.tuples(COMING, PAUSE), min_size=5, max_size=10),
    bounds=st.tuples(UNIT, UNIT).map(sorted),
    width=st.sampled_from([1, 2, 8, 64]),
    most=st.floats(0.01, 4.0),
)
def test_after_hundreds_of_cycles_rates_are_those_of_somebody_who_writes_all_down(
    steps: list[tuple[list[int], list[int]]], bounds: list[int], width: int, most: float
) -> None:
    rates, plain, first, beyond, passed = Rates(), Plain(), bounds[0], bounds[1] + 1, 0
    for coming, pause in steps:
        for unit in coming:
            rates.count(unit)
            plain.coming[unit] += 1
        for cycles in pause:
            rates.turn(cycles)
            plain.turn(cycles)
            passed += cycles
        assert rates.total(first, beyond) == pytest.approx(sum(plain.sums[first:beyond]), rel=1e-6, abs=1e-12)
    stretches = plain.stretches(first, beyond, width)
    assert rates.peak(first, beyond, width) == pytest.approx(max(stretches.values()), rel=1e-6, abs=1e-12)
    most *= max(stretches.values()) + 1e-9  # about as much as there is, so that there is something to find
    assume(all(abs(total - most) > 1e-6 * most for total in stretches.values()))
    assert rates.excess(first, beyond, width, most) == plain.excess(first, beyond, width, most)


def test_nor_is_anything_lost_in_hours() -> None:
    """Or the factor would be nothing at last, and what comes later would count for more than all numbers."""
    assert (1 - WEIGHT) ** 200 < SCALE_MIN, "the test above goes through that, too"
    rates = Rates()
    for _ in range(100):
        for _ in range(200):
            rates.count(3)
        rates.turn(100)
    assert rates.total(0, 100) == pytest.approx(2.0)


@given(st.lists(st.integers(0, 20), min_size=4, max_size=4).filter(any))
def test_four_cycles_at_once_count_like_four_cycles(coming: list[int]) -> None:
    """What came in the last of them ought to count for a tenth, and in the first for 0.9^3 of that; at once, all counts
    for the mean of these, 0.086: within a sixth of what each would."""
    at_once, one_by_one = Rates(), Rates()
    for count in coming:
        for _ in range(count):
            at_once.count(3)
            one_by_one.count(3)
        one_by_one.turn()
    at_once.turn(4)
    assert at_once.total(0, 100) == pytest.approx(one_by_one.total(0, 100), rel=0.18)


def test_and_exactly_like_four_in_which_as_much_came() -> None:
    at_once, one_by_one = Rates(), Rates()
    for _ in range(4):
        for rates in (at_once, one_by_one):
            rates.count(3)
            rates.count(3)
        one_by_one.turn()
    at_once.turn(4)
    for rates in (at_once, one_by_one):
        rates.turn()  # what was there before fades as much in either
    assert at_once.total(0, 100) == pytest.approx(one_by_one.total(0, 100))
