from protocols.parts.tombstones import Tombstones
from tests.parts.nodes import address


def test_holds_one_life_at_one_refutation_for_30_s() -> None:
    stones = Tombstones()
    assert not stones
    stones.bury(0, address(1, boot=2), 5)
    assert stones.hold(address(1, boot=2), 5)
    assert stones.hold(address(1, boot=1), 9)
    assert stones.hold(address(1, boot=2, slot=3))
    assert not stones.hold(address(1, boot=2), 6)
    assert not stones.hold(address(1, boot=3))
    assert not stones.hold(address(2))
    stones.expire(29_999)
    assert stones
    stones.expire(30_000)
    assert not stones


def test_only_a_refutation_digs_up_and_a_word_makes_the_grave_knock() -> None:
    stones = Tombstones()
    stones.bury(0, address(1), 5)
    stones.heard(address(1, boot=2), 9)
    assert stones.hold(address(1)), "the earlier life stays dead"
    assert stones.knocking() == []
    stones.heard(address(1))
    assert [grave.address for grave in stones.knocking()] == [address(1)]
    assert stones.knocking() == []
    stones.heard(address(1), 5)
    assert stones.hold(address(1))
    stones.heard(address(1), 6)
    assert not stones


def test_the_better_informed_tombstone_stays() -> None:
    stones = Tombstones()
    stones.bury(0, address(1, boot=2), 1)
    stones.bury(0, address(1, boot=1), 7)
    assert stones.hold(address(1, boot=2), 1)
    stones.bury(10_000, address(1, boot=2), 1)
    stones.expire(35_000)
    assert stones.hold(address(1, boot=2), 1)


def test_is_bounded() -> None:
    stones = Tombstones(capacity=2)
    for number in (1, 2, 3):
        stones.bury(number, address(number))
    assert len(stones) == 2
    assert not stones.hold(address(1))
    assert stones.hold(address(3))
