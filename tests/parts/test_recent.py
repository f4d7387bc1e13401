import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.model.box import Box, Point
from protocols.model.event import Copy, Event
from protocols.parts.recent import Recent


def copy(id_: str, place: int = 0, age_ms: int = 0, ttl_ms: int = 60_000) -> Copy:
    return Copy(Event(id_, Point((place,)), ttl_ms=ttl_ms), 3, age_ms)


EVERYTHING = Box((-1,), (100,))


def ids(recent: Recent, now_ms: int) -> list[str]:
    return [copy.event.id for copy in recent.falling_into(now_ms, EVERYTHING)]


def test_replays_what_falls_into_the_box_with_the_held_time_added() -> None:
    recent = Recent()
    recent.add(1_000, copy("a", place=1, age_ms=7))
    recent.add(2_000, copy("b", place=9))
    recent.add(3_000, copy("c", place=2))
    assert recent.falling_into(3_500, Box((0,), (5,))) == [copy("a", 1, 2_507), copy("c", 2, 500)]
    assert recent.falling_into(3_500, Box((0,), (5,)), window_ms=1_000) == [copy("c", 2, 500)]


def test_the_window_is_half_open() -> None:
    recent = Recent(window_ms=100)
    recent.add(0, copy("a"))
    assert ids(recent, 99) == ["a"]
    assert recent.get(99, "a") == copy("a", age_ms=99)
    assert ids(recent, 100) == []
    assert recent.get(100, "a") is None
    assert recent.get(0, "b") is None


def test_what_has_outlived_its_event_is_not_handed_out() -> None:
    recent = Recent()
    recent.add(0, copy("a", age_ms=900, ttl_ms=1_000))
    assert ids(recent, 99) == ["a"]
    assert ids(recent, 100) == []
    assert recent.get(100, "a") is None


def test_the_first_copy_stays() -> None:
    recent = Recent(window_ms=100)
    recent.add(0, copy("a", age_ms=1))
    recent.add(50, copy("a", age_ms=2))
    assert recent.get(50, "a") == copy("a", age_ms=51)


def test_capacity_evicts() -> None:
    recent = Recent(capacity=4)
    for number in range(6):
        recent.add(number, copy(f"e{number}"))
        assert len(recent) <= 4
    assert ids(recent, 6) == ["e2", "e3", "e4", "e5"]
    with pytest.raises(ValueError, match="capacity"):
        Recent(capacity=1)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=40), st.integers(0, 100))
def test_holds_exactly_the_window_while_there_is_room(steps: list[tuple[int, int]], last_ms: int) -> None:
    recent, came, now_ms = Recent(window_ms=100), dict[str, int](), 0
    for pause_ms, number in steps:
        now_ms += pause_ms
        id_ = f"e{number}"
        recent.add(now_ms, copy(id_, place=number))
        if id_ not in came:
            came[id_] = now_ms
        elif now_ms - came[id_] >= 100 and recent.get(now_ms, id_) is not None:
            del came[id_]  # it was forgotten, and came anew
            came[id_] = now_ms
    now_ms += last_ms
    within = [id_ for id_, at_ms in came.items() if now_ms - at_ms < 100]
    assert ids(recent, now_ms) == within
