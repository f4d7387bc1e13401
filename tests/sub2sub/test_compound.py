"""Rings of several attributes: coordinates that sort as their parts do, and who takes which ring."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.sim.invariants import violations
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads.workload import interest_in
from protocols.model.box import Box, Point, match
from protocols.model.descriptor import Descriptor
from protocols.model.lint import compile_filter
from protocols.model.schema import STOCKS
from protocols.sub2sub import claims
from protocols.sub2sub.compound import PLACE_MAX, compound, is_compound, parts_of
from protocols.sub2sub.order import best_place, coordinate_at, places, span
from tests.sub2sub.scene import address, participants

EXCHANGE, SYMBOL = 1, 3
PRICE, HIGH = 0, 2
SHAPES = [
    compound(parts) for parts in ((SYMBOL, PRICE), (PRICE, SYMBOL), (EXCHANGE, SYMBOL, HIGH), (HIGH, PRICE, 4, 1))
]

texts = st.sampled_from(["", "=", "=\0", "=\0\0", "=\0\1", "=A", "=A\0", "=AB", "=B", "=\U0010ffff"])
numbers = st.one_of(st.integers(-1, 20), st.sampled_from([254, 255, 256, 4094, 4095, 2**62, 2**63 - 1]))
points = st.builds(Point, st.tuples(numbers, numbers, numbers), st.tuples(texts, texts))


def parts_at(point: Point, place: int) -> tuple[object, ...]:
    return tuple(point.text[part >> 1] if part & 1 else point.numbers[part >> 1] for part in parts_of(place))


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Half of the sides hold a single value."""
    los = draw(st.tuples(numbers, numbers, numbers))
    his = tuple(lo + 1 if draw(st.booleans()) else max(lo + 1, draw(numbers)) for lo in los)
    firsts = draw(st.tuples(texts, texts))
    lasts = tuple(first + "\0" if draw(st.booleans()) else max(first + "\0", draw(texts)) for first in firsts)
    return Box(los, his, firsts, lasts)


@given(a=points, b=points, place=st.sampled_from(SHAPES))
def test_coordinates_sort_as_their_parts_do(a: Point, b: Point, place: int) -> None:
    assert (coordinate_at(a, place) < coordinate_at(b, place)) == (parts_at(a, place) < parts_at(b, place))
    assert (coordinate_at(a, place) == coordinate_at(b, place)) == (parts_at(a, place) == parts_at(b, place))


@given(point=points, box=boxes(), place=st.sampled_from(SHAPES))
def test_whoever_matches_an_event_stands_where_it_falls(point: Point, box: Box, place: int) -> None:
    inside = Point(tuple(map(max, box.lo, map(min, point.numbers, (hi - 1 for hi in box.hi)))), box.lo_text)
    its = span(Descriptor(address("a"), box, 1, 0, (0, place)), place)
    assert match(box, inside)
    assert its is not None
    assert its[0] <= coordinate_at(inside, place) < its[1]


@given(point=points, box=boxes(), place=st.sampled_from(SHAPES))
def test_with_single_values_nobody_else_stands_there(point: Point, box: Box, place: int) -> None:
    *single, last = parts_of(place)
    exact = Box(
        tuple(box.lo),
        tuple(lo + 1 if 2 * at in single else hi for at, (lo, hi) in enumerate(zip(box.lo, box.hi))),
        box.lo_text,
        tuple(lo + "\0" if 2 * at + 1 in single else hi for at, (lo, hi) in enumerate(zip(box.lo_text, box.hi_text))),
    )
    its = span(Descriptor(address("a"), exact, 1, 0, (0, place)), place)
    assert its is not None
    sides = [
        exact.lo_text[part >> 1] <= point.text[part >> 1] < exact.hi_text[part >> 1]
        if part & 1
        else exact.lo[part >> 1] <= point.numbers[part >> 1] < exact.hi[part >> 1]
        for part in (*single, last)
    ]
    assert (its[0] <= coordinate_at(point, place) < its[1]) == all(sides)


@given(st.lists(st.integers(0, 255), min_size=2, max_size=4, unique=True))
def test_a_place_names_its_parts(parts: list[int]) -> None:
    place = compound(tuple(parts))
    assert is_compound(place)
    assert place < PLACE_MAX
    assert parts_of(place) == tuple(parts)


@given(st.integers(0, PLACE_MAX - 1), points, boxes())
def test_a_place_that_makes_no_sense_is_nobodys(place: int, point: Point, box: Box) -> None:
    coordinate_at(point, place)
    its = span(Descriptor(address("a"), box, 1, 0, (0, place)), place)
    if is_compound(place) and not parts_of(place):
        assert its is None


def place_of(filter_: str, several: int = 4) -> tuple[int, ...]:
    (box,) = compile_filter(filter_, STOCKS).boxes
    place = best_place(STOCKS.space, box, several)
    assert place is not None
    return parts_of(place) if is_compound(place) else (place,)


@pytest.mark.parametrize(
    ("filter_", "parts"),
    [
        ("price BETWEEN 8.31 AND 8.69 AND high >= 2", (PRICE,)),
        ("symbol = 'OTE'", (SYMBOL,)),
        ("symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69", (SYMBOL, PRICE)),
        ("symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69 AND high >= 2", (SYMBOL, PRICE)),
        ("symbol = 'OTE' AND exchange = 'ATHEX'", (EXCHANGE, SYMBOL)),
        ("symbol = 'OTE' AND exchange = 'ATHEX' AND high >= 2", (EXCHANGE, SYMBOL, HIGH)),
        ("symbol = 'OTE' AND price = 8.4 AND high >= 2", (PRICE, SYMBOL, HIGH)),
    ],
)
def test_single_values_come_first_and_then_the_narrowest_of_the_others(filter_: str, parts: tuple[int, ...]) -> None:
    assert place_of(filter_) == parts
    assert len(place_of(filter_, 1)) == 1
    assert len(place_of(filter_, 2)) <= 2


def swarm_of_quotes(filters: list[str], **parameters: str) -> Swarm:
    swarm = Swarm(SwarmConfig(overlay="sub2sub", schema=STOCKS, seed=1, parameters=parameters, exact_boxes=True))
    interests = [[interest_in(STOCKS, compile_filter(filter_, STOCKS).boxes[0])] for filter_ in filters]
    swarm.start_many(interests, 20)
    swarm.run(20 * len(filters) + 1)
    assert swarm.converge(60_000) is not None
    return swarm


def quote(price: float, symbol: str = "OTE") -> dict[str, str | float]:
    return {"exchange": "ATHEX", "symbol": symbol, "price": price, "high": price, "low": price}


RANGES = [f"symbol = 'OTE' AND price BETWEEN {number} AND {number + 1}.5" for number in range(12)]


@pytest.mark.parametrize(("most", "visited"), [("1", 12), ("4", 2)])
def test_only_who_wants_an_event_by_all_attributes_of_its_ring_is_visited(most: str, visited: int) -> None:
    swarm = swarm_of_quotes(RANGES, ring_attributes=most)
    overlays = participants(swarm)
    before = sum(overlay.copies_received + overlay.copies_guided > 0 for overlay in overlays)
    assert before == 0
    swarm.publish(quote(3.2), list(swarm.live.values())[2])
    swarm.run(3_000)
    received = [overlay for overlay in overlays if overlay.copies_received + overlay.copies_guided]
    assert visited - 1 <= len(received) <= visited  # the publisher is one of them, and may get no copy back
    swarm.run(11_000)
    verdict = swarm.oracle.settle()
    assert verdict.expected == 2
    assert not verdict.missing


def test_where_claims_are_many_rings_of_one_attribute_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these needs a claim of its own in a ring of two attributes, and one is enough for all in that of one."""
    monkeypatch.setattr(claims, "ROOM", 5)
    swarm = swarm_of_quotes(RANGES[::2] + RANGES[1::2])
    assert not violations(swarm)
    overlays = participants(swarm)
    compounds = sum(is_compound(place) for overlay in overlays for place in places(overlay.descriptor()))
    assert 5 <= compounds < 12
    for number in range(24):
        swarm.publish(quote(number / 2))
        swarm.run(100)
    swarm.run(11_000)
    verdict = swarm.oracle.settle()
    assert verdict.expected > 24
    assert not verdict.missing


def test_where_claims_are_too_many_to_be_known_those_who_hold_them_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIMS_KEPT", 8)  # all claim at once, before they have heard of each other
    monkeypatch.setattr(claims, "ROOM", 6)
    swarm = swarm_of_quotes(RANGES)
    assert not violations(swarm)
    assert all(overlay.claims.complete for overlay in participants(swarm))
    swarm.publish(quote(3.2))
    swarm.run(11_000)
    verdict = swarm.oracle.settle()
    assert verdict.expected == 2
    assert not verdict.missing
