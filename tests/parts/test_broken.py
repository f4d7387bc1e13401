from protocols.model.ids import Address
from protocols.parts.broken import AGAIN_MAX, BROKEN_MAX, FORGET_MS, Broken

PATIENCE_MS = 2_000


def at(number: int) -> Address:
    return Address(f"p{number}", 1, 0, f"p{number}:1")


def test_what_comes_back_is_worth_another_try_for_a_while() -> None:
    broken = Broken(PATIENCE_MS)
    assert broken.returned(1_000, at(1)) == 0
    assert broken.returned(2_999, at(1)) == 1_999
    assert broken.is_worth_it(2_999, at(1))
    assert not broken.is_worth_it(3_000, at(1))
    assert broken.is_worth_it(3_000, at(2))
    broken.heard(at(1))
    assert broken.is_worth_it(3_000, at(1))


def test_what_comes_back_at_once_is_not_tried_again_and_again() -> None:
    broken = Broken(PATIENCE_MS)
    for _ in range(AGAIN_MAX):
        broken.returned(0, at(1))
        assert broken.is_worth_it(0, at(1))
    broken.returned(0, at(1))
    assert not broken.is_worth_it(0, at(1))


def test_breaks_are_not_remembered_for_ever() -> None:
    broken = Broken(PATIENCE_MS)
    for number in range(2 * BROKEN_MAX):
        broken.returned(1_000, at(number))
    assert broken.silent() == [at(number) for number in range(BROKEN_MAX, 2 * BROKEN_MAX)]
    last = at(2 * BROKEN_MAX - 1)
    assert not broken.is_worth_it(3_000, last)
    broken.returned(1_000 + FORGET_MS, last)
    assert broken.is_worth_it(1_000 + FORGET_MS, last)
