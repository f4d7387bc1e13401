"""The sweep against its obvious twin: for every value, look at all candidates and take the nearest that holds it."""

from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from protocols.sub2sub.sweep import find, subtract, sweep


class Spanning(NamedTuple):
    lo: int
    hi: int
    name: int


spans = st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda each: (each[0], each[0] + each[1]))


@given(own=spans, others=st.lists(spans, max_size=12))
def test_every_value_has_the_nearest_that_holds_it(own: tuple[int, int], others: list[tuple[int, int]]) -> None:
    candidates = [Spanning(lo, hi, number) for number, (lo, hi) in enumerate(others)]
    parts, left = sweep(*own, candidates)
    for x in range(*own):
        nearest = next((c for c in candidates if c.lo <= x < c.hi), None)
        assert find(parts, x) == nearest
        assert any(lo <= x < hi for lo, hi in left) == (nearest is None)


@given(own=spans, others=st.lists(spans, max_size=12))
def test_parts_are_disjoint_and_in_order(own: tuple[int, int], others: list[tuple[int, int]]) -> None:
    parts, _ = sweep(*own, [Spanning(lo, hi, number) for number, (lo, hi) in enumerate(others)])
    for part, following in pairwise(parts):
        assert part.hi <= following.lo
    assert all(own[0] <= part.lo < part.hi <= own[1] for part in parts)


@given(pieces=st.lists(spans, max_size=4), cut=spans)
def test_subtracting_leaves_what_is_not_cut(pieces: list[tuple[int, int]], cut: tuple[int, int]) -> None:
    rest = subtract(pieces, *cut)
    for x in range(50):
        before = sum(lo <= x < hi for lo, hi in pieces)
        assert sum(lo <= x < hi for lo, hi in rest) == (0 if cut[0] <= x < cut[1] else before)


def test_strings_are_swept_like_numbers() -> None:
    class Text(NamedTuple):
        lo: str
        hi: str

    near, far = Text("=b", "=d"), Text("=a", "=z")
    parts, left = sweep("=a", "=f", [near, far])
    assert [(part.lo, part.hi, part.who) for part in parts] == [
        ("=a", "=b", far),
        ("=b", "=d", near),
        ("=d", "=f", far),
    ]
    assert left == []
