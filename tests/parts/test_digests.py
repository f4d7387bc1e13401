"""The digests of what was received lately, against a list that is looked through."""

from hypothesis import given
from hypothesis import strategies as st

from protocols.parts.digests import Digests, digest

steps = st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=60)


@given(steps, st.integers(0, 1200), st.integers(0, 1200))
def test_against_a_list(taken: list[tuple[int, bool]], within_ms: int, before_ms: int) -> None:
    """Somebody asks now and then, so that some ids are digested early and some late or never."""
    digests, twin, now_ms = Digests(1_000, 1_000), [], 0
    for number, (pause_ms, asks) in enumerate(taken):
        now_ms += pause_ms
        twin.append((now_ms, digest(str(number))))
        digests.add(now_ms, str(number))
        if asks:
            assert digests.missing((digest(str(number)), 99)) == (99,)
    within_ms = min(within_ms, 1_000)
    wanted = [each for at_ms, each in twin if before_ms <= now_ms - at_ms < within_ms]
    assert list(digests.received(now_ms, within_ms, before_ms)) == wanted
    young = tuple(each for at_ms, each in twin if now_ms - at_ms < 1_000)
    assert digests.missing((*young, 99)) == (99,)


@given(st.integers(2, 20), st.integers(0, 100))
def test_the_capacity_holds_and_the_newest_stay(capacity: int, count: int) -> None:
    digests = Digests(1_000_000, capacity)
    for each in range(count):
        digests.add(each, str(each))
    assert len(digests) <= capacity
    newest = range(max(0, count - capacity // 2), count)
    assert digests.missing(tuple(digest(str(each)) for each in newest)) == ()


def test_what_is_old_goes() -> None:
    digests = Digests(100, 1_000)
    for now_ms in range(0, 10_000, 10):
        digests.add(now_ms, str(now_ms))
        if now_ms % 50 == 0:
            digests.received(now_ms, 100, 0)
    assert len(digests) <= 15
    assert digests.missing((digest("0"),)) == (digest("0"),)


def test_a_digest_is_the_same_in_every_process() -> None:
    assert digest("a-1-1") == 0x1526A22394C61283
