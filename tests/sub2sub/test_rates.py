"""Rates by unit of length, and where there is too much."""

import pytest

from protocols.model.schema import STOCKS
from protocols.sub2sub.rates import Rates, Units
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
