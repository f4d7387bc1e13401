from random import Random

import msgspec
import pytest

from protocols.model.bounds import ENTRIES_MAX
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.parts.tombstones import Tombstones
from protocols.parts.vicinity import Vicinity, VicinityReply, VicinityRequest
from tests.parts.nodes import address, number_of, participant


def nearest(target: Descriptor, candidates: list[Descriptor], count: int) -> list[Descriptor]:
    """On a line, by the lower corner of the box."""
    place = target.box.lo[0]
    return sorted(candidates, key=lambda d: abs(d.box.lo[0] - place))[:count]


def at(place: int, age: int = 0) -> Descriptor:
    """The participant whose number is its place."""
    return participant(place, place, age)


def vicinity(own: Descriptor, *known: Descriptor, capacity: int = 20, length: int = 10, seed: int = 0) -> Vicinity:
    result = Vicinity(own.address, nearest, Random(seed), capacity=capacity, gossip_length=length)
    result.offer(own, known)
    return result


def places(descriptors: list[Descriptor] | tuple[Descriptor, ...]) -> list[int]:
    return [number_of(d) for d in descriptors]


def never() -> Random:
    """Randomness that never asks for a random target."""
    rng = Random(0)
    rng.random = lambda: 0.99  # type: ignore[method-assign]
    return rng


def test_sends_to_the_oldest_what_is_best_for_it() -> None:
    one = Vicinity(address(50, slot=0), nearest, never(), capacity=4, gossip_length=3)
    one.offer(at(50), [at(40, age=3), at(55), at(60), at(47)])
    begun = one.begin(at(50), [at(10), at(38), at(40), at(42), at(55, age=9)])
    assert begun is not None
    to, request = begun
    assert to == at(40).address
    assert request.own == at(50)
    assert places(request.entries) == [38, 42, 47], "from view and samples together, without Q, best for Q"
    assert places(one.neighbours()) == [47, 55, 60], "Q is removed"
    assert request.entries[2].age == 1


def test_the_receiver_answers_the_best_for_the_initiator_and_selects_for_itself() -> None:
    one = vicinity(at(50), at(49), at(51), at(60), capacity=3, length=2)
    reply = one.on_request(at(50), at(70).address, VicinityRequest(5, at(70), (at(52), at(99))), [at(71)])
    assert reply is not None
    assert (reply.req_id, reply.own) == (5, at(50))
    assert places(reply.entries) == [71, 60]
    assert places(one.neighbours()) == [49, 51, 52]


def test_q_comes_back_with_its_reply_and_newest_box() -> None:
    one = vicinity(at(50), at(40), capacity=3)
    begun = one.begin(at(50), [])
    assert begun is not None
    assert len(one) == 0
    moved = participant(40, 45, version=1)
    one.on_reply(at(50), begun[0], VicinityReply(begun[1].req_id, moved, ()), [])
    assert one.neighbours() == [moved]


def test_an_empty_view_asks_a_sample_or_nobody() -> None:
    one = vicinity(at(50))
    assert one.begin(at(50), []) is None
    assert one.begin(at(50), [at(50)]) is None
    begun = one.begin(at(50), [at(50), at(1)])
    assert begun is not None
    assert begun[0] == at(1).address


def test_one_in_ten_targets_is_a_sample() -> None:
    hits = 0
    for seed in range(500):
        begun = vicinity(at(50), at(51), seed=seed).begin(at(50), [at(7)])
        hits += begun is not None and begun[0] == at(7).address
    assert 25 <= hits <= 80


def test_replaces_a_box_only_by_a_newer_version() -> None:
    one = vicinity(at(50), participant(1, 48, version=2))
    one.offer(at(50), [participant(1, 49, version=1), participant(1, 47, version=3, age=9)])
    assert one.neighbours() == [participant(1, 47, version=3, age=9)]
    one.offer(at(50), [participant(1, 46, version=0, boot=2)])
    assert one.neighbours() == [participant(1, 46, version=0, boot=2)]


def test_selects_again_only_when_something_is_new() -> None:
    calls: list[int] = []

    def counting(target: Descriptor, candidates: list[Descriptor], count: int) -> list[Descriptor]:
        calls.append(len(candidates))
        return nearest(target, candidates, count)

    one = Vicinity(address(50, slot=0), counting, Random(0))
    one.offer(at(50), [at(1), at(2)])
    one.offer(at(50), [at(1), at(2, age=3)])
    assert calls == [2]
    one.offer(at(50), [at(3)])
    assert calls == [2, 3]
    one.offer(participant(50, 60, version=1), [])
    assert calls == [2, 3, 3]


def test_nonsense_does_no_harm() -> None:
    one = vicinity(at(50), at(49), capacity=3)
    lies = (at(50), participant(50, 3, boot=9), participant(3, slot=-1), Descriptor(Address("", 0, 0, ""), at(0).box))
    assert one.on_request(at(50), at(70).address, VicinityRequest(1, at(71), ()), []) is None
    one.on_reply(at(50), at(70).address, VicinityReply(1, at(71), (at(51),)), [])
    assert places(one.neighbours()) == [49]
    assert one.on_request(at(50), at(70).address, VicinityRequest(1, at(70), lies), []) is not None
    assert places(one.neighbours()) == [49, 70]
    decoder = msgspec.msgpack.Decoder(VicinityRequest)
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(msgspec.msgpack.encode(VicinityRequest(1, at(1), (at(1),) * (ENTRIES_MAX + 1))))
    with pytest.raises(ValueError, match="gossip length"):
        vicinity(at(1), length=0)


def test_the_dead_are_forgotten_and_stay_away() -> None:
    stones = Tombstones()
    one = Vicinity(address(50, slot=0), nearest, Random(0), stones)
    one.offer(at(50), [participant(1, 1), participant(1, 2, slot=1), participant(2, 3)])
    assert one.forget(address(1, slot=1))
    assert not one.forget(address(1, slot=1))
    assert one.forget(address(1))
    stones.bury(0, address(1))
    one.offer(at(50), [participant(1, 1), participant(1, 2, slot=1)])
    assert places(one.neighbours()) == [2]


def test_converges_to_the_true_nearest() -> None:
    """200 participants and five random samples a step (CYCLON's part): the nearest g are exact in 10 rounds.

    The rest of the view, which messages of g entries reach only by chance, is nearly so.
    """
    rng, size = Random(1), 200
    own = [participant(n, place) for n, place in enumerate(rng.sample(range(10_000), size))]
    swarm = [Vicinity(d.address, nearest, Random(n)) for n, d in enumerate(own)]

    def missing(count: int) -> int:
        total = 0
        for n, one in enumerate(swarm):
            held = places(one.neighbours())
            total += sum(number_of(d) not in held for d in nearest(own[n], own[:n] + own[n + 1 :], count))
        return total

    def gossip() -> None:
        for n, one in enumerate(swarm):
            begun = one.begin(own[n], rng.sample(own, 5))
            assert begun is not None
            to = int(begun[0].peer[1:])
            reply = swarm[to].on_request(own[to], own[n].address, begun[1], rng.sample(own, 5))
            assert reply is not None
            one.on_reply(own[n], begun[0], reply, [])

    gossip()
    assert missing(10) > size, "it does not start converged"
    for _ in range(9):
        gossip()
    assert missing(10) == 0
    assert missing(20) < 0.02 * 20 * size
