"""Covered runs against a set of values."""

from hypothesis import given
from hypothesis import strategies as st

from protocols.chord.coverage import Arc, Coverage
from protocols.chord.ids import Circle
from protocols.chord.keys import Values
from protocols.model.ids import Address

CIRCLE = Circle(6)
ROTATIONS = (0, 32)


def owner(number: int) -> Address:
    return Address(f"p{number}", 1, 0, "there:1")


def covers(values: Values, arc: Arc, value: int, rotation: int) -> bool:
    return value <= arc.last and CIRCLE.within(values.key(value, rotation), arc.low, arc.high)


steps = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 63), st.integers(0, 63), st.integers(0, 12), st.booleans()), max_size=12
)


@given(st.booleans(), st.integers(0, 63), steps)
def test_what_is_missing(ordered: bool, offset: int, steps: list[tuple[int, int, int, int, bool]]) -> None:
    values = Values.in_order(CIRCLE, 3, 15, offset, 20) if ordered else Values.hashed(CIRCLE, 3, 15, "a")
    coverage = Coverage(values, ROTATIONS)
    arcs: dict[Address, Arc] = {}
    for number, low, high, last, goes in steps:
        who = owner(number)
        if goes:
            assert coverage.without(who) == (arcs.pop(who, None) is not None)
        else:
            arcs.pop(who, None)
            coverage.add(arc := Arc(who, low, high, 0, last))
            if any(covers(values, arc, value, rotation) for rotation in ROTATIONS for value in range(3, 16)):
                arcs[who] = arc
        missing = [(turn, value) for turn, a, b in coverage.missing() for value in range(a, b + 1)]
        assert missing == [
            (turn, value)
            for turn, rotation in enumerate(ROTATIONS)
            for value in range(3, 16)
            if not any(covers(values, arc, value, rotation) for arc in arcs.values())
        ]
    # who has none of the values any more is not asked to keep them
    assert dict.fromkeys(coverage.owners()) == dict.fromkeys(arcs)
