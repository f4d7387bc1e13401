"""What the author of a filter is told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.model.filter import FilterError
from protocols.model.lint import compile_filter
from protocols.model.schema import STOCKS, Attribute
from tests.model.twins import LOOSE, Tree, attributes_of, text_of, trees, truth


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("FALSE", 0),
        ("price > 8.302 AND price < 8.301", 18),
        ("symbol = 'a' AND (price > 5 OR low > 3) AND price < 5 AND low IS NULL AND high = 1", 58),
        ("price = 1 AND price = 2 OR price = 3 AND FALSE", 0),
        ("  price = 5 AND symbol = 'x' AND price IS NULL", 33),
        ("NOT (price < 3 OR price >= 3)", 18),
    ],
)
def test_a_filter_that_nothing_can_match_is_an_error_at_the_contradiction(text: str, position: int) -> None:
    with pytest.raises(FilterError, match="nothing can match") as caught:
        compile_filter(text, STOCKS)
    assert caught.value.position == position
    assert str(caught.value) == f"nothing can match this filter (at position {position})"


@pytest.mark.parametrize("text", ["TRUE", "price IS NULL OR NOT price IS NULL", "TRUE OR price = 5", "NOT FALSE"])
def test_matching_everything_is_worth_a_warning(text: str) -> None:
    filter_ = compile_filter(text, STOCKS)
    assert filter_.warnings == ("matches everything",)
    assert filter_.boxes == (STOCKS.space.unbounded,)
    assert filter_.matcher({})


@pytest.mark.parametrize("text", ["price = 5", "price < 5 OR price >= 5", "symbol LIKE '%'"])
def test_matching_every_present_value_is_not_everything(text: str) -> None:
    filter_ = compile_filter(text, STOCKS)
    assert filter_.warnings == ()
    assert not filter_.matcher({})


def test_containment_is_told_by_name_and_decided_on_values() -> None:
    others = {
        "wide": compile_filter("price > 8.302", STOCKS),
        "same": compile_filter("price > 8.305 AND symbol = 'a'", STOCKS),
        "apart": compile_filter("price < 3", STOCKS),
        "near": compile_filter("price > 8.307", STOCKS),
    }
    filter_ = compile_filter("price > 8.305 AND symbol = 'a'", STOCKS, others)
    assert filter_.warnings == ("contained in subscription wide", "contained in subscription same")


def test_nobody_is_told_to_lie_in_a_filter_that_was_made_larger() -> None:
    many = " OR ".join(f"price = {n / 100}" for n in range(0, 400, 2))
    others = {"coarse": compile_filter(many, STOCKS)}
    assert others["coarse"].coarse
    assert compile_filter("price = 0.01", STOCKS, others).warnings == ()


def test_too_many_boxes_and_bounds_outside_are_told() -> None:
    many = " OR ".join(f"price = {n / 100}" for n in range(0, 400, 2))
    filter_ = compile_filter(f"({many}) AND low < 25", STOCKS)
    assert filter_.coarse
    assert [warning.split(":")[0] for warning in filter_.warnings] == ["low", "too complex for 64 boxes"]


@given(trees(LOOSE), trees(LOOSE), st.lists(attributes_of(LOOSE), min_size=1, max_size=10))
def test_containment_is_never_claimed_wrongly(inner: Tree, outer: Tree, events: list[dict[str, Any]]) -> None:
    try:
        other = compile_filter(text_of(outer), LOOSE)
        filter_ = compile_filter(text_of(inner), LOOSE, {"other": other})
    except FilterError:
        return
    if "contained in subscription other" in filter_.warnings:
        assert not any(truth(inner, event) == "T" and truth(outer, event) != "T" for event in events)
    if "matches everything" in filter_.warnings:
        assert all(truth(inner, event) == "T" for event in events)


def test_descriptions_for_people_and_logs() -> None:
    filter_ = compile_filter("symbol = 'OTE' AND price < 8.705", STOCKS)
    assert filter_.describe_boxes(STOCKS) == [{"symbol": {"eq": "OTE"}, "price": {"le": 8.7}}]


VOLUME, BROKER = Attribute("volume", "int", 0, 100), Attribute("broker", "string")


def test_an_appended_attribute_is_matched_and_not_routed_by() -> None:
    longer = STOCKS.append([VOLUME])
    filter_ = compile_filter("volume > 10 AND price < 8.7", longer)
    assert filter_.boxes == compile_filter("price < 8.7", STOCKS).boxes
    assert not filter_.exact
    assert filter_.matcher({"volume": 11, "price": 3.0})
    assert not filter_.matcher({"volume": 10, "price": 3.0})
    assert compile_filter("volume > 10", longer).boxes == (STOCKS.space.unbounded,)
    assert compile_filter("volume > 10 OR price < 8.7", longer).boxes == (STOCKS.space.unbounded,)
    with pytest.raises(FilterError, match="nothing can match"):
        compile_filter("volume > 10 AND volume < 5", longer)


def test_containment_is_seen_across_an_appending_that_moves_others() -> None:
    before = STOCKS.append([VOLUME])
    after = before.append([BROKER])
    assert after.names.index("volume") != before.names.index("volume")
    others = {
        "wide": compile_filter("volume > 10", before),
        "other": compile_filter("volume > 10 AND price > 5", before),
        "plain": compile_filter("price > 1", STOCKS),
    }
    assert compile_filter("volume > 20 AND broker = 'x'", after, others).warnings == ("contained in subscription wide",)
    retyped = STOCKS.append([Attribute("volume", "int", 0, 50), BROKER])
    assert compile_filter("volume > 20", retyped, others).warnings == ()
