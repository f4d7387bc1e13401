import sys

from hypothesis import given
from hypothesis import strategies as st

from protocols.parts.seen import DUPLICATE, FULL, NEW, Seen

STEPS = st.lists(st.tuples(st.integers(0, 70), st.sampled_from("abcdefgh")), max_size=60)


@given(STEPS, st.integers(1, 8))
def test_never_forgets_early_never_keeps_twice_as_long_never_overflows(steps: list[tuple[int, str]], room: int) -> None:
    seen, came_ms, now_ms = Seen(keep_ms=100, capacity=room), dict[str, int](), 1_000
    for pause_ms, id_ in steps:
        now_ms += pause_ms
        result = seen.admit(now_ms, id_)
        since_ms = now_ms - came_ms[id_] if id_ in came_ms else None
        if since_ms is not None and since_ms < 100:
            assert result == DUPLICATE
        elif since_ms is None or since_ms >= 200:
            assert result != DUPLICATE
        if result == NEW:
            came_ms[id_] = now_ms
        if result == FULL:
            recent = [id_ for id_, at_ms in came_ms.items() if now_ms - at_ms < 200]
            assert len(recent) >= room
            assert id_ not in seen
        assert len(seen) <= room


def test_refuses_at_capacity_until_a_generation_is_gone() -> None:
    seen = Seen(keep_ms=100, capacity=2)
    assert [seen.admit(0, id_) for id_ in "abca"] == [NEW, NEW, FULL, DUPLICATE]
    assert seen.admit(99, "c") == FULL
    assert seen.admit(100, "a") == DUPLICATE
    assert seen.admit(199, "c") == FULL
    assert seen.admit(200, "c") == NEW
    assert seen.admit(200, "a") == NEW


def test_ids_may_be_tuples() -> None:
    seen = Seen()
    assert seen.admit(0, ("e", 1, 2)) == NEW
    assert seen.admit(0, ("e", 2, 2)) == NEW
    assert ("e", 1, 2) in seen


def test_an_empty_one_is_tiny() -> None:
    seen = Seen()
    assert sys.getsizeof(seen) + sys.getsizeof(seen._young) + sys.getsizeof(seen._old) < 300
