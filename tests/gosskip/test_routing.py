"""Next hops, against a slow, obvious twin."""

from hypothesis import given
from hypothesis import strategies as st

from protocols.gosskip.order import Dictionary, Spot
from protocols.gosskip.routing import Table, share
from protocols.model.box import Point
from protocols.model.schema import Attribute, Schema
from tests.gosskip.scene import NUMBERS, box, descriptor

DICTIONARY = Dictionary(NUMBERS)
values = st.integers(0, 60)


def spot(x: int) -> Spot:
    return DICTIONARY.spot(descriptor(f"p{x}", box((x, x), (0, 0))))


def table(me: int, links: set[int]) -> Table:
    result = Table(spot(me))
    result.assign([spot(x) for x in sorted(links)])
    return result


def slow_next_hop(me: int, links: set[int], event: int) -> int | None:
    """Monotone greedy, by its definition."""
    if event >= me:
        return max((x for x in links if me < x <= event), default=None)
    not_passing = [x for x in links if event <= x < me]
    if not_passing:
        return min(not_passing)
    return max((x for x in links if x < me), default=None)


@given(values, st.sets(values, max_size=12), values)
def test_monotone_hops_are_the_farthest_that_do_not_pass(me: int, links: set[int], event: int) -> None:
    hop = table(me, links - {me}).next_hop(DICTIONARY.event_key(0, Point((event, 0))))
    expected = slow_next_hop(me, links - {me}, event)
    assert (None if hop is None else hop.descriptor.box.lo[0]) == expected


@given(values, st.sets(values, max_size=12), values)
def test_overshooting_takes_one_of_the_two_links_around_the_event(me: int, links: set[int], event: int) -> None:
    links = links - {me}
    hop = table(me, links).next_hop(DICTIONARY.event_key(0, Point((event, 0))), overshoot=True)
    monotone = slow_next_hop(me, links, event)
    around = {monotone, min((x for x in links if x > max(me, event)), default=None)}
    around.add(max((x for x in links if x < min(me, event + 1)), default=None))
    assert (None if hop is None else hop.descriptor.box.lo[0]) in around
    if monotone is None:
        assert hop is None  # the home is found as before


@given(st.integers(3, 40), st.integers(0, 39), st.integers(0, 39), st.booleans())
def test_a_lookup_ends_at_the_home(count: int, start: int, event: int, overshoot: bool) -> None:
    """In a perfect list, whether hops overshoot or not, and within twice the levels."""
    start, at, hops = start % count, start % count, 0
    while True:
        links = {at + step * 2**level for level in range(6) for step in (-1, 1)}
        near = table(at, {x for x in links if 0 <= x < count})
        hop = near.next_hop(DICTIONARY.event_key(0, Point((event, 0))), overshoot)
        if hop is None:
            break
        at, hops = hop.descriptor.box.lo[0], hops + 1
        assert hops <= 12
    assert at == min(event, count - 1)


def test_a_share_is_judged_by_the_first_values_that_differ() -> None:
    key = DICTIONARY.event_key(0, Point((25, 0)))
    assert share(spot(20).key, key, spot(40).key) == 0.25
    assert share(spot(40).key, key, spot(20).key) == 0.75


def test_a_share_of_words_looks_behind_their_common_beginning() -> None:
    schema = Schema([Attribute("name", "string")])
    dictionary = Dictionary(schema)

    def key(name: str) -> tuple[object, ...]:
        return dictionary.event_key(0, Point((), (f"={name}",)))

    assert 0.4 < share(key("the same a"), key("the same m"), key("the same z")) < 0.6
    assert share(key("the same a"), key("the same z"), key("the same z")) == 1.0
    assert share(key("a"), key("a"), key("a")) == 0.0


def test_the_place_before_one_that_is_linked_already_is_looked_for_without_it() -> None:
    near = table(50, {10, 20, 30})
    before = near.before(spot(30))
    assert before is not None
    assert before.descriptor.box.lo[0] == 20
