from collections import Counter, deque
from random import Random
from statistics import mean, pstdev

import msgspec
import pytest

from protocols.model.bounds import ENTRIES_MAX
from protocols.model.box import EMPTY
from protocols.model.descriptor import PeerDescriptor, Standing, pack
from protocols.model.ids import Address
from protocols.parts.cyclon import (
    MESSAGES,
    WALK_TTL,
    Cyclon,
    CyclonReply,
    CyclonRequest,
    CyclonSwap,
    CyclonWalk,
)
from protocols.parts.tombstones import Tombstones
from tests.parts.nodes import address, number_of, peer


def cyclon(number: int, *entries: PeerDescriptor, capacity: int = 20, length: int = 8, seed: int = 0) -> Cyclon:
    result = Cyclon(address(number), Random(seed), capacity=capacity, shuffle_length=length)
    for entry in entries:
        assert result.add(entry)
    return result


def numbers(descriptors: list[PeerDescriptor] | tuple[PeerDescriptor, ...]) -> list[int]:
    return sorted(map(number_of, descriptors))


# --- One exchange ---


def test_the_initiator_ages_all_and_sends_itself_and_others_to_the_oldest() -> None:
    one = cyclon(0, *[peer(n, age=n) for n in range(1, 12)])
    begun = one.begin(peer(0))
    assert begun is not None
    to, request = begun
    assert to == address(11)
    assert 11 not in numbers(one.peers()), "Q is removed"
    assert request.entries[0] == peer(0)
    assert len(request.entries) == 8
    assert all(entry.age == number_of(entry) + 1 for entry in request.entries[1:])
    assert len(set(numbers(request.entries))) == 8, "without replacement"


def test_an_empty_view_does_nothing() -> None:
    one = cyclon(0)
    assert one.begin(peer(0)) is None
    assert one.sample(3) == []
    assert one.on_request(address(1), CyclonRequest(1, (peer(1),))).entries == ()
    assert numbers(one.peers()) == [1]


def test_the_receiver_does_not_age_and_answers_what_it_held_before() -> None:
    one = cyclon(0, peer(1, age=3), peer(2, age=4))
    reply = one.on_request(address(3), CyclonRequest(7, (peer(3), peer(4, age=9))))
    assert reply.req_id == 7
    assert sorted(reply.entries, key=number_of) == [peer(1, age=3), peer(2, age=4)]
    assert numbers(one.peers()) == [1, 2, 3, 4]


def test_the_answer_leaves_out_the_initiator() -> None:
    one = cyclon(0, peer(1, age=3), peer(2))
    assert numbers(one.on_request(address(1), CyclonRequest(1, (peer(1),))).entries) == [2]
    assert [entry.age for entry in one.peers() if number_of(entry) == 1] == [0], "held, and refreshed"


def forged(number: int, refutation: int) -> PeerDescriptor:
    return PeerDescriptor(address(number), 0, refutation, pack((Standing(9, EMPTY),)))


@pytest.mark.parametrize("refutation", [0, 7])
def test_what_the_initiator_says_of_itself_replaces_what_was_held_of_it(refutation: int) -> None:
    one = cyclon(0, forged(1, refutation))
    one.on_request(address(1), CyclonRequest(1, (peer(1, age=1),)))
    assert one.peers() == [peer(1)]


def test_nobody_speaks_for_somebody_else() -> None:
    one = cyclon(0, forged(1, 7))
    one.on_request(address(2), CyclonRequest(1, (peer(1),)))
    one.on_reply(address(2), CyclonReply(1, (), peer(1)))
    assert forged(1, 7) in one.peers()


@pytest.mark.parametrize("refutation", [0, 7])
def test_q_goes_back_by_its_own_word_and_learns_what_was_held_of_it(refutation: int) -> None:
    one, other = cyclon(0, forged(1, refutation)), cyclon(1)
    begun = one.begin(peer(0))
    assert begun is not None
    to, request = begun
    assert request.held == refutation
    one.on_reply(to, other.on_request(address(0), request, peer(1)))
    assert one.peers() == [peer(1)]


def test_full_views_swap() -> None:
    """What was sent is overwritten by what was received; everything else stays."""
    one = cyclon(0, *[peer(n, age=1) for n in range(1, 7)], capacity=6, length=3)
    other = cyclon(1, *[peer(n) for n in range(11, 17)], capacity=6, length=3, seed=1)
    begun = one.begin(peer(0))
    assert begun is not None
    to, request = begun
    assert to == address(1)
    given = set(numbers(request.entries)) - {0}
    reply = other.on_request(address(0), request)
    got = set(numbers(reply.entries))
    one.on_reply(to, reply)
    assert set(numbers(one.peers())) == {2, 3, 4, 5, 6} - given | got
    assert set(numbers(other.peers())) == set(range(11, 17)) - got | given | {0}
    assert len(one) == len(other) == 6


def test_no_reply_and_q_stays_removed() -> None:
    one = cyclon(0, peer(1, age=5), peer(2), peer(3))
    one.begin(peer(0))
    one.begin(peer(0))
    assert 1 not in numbers(one.peers())


def test_a_swarm_of_two_keeps_its_link() -> None:
    one, other = cyclon(0, peer(1)), cyclon(1, peer(0))
    for _ in range(3):
        begun = one.begin(peer(0))
        assert begun is not None
        one.on_reply(begun[0], other.on_request(address(0), begun[1]))
        assert numbers(one.peers()) == [1]
        assert numbers(other.peers()) == [0]


def test_replies_to_forgotten_requests_only_fill_free_slots() -> None:
    one = cyclon(0, *[peer(n) for n in range(1, 5)], capacity=5, length=3)
    begun = one.begin(peer(0))
    assert begun is not None
    to, request = begun
    one.on_reply(address(9), CyclonReply(request.req_id, (peer(20),)))
    assert 20 in numbers(one.peers())
    one.on_reply(to, CyclonReply(999, (peer(21), peer(22), peer(23))))
    assert len(one) == 5
    held = numbers(one.peers())
    one.on_reply(to, CyclonReply(999, (peer(31), peer(32))))
    assert numbers(one.peers()) == held
    one.on_reply(to, CyclonReply(request.req_id, (peer(31),)))
    assert 31 in numbers(one.peers()), "the right reply may still overwrite what was sent"
    one.on_reply(to, CyclonReply(request.req_id, (peer(41),)))
    assert 41 not in numbers(one.peers()), "but only once"


def test_a_shuffle_out_of_turn_mixes_full_views() -> None:
    one = cyclon(0, *[peer(n) for n in range(1, 7)], capacity=6, length=3)
    other = cyclon(50, *[peer(n) for n in range(51, 57)], capacity=6, length=3)
    to, request = one.shuffle_with(peer(0), peer(50))
    assert to == address(50)
    one.on_reply(to, other.on_request(address(0), request))
    assert len([n for n in numbers(one.peers()) if n > 50]) == 2
    assert 0 in numbers(other.peers())
    assert one.round == 0


# --- Nonsense ---


def test_nonsense_does_no_harm() -> None:
    one = cyclon(0, peer(1), capacity=4, length=3)
    nonsense = (
        peer(0, boot=99),
        peer(0),
        peer(5),
        peer(5, age=-7),
        peer(6, age=2**63),
        PeerDescriptor(address(7, slot=3)),
        PeerDescriptor(Address("", 0, -1, "10.0.0.1:1")),
        *[peer(n) for n in range(10, 60)],
    )
    one.on_request(address(5), CyclonRequest(-(2**63), nonsense))
    assert len(one) == 4
    assert 0 not in numbers(one.peers())
    begun = one.begin(peer(0))
    assert begun is not None
    assert begun[0] == address(6), "the most absurd age is asked, and gone, first"
    one.on_reply(begun[0], CyclonReply(begun[1].req_id, nonsense))
    assert len(one) == 4
    for _ in range(20):
        begun = one.begin(peer(0))
        if begun is not None:
            msgspec.msgpack.encode(begun[1])


@pytest.mark.parametrize("message", [CyclonRequest, CyclonReply])
def test_longer_lists_do_not_decode(message: type[CyclonRequest | CyclonReply]) -> None:
    decoder = msgspec.msgpack.Decoder(message)
    fits = message(1, (peer(1),) * ENTRIES_MAX)
    assert decoder.decode(msgspec.msgpack.encode(fits)) == fits
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(msgspec.msgpack.encode(message(1, (peer(1),) * (ENTRIES_MAX + 1))))


def test_messages_have_their_tags() -> None:
    tags = [message.__struct_config__.tag for message in MESSAGES]
    assert tags == ["cyclon-request", "cyclon-reply", "cyclon-walk", "cyclon-swap"]


def test_misuse_raises() -> None:
    with pytest.raises(ValueError, match="shuffle length"):
        cyclon(0, capacity=5, length=6)


# --- The dead ---


def test_gossip_does_not_resurrect_the_buried() -> None:
    stones = Tombstones()
    one = Cyclon(address(0), Random(0), stones)
    one.add(peer(1))
    stones.bury(0, address(1), 3)
    assert one.forget(address(1))
    one.on_request(address(2), CyclonRequest(1, (peer(2), peer(1, refutation=3))))
    assert not one.add(peer(1))
    assert one.on_walk(peer(0), CyclonWalk(peer(1), 0)) == []
    assert numbers(one.peers()) == [2]
    one.on_request(address(2), CyclonRequest(1, (peer(2), peer(1, refutation=4))))
    assert numbers(one.peers()) == [1, 2]
    assert not one.forget(address(1, boot=0)), "an earlier life"


# --- Walks ---


def test_a_walk_makes_five_steps_and_ends_with_a_swap() -> None:
    one = cyclon(0, peer(1), peer(2), capacity=2, length=2)
    walks = one.introduce(peer(0), peer(9))
    assert len(walks) == 2
    assert all(isinstance(walk, CyclonWalk) and walk.ttl == WALK_TTL - 1 for _, walk in walks)
    ((_, onward),) = one.on_walk(peer(0), CyclonWalk(peer(9), 1))
    assert onward == CyclonWalk(peer(9), 0)
    ((to, swap),) = one.on_walk(peer(0), CyclonWalk(peer(9), 0))
    assert to == address(9)
    assert isinstance(swap, CyclonSwap)
    assert numbers(one.peers()) == sorted({1, 2, 9} - {number_of(swap.entry)})


def test_a_walk_with_room_at_its_end_gives_the_end_itself() -> None:
    one = cyclon(0, peer(1))
    assert one.on_walk(peer(0), CyclonWalk(peer(9), 0)) == [(address(9), CyclonSwap(peer(0)))]
    assert numbers(one.peers()) == [1, 9]


def test_a_walk_never_steps_to_its_newcomer_and_nonsense_ends_it() -> None:
    one = cyclon(0, peer(9))
    assert one.on_walk(peer(0), CyclonWalk(peer(9), 3)) == [(address(9), CyclonSwap(peer(0)))]
    assert one.on_walk(peer(0), CyclonWalk(peer(0), 3)) == []
    assert one.on_walk(peer(0), CyclonWalk(PeerDescriptor(address(3, slot=1)), 3)) == []
    assert one.introduce(peer(0), PeerDescriptor(address(9, slot=1))) == []
    ((_, onward),) = one.on_walk(peer(0), CyclonWalk(peer(3), 2**60))
    assert onward == CyclonWalk(peer(3), WALK_TTL - 1)


# --- A swarm ---


class Swarm:
    """Peers that hand each other messages at once; the dead swallow theirs. One seed knows everybody."""

    def __init__(self, size: int, seed: int = 1) -> None:
        rng = Random(seed)
        self.own = {f"p{n}": peer(n) for n in range(size)}
        self.peers = {name: Cyclon(d.address, Random(rng.random())) for name, d in self.own.items()}
        self.dead: list[str] = []

    def join(self, name: str, contact: str) -> None:
        self.peers[name].add(self.own[contact])
        queue = deque(self.peers[contact].introduce(self.own[contact], self.own[name]))
        while queue:
            to, message = queue.popleft()
            receiver = self.peers[to.peer]
            if isinstance(message, CyclonWalk):
                queue.extend(receiver.on_walk(self.own[to.peer], message))
            else:
                receiver.on_swap(message)

    def round(self) -> None:
        for name, one in self.peers.items():
            begun = None if name in self.dead else one.begin(self.own[name])
            if begun is not None and begun[0].peer not in self.dead:
                to, request = begun
                one.on_reply(to, self.peers[to.peer].on_request(self.own[name].address, request))

    def in_degrees(self) -> list[int]:
        count = Counter(d.address.peer for one in self.peers.values() for d in one.peers())
        return [count[name] for name in self.own]

    def reached_from(self, name: str) -> int:
        reached, edge = dict.fromkeys([name]), [name]
        while edge:
            near = [d.address.peer for d in self.peers[edge.pop()].peers()]
            fresh = [other for other in dict.fromkeys(near) if other not in reached and other not in self.dead]
            reached.update(dict.fromkeys(fresh))
            edge.extend(fresh)
        return len(reached)


def joined_swarm(size: int) -> Swarm:
    swarm = Swarm(size)
    for n in range(1, size):
        swarm.join(f"p{n}", "p0")
    return swarm


def test_joins_through_one_seed_connect_everybody() -> None:
    swarm = joined_swarm(200)
    assert all(swarm.reached_from(f"p{n}") == 200 for n in (0, 1, 77, 199))
    seed, *others = swarm.in_degrees()
    assert mean(others) > 17
    assert max(others) < 45, "nobody is a hub"
    for _ in range(10):
        swarm.round()
    assert swarm.in_degrees()[0] < 45, "not even the seed that everybody met first"
    assert seed > 45, "which it was"


def test_in_degrees_gather_around_c() -> None:
    """A random graph with 20 links each would have a standard deviation of 4.4."""
    swarm = joined_swarm(1_000)
    for _ in range(30):
        swarm.round()
    degrees = swarm.in_degrees()
    assert mean(degrees) == pytest.approx(20, abs=0.1)
    assert pstdev(degrees) < 3
    assert min(degrees) >= 8
    assert max(degrees) <= 34
    assert swarm.reached_from("p0") == 1_000


def test_the_dead_leave_the_views_without_a_detector() -> None:
    swarm = joined_swarm(200)
    for _ in range(20):
        swarm.round()
    swarm.dead = [f"p{n}" for n in range(0, 200, 4)]
    for _ in range(60):
        swarm.round()
    living = [name for name in swarm.own if name not in swarm.dead]
    pointers = sum(d.address.peer in swarm.dead for name in living for d in swarm.peers[name].peers())
    assert pointers == 0
    assert swarm.reached_from("p1") == 150


def test_two_halves_mix_after_one_shuffle_out_of_turn() -> None:
    one, other = joined_swarm(60), joined_swarm(60)
    both = Swarm(0)
    both.own = {**one.own, **{f"p{n + 100}": peer(n + 100) for n in range(60)}}
    both.peers = dict(one.peers)
    for n in range(60):
        both.peers[f"p{n + 100}"] = Cyclon(address(n + 100), Random(n))
        for d in other.peers[f"p{n}"].peers():
            both.peers[f"p{n + 100}"].add(peer(number_of(d) + 100))
    to, request = both.peers["p3"].shuffle_with(both.own["p3"], both.own["p105"])
    both.peers["p3"].on_reply(to, both.peers["p105"].on_request(address(3), request))
    for _ in range(40):
        both.round()
    across = [sum(number_of(d) >= 100 for d in both.peers[f"p{n}"].peers()) for n in range(60)]
    assert min(across) >= 2
    assert mean(across) == pytest.approx(10, abs=2)


def test_the_same_seed_gives_the_same_views() -> None:
    swarms = [joined_swarm(50) for _ in range(2)]
    for swarm in swarms:
        for _ in range(10):
            swarm.round()
    assert [one.peers() for one in swarms[0].peers.values()] == [one.peers() for one in swarms[1].peers.values()]
