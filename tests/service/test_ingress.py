"""How fast publishers may go, and what is remembered of them."""

from peerd.ingress import REMEMBER_MS, RecentIds, TokenBucket


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
    recent = RecentIds()
    recent.remember(1_000_000, "a", "first")
    assert recent.answer(1_000_000 + REMEMBER_MS - 1, "a") == "first"
    assert recent.answer(1_000_000 + REMEMBER_MS, "a") is None
    assert recent.answer(1_000_000, "b") is None


def test_an_id_outlives_a_change_of_generation() -> None:
    recent = RecentIds(ids_max=10)
    recent.remember(1_000_000, "a", "first")
    for number in range(5):
        recent.remember(1_000_001, f"n{number}", "")
    assert recent.answer(1_000_002, "a") == "first"


def test_the_table_is_bounded_and_freed() -> None:
    recent = RecentIds(ids_max=10)
    for number in range(1000):
        recent.remember(1_000_000, f"n{number}", "")
        assert len(recent) <= 10
    recent.forget_old(1_000_000 + 2 * REMEMBER_MS)
    assert len(recent) == 0
