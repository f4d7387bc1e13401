"""How fast publishers may go, and what is remembered of them."""

import tracemalloc

from peerd.service import ServiceConfig
from peerd.service.ingress import IDS_MAX, REMEMBER_MS, SPAN_MS, PublishedIds, TokenBucket

START = 1_000_000


def test_a_bucket_lets_a_burst_pass_and_holds_the_mean() -> None:
    bucket = TokenBucket(rate=10, burst=3)
    assert [bucket.take(0) for _ in range(3)] == [0, 0, 0]
    assert bucket.take(0) == 0.1
    assert bucket.take(50) == 0.05
    assert bucket.take(100) == 0
    taken = sum(bucket.take(100 + ms) == 0 for ms in range(10_000))
    assert 99 <= taken <= 101


def test_an_idle_bucket_holds_no_more_than_its_burst() -> None:
    bucket = TokenBucket(rate=10, burst=3)
    assert [bucket.take(10**9) for _ in range(4)] == [0, 0, 0, 0.1]


def test_time_that_stands_still_gives_nothing() -> None:
    bucket = TokenBucket(rate=1000, burst=1)
    assert bucket.take(5) == 0
    assert bucket.take(5) > 0
    assert bucket.take(4) > 0


def test_an_id_is_remembered_for_its_time() -> None:
    ids = PublishedIds()
    for after_ms in (0, 1, SPAN_MS - 1, SPAN_MS, 7 * SPAN_MS + 3):
        ids.remember(START + after_ms, f"at {after_ms}", after_ms)
    for after_ms in (0, 1, SPAN_MS - 1, SPAN_MS, 7 * SPAN_MS + 3):
        ids.forget_old(START + after_ms + REMEMBER_MS - 1)
        assert ids.answer(START + after_ms + REMEMBER_MS - 1, f"at {after_ms}") == after_ms
        assert ids.answer(START + after_ms + REMEMBER_MS, f"at {after_ms}") is None
    assert ids.answer(START, "another") is None


def test_an_id_that_is_used_again_later_is_remembered_anew() -> None:
    ids = PublishedIds()
    again_ms = START + REMEMBER_MS + 1
    ids.remember(START, "a", 1)
    ids.remember(again_ms, "a", 2)
    assert ids.answer(again_ms, "a") == 2
    assert ids.answer(again_ms + REMEMBER_MS - 1, "a") == 2


def test_none_is_forgotten_early_when_there_are_too_many() -> None:
    """The old table changed generations when one was full: an id was forgotten after two of them."""
    ids = PublishedIds(ids_max=10)
    for number in range(10):
        assert ids.room_in_s(START + number) == 0
        ids.remember(START + number, f"n{number}", number)
    wait_s = ids.room_in_s(START + 1_000)
    assert wait_s == (REMEMBER_MS + SPAN_MS - 1_000) / 1000
    there_ms = START + 1_000 + int(wait_s * 1000)
    assert ids.room_in_s(there_ms - 1) > 0
    assert [ids.answer(START + REMEMBER_MS - 1, f"n{number}") for number in range(10)] == list(range(10))
    assert ids.room_in_s(there_ms) == 0
    assert len(ids) == 0


def test_the_table_goes_with_its_ids_though_nobody_adds_more() -> None:
    ids = PublishedIds()
    for number in range(1000):
        ids.remember(START + 20 * number, f"n{number}", number)
    ids.forget_old(START + REMEMBER_MS + 2 * SPAN_MS - 1)
    assert len(ids) == 500
    ids.forget_old(START + REMEMBER_MS + 2 * SPAN_MS)
    assert len(ids) == 0


def test_what_publishers_may_send_by_default_has_room() -> None:
    """All events with ids, at the rate that is let in, for as long as the slowest id to go is kept."""
    config = ServiceConfig()
    assert config.ids_max == IDS_MAX
    assert config.publish_burst + config.publish_rate * (REMEMBER_MS + SPAN_MS) / 1000 <= IDS_MAX


def test_an_id_takes_little_memory_however_long_it_is() -> None:
    ids = PublishedIds()
    tracemalloc.start()
    try:
        for number in range(60_000):
            ids.remember(START + number // 5, f"{number:0256}", number)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / len(ids) < 200
