"""What was received lately, against a list that is looked through."""

from hypothesis import given
from hypothesis import strategies as st

from protocols.model.event import LIFETIME_MS
from protocols.parts.digests import digest
from protocols.sub2sub.kept import Kept
from tests.sub2sub.scene import copy

steps = st.lists(st.tuples(st.integers(0, 400), st.booleans(), st.sampled_from((0, LIFETIME_MS - 500))), max_size=60)


@given(steps, st.integers(0, 1_000), st.integers(0, 1_000))
def test_against_a_list(taken: list[tuple[int, bool, int]], from_ms: int, to_ms: int) -> None:
    """Somebody asks now and then, so that some digests are made early and some late; some copies are old already."""
    kept, twin, now_ms = Kept(1_000, 1_000), [], 0
    for number, (pause_ms, asks, age_ms) in enumerate(taken):
        now_ms += pause_ms
        event = copy(str(number), age_ms=age_ms)
        twin.append((now_ms, event))
        kept.add(now_ms, event)
        if asks:
            assert kept.missing((digest(str(number)), 99)) == (99,)
            kept.forget(now_ms)
    alive = [(at_ms, each) for at_ms, each in twin if each.age_ms + now_ms - at_ms < LIFETIME_MS]
    told = [(digest(each.event.id), each) for at_ms, each in alive if from_ms <= now_ms - at_ms < to_ms]
    assert kept.held(now_ms, from_ms, to_ms) == told
    young = [(at_ms, each) for at_ms, each in alive if now_ms - at_ms < 1_000]
    found = kept.find(now_ms, tuple(digest(each.event.id) for _, each in young))
    assert [(each.event.id, each.age_ms) for each in found] == [
        (each.event.id, each.age_ms + now_ms - at_ms) for at_ms, each in young
    ]


@given(st.integers(2, 20), st.integers(0, 100))
def test_the_capacity_holds_and_the_newest_stay(capacity: int, count: int) -> None:
    kept = Kept(1_000_000, capacity)
    for each in range(count):
        kept.add(each, copy(str(each)))
        if each % 7 == 0:
            kept.missing(())
    assert len(kept) <= capacity
    newest = range(max(0, count - capacity // 2), count)
    assert kept.missing(tuple(digest(str(each)) for each in newest)) == ()


def test_what_is_old_goes() -> None:
    kept = Kept(100, 1_000)
    for now_ms in range(0, 10_000, 10):
        kept.add(now_ms, copy(str(now_ms)))
        if now_ms % 50 == 0:
            kept.forget(now_ms)
            kept.missing(())
    assert len(kept) <= 15
    assert kept.missing((digest("0"),)) == (digest("0"),)
