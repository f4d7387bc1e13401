"""From filters to boxes: never too small, exact where the schema is, and never too many."""

from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.model.box import Box, contains, match
from protocols.model.filter import compiled, matches
from protocols.model.intervals import Intervals, complement, intersection, union
from protocols.model.lines import successor
from protocols.model.lint import compile_filter
from protocols.model.normalise import Normalised, lines_of, normalise
from protocols.model.parse import parse
from protocols.model.regions import Union, coarsened, meet, tidied, within
from protocols.model.schema import STOCKS, Attribute, Schema
from tests.model.twins import EXACT, INSIDE, LOOSE, Tree, attributes_of, corner_values, text_of, trees, truth

CENTS = Schema((Attribute("price", "float", 0.0, 20.0, 0.01, True),))


def boxes_of(text: str, schema: Schema = STOCKS, limit: int = 64) -> Normalised:
    return normalise(parse(text, schema), schema, limit)


def caught(boxes: tuple[Box, ...], schema: Schema, attributes: dict[str, Any]) -> bool:
    point = schema.point(attributes)
    return any(match(box, point) for box in boxes)


# --- Against twins ----------------------------------------------------------------------------------------------------


@settings(max_examples=400)
@given(trees(LOOSE), st.lists(attributes_of(LOOSE), min_size=1, max_size=10), st.sampled_from((1, 2, 3, 64)))
def test_every_event_that_matches_falls_into_a_box(tree: Tree, events: list[dict[str, Any]], limit: int) -> None:
    normal = boxes_of(text_of(tree), LOOSE, limit)
    assert len(normal.boxes) <= limit
    for attributes in events:
        owed = truth(tree, attributes) == "T"
        assert caught(normal.boxes, LOOSE, attributes) or not owed
        if normal.exact:
            assert caught(normal.boxes, LOOSE, attributes) is owed


@settings(max_examples=150)
@given(trees(EXACT, 6))
def test_boxes_of_an_exact_schema_hold_what_matches_and_nothing_else(tree: Tree) -> None:
    normal = boxes_of(text_of(tree), EXACT)
    assert not normal.coarse
    for n, f, b in product(INSIDE["n"], INSIDE["f"], INSIDE["b"]):
        for s in (None, "", "a", "ab", "b", "\U0010ffff"):
            attributes = {"n": n, "f": f, "b": b, "s": s}
            inside = caught(normal.boxes, EXACT, attributes)
            if inside is not (truth(tree, attributes) == "T"):
                # The outer steps stand for everything beyond them too, so they may be held for its sake.
                assert inside
                assert n in (0, 3) or f in (-0.2, 0.2)


@settings(max_examples=150)
@given(trees(EXACT, 6), st.lists(attributes_of(EXACT), min_size=1, max_size=12))
def test_the_exact_flag_is_true(tree: Tree, events: list[dict[str, Any]]) -> None:
    normal = boxes_of(text_of(tree), EXACT)
    for attributes in events:
        inside, owed = caught(normal.boxes, EXACT, attributes), truth(tree, attributes) == "T"
        assert inside is owed or (inside and not normal.exact)


@pytest.mark.parametrize("schema", [EXACT, LOOSE], ids=["exact", "loose"])
@settings(max_examples=150)
@given(st.data())
def test_no_box_if_and_only_if_nothing_can_match(schema: Schema, data: st.DataObject) -> None:
    tree = data.draw(trees(schema, 5))
    corners = corner_values(tree, schema)
    if len(list(product(*corners.values()))) > 1_000:
        return
    possible = any(truth(tree, dict(zip(corners, values, strict=True))) == "T" for values in product(*corners.values()))
    assert bool(boxes_of(text_of(tree), schema).boxes) is possible


@given(trees(LOOSE))
def test_no_box_lies_within_another_of_its_union(tree: Tree) -> None:
    boxes = boxes_of(text_of(tree), LOOSE).boxes
    assert not any(a is not b and contains(a, b) for a in boxes for b in boxes)


# --- What the papers and the contract say -----------------------------------------------------------------------------


def test_strict_bounds_on_an_exact_grid_have_39_values() -> None:
    normal = boxes_of("8.30 < price AND price < 8.70", CENTS)
    assert normal.boxes == (Box((831,), (870,)),)
    assert normal.exact


def test_strict_bounds_off_the_grid_err_outward() -> None:
    normal = boxes_of("8.30 < price AND price < 8.70")
    assert [(box.lo[0], box.hi[0]) for box in normal.boxes] == [(830, 870)]
    assert not normal.exact


@pytest.mark.parametrize(
    ("text", "intervals"),
    [
        ("price BETWEEN 8.31 AND 8.69", [(831, 870)]),
        ("price <> 5", [(0, 2001)]),
        ("price = 5", [(500, 501)]),
        ("price = 5.001", [(500, 501)]),
        ("price IS NULL", [(-1, 0)]),
        ("NOT (price IS NULL)", [(0, 2001)]),
        ("NOT (price = 5)", [(0, 2001)]),
        ("price < 5 OR price IS NULL", [(-1, 500)]),
        ("price IS NULL OR price IS NOT NULL", [(-1, 2001)]),
        ("price < 1 OR price > 2", [(0, 100), (200, 2001)]),
        ("price > 20", [(2000, 2001)]),
        ("price > 999", [(2000, 2001)]),
        ("price < -1", [(0, 1)]),
        ("price <= 0", [(0, 1)]),
        ("price < 1 OR price >= 1", [(0, 2001)]),
        ("price < 1.002 OR price > 1.007", [(0, 2001)]),
    ],
)
def test_intervals_of_numbers(text: str, intervals: list[tuple[int, int]]) -> None:
    assert [(box.lo[0], box.hi[0]) for box in boxes_of(text).boxes] == intervals


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("symbol = 'OTE'", ("=OTE", "=OTE\0")),
        ("symbol LIKE 'OT%'", ("=OT", "=OU")),
        ("symbol LIKE '%'", ("=", ">")),
        ("symbol LIKE 'a\U0010ffff%'", ("=a\U0010ffff", "=b")),
        ("symbol LIKE '\U0010ffff%'", ("=\U0010ffff", ">")),
        ("symbol LIKE 'a\ud7ff%'", ("=a\ud7ff", "=a\ue000")),
        ("symbol > 'a' AND symbol <= 'b'", ("=a\0", "=b\0")),
        ("symbol < 'a'", ("=", "=a")),
        ("symbol IS NULL", ("", "=")),
        ("symbol IS NULL OR symbol < 'a'", ("", "=a")),
    ],
)
def test_intervals_of_strings(text: str, interval: tuple[str, str]) -> None:
    (box,) = boxes_of(text).boxes
    assert (box.lo_text[1], box.hi_text[1]) == interval
    assert boxes_of(text).exact


@pytest.mark.parametrize(
    "text",
    [
        "price > 8.302 AND price < 8.301",
        "price > 8.3 AND price < 8.300000000000002",
        "price BETWEEN 5 AND 4",
        "price = 5 AND price IS NULL",
        "price = 5 AND NOT (price = 5)",
        "symbol > 'a' AND symbol < 'a'",
        "symbol LIKE 'a%' AND symbol > 'b'",
        "symbol = 'a' AND symbol LIKE 'b%'",
        "FALSE",
        "price > 1 AND (price < 1 OR symbol = 'a') AND (symbol = 'b' OR price IS NULL)",
    ],
)
def test_a_contradiction_has_no_box(text: str) -> None:
    assert boxes_of(text).boxes == ()


def test_integers_between_two_neighbours_do_not_exist() -> None:
    schema = Schema((Attribute("n", "int", 0, 1000, 10), Attribute("big", "int", 0, 2**53 - 1)))
    assert boxes_of("n > 3 AND n < 4", schema).boxes == ()
    assert boxes_of("n = 3.5", schema).boxes == ()
    assert boxes_of("n <> 3.5", schema).boxes == boxes_of("n IS NOT NULL", schema).boxes
    assert boxes_of("big > 9007199254740991", schema).boxes == ()
    assert boxes_of("n BETWEEN 10 AND 19", schema).exact
    assert not boxes_of("n BETWEEN 10 AND 18", schema).exact


def test_boxes_that_differ_in_one_attribute_and_touch_are_joined() -> None:
    assert len(boxes_of("symbol = 'a' AND price < 5 OR symbol = 'a' AND price >= 5").boxes) == 1
    assert len(boxes_of("symbol = 'a' AND price < 5 OR symbol = 'b' AND price >= 5").boxes) == 2
    assert len(boxes_of("symbol = 'a' AND price < 5 OR price < 7").boxes) == 1


def test_bounds_outside_of_the_domain_are_told_once() -> None:
    normal = boxes_of("price < 25 AND (low > -1 OR low = 3) AND NOT price >= 25 AND symbol > 'z'")
    assert normal.cut == (
        "price: 25.0 lies outside of 0.0 to 20.0; it is routed as the nearest bound",
        "low: -1.0 lies outside of 0.0 to 20.0; it is routed as the nearest bound",
    )


# --- Too many ---------------------------------------------------------------------------------------------------------

EXPONENTIAL = " AND ".join(f"(price < {n} OR low > {n} OR symbol = 's{n}')" for n in range(1, 19))


@pytest.mark.parametrize(
    "text",
    [
        EXPONENTIAL,
        " OR ".join(f"symbol = 's{n}' AND price = {n}" for n in range(300)),
        "symbol IN (" + ", ".join(f"'s{n}'" for n in range(900)) + ")",
        " AND ".join(f"price <> {n / 10}" for n in range(150)),
    ],
    ids=["product", "union", "list", "not equal"],
)
def test_too_many_boxes_become_larger_ones(text: str) -> None:
    expression = parse(text, STOCKS)
    normal = normalise(expression, STOCKS)
    assert 1 <= len(normal.boxes) <= 64
    if normal.coarse:
        assert not normal.exact
    for number in range(0, 301, 7):
        attributes: dict[str, Any] = {"symbol": f"s{number}", "price": float(number), "low": number / 2}
        assert caught(normal.boxes, STOCKS, attributes) or not matches(expression, attributes)


def test_a_long_list_stays_narrow() -> None:
    normal = boxes_of("symbol IN (" + ", ".join(f"'s{n:03}'" for n in range(900)) + ")")
    assert normal.coarse
    assert len(normal.boxes) == 64
    assert not caught(normal.boxes, STOCKS, {"symbol": "t"})


def test_the_product_is_never_built() -> None:
    class Counting(Union):
        largest = 0

        def _within_limit(self, regions: Any) -> Any:
            Counting.largest = max(Counting.largest, len(regions))
            return super()._within_limit(regions)

    everywhere = [(-1, 100)] * 40
    union_ = Counting(everywhere, 8)
    result: list[Any] = [{}]
    for attribute in range(0, 40, 2):
        result = union_.both(result, union_.either([[{attribute: (1, 2)}], [{attribute + 1: (1, 2)}]]))
    assert 1 <= len(result) <= 8
    assert union_.coarse
    assert Counting.largest <= 4 * 8


def test_work_is_limited_too() -> None:
    union_ = Union([(-1, 100)] * 3, 64, effort=100)
    regions = [{0: (n, n + 1)} for n in range(0, 60, 2)]
    other = [{1: (n, n + 1)} for n in range(0, 60, 2)]
    assert union_.both(regions, other) == [{0: (0, 59), 1: (0, 59)}]
    assert union_.coarse


# --- The pieces -------------------------------------------------------------------------------------------------------

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=5).map(tuple)


def members(intervals: Intervals) -> set[int]:
    return {value for lo, hi in intervals for value in range(lo, hi)}


@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_interval_sets_are_sets(sets: list[Intervals]) -> None:
    tidy = [union([one]) for one in sets]
    assert [members(one) for one in tidy] == [members(one) for one in sets]
    together = union(sets)
    assert members(together) == set().union(*map(members, sets))
    assert all(a[1] < b[0] for a, b in pairwise(together))
    assert members(complement(together, 0, 10)) == set(range(10)) - members(together)
    assert members(intersection(tidy, 0, 10)) == set.intersection(*map(members, sets))


REGIONS = st.lists(
    st.dictionaries(
        st.integers(0, 2), st.sampled_from([(a, b) for a in range(4) for b in range(a + 1, 5) if (a, b) != (0, 4)])
    ),
    min_size=1,
    max_size=7,
)
CUBE = [(0, 4)] * 3


def cells(regions: Any) -> set[tuple[int, ...]]:
    return {
        point
        for point in product(range(4), repeat=3)
        for region in regions
        if all(lo <= point[d] < hi for d, (lo, hi) in region.items())
    }


@given(REGIONS)
def test_tidying_changes_nothing(regions: list[dict[int, tuple[int, int]]]) -> None:
    tidy = tidied(regions, CUBE)
    assert cells(tidy) == cells(regions)
    assert len(tidy) <= len(regions)
    assert not any(a is not b and within(a, b) for a in tidy for b in tidy)


@given(REGIONS, st.integers(1, 4))
def test_coarsening_errs_outward(regions: list[dict[int, tuple[int, int]]], limit: int) -> None:
    coarse = coarsened(regions, limit, CUBE)
    assert cells(coarse) >= cells(regions)
    assert len(coarse) <= limit


@given(REGIONS, REGIONS)
def test_products_and_sums_of_unions(a: list[dict[int, tuple[int, int]]], b: list[dict[int, tuple[int, int]]]) -> None:
    union_ = Union(CUBE)
    shared = union_.both(a, b)
    assert cells(shared) == cells(a) & cells(b)
    assert all(lo < hi for region in shared for lo, hi in region.values())
    assert (meet(a[0], b[0]) is not None) is bool(cells(a[:1]) & cells(b[:1]))
    assert cells(union_.either([a, b])) == cells(a) | cells(b)
    assert not union_.coarse


@given(st.text(max_size=4), st.text(max_size=6))
def test_the_successor_of_a_prefix_parts_those_that_have_it_from_those_above(prefix: str, text: str) -> None:
    lo, hi = "=" + prefix, successor("=" + prefix)
    hi.encode()
    assert (lo <= "=" + text < hi) is text.startswith(prefix)


def test_lines_are_made_once_per_schema() -> None:
    assert lines_of(STOCKS) is lines_of(STOCKS)


def test_the_contract_example_compiles() -> None:
    filter_ = compile_filter("symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69", STOCKS)
    assert compiled(filter_.expression)({"symbol": "OTE", "price": 8.5})
    assert len(filter_.boxes) == 1
