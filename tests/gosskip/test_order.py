"""The dictionary against a slow, obvious twin: boxes as sets of points."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from protocols.gosskip.order import NOWHERE, NUMBERS, Dictionary, Spot, covers, is_single
from protocols.model.box import EMPTY, Box, Point, match
from protocols.model.descriptor import Descriptor
from protocols.model.schema import Attribute, Schema
from tests.gosskip.scene import address, descriptor

SMALL = Schema([Attribute("a", "int", 0, 3), Attribute("b", "int", 0, 3), Attribute("s", "string")])
WORDS = ("", "=", "=a", "=ab", "=b")
DICTIONARY = Dictionary(SMALL)


@st.composite
def sides(draw: st.DrawFn) -> tuple[int, int]:
    lo = draw(st.integers(-1, 3))
    return lo, draw(st.integers(lo + 1, 4))


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    (a_lo, a_hi), (b_lo, b_hi) = draw(sides()), draw(sides())
    texts = [("", ">"), ("=a", "=a\0"), ("=a", "=b"), ("", "="), ("=", ">")]
    lo_text, hi_text = draw(st.sampled_from(texts))
    return Box((a_lo, b_lo), (a_hi, b_hi), (lo_text,), (hi_text,))


POINTS = [Point((a, b), (s,)) for a, b, s in product(range(-1, 4), range(-1, 4), WORDS)]


def spot(of: Box, name: str = "p") -> Spot:
    return DICTIONARY.spot(descriptor(name, of))


@given(boxes())
def test_every_point_of_a_box_falls_between_its_place_and_its_end(of: Box) -> None:
    place = spot(of)
    for point in POINTS:
        key = DICTIONARY.event_key(place.list, point)
        if match(of, point):
            assert key > place.key
            assert key[1] < place.end


@given(boxes(), boxes())
def test_a_range_reaches_to_all_places_before_points_that_it_holds(one: Box, other: Box) -> None:
    """The home of a point is the last place before it: if a range holds the point, it must be known there."""
    owner, home = spot(one, "p"), spot(other, "q")
    if owner.list != home.list or owner.key > home.key:
        return
    for point in POINTS:
        if match(one, point) and DICTIONARY.event_key(owner.list, point) > home.key:
            assert covers(owner, home)


@given(boxes(), boxes(), boxes())
def test_what_reaches_a_place_reaches_all_between(a: Box, b: Box, c: Box) -> None:
    """Hence a place's left neighbour knows, or is, the owner of all that the place must know."""
    left, middle, right = sorted(
        (spot(each, name) for each, name in ((a, "p"), (b, "q"), (c, "r"))), key=lambda s: s.key
    )
    if covers(left, right):
        assert covers(left, middle)


@given(boxes())
def test_a_box_stands_in_the_list_where_its_range_is_narrowest(of: Box) -> None:
    """The twin: how many points fall between the place and the end, in each list."""

    def reach(first: int) -> list[float]:
        shares = dict(zip(("a", "b", "s"), SMALL.space.sides(of)))
        single = {"a": is_single(of.lo[0], of.hi[0]), "b": is_single(of.lo[1], of.hi[1])}
        single["s"] = is_single(of.lo_text[0], of.hi_text[0])
        names = ["a", "b", "s"]
        rotated = [names[first], *[name for name in names if name != names[first]]]
        return [0.0 if single[name] else shares[name] for name in rotated]

    assert reach(DICTIONARY.list_of(of) // NUMBERS) == min(reach(first) for first in range(3))


def test_equal_boxes_are_distinct_places_side_by_side() -> None:
    of = Box((1, 1), (2, 2), ("",), (">",))
    beside = Box((1, 1), (2, 3), ("",), (">",))
    keys = [spot(of, "p").key, spot(of, "q").key, DICTIONARY.spot(descriptor("p", of, version=1)).key]
    assert len(set(keys)) == 3
    assert max(keys) < spot(beside, "a").key


def test_empty_boxes_come_last_by_address_and_reach_nowhere() -> None:
    last = spot(Box((3, 3), (4, 4), ("=z",), (">",)))
    empty, other = spot(EMPTY, "a"), spot(EMPTY, "b")
    assert last.key < empty.key < other.key
    assert empty.list == NOWHERE
    assert not covers(empty, other)


def test_a_cached_place_is_not_taken_for_another_box_under_the_same_version() -> None:
    dictionary = Dictionary(SMALL)
    true, lie = Box((1, 1), (2, 2), ("",), (">",)), Box((2, 1), (3, 2), ("",), (">",))
    assert dictionary.spot(descriptor("p", true)).key != dictionary.spot(descriptor("p", lie)).key
    assert dictionary.spot(descriptor("p", true)).descriptor.box == true


def test_ages_and_extensions_of_descriptors_are_not_kept() -> None:
    told = Descriptor(address("p"), Box((1, 1), (2, 2), ("",), (">",)), 3, 17, (1, 2))
    assert DICTIONARY.spot(told).descriptor == Descriptor(told.address, told.box, 3)
