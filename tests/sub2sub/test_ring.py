"""One ring: exact links from whatever is known, who is believed, and what fades."""

from hypothesis import given
from hypothesis import strategies as st

from protocols.model.descriptor import Descriptor
from protocols.sub2sub.messages import RingReply
from protocols.sub2sub.order import rank
from protocols.sub2sub.ring import FADING_MAX, POOL_MAX, STALE_CYCLES, VERSION_MAX, Ring
from tests.sub2sub.scene import Player, address, described

NAMES = "abcdefghijklnopqrstuvwxyz"


def ring_of(own: Descriptor, *others: Descriptor, linger_ms: int = 4_000) -> Ring:
    ring = Ring(0, own, 1_000, 256, linger_ms)
    ring.learn(0, others)
    ring.resweep(0)
    return ring


def hops(ring: Ring, x: int) -> tuple[str, str]:
    upper, lower, _ = ring.next_hops(x)
    return (upper.peer if upper else ""), (lower.peer if lower else "")


ranges = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 90), st.integers(0, 40), st.integers(0, 3)), max_size=20
)


@given(ranges)
def test_links_are_the_next_in_the_order_for_every_value(others: list[tuple[str, int, int, int]]) -> None:
    own = described("m", 20, 60, 1)
    known = {name: described(name, lo, lo + size, cell) for name, lo, size, cell in others}
    ring = ring_of(own, *known.values())
    for x in range(20, 61):
        holding = [d for d in known.values() if d.box.lo[0] <= x < d.box.hi[0]]
        above = min((rank(d) for d in holding if rank(d) > rank(own)), default=(0, "", 0))
        below = max((rank(d) for d in holding if rank(d) < rank(own)), default=(0, "", 0))
        assert hops(ring, x) == (above[1], below[1])


@given(ranges, st.integers(0, 60), st.integers(0, 40))
def test_best_for_another_is_its_own_sweep(others: list[tuple[str, int, int, int]], lo: int, size: int) -> None:
    """What a participant tells a newcomer are the links that the newcomer would choose from all that it knows."""
    known = {name: described(name, first, first + length, cell) for name, first, length, cell in others}
    ring = ring_of(described("m", 0, 100, 1), *known.values())
    newcomer = described("t2", lo, lo + size, 2)
    told = ring.best_for(0, newcomer, 64)
    assert {d.address for d in told} == {c.address for c in ring_of(newcomer, *known.values()).links.values()}


def test_what_a_participant_says_of_itself_is_believed() -> None:
    ring = ring_of(described("m", 0, 9), described("p", 0, 9, version=1 << 40))
    ring.heard(1, described("p", 50, 59, version=2))
    ring.resweep(1)
    assert not ring.links


def test_what_others_say_is_believed_if_it_is_newer() -> None:
    ring = ring_of(described("m", 0, 9), described("p", 0, 9, version=2))
    ring.learn(1, [described("p", 0, 4, version=1), described("p", 0, 3, version=VERSION_MAX + 1)])
    assert not ring.changed
    ring.learn(1, [described("p", 0, 4, version=3)])
    ring.resweep(1)
    assert (hops(ring, 4), hops(ring, 5)) == (("p", ""), ("", ""))


def test_hearsay_that_is_too_old_is_not_taken_up() -> None:
    ring = ring_of(described("m", 0, 9))
    old = described("p", 0, 9)
    ring.learn(0, [Descriptor(old.address, old.box, 1, STALE_CYCLES + 1, old.ext)])
    assert not ring.changed


def test_a_link_that_is_given_up_fades() -> None:
    ring = ring_of(described("m", 0, 9), described("p", 0, 9))
    ring.learn(0, [described("n", 0, 9)])
    ring.resweep(100)
    assert hops(ring, 5) == ("n", "")
    assert ring.fading(200, 5) == [address("p")]
    assert ring.fading(4_100, 5) == []


def test_nothing_fades_towards_the_dead() -> None:
    ring = ring_of(described("m", 0, 9), described("p", 0, 9))
    ring.forget(address("p"))
    ring.resweep(1)
    ring.bury(address("p"))
    assert ring.fading(2, 5) == []


def test_pool_and_fading_are_bounded() -> None:
    ring = ring_of(described("m", 0, 9))
    for number in range(3 * POOL_MAX):
        ring.learn(number, [described(f"n{number:04}", 0, 9)])
        ring.resweep(number)
    assert len(list(ring.candidates())) <= POOL_MAX + len(ring.links)
    assert len(ring.fading(3 * POOL_MAX, 5)) <= FADING_MAX


def test_a_link_is_confirmed_for_the_descriptor_that_it_has_seen() -> None:
    ring = ring_of(described("m", 0, 9), described("p", 0, 9))
    assert not ring.is_settled()
    ring.confirmed["p", 0] = 1
    assert ring.is_settled()
    ring.present(described("m", 0, 8, version=2))
    ring.resweep(1)
    assert not ring.is_settled()


def test_more_links_than_there_is_room_for_are_reported() -> None:
    ring = Ring(0, described("m", 0, 99), 1_000, 4, 0)
    ring.learn(0, [described(f"n{x:02}", x, x) for x in range(10)])
    ring.resweep(0)
    assert (len(ring.links), ring.overflow) == (2, 8)


def test_what_is_passed_to_and_fro_grows_old() -> None:
    """Were ages rounded down, two that tell each other of a third every half cycle would keep it young for ever."""
    one, other = ring_of(described("a", 0, 9)), ring_of(described("b", 0, 9))
    one.learn(0, [described("z", 0, 9, 3)])
    for now_ms in range(500, 20_000, 1_000):
        other.learn(now_ms, one.best_for(now_ms, other.own, 10))
        one.learn(now_ms + 500, other.best_for(now_ms + 500, one.own, 10))
    [told] = [d for d in one.best_for(20_000, other.own, 10) if d.address.peer == "z"]
    assert told.age >= 20


def test_a_lie_is_not_believed_again_once_its_victim_has_spoken() -> None:
    player = Player("m", 0, 9)
    truth, lie = described("z", 50, 59, version=1), described("z", 0, 9, version=100)
    player.stand(described("n", 0, 9))
    player.hear("n", RingReply(0, described("n", 0, 9), (lie,), 1))
    assert ("z", 0) in player.overlay.rings[0].links
    player.hear("z", RingReply(0, truth, (), 1))
    player.hear("n", RingReply(0, described("n", 0, 9), (lie,), 1))
    assert ("z", 0) not in player.overlay.rings[0].links
    player.hear("n", RingReply(0, described("n", 0, 9), (described("z", 0, 9, version=101),), 1))
    assert ("z", 0) in player.overlay.rings[0].links, "it may have moved since"
