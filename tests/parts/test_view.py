from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.model.descriptor import PeerDescriptor
from protocols.model.ids import Address
from protocols.parts.view import AGE_MAX, participant_view, peer_view, sample_keys
from tests.parts.nodes import address, number_of, participant, peer

ME = address(0)


def test_ages_by_counting_rounds() -> None:
    view = peer_view(ME, 3)
    view.put(peer(1, age=4))
    view.round += 2
    view.put(peer(2))
    view.round += 1
    assert [d.age for d in view.descriptors()] == [7, 1]
    assert view.get("p1") == peer(1, age=7)
    assert view.oldest() == "p1"


def test_the_oldest_among_equals_came_first() -> None:
    view = peer_view(ME, 3)
    for number in (3, 1, 2):
        view.put(peer(number, age=5))
    assert view.oldest() == "p3"
    view.remove("p3")
    assert view.oldest() == "p1"
    assert peer_view(ME, 1).oldest() is None


def test_never_holds_its_owner_nor_what_is_no_peer() -> None:
    view = peer_view(ME, 5)
    view.merge(
        [peer(0), peer(0, boot=9), PeerDescriptor(address(1, slot=2)), PeerDescriptor(Address("", 1, -1, "x:1"))]
    )
    assert len(view) == 0
    ring = participant_view(address(0, slot=1), 5)
    ring.merge([participant(0, slot=1), participant(0, slot=-1), participant(0, slot=2), participant(1)])
    assert ring.held() == [("p0", 2), ("p1", 0)]


def test_free_slots_come_before_sacrifices_and_nothing_new_is_sacrificed() -> None:
    view = peer_view(ME, 4)
    view.merge([peer(1), peer(2), peer(3)])
    view.merge([peer(4), peer(5), peer(6), peer(7)], sacrifice=["p1", "p4", "p9", "p5", "p2"])
    assert sorted(map(number_of, view.descriptors())) == [3, 4, 5, 6]


@pytest.mark.parametrize("age", [-1, -(2**63), AGE_MAX + 1, 2**64 - 1])
def test_absurd_ages_stay_encodable(age: int) -> None:
    view = peer_view(ME, 2)
    view.put(peer(1, age=age))
    view.round += 1000
    (kept,) = view.descriptors()
    assert 1000 <= kept.age <= AGE_MAX + 1000
    msgspec.msgpack.encode(kept)


def test_forget_spares_a_later_boot() -> None:
    view = peer_view(ME, 2)
    view.put(peer(1, boot=2))
    assert not view.forget("p1", 1)
    assert view.forget("p1", 2)
    assert not view.forget("p1", 2)


def test_misuse_raises() -> None:
    with pytest.raises(ValueError, match="capacity"):
        peer_view(ME, 0)


@given(st.lists(st.integers(), unique=True), st.integers(0, 30), st.integers())
def test_samples_are_distinct(keys: list[int], count: int, seed: int) -> None:
    chosen = sample_keys(list(keys), count, Random(seed))
    assert len(set(chosen)) == len(chosen) == min(count, len(keys))
    assert set(chosen) <= set(keys)


def test_every_subset_is_equally_likely() -> None:
    rng, counts = Random(1), dict.fromkeys(range(6), 0)
    for _ in range(6_000):
        for key in sample_keys(list(range(6)), 2, rng):
            counts[key] += 1
    assert all(1_850 < count < 2_150 for count in counts.values())


DESCRIPTORS = st.lists(
    st.builds(peer, st.integers(0, 6), age=st.integers(0, 4), boot=st.integers(1, 3), refutation=st.integers(0, 2)),
    max_size=12,
)


def newness(d: PeerDescriptor) -> tuple[int, int, int]:
    return d.address.boot, d.refutation, -d.age


class SlowView:
    """The obvious twin: a list of descriptors that really age."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: list[PeerDescriptor] = []

    def age(self) -> None:
        self.entries = [msgspec.structs.replace(d, age=d.age + 1) for d in self.entries]

    def merge(self, received: list[PeerDescriptor], sacrifice: list[str]) -> None:
        fresh: list[str] = []
        for d in received:
            name = d.address.peer
            old = next((e for e in self.entries if e.address.peer == name), None)
            if name == ME.peer:
                continue
            if old is not None:
                self.entries[self.entries.index(old)] = max(d, old, key=newness)
                continue
            if len(self.entries) >= self.capacity:
                held = [s for s in sacrifice if s not in fresh and any(e.address.peer == s for e in self.entries)]
                if not held:
                    continue
                self.entries = [e for e in self.entries if e.address.peer != held[-1]]
            self.entries.append(d)
            fresh.append(name)


@given(st.lists(st.tuples(DESCRIPTORS, st.lists(st.integers(0, 6), unique=True), st.booleans()), max_size=8))
def test_merges_like_the_slow_twin(steps: list[tuple[list[PeerDescriptor], list[int], bool]]) -> None:
    view, twin = peer_view(ME, 4), SlowView(4)
    for received, sacrifice, ageing in steps:
        names = [f"p{number}" for number in sacrifice]
        view.merge(received, names)
        twin.merge(received, names)
        if ageing:
            view.round += 1
            twin.age()
        assert view.descriptors() == twin.entries
        assert len(view) <= 4
        assert view.free == 4 - len(view)
