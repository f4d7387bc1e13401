"""Retained deliveries: cursors, readers, gaps, and every bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.service.deliveries import OVERHEAD_BYTES, BadCursor, Budget, CursorExpired, Deliveries, Reader


class Log:
    """Deliveries with a clock that the test moves, and the losses it reported."""

    def __init__(
        self, epoch: int = 7, budget: Budget | None = None, retain_s: float = 600, retain_max: int = 5
    ) -> None:
        self.now_ms = 1_000_000
        self.lost: list[str] = []
        self.log = Deliveries(epoch, lambda: self.now_ms, self.lost.append, budget, retain_s, retain_max)
        self.wakes = 0

    def push(self, *ids: int, size: int = 10) -> None:
        for id_ in ids:
            self.log.push(id_, f"e{id_}", b"x" * size, 1)

    def reader(self, after: str | None = None) -> Reader:
        return self.log.reader(after, self._wake)

    def _wake(self) -> None:
        self.wakes += 1


def ids(reader: Reader, limit: int = 100) -> list[str]:
    return [item.event_id for item in reader.take(limit).items]


def test_reading_deletes_nothing_and_every_reader_sees_all() -> None:
    log = Log()
    log.push(1, 2, 3)
    for _ in range(3):
        assert ids(log.reader()) == ["e1", "e2", "e3"]
    assert len(log.log) == 3


def test_a_reader_goes_on_where_it_was() -> None:
    log = Log()
    reader = log.reader()
    log.push(1, 2, 3)
    assert ids(reader, 2) == ["e1", "e2"]
    assert ids(reader) == ["e3"]
    assert ids(reader) == []
    log.push(4)
    assert ids(reader) == ["e4"]


def test_cursors_increase_as_strings_and_name_a_place() -> None:
    log = Log(retain_max=1000)
    log.push(*range(1, 300))
    reader = log.reader()
    items = reader.take(1000).items
    cursors = [reader.cursor_of(item) for item in items]
    assert cursors == sorted(set(cursors))
    assert ids(log.reader(cursors[9]), 2) == ["e11", "e12"]
    assert ids(log.reader(cursors[-1])) == []
    assert reader.cursor == cursors[-1] == log.log.latest


def test_oldest_is_the_cursor_that_all_that_is_kept_follows() -> None:
    log = Log()
    log.push(*range(1, 9))
    assert ids(log.reader(log.log.oldest)) == ["e4", "e5", "e6", "e7", "e8"]
    assert ids(log.reader()) == ["e4", "e5", "e6", "e7", "e8"]


def test_a_cursor_that_is_too_old_has_expired() -> None:
    log = Log()
    log.push(1)
    first = log.log.latest
    log.push(*range(2, 7))
    assert ids(log.reader(first), 1) == ["e2"]
    log.push(7)
    with pytest.raises(CursorExpired) as caught:
        log.reader(first)
    assert caught.value.oldest == log.log.oldest


def test_a_cursor_of_an_earlier_life_has_expired() -> None:
    log, later = Log(epoch=7), Log(epoch=8)
    log.push(1)
    later.push(1, 2, 3)
    with pytest.raises(CursorExpired):
        later.reader(log.log.latest)
    assert log.log.latest < later.log.latest


@pytest.mark.parametrize("cursor", ["", "0", "zz", "x" * 22, "A" * 22, "٣" * 22, " " * 22])
def test_nonsense_is_no_cursor(cursor: str) -> None:
    with pytest.raises(BadCursor):
        Log().reader(cursor)


def test_a_cursor_from_the_future_is_none() -> None:
    log = Log()
    log.push(1)
    with pytest.raises(BadCursor):
        log.reader(log.log.cursor(2))


def test_what_is_too_old_is_let_go() -> None:
    log = Log(retain_s=10)
    log.push(1)
    log.now_ms += 6_000
    log.push(2)
    log.now_ms += 6_000
    assert ids(log.reader()) == ["e2"]
    assert log.lost == ["e1"]


def test_a_slow_reader_finds_a_gap_and_the_loss_is_counted_once() -> None:
    log = Log()
    slow, fast = log.reader(), log.reader()
    for number in range(1, 9):
        log.push(number)
        ids(fast)
    batch = slow.take(100)
    assert batch.lost == 3
    assert [item.event_id for item in batch.items] == ["e4", "e5", "e6", "e7", "e8"]
    assert log.lost == ["e1", "e2", "e3"]
    assert slow.take(100).lost == 0


def test_what_everybody_has_read_goes_without_a_word() -> None:
    log = Log()
    reader = log.reader()
    for number in range(1, 50):
        log.push(number)
        ids(reader)
    reader.close()
    log.push(*range(50, 55))
    assert log.lost == []
    log.push(55)  # nobody is there, and nobody has read 50
    assert log.lost == ["e50"]


def test_readers_are_woken_and_closed_ones_are_not() -> None:
    log = Log()
    first, second = log.reader(), log.reader()
    log.push(1)
    assert log.wakes == 2
    first.close()
    log.push(2)
    assert log.wakes == 3
    assert not second.closed
    log.log.close()
    assert log.wakes == 4
    assert second.closed


def test_idle_is_who_has_no_reader_and_was_not_read() -> None:
    log = Log()
    log.now_ms += 5_000
    assert log.log.idle_ms() == 5_000
    reader = log.reader()
    log.now_ms += 5_000
    assert log.log.idle_ms() == 0
    reader.close()
    log.now_ms += 1_000
    assert log.log.idle_ms() == 1_000


def test_what_nobody_read_is_lost_when_the_subscription_is_abandoned() -> None:
    log = Log()
    log.push(1, 2, 3)
    ids(log.reader(), 1)
    log.log.close(abandoned=True)
    assert log.lost == ["e2", "e3"]


def test_one_subscription_has_so_many_bytes() -> None:
    each = 3 * (OVERHEAD_BYTES + 1_002)
    log = Log(budget=Budget(10**9, each), retain_max=1000)
    log.push(*range(1, 10), size=1_000)
    assert len(log.log) == 3
    assert log.log.size_bytes <= each


def test_all_subscriptions_share_a_budget_fairly() -> None:
    size = OVERHEAD_BYTES + 1_002
    budget = Budget(10 * size, 10**9)
    greedy, modest = Log(budget=budget, retain_max=1000), Log(budget=budget, retain_max=1000)
    greedy.push(*range(1, 10), size=1_000)
    assert len(greedy.log) == 9
    modest.push(1, 2, 3, size=1_000)
    greedy.push(9, size=1_000)
    assert len(modest.log) == 3
    assert len(greedy.log) == 7
    assert budget.used == 10 * size
    greedy.log.close()
    modest.log.close()
    assert (budget.used, budget.holders) == (0, 0)


@given(st.lists(st.one_of(st.integers(1, 4), st.just("read"), st.just("open"), st.just("tick")), max_size=60))
def test_a_reader_sees_every_delivery_or_a_gap_of_that_size(steps: list[int | str]) -> None:
    """Against an obvious twin: what came, minus what was seen, is what was lost."""
    log = Log(retain_s=3, retain_max=6)
    pushed, number = 0, 0
    readers: list[tuple[Reader, int, list[str]]] = []
    for step in steps:
        if isinstance(step, int):
            for _ in range(step):
                number += 1
                log.push(number)
            pushed = number
        elif step == "open":
            reader = log.reader()
            readers.append((reader, pushed - len(log.log), []))
        elif step == "tick":
            log.now_ms += 1_000
        else:
            for index, (reader, came, seen) in enumerate(readers):
                batch = reader.take(2)
                seen += ["lost"] * batch.lost + [item.event_id for item in batch.items]
                readers[index] = reader, came, seen
    for reader, before, seen in readers:
        batch = reader.take(1000)
        seen += ["lost"] * batch.lost + [item.event_id for item in batch.items]
        assert len(seen) == pushed - before
        assert all(name in ("lost", f"e{before + 1 + at}") for at, name in enumerate(seen))


def test_whoever_wants_all_takes_nothing_after_a_gap() -> None:
    log = Log(retain_max=3)
    reader = log.reader()
    log.push(*range(1, 9))
    for _ in range(2):
        with pytest.raises(CursorExpired) as caught:
            reader.take(100, whole=True)
        assert caught.value.oldest == log.log.oldest
    assert log.lost == [f"e{number}" for number in range(1, 6)]
    log.push(9)
    assert log.lost[-1] == "e6", "a reader that was refused has read nothing"
    assert reader.take(100).lost == 6
    assert reader.take(100, whole=True).items == []
