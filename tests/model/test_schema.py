"""Schemas, their grids, and what may be published under them."""

from fractions import Fraction
from math import floor, inf, nan, nextafter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.model.bounds import ATTRIBUTES_MAX
from protocols.model.box import Point
from protocols.model.grid import Grid
from protocols.model.schema import STOCKS, Attribute, Place, Schema, SchemaError
from tests.model.twins import EXACT, LOOSE

CONTRACT = """
[attributes.exchange]
type = "string"
[attributes.symbol]
type = "string"
[attributes.price]
type = "float"
min = 0.0
max = 20.0
precision = 0.01
[attributes.high]
type = "float"
min = 0
max = 20
precision = 0.01
[attributes.low]
type = "float"
min = 0.0
max = 20.0
precision = 0.01
"""
PRICE = STOCKS.grid("price")
GRIDS = [
    PRICE,
    Grid(-1.0, 1.0, 0.3, False, False),
    Grid(-7, 22, 3, True, False),
    Grid(1e-7, 2e-7, 1e-9, False, False),
    Grid(-1e9, 1e9, 1234.5, False, True),
    Grid(0.1, 1000.0, 0.12345678901234567, False, False),
]
BOUNDS = [
    (0.0, 20.0, 0.01),
    (-1.0, 1.0, 0.3),
    (-7, 22, 3),
    (1e-7, 2e-7, 1e-9),
    (-1e9, 1e9, 1234.5),
    (0.1, 1000.0, 0.12345678901234567),
]
NUMBERS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-30, 30), st.integers(-30, 30))


def position(value: float, low: float, step: float) -> Fraction:
    return (Fraction(repr(value)) - Fraction(repr(low))) / Fraction(repr(step))


@given(st.integers(0, len(GRIDS) - 1), NUMBERS)
def test_grid_index_is_the_floor_in_exact_fractions(which: int, value: float) -> None:
    grid, (low, high, step) = GRIDS[which], BOUNDS[which]
    exact = position(value, low, step)
    assert grid.size == floor(position(high, low, step)) + 1
    assert grid.position(value) == (floor(exact), exact.denominator == 1)
    assert grid.index(value) == min(max(floor(exact), 0), grid.size - 1)


@given(st.integers(0, len(GRIDS) - 1), NUMBERS, NUMBERS)
def test_grid_keeps_order(which: int, a: float, b: float) -> None:
    grid = GRIDS[which]
    low, high = sorted((a, b))
    assert grid.index(low) <= grid.index(high)
    assert grid.index(low) <= grid.index(nextafter(low, inf))


@given(st.integers(0, len(GRIDS) - 1), st.data())
def test_grid_value_is_the_first_of_its_step(which: int, data: st.DataObject) -> None:
    grid = GRIDS[which]
    index = data.draw(st.integers(0, grid.size - 1))
    value = grid.value(index)
    assert grid.index(value) == index
    assert isinstance(value, int) is (which == 2)
    before = value - 1 if isinstance(value, int) else nextafter(value, -inf)
    assert grid.position(before)[0] < index


def test_cents_are_cents() -> None:
    assert [PRICE.index(value) for value in (8.3, 8.31, 8.69, 8.7, 0.07, 0.29, 19.99)] == [
        830,
        831,
        869,
        870,
        7,
        29,
        1999,
    ]
    assert [PRICE.value(index) for index in (830, 831, 7, 2000)] == [8.3, 8.31, 0.07, 20.0]


def test_the_default_schema_is_that_of_the_contract() -> None:
    assert Schema.from_toml(CONTRACT) == STOCKS
    assert STOCKS.version == 5
    assert STOCKS.space.number_sizes == (2001, 2001, 2001)
    assert STOCKS.space.text_count == 2
    assert STOCKS.place("symbol") == Place(True, 1)
    assert STOCKS.place("low") == Place(False, 2)
    assert STOCKS.attribute("high").max == 20.0


@pytest.mark.parametrize("schema", [STOCKS, EXACT, LOOSE], ids=["stocks", "exact", "loose"])
def test_a_schema_survives_json_and_the_wire(schema: Schema) -> None:
    again = Schema.from_dict(msgspec.json.decode(msgspec.json.encode(schema.to_dict())))
    assert again == schema
    assert hash(again) == hash(schema)
    raw = msgspec.msgpack.encode(schema.attributes)
    assert Schema(msgspec.msgpack.decode(raw, type=tuple[Attribute, ...])) == schema


def test_a_bad_attribute_from_the_wire_is_refused_while_it_is_decoded() -> None:
    raw = msgspec.msgpack.encode({"name": "p", "type": "float", "min": 5, "max": 1, "precision": 1})
    with pytest.raises(msgspec.ValidationError, match="above max"):
        msgspec.msgpack.decode(raw, type=Attribute)


def test_equal_attributes_encode_equally() -> None:
    one, other = Attribute("p", "float", 0, 20, 1), Attribute("p", "float", -0.0, 20.0, 1.0)
    assert msgspec.json.encode(one) == msgspec.json.encode(other)
    assert Attribute("n", "int", 0, 5) == Attribute("n", "int", 0, 5, 1, True)


def test_appending_makes_the_next_version() -> None:
    longer = STOCKS.append([Attribute("volume", "int", 0, 100)])
    assert (longer.version, longer.names[-1], longer.first) == (6, "volume", STOCKS)
    assert longer.extends(STOCKS)
    assert longer.extends(longer)
    assert not STOCKS.extends(longer)
    assert longer.append([Attribute("a", "int", 0, 1)]).first == STOCKS
    assert Schema(longer.attributes).beginning == longer.version
    assert STOCKS.merged(Schema(longer.attributes)).first == STOCKS
    assert longer != STOCKS
    with pytest.raises(SchemaError, match=r"^attribute 'price' is in the swarm's schema already$"):
        STOCKS.append([Attribute("price", "string")])
    with pytest.raises(SchemaError, match="twice"):
        STOCKS.append([Attribute("a", "string"), Attribute("a", "bool")])


def test_boxes_and_points_know_the_beginning_only() -> None:
    longer = STOCKS.append([Attribute("volume", "int", 0, 100)])
    assert longer.space.unbounded == STOCKS.space.unbounded
    assert longer.point({"price": 3.0, "volume": 7}) == STOCKS.point({"price": 3.0})
    with pytest.raises(KeyError):
        longer.place("volume")
    assert longer.validate({"volume": 7}) == {"volume": 7}
    with pytest.raises(SchemaError, match="volume"):
        longer.validate({"volume": "many"})


APPENDED = [
    Attribute("volume", "int", 0, 100),
    Attribute("volume", "string"),
    Attribute("volume", "int", 0, 200),
    Attribute("broker", "string"),
    Attribute("alert", "bool"),
]
grown = st.lists(st.sampled_from(APPENDED), max_size=4, unique_by=lambda each: each.name).map(STOCKS.append)


@given(a=grown, b=grown, c=grown)
def test_in_whatever_order_schemas_meet_the_result_is_the_same(a: Schema, b: Schema, c: Schema) -> None:
    assert a.merged(b) == b.merged(a)
    assert a.merged(b).merged(c) == a.merged(b.merged(c))
    assert a.merged(a) is a
    assert a.merged(b).merged(b) == a.merged(b)
    assert a.merged(b).first == STOCKS
    assert set(a.merged(b).names) == {*a.names, *b.names}


def test_of_too_many_the_first_names_stand() -> None:
    room = ATTRIBUTES_MAX - STOCKS.version
    names = [f"n{number:03}" for number in range(2 * room)]
    even, odd = ([Attribute(name, "bool") for name in names[half::2]] for half in (0, 1))
    merged = STOCKS.append(even).merged(STOCKS.append(odd))
    assert merged.names == (*STOCKS.names, *names[:room])
    assert merged == STOCKS.append(odd).merged(STOCKS.append(even))
    assert merged.merged(STOCKS.append(odd)) == merged


def test_schemas_of_different_beginnings_do_not_merge() -> None:
    for other in (Schema(STOCKS.attributes[1:]), Schema(STOCKS.attributes[:-1])):
        with pytest.raises(SchemaError, match="does not begin"):
            STOCKS.merged(other)


@pytest.mark.parametrize(
    ("wanted", "extended"),
    [
        (STOCKS, True),
        (Schema(STOCKS.attributes[:2]), True),
        (Schema([*STOCKS.attributes, APPENDED[0], APPENDED[3]]), True),  # as somebody wrote it down
        (Schema([*STOCKS.attributes, APPENDED[1]]), False),
        (Schema([*STOCKS.attributes, APPENDED[4]]), False),
        (Schema(STOCKS.attributes[::-1]), False),
    ],
)
def test_what_a_schema_extends(wanted: Schema, extended: bool) -> None:
    assert STOCKS.append([APPENDED[0], APPENDED[3]]).extends(wanted) is extended


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("[attributes.p", "not TOML"),
        ("", r"needs \[attributes.NAME\] tables"),
        ("attributes = {}", "at least one"),
        ("x = 1\n[attributes.a]\ntype='string'", "unknown key 'x'"),
        ("[attributes.p]\nmin=1", "type is missing"),
        ("[attributes.a.b]\ntype='string'", r'\[attributes."a.b"\]'),
        ("[attributes.p]\ntype='decimal'", "none of int, float, string, bool"),
        ("[attributes.p]\ntype='string'\nmin=1", "has no min"),
        ("[attributes.p]\ntype='string'\nunit='kg'", "unknown key 'unit'"),
        ("[attributes.p]\ntype='float'\nmin=0.0\nmax=1.0", "precision is missing"),
        ("[attributes.p]\ntype='int'\nmin=0", "max is missing"),
        ("[attributes.p]\ntype='int'\nmin=0\nmax=1.5", "must be an integer"),
        ("[attributes.p]\ntype='float'\nmin=0\nmax=true\nprecision=1", "must be a number"),
        ("[attributes.p]\ntype='float'\nmin=0\nmax=inf\nprecision=1", "max must be a finite number, not inf"),
        ("[attributes.p]\ntype='float'\nmin=nan\nmax=1\nprecision=1", "min must be a finite number, not nan"),
        (f"[attributes.p]\ntype='float'\nmin=0\nmax=1{'0' * 400}\nprecision=1", "too large"),
        ("[attributes.p]\ntype='int'\nmin=0\nmax=9007199254740992", "too large"),
        ("[attributes.p]\ntype='float'\nmin=2\nmax=1\nprecision=1", "above max"),
        ("[attributes.p]\ntype='float'\nmin=0\nmax=1\nprecision=0.0", "above 0"),
        ("[attributes.p]\ntype='float'\nmin=0\nmax=1\nprecision=1e-300", "coarser precision"),
        ("[attributes.p]\ntype='float'\nmin=0\nmax=1\nprecision=1\nexact=1", "true or false"),
        ("[attributes.'']\ntype='string'", "1 to 128 characters"),
        ("[attributes.\"a\\u0007\"]\ntype='string'", "printable"),
        ("attributes = 5", "needs"),
        ("[attributes]\np = 5", "a table with a type"),
    ],
)
def test_bad_schemas_are_refused_in_one_line(toml: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason) as caught:
        Schema.from_toml(toml)
    assert "\n" not in str(caught.value)


def test_too_many_attributes() -> None:
    with pytest.raises(SchemaError, match="at most 128"):
        Schema([Attribute(f"a{number}", "bool") for number in range(129)])


def test_points() -> None:
    assert STOCKS.point({}) == Point((-1, -1, -1), ("", ""))
    attributes: dict[str, Any] = {"symbol": "OTE", "price": 8.305, "high": 99, "low": -3.0, "unheard": 1}
    assert STOCKS.point(attributes) == Point((830, 2000, 0), ("", "=OTE"))
    assert STOCKS.point({"symbol": "", "price": None}) == Point((-1, -1, -1), ("", "="))
    assert EXACT.point({"b": True, "n": 2, "f": -0.1}) == Point((2, 1, 1), ("",))
    with pytest.raises(SchemaError, match="a number is wanted"):
        STOCKS.point({"price": "8"})
    with pytest.raises(SchemaError, match="a string is wanted"):
        STOCKS.point({"symbol": 8})


@pytest.mark.parametrize(
    ("schema", "attributes", "reason"),
    [
        (STOCKS, {"prise": 1}, "unknown attribute 'prise'"),
        (STOCKS, {"price": "8"}, "a float is wanted, not a string"),
        (STOCKS, {"price": True}, "a float is wanted, not a bool"),
        (STOCKS, {"price": [8]}, "a float is wanted, not list"),
        (STOCKS, {"price": nan}, "not a number that can be compared"),
        (STOCKS, {"price": -inf}, "not a number that can be compared"),
        (STOCKS, {"price": 2**53}, "within"),
        (STOCKS, {"symbol": 8}, "a string is wanted, not 8"),
        (STOCKS, {"symbol": "a\ud800"}, "lone surrogate"),
        (STOCKS, {"symbol": "é" * 513}, "1026 bytes"),
        (EXACT, {"n": 2.0}, "an int is wanted, not 2.0"),
        (EXACT, {"n": True}, "an? int is wanted, not a bool"),
        (EXACT, {"n": -(2**53)}, "within"),
        (EXACT, {"b": 1}, "a bool is wanted, not 1"),
        (EXACT, {"f": 0.15}, "not on the grid of 0.1 from -0.2"),
        (EXACT, {f"a{number}": 1 for number in range(33)}, "at most 32"),
    ],
)
def test_what_may_not_be_published(schema: Schema, attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        schema.validate(attributes)


def test_what_may_be_published() -> None:
    fine = {"symbol": "é" * 512, "price": 8, "high": 1e300, "low": 0.123456}
    assert STOCKS.validate({**fine, "exchange": None}) == fine
    assert EXACT.validate({"n": -(2**53 - 1), "f": 7.3, "b": False}) == {"n": -(2**53 - 1), "f": 7.3, "b": False}
