"""Boxes in words and back."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.model.box import EMPTY, Box, is_empty
from protocols.model.describe import box_from_description, describe_box, describe_region
from protocols.model.normalise import normalise
from protocols.model.parse import parse
from protocols.model.schema import STOCKS, Schema, SchemaError
from tests.model.twins import EXACT, LOOSE, STRINGS, Tree, attributes_of, text_of, trees, truth

CUTS = sorted({"", "=", ">", *["=" + s for s in STRINGS], *["=" + s + "\0" for s in STRINGS]})
TEXT_SIDES = st.sampled_from([(a, b) for i, a in enumerate(CUTS) for b in CUTS[i + 1 :]])


@st.composite
def boxes(draw: st.DrawFn, schema: Schema) -> Box:
    sizes = schema.space.number_sizes
    numbers = [draw(st.sampled_from([(a, b) for a in range(-1, d) for b in range(a + 1, d + 1)])) for d in sizes]
    texts = [draw(TEXT_SIDES) for _ in range(schema.space.text_count)]
    lo, hi = tuple(a for a, _ in numbers), tuple(b for _, b in numbers)
    return Box(lo, hi, tuple(a for a, _ in texts), tuple(b for _, b in texts))


def holds(description: Mapping[str, Mapping[str, Any]], attributes: Mapping[str, Any]) -> bool:
    """What a reader makes of a description who knows only the contract."""
    for name, terms in description.items():
        value = attributes.get(name)
        if value is None:
            held = terms.get("null") is True
        else:
            only_absent = set(terms) == {"null"} and terms["null"]
            held = not only_absent and all(_term(key, bound, value) for key, bound in terms.items())
        if not held:
            return False
    return True


def _term(key: str, bound: Any, value: Any) -> bool:
    if key == "prefix":
        return bool(value.startswith(bound))
    if key == "null":
        return True
    if key == "eq":
        return bool(value == bound)
    return bool({"ge": value >= bound, "gt": value > bound, "le": value <= bound, "lt": value < bound}[key])


@pytest.mark.parametrize("schema", [EXACT, LOOSE], ids=["exact", "loose"])
@settings(max_examples=300)
@given(st.data())
def test_a_description_stands_for_its_box(schema: Schema, data: st.DataObject) -> None:
    box = data.draw(boxes(schema))
    assert box_from_description(schema, describe_box(schema, box)) == box


@settings(max_examples=300)
@given(trees(LOOSE), st.lists(attributes_of(LOOSE), min_size=1, max_size=10))
def test_regions_say_what_the_filter_says(tree: Tree, events: list[dict[str, Any]]) -> None:
    normal = normalise(parse(text_of(tree), LOOSE), LOOSE)
    descriptions = [describe_region(LOOSE, region) for region in normal.regions]
    for attributes in events:
        assert any(holds(each, attributes) for each in descriptions) is (truth(tree, attributes) == "T")


@given(trees(EXACT), st.lists(attributes_of(EXACT), min_size=1, max_size=10))
def test_regions_of_exact_attributes_too(tree: Tree, events: list[dict[str, Any]]) -> None:
    normal = normalise(parse(text_of(tree), EXACT), EXACT)
    descriptions = [describe_region(EXACT, region) for region in normal.regions]
    for attributes in events:
        assert any(holds(each, attributes) for each in descriptions) is (truth(tree, attributes) == "T")


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (
            "symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69",
            {"symbol": {"eq": "OTE"}, "price": {"ge": 8.31, "le": 8.69}},
        ),
        ("TRUE", {}),
        ("price = 8.31", {"price": {"eq": 8.31}}),
        ("price IS NULL", {"price": {"null": True}}),
        ("price IS NOT NULL", {"price": {"null": False}}),
        ("price IS NULL OR price <= 3", {"price": {"le": 3.0, "null": True}}),
        ("price >= 3", {"price": {"ge": 3.0}}),
        ("symbol LIKE 'OT%'", {"symbol": {"prefix": "OT"}}),
        ("symbol >= 'a' AND symbol < 'c'", {"symbol": {"ge": "a", "lt": "c"}}),
        ("symbol > 'a' AND symbol <= 'c'", {"symbol": {"gt": "a", "le": "c"}}),
        ("symbol IS NULL OR symbol = ''", {"symbol": {"eq": "", "null": True}}),
    ],
)
def test_boxes_and_regions_in_the_contract_s_words(text: str, description: dict[str, Any]) -> None:
    normal = normalise(parse(text, STOCKS), STOCKS)
    assert [describe_box(STOCKS, box) for box in normal.boxes] == [description]
    assert [describe_region(STOCKS, region) for region in normal.regions] == [description]


def test_a_region_keeps_what_rounding_loses() -> None:
    normal = normalise(parse("price > 8.302 AND price < 8.7", STOCKS), STOCKS)
    assert [describe_region(STOCKS, region) for region in normal.regions] == [{"price": {"gt": 8.302, "lt": 8.7}}]
    assert [describe_box(STOCKS, box) for box in normal.boxes] == [{"price": {"ge": 8.3, "le": 8.69}}]


def test_booleans_are_written_as_such() -> None:
    normal = normalise(parse("b AND n = 2", EXACT), EXACT)
    assert [describe_box(EXACT, box) for box in normal.boxes] == [{"n": {"eq": 2}, "b": {"eq": True}}]
    assert [describe_region(EXACT, region) for region in normal.regions] == [{"n": {"eq": 2}, "b": {"eq": True}}]


@pytest.mark.parametrize("schema", [STOCKS, EXACT, LOOSE], ids=["stocks", "exact", "loose"])
def test_the_empty_box_is_a_contradiction(schema: Schema) -> None:
    description = describe_box(schema, EMPTY)
    assert is_empty(box_from_description(schema, description))
    (name,) = description
    for value in (None, -1, 0, 1, 99) if schema is not STOCKS else (None, "", "a", "\U0010ffff"):
        assert not holds(description, {name: value})


def test_a_short_box_is_unbounded_beyond_its_end() -> None:
    assert describe_box(STOCKS, Box((5,), (6,), ("=a",), ("=a\0",))) == {"exchange": {"eq": "a"}, "price": {"eq": 0.05}}


@pytest.mark.parametrize(
    ("terms", "interval"),
    [
        ({"lt": 3.0}, (0, 300)),
        ({"lt": 3.001}, (0, 301)),
        ({"lt": 99}, (0, 2001)),
        ({"lt": -99}, (0, 1)),
        ({"gt": 3.0, "lt": 4}, (300, 400)),
        ({"ge": 99}, (2000, 2001)),
    ],
)
def test_descriptions_of_others_round_outward(terms: dict[str, Any], interval: tuple[int, int]) -> None:
    box = box_from_description(STOCKS, {"price": terms})
    assert (box.lo[0], box.hi[0]) == interval


@pytest.mark.parametrize(
    "description",
    [
        {"unheard": {"eq": 1}},
        {"price": {}},
        {"price": {"about": 1}},
        {"price": {"eq": "1"}},
        {"price": {"eq": True}},
        {"price": {"prefix": 1}},
        {"symbol": {"eq": 1}},
        {"symbol": {"null": 1}},
    ],
)
def test_what_is_no_description(description: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        box_from_description(STOCKS, description)
