"""The similarity graph (paper 2, section 4): the metric, who is linked to whom, and how events travel."""

from random import Random
from typing import Any

import pytest

from protocols.model.box import Box, Point
from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy, Event
from protocols.model.ids import Address
from protocols.model.interest import Interest
from protocols.model.schema import Schema
from protocols.overlay import (
    Deliver,
    Dropped,
    Effect,
    Join,
    Leave,
    Publish,
    Received,
    Reception,
    Report,
    Sampled,
    Send,
    Subscribe,
    TimerFired,
    Update,
)
from protocols.semantic.config import SemanticConfig
from protocols.semantic.gossip import Choose, Chosen, RecentIds, Spread, Unchoose, Walk, Want
from protocols.semantic.proximity import BITS, Sample, digest_of, extension, f_s, parts_of, structural
from protocols.semantic.similarity import REFRESH_ROUNDS, Similarity
from protocols.semantic.spreading import STRANDED_MAX
from tests.conformance.support import Stage

SCHEMA = Schema.from_toml("[attributes.x]\ntype = 'int'\nmin = 0\nmax = 99\n")
SPACE = SCHEMA.space


def address(name: str) -> Address:
    return Address(name, 1, 0, f"{name}:1")


def stripe(lo: int, hi: int) -> Interest:
    return Interest(Box((lo,), (hi,)))


def described(name: str, lo: int, hi: int, connections: int = 0) -> Descriptor:
    interest = stripe(lo, hi)
    return Descriptor(address(name), interest.box, 0, 0, extension(connections, b"", interest))


def event(number: int, x: int) -> Event:
    return Event(f"p-1-{number}", Point((x,)))


class Player:
    """A participant that wants x in [0, 10) and stands."""

    def __init__(self, **config: Any) -> None:
        settings = SemanticConfig(organisation="similarity", **{"peek": False, **config})
        self.overlay = Similarity(address("me"), settings, SCHEMA, Random(1))
        self.now_ms = 0
        self.do(Subscribe("box", Box((0,), (10,))))
        self.do(Join(()))

    def do(self, item: Any) -> list[Effect]:
        self.now_ms += 1
        return self.overlay.handle(self.now_ms, item)

    def hear(self, name: str, message: Any) -> list[Effect]:
        return self.do(Received(address(name), 0, message))

    def surround(self, near: int = 3, random: int = 1) -> None:
        for number in range(near):
            self.hear(f"n{number}", Choose(described(f"n{number}", 0, 10)))
        for number in range(random):
            self.overlay.circle.link_at_random(described(f"r{number}", 50, 60))


def targets(effects: list[Effect], type_: type = Spread) -> set[str]:
    sends = [e for e in effects if isinstance(e, Send) and isinstance(e.message, type_)]
    return {to.peer for send in sends for to in send.to}


# --- Definitions 2 and 3 ----------------------------------------------------------------------------------------------


def test_f_s_is_the_mean_of_both_probabilities_and_symmetric() -> None:
    a, b = (1 << 40) - 1, (1 << 10) - 1  # b matches 10 of the 40 that a matches
    whole = stripe(0, 100)
    assert f_s(a, b, SPACE, whole, whole) == f_s(b, a, SPACE, whole, whole) == (10 / 40 + 10 / 10) / 2


def test_without_enough_samples_the_interests_are_compared() -> None:
    assert structural(SPACE, stripe(0, 10), stripe(0, 10)) == 1.0
    assert structural(SPACE, stripe(0, 10), stripe(20, 30)) == 0.0
    assert structural(SPACE, stripe(0, 20), stripe(0, 10)) == pytest.approx((0.5 + 1.0) / 2)
    patterns = [Interest(SPACE.unbounded, each) for each in ("/a[b]", "/a[b][c]", "/x[y]")]
    near, far = structural(SPACE, patterns[0], patterns[1]), structural(SPACE, patterns[0], patterns[2])
    assert near > far


def test_samples_are_drawn_alike_everywhere_and_kept_within_bounds() -> None:
    one, two = Sample(2, 50), Sample(2, 50)
    events = [event(number, number % 20) for number in range(400)]
    for each in events:
        one.add(each, stripe(0, 10))
    for each in reversed(events):
        two.add(each, stripe(0, 10))
    assert len(one) == len(two) == 50
    assert all(digest_of(each.id) % 2 == 0 for each in one.events())
    assert 0 < int.from_bytes(one.bits, "little").bit_count() <= 50
    assert len(one.bits) <= BITS // 8


def test_a_changed_interest_is_measured_anew() -> None:
    sample = Sample(1, 100)
    for number in range(40):
        sample.add(event(number, number), stripe(0, 10))
    assert int.from_bytes(sample.bits, "little").bit_count() == 10
    sample.measure(stripe(0, 30))
    assert int.from_bytes(sample.bits, "little").bit_count() == 30


def test_a_descriptor_of_nonsense_is_understood_as_far_as_it_goes() -> None:
    box = Box((0,), (10,))
    for ext in ((), (1.5,), (1, b"", b"no pattern"), (b"", 1, 2)):
        parts_of(Descriptor(address("x"), box, 0, 0, ext))


# --- Network description ----------------------------------------------------------------------------------------------


def test_the_n_closest_are_chosen_and_in_case_of_equality_those_with_fewer_connections() -> None:
    player = Player(neighbours=2, alike_max=0)
    near = [
        described("busy", 0, 10, 9),
        described("free", 0, 10, 1),
        described("idle", 0, 10),
        described("close", 0, 9),
    ]
    player.overlay._vicinity.offer(player.overlay.descriptor(), [described("far", 60, 70), *near])
    assert targets(player.do(TimerFired(0, "gossip")), Choose) == {"free", "idle"}


def test_equals_keep_a_way_out_of_their_community() -> None:
    """Not in the paper: of the n all but one may have the own interest, and two one and the same other interest."""
    player = Player()
    equals = [described(f"equal{number}", 0, 10) for number in range(9)]
    close = [described(f"close{number}", 0, 9) for number in range(9)]
    near = [described("near", 0, 8)]
    player.overlay._vicinity.offer(player.overlay.descriptor(), [*equals, *close, *near])
    chosen = targets(player.do(TimerFired(0, "gossip")), Choose)
    assert len([each for each in chosen if each.startswith("equal")]) == 4
    other = Player()
    other.overlay._vicinity.offer(other.overlay.descriptor(), [*equals[:1], *close, *near])
    assert targets(other.do(TimerFired(0, "gossip")), Choose) >= {"equal0", "near"}


def test_an_event_enters_where_it_has_not_been() -> None:
    """A publisher's neighbours may all be of one community: the other ways in are strangers that want the event."""
    player = Player()
    player.surround()
    player.do(Sampled((described("stranger", 0, 20), described("other", 60, 70))))
    effects = player.do(Publish(event(1, 5)))
    assert targets(effects, Walk) == {"stranger"}


def test_whoever_was_chosen_forwards_to_its_chooser() -> None:
    player = Player()
    assert targets(player.hear("a", Choose(described("a", 0, 10))), Chosen) == {"a"}
    assert targets(player.do(Publish(event(1, 5)))) == {"a"}
    player.hear("a", Unchoose())
    assert targets(player.do(Publish(event(2, 5)))) == set()


def test_all_neighbours_hear_of_a_changed_interest() -> None:
    """Those who chose it too: with `peek` they would test the former one, up to ten rounds long."""
    player = Player()
    player.surround(near=1, random=0)
    player.overlay.circle.choose(described("mine", 0, 10))
    effects = player.do(Update("box", Box((50,), (60,)), version=2))
    assert (targets(effects, Choose), targets(effects, Chosen)) == ({"mine"}, {"n0"})


def test_a_peer_that_is_chosen_too_often_says_so() -> None:
    player = Player(choosers_max=1)
    player.hear("a", Choose(described("a", 0, 10)))
    assert targets(player.hear("b", Choose(described("b", 0, 10))), Unchoose) == {"b"}


def test_whoever_is_refused_takes_the_next_one_and_asks_again_later() -> None:
    """Else it would ask the same one every round, and be a neighbour short for as long as that one has no room."""
    player = Player(neighbours=1, alike_max=0)
    asked = []
    for _ in range(REFRESH_ROUNDS):
        known = [described("full", 0, 10), described("next", 0, 9)]
        player.overlay._vicinity.offer(player.overlay.descriptor(), known)  # gossip has taken one out
        [name] = targets(player.do(TimerFired(0, "gossip")), Choose)
        player.hear(name, Unchoose() if name == "full" else Chosen(known[1]))
        asked.append(name)
        if name == "next":
            player.overlay.circle.chosen[address("next")] = False  # so that it is asked again, and seen here
    assert asked == ["full"] + ["next"] * (REFRESH_ROUNDS - 2) + ["full"]


# --- Routing ----------------------------------------------------------------------------------------------------------


def test_algorithm_1() -> None:
    """Forward what matches to all but the sender, once; let the rest end here."""
    player = Player()
    player.surround()
    effects = player.hear("n0", Spread(Copy(event(1, 5))))
    assert targets(effects) == {"n1", "n2", "r0"}
    assert any(isinstance(effect, Deliver) for effect in effects)
    [again] = player.hear("n1", Spread(Copy(event(1, 5))))
    assert isinstance(again, Reception)
    assert again.result == "duplicate"
    assert targets(player.hear("n0", Spread(Copy(event(2, 50))))) == set()


def test_rho_is_the_probability_of_random_links() -> None:
    for rho, least, most in ((0.0, 0, 0), (0.5, 60, 140), (1.0, 200, 200)):
        player = Player(rho=rho)
        player.surround()
        used = sum("r0" in targets(player.hear("n0", Spread(Copy(event(number, 5))))) for number in range(200))
        assert least <= used <= most


def test_indulgence_lets_a_copy_pass_as_often_as_gamma_says() -> None:
    player = Player()
    player.surround()
    effects = player.hear("n0", Spread(Copy(event(1, 50)), 2))
    assert targets(effects) == {"n1", "n2", "r0"}
    assert {e.message.gamma for e in effects if isinstance(e, Send)} == {1}  # type: ignore[attr-defined]
    assert targets(player.hear("n0", Spread(Copy(event(2, 50)), 0))) == set()


def test_an_event_that_its_publisher_does_not_want_goes_to_one_who_does() -> None:
    player = Player()
    player.surround()
    assert targets(player.do(Publish(event(1, 55))), Walk) == {"r0"}
    assert len(targets(player.do(Publish(event(2, 99))), Walk)) == 1  # nobody is known to want it: it walks
    assert targets(player.hear("n0", Walk(Copy(event(3, 99)), 0)), Walk) == set()  # and comes to its end


@pytest.mark.parametrize("x", [5, 55], ids=["wanted", "unwanted"])
def test_an_event_that_is_published_where_nobody_is_known_waits_for_somebody(x: int) -> None:
    """The contact of a participant is often one of the same peer, and may leave before there is anybody else."""
    player = Player()
    effects = player.do(Publish(event(1, x)))
    player.now_ms += 700
    [walk] = [e for e in player.do(Sampled((described("other", 0, 99),))) if isinstance(e, Send)]
    assert isinstance(walk.message, Walk)
    assert (walk.message.copy.event, walk.message.copy.age_ms) == (event(1, x), 701)
    assert targets(player.do(Sampled((described("another", 0, 99),))), Walk) == set()
    assert dropped(effects) == []


def test_events_that_find_nobody_are_counted_as_dropped() -> None:
    player = Player()
    for number in range(STRANDED_MAX + 2):
        effects = player.do(Publish(event(number, 55)))
    assert dropped(effects) == ["no-neighbour"]
    player.now_ms += 70_000
    assert dropped(player.do(Sampled((described("other", 0, 99),)))) == ["no-neighbour"] * STRANDED_MAX
    player = Player()
    player.do(Publish(event(1_000, 55)))
    assert dropped(player.do(Leave())) == ["no-neighbour"]


def dropped(effects: list[Effect]) -> list[str]:
    return [e.fact.reason for e in effects if isinstance(e, Report) and isinstance(e.fact, Dropped)]


def test_peek_spares_those_who_do_not_want_it() -> None:
    player = Player(peek=True)
    player.surround()
    assert targets(player.hear("n0", Spread(Copy(event(1, 5))))) == {"n1", "n2"}


def test_recent_ids_repair_what_was_missed() -> None:
    player = Player(exchange_ms=1_000)
    player.surround(near=1, random=0)
    player.hear("n0", Spread(Copy(event(1, 5))))
    assert targets(player.do(TimerFired(0, "exchange")), RecentIds) == {"n0"}
    assert targets(player.hear("n0", RecentIds(("p-1-1", "p-1-9"))), Want) == {"n0"}
    assert targets(player.hear("n0", Want(("p-1-1", "p-1-7")))) == {"n0"}


# --- A swarm ----------------------------------------------------------------------------------------------------------


def test_a_graph_forms_and_serves() -> None:
    stage = Stage("semantic", 2, "stocks", settings={"organisation": "similarity", "exchange_ms": "2000"})
    assert not stage.complete
    stage.gather(15)
    stage.publish(60, 4_000)
    stage.run(4_000)
    verdict = stage.finish(least_expected=20)
    assert verdict.false_negatives <= 0.05 * verdict.expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_graph_mends_after_a_fifth_has_crashed(seed: int) -> None:
    stage = Stage("semantic", seed, "stocks", settings={"organisation": "similarity", "exchange_ms": "2000"})
    stage.gather(20)
    for node in stage.some(0.2):
        stage.swarm.crash(node)
    stage.run(1_000)
    stage.converge()
    stage.publish(100, 5_000)
    stage.run(5_000)
    verdict = stage.finish(least_expected=20)
    assert verdict.false_negatives <= 0.1 * verdict.expected
