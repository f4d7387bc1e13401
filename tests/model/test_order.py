"""The dictionary order of boxes, and the example of the GosSkip paper."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.model.box import EMPTY, Box, contains, intersects, match
from protocols.model.normalise import normalise
from protocols.model.order import Order, attribute_order, key, last_key, plain_order, point_key
from protocols.model.parse import parse
from protocols.model.schema import STOCKS, Attribute, Place, Schema
from tests.model.twins import LOOSE, attributes_of, text_of, trees

PAPER = Schema(
    [Attribute(name, "string") for name in ("class", "category", "country", "city", "type")]
    + [Attribute("year", "int", 1900, 2100)]
)
FILTERS = {
    "f1": "class = 'weather' AND country = 'Switzerland' AND city = 'Geneva'",
    "f2": "class = 'auctions' AND category = 'vehicle' AND type = 'cars' AND year = 2003",
    "f3": "class = 'auctions' AND category = 'vehicle' AND type = 'cars' AND year = 2002",
    "f4": "class = 'weather' AND country = 'France' AND city = 'Paris'",
}
ORDERS: list[Order] = [attribute_order(LOOSE), attribute_order(LOOSE, ("t", "b")), plain_order(LOOSE.space)]


def box_of(text: str, schema: Schema) -> Box:
    (box,) = normalise(parse(text, schema), schema).boxes
    return box


def test_the_example_of_section_2() -> None:
    order = attribute_order(PAPER, ("class", "category", "country", "city", "type", "year"))
    boxes = {name: box_of(text, PAPER) for name, text in FILTERS.items()}
    for names in permutations(boxes):
        assert sorted(names, key=lambda name: key(boxes[name], order)) == ["f3", "f2", "f4", "f1"]


@pytest.mark.parametrize(("low", "high"), [("class = 'auctions'", "class = 'weather'"), ("year = 2002", "year = 2003")])
def test_the_predicates_of_example_2(low: str, high: str) -> None:
    order = attribute_order(PAPER)
    assert key(box_of(low, PAPER), order) < key(box_of(high, PAPER), order)


def test_an_attribute_order_is_by_name_unless_agreed_otherwise() -> None:
    assert [STOCKS.place(name) for name in ("exchange", "high", "low", "price", "symbol")] == [*attribute_order(STOCKS)]
    assert attribute_order(STOCKS, ("symbol", "price"))[:3] == (Place(True, 1), Place(False, 0), Place(True, 0))
    assert attribute_order(STOCKS, ("low", "low")) == attribute_order(STOCKS, ("low",))
    with pytest.raises(ValueError, match="attribute_order names 'prise'; the schema has exchange, "):
        attribute_order(STOCKS, ("prise",))


def test_a_filter_comes_just_before_what_it_can_be_continued_to() -> None:
    order = attribute_order(STOCKS, ("symbol", "price"))
    texts = ["symbol = 'A'", "symbol = 'A' AND price = 1", "symbol = 'A' AND price = 1 AND low = 1", "symbol = 'AB'"]
    keys = [key(box_of(text, STOCKS), order) for text in texts]
    assert keys == sorted(keys)


@st.composite
def some_boxes(draw: st.DrawFn) -> Box:
    boxes = normalise(parse(text_of(draw(trees(LOOSE, 4))), LOOSE), LOOSE).boxes
    return draw(st.sampled_from(boxes)) if boxes else EMPTY


def coordinates(order: Order, numbers: Any, text: Any) -> list[Any]:
    return [(text if is_text else numbers)[at] for is_text, at in order]


def is_before(a: Box, b: Box, order: Order) -> bool:
    """Attribute by attribute: first the lower bounds, then the upper ones; the empty box last."""
    if EMPTY in (a, b):
        return a != EMPTY
    for one, other in zip(coordinates(order, a.lo, a.lo_text), coordinates(order, b.lo, b.lo_text)):
        if one != other:
            return bool(one < other)
    for one, other in zip(coordinates(order, a.hi, a.hi_text), coordinates(order, b.hi, b.hi_text)):
        if one != other:
            return bool(one < other)
    return False


@settings(max_examples=60)
@given(some_boxes(), some_boxes(), st.sampled_from(ORDERS))
def test_keys_compare_attribute_by_attribute(a: Box, b: Box, order: Order) -> None:
    assert (key(a, order) < key(b, order)) is (a != b and is_before(a, b, order))
    assert (key(a, order) == key(b, order)) is (a == b)


@settings(max_examples=60)
@given(some_boxes(), attributes_of(LOOSE), st.sampled_from(ORDERS))
def test_a_point_lies_between_the_keys_of_every_box_that_holds_it(
    box: Box, attributes: dict[str, Any], order: Order
) -> None:
    point = LOOSE.point(attributes)
    place = point_key(point, order)
    if match(box, point):
        corner = coordinates(order, point.numbers, point.text)
        starts_here = coordinates(order, box.lo, box.lo_text) == corner
        assert (place < key(box, order)) is starts_here
        assert place < last_key(box, order)
    assert place < key(EMPTY, order)


@settings(max_examples=60)
@given(some_boxes(), some_boxes(), st.sampled_from(ORDERS))
def test_a_box_within_another_starts_between_its_keys(outer: Box, inner: Box, order: Order) -> None:
    if contains(outer, inner) and intersects(outer, inner):
        lower = coordinates(order, outer.lo, outer.lo_text)
        assert lower <= coordinates(order, inner.lo, inner.lo_text)
        assert key(inner, order) < last_key(outer, order)


@settings(max_examples=60)
@given(some_boxes(), st.sampled_from(ORDERS))
def test_short_boxes_have_a_key_too(box: Box, order: Order) -> None:
    short = Box(box.lo[:1], box.hi[:1], box.lo_text[:1], box.hi_text[:1])
    assert (key(short, order) <= key(box, order)) or (key(short, order) > key(box, order))
    if box != EMPTY:
        assert len(key(short, order)) == 3
