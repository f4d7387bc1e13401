"""Claims: who knows whom to ask for a ring, and when nobody is there."""

from protocols.sub2sub.claims import CLAIMS_KEPT, DISTRUST_MS, LEASE_MS, Claims
from protocols.sub2sub.messages import Claim
from tests.sub2sub.scene import address, described


def claims_of(*claims: Claim) -> Claims:
    known = Claims(address("me"))
    for claim in claims:
        assert known.add(0, claim)
    return known


def test_a_value_is_covered_by_whoever_claims_it() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1), Claim(0, described("b", 20, 29), 1))
    assert [d.address.peer for d in known.covering(0, 25)] == ["b"]
    assert known.covering(0, 15) == []
    assert known.uncovered(0, 5, 31) == [(10, 20), (30, 31)]
    assert known.uncovered(2, 0, 1) == [(0, 1)]


def test_a_later_turn_replaces_an_earlier_one() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 2))
    assert not known.add(0, Claim(0, described("a", 0, 50, version=9), 1))
    assert known.add(0, Claim(0, described("a", 0, 50, version=9), 3))
    assert known.uncovered(0, 0, 51) == []


def test_an_ended_claim_is_gone_and_does_not_come_back() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1))
    assert known.add(0, Claim(0, described("a", 0, 9), 2, ended=True))
    assert not known.add(1, Claim(0, described("a", 0, 9), 1))
    assert known.covering(0, 5) == []


def test_claims_are_leases() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1, age_ms=1_000))
    known.expire(LEASE_MS - 1_001)
    assert len(known) == 1
    known.expire(LEASE_MS - 1_000)
    assert len(known) == 0


def test_that_a_claim_led_nowhere_is_told_in_its_holders_words() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1))
    assert known.disprove(0, address("a"), 0) == [Claim(0, described("a", 0, 9), 2, ended=True)]
    other = claims_of(Claim(0, described("a", 0, 9), 1))
    assert other.add(0, Claim(0, described("a", 0, 9), 2, ended=True))
    assert other.add(1, Claim(0, described("a", 0, 9), 3)), "it lives, and contradicts"


def test_a_claim_that_led_nowhere_is_distrusted_for_a_while() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1))
    known.disprove(0, address("a"))
    assert not known.add(1, Claim(0, described("a", 0, 9), 1))
    assert known.add(2, Claim(0, described("a", 0, 9), 3))
    known.disprove(3, address("a"))
    assert known.add(4 + DISTRUST_MS, Claim(0, described("a", 0, 9), 3))


def test_who_has_moved_does_not_hold_its_claim_any_more() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1))
    known.correct(0, 0, described("a", 0, 9, version=5))
    assert known.covering(0, 5)
    known.correct(0, 0, described("a", 6, 9, version=6))
    assert not known.covering(0, 5)


def test_equal_claims_have_equal_digests_in_any_order() -> None:
    first, second = Claim(0, described("a", 0, 9), 1), Claim(0, described("b", 0, 9), 4)
    assert claims_of(first, second).digest == claims_of(second, first).digest != claims_of(first).digest


def test_with_too_many_claims_nobody_can_be_sure() -> None:
    known = claims_of(*[Claim(0, described(f"n{number}", number, number), 1) for number in range(CLAIMS_KEPT)])
    assert not known.complete
    assert not known.add(0, Claim(0, described("late", 0, 9), 1))
    assert sum(len(batch) for batch in known.batches(5)) == CLAIMS_KEPT
