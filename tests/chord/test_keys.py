"""The circle and the hashes, against obvious twins."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocols.chord.config import ChordConfig
from protocols.chord.ids import Circle
from protocols.chord.keys import ANY, HOME, Keys, Values
from protocols.model.box import Box, Point, match
from protocols.model.ids import Address
from protocols.model.lint import compile_filter
from protocols.model.schema import Attribute, Schema

ME = Address("me", 1, 0, "here:1")
SMALL = Circle(6)
places = st.integers(0, 63)

SCHEMA = Schema(
    (
        Attribute("s", "string"),
        Attribute("n", "int", 0, 19),
        Attribute("t", "string"),
        Attribute("b", "bool"),
    )
)


def arc(lo: int, hi: int) -> list[int]:
    """The keys of (lo, hi], one after the other."""
    keys = [(lo + 1) % 64]
    while keys[-1] != hi:
        keys.append((keys[-1] + 1) % 64)
    return keys


@given(places, places, places)
def test_arcs(key: int, lo: int, hi: int) -> None:
    assert SMALL.within(key, lo, hi) == (key in arc(lo, hi))
    assert SMALL.between(key, lo, hi) == (key in arc(lo, hi) and key != hi)
    assert SMALL.length(lo, hi) == len(arc(lo, hi))
    assert SMALL.decode(SMALL.encode(key)) == key


ranges = st.tuples(st.integers(0, 19), st.integers(0, 19)).map(lambda pair: (min(pair), max(pair)))


def made(kind: str, first: int, last: int, offset: int) -> Values:
    if kind == "hashed":
        return Values.hashed(SMALL, first, last, "a")
    return Values.in_order(SMALL, first, last, offset, 19 if kind == "paper" else 20)


@given(st.sampled_from(["ordered", "paper", "hashed"]), ranges, places, places, places, places)
@example("paper", (0, 19), 5, 4, 5, 0)
def test_which_values_lie_on_an_arc(
    kind: str, span: tuple[int, int], offset: int, lo: int, hi: int, rotation: int
) -> None:
    values = made(kind, *span, offset)
    found = [value for a, b in values.on_arc(lo, hi, rotation) for value in range(a, b + 1)]
    twin = [value for value in range(span[0], span[1] + 1) if values.key(value, rotation) in arc(lo, hi)]
    assert sorted(found) == twin
    assert values.touches(lo, hi, (rotation,)) == bool(twin)


@given(ranges, places, places)
def test_the_first_value_beyond_a_node(span: tuple[int, int], offset: int, steps: int) -> None:
    values = made("ordered", *span, offset)
    first, last = span
    node = (values.key(first) + steps) % 64
    keys = [SMALL.distance(values.key(first), values.key(value)) for value in range(first, last + 1)]
    twin = next((first + place for place, far in enumerate(keys) if far > steps), None)
    beyond = values.beyond(first, node)
    assert beyond is not None
    assert (beyond if beyond <= last else None) == twin


texts = st.text(alphabet="ab=\0Ω", max_size=3)
points = st.builds(
    lambda n, b, s, t: Point((n, b), (s, t)),
    st.integers(-1, 19),
    st.integers(-1, 1),
    st.one_of(st.just(""), texts.map(lambda text: "=" + text)),
    st.one_of(st.just(""), texts.map(lambda text: "=" + text)),
)
FILTERS = (
    "s = 'ab'",
    "s LIKE 'a%'",
    "s LIKE 'ab%' AND n > 3",
    "s <> 'b'",
    "n = 4",
    "n BETWEEN 3 AND 12 AND b = TRUE",
    "n IS NULL",
    "t >= 'a' AND t < 'b'",
    "t > 'b'",
    "b = FALSE",
    "TRUE",
    "s IS NOT NULL",
)
BOXES = [box for text in FILTERS for box in compile_filter(text, SCHEMA).boxes]


@pytest.mark.parametrize("settings", [{}, {"hash": "chord"}, {"ophf": "paper"}, {"prefix_max": 3}, {"rotations": 4}])
@given(st.sampled_from(BOXES), points)
def test_an_event_asks_wherever_a_box_that_holds_it_can_stand(settings: dict[str, Any], box: Box, point: Point) -> None:
    """Whichever list a box is in: the one that the owner of the key is asked for by every event in the box."""
    keys = Keys(SCHEMA, ChordConfig(bits=32, **settings), Circle(32))
    if not match(box, point):
        return
    for rotation in keys.rotations:
        asked = keys.asked(point, rotation)
        for list_, _ in [*keys.sides(box), (ANY, 1.0)]:
            values = keys.values(list_, box, ME)
            assert values is not None
            stored = [values.key(value, rotation) for value in range(values.first, values.last + 1)]
            assert set(stored) & set(asked)


def test_sides_that_can_be_indexed() -> None:
    keys = Keys(SCHEMA, ChordConfig(), Circle(160))

    def lists(text: str) -> list[list[int]]:
        return [[list_ for list_, _ in keys.sides(box)] for box in compile_filter(text, SCHEMA).boxes]

    assert lists("s = 'x' AND n < 5 AND t LIKE 'y%' AND b = TRUE") == [[1, 0, 3, 2]]
    assert lists("s <> 'x'") == [[], []]
    assert lists("n IS NOT NULL AND b IS NULL") == [[]]
    assert lists("TRUE") == [[]]


def test_metadata_are_under_the_access_node() -> None:
    circle = Circle(160)
    keys = Keys(SCHEMA, ChordConfig(), circle)
    values = keys.values(HOME, BOXES[0], ME)
    assert values is not None
    assert values.key(0) == circle.node(ME)
