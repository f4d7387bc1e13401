"""What is kept at hand follows what it was made from: own cell, own box, the interest view, the links of a ring."""

from random import Random
from typing import Any

import pytest

from protocols.model.box import Box
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.overlay import Sampled, TimerFired
from protocols.parts.vicinity import VicinityReply, VicinityRequest
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.ring import Climb, Ring
from tests.sub2sub.scene import SCHEMA, Player, address, described, sent


def own(lo: int, hi: int, cell: int, version: int = 1) -> Descriptor:
    return Descriptor(address("m"), Box((lo,), (hi + 1,)), version, 0, (cell, 0))


def hood(*interest: Descriptor, cell: int = 4, **config: Any) -> Neighbourhood:
    made = Neighbourhood(address("m"), Sub2SubConfig(**config), SCHEMA.space, Random(1))
    made.present(own(0, 9, cell))
    made.offer_interest(interest)
    return made


OTHERS = [described("l", 0, 9, 3), described("n", 0, 9, 4), described("p", 0, 9, 6)]


def above(made: Neighbourhood) -> list[tuple[str, Climb | None]]:
    return sorted([(to.peer, climb) for to, climb in made.ways_above(0, 5)])


def within(made: Neighbourhood) -> list[str]:
    return sorted([to.peer for to in made.ways_within(0, 5)])


# --- shortcuts --------------------------------------------------------------------------------------------------------


def test_ways_up_say_into_which_higher_cell_they_lead() -> None:
    assert above(hood(*OTHERS)) == [("n", None), ("p", (0, 5, 6))]
    assert within(hood(*OTHERS)) == ["n"]


def test_ways_are_those_that_match_a_value() -> None:
    made = hood(described("n", 0, 4, 4), described("p", 5, 9, 6))
    assert [to.peer for to, _ in made.ways_above(0, 4)] == ["n"]
    assert [to.peer for to, _ in made.ways_above(0, 5)] == ["p"]


def test_ways_follow_when_the_interest_view_changes() -> None:
    made = hood(*OTHERS)
    assert (len(above(made)), within(made)) == (2, ["n"])
    made.offer_interest([described("q", 0, 9, 7), described("o", 0, 9, 4)])
    assert above(made) == [("n", None), ("o", None), ("p", (0, 5, 6)), ("q", (0, 5, 7))]
    assert within(made) == ["n", "o"]


def test_ways_follow_when_somebody_is_forgotten() -> None:
    made = hood(*OTHERS)
    assert (len(above(made)), within(made)) == (2, ["n"])
    made.forget(0, address("n"))
    assert above(made) == [("p", (0, 5, 6))]
    assert within(made) == []


def test_ways_follow_when_somebody_says_that_it_has_moved() -> None:
    made = hood(*OTHERS)
    assert (len(above(made)), within(made)) == (2, ["n"])
    made.heard(0, described("n", 0, 9, 5, version=2))
    assert above(made) == [("n", (0, 5, 5)), ("p", (0, 5, 6))]
    assert within(made) == []


def test_ways_follow_when_the_own_cell_changes() -> None:
    made = hood(*OTHERS)
    assert (len(above(made)), within(made)) == (2, ["n"])
    made.present(own(0, 9, 3, version=2))
    assert above(made) == [("n", (0, 5, 4)), ("p", (0, 5, 6))]
    assert within(made) == ["l"]


def test_who_might_be_of_interest_follows_when_the_own_box_changes() -> None:
    made = hood(*[described(f"n{number}", 0, 9, 4) for number in range(4)], view=4)
    others = [described(f"p{number}", 50, 59, 4) for number in range(20)]
    assert made.of_interest(others) == [], "there are enough that overlap"
    made.present(own(50, 59, 4, version=2))
    assert made.of_interest(others) == others


def members(player: Player) -> tuple[set[Address], set[Address]]:
    """Those in the table of shortcuts, and those in the interest view."""
    made = player.overlay._hood
    return {to for *_, to in made.shortcuts(0)}, {each.address for each in made.interest.neighbours()}


CROWD = [described(f"p{number}", 0, 9, 4) for number in range(60)]


def gossiping() -> Player:
    """Its view is full, so that most of those who come by do not matter."""
    player = Player("m", 0, 9, view=4)
    player.stand(CROWD[0])
    player.do(Sampled(tuple(CROWD[:8])))
    return player


@pytest.mark.parametrize("kind", [VicinityRequest, VicinityReply])
def test_after_gossip_the_table_of_shortcuts_is_the_interest_view(
    kind: type[VicinityRequest] | type[VicinityReply],
) -> None:
    player = gossiping()
    for each in CROWD[8:]:
        player.hear(each.address.peer, kind(0, each, ()))
        table, view = members(player)
        assert table == view


def test_so_it_is_after_rounds_of_gossip_of_our_own() -> None:
    player = gossiping()
    by_name = {each.address.peer: each for each in CROWD}
    for number in range(40):
        asked = sent(player.do(TimerFired(0, "cycle"), player.now_ms + 1_000), VicinityRequest)
        for to, request in asked:
            player.hear(to, VicinityReply(request.req_id, by_name[to], tuple(CROWD[number : number + 5])))
        table, view = members(player)
        assert table == view


def test_whoever_does_not_answer_is_no_shortcut_for_long() -> None:
    """But for the one that was asked last, which is out of the view until it answers."""
    player = gossiping()
    assert len(members(player)[0]) == 4
    for _ in range(10):
        player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
        table, view = members(player)
        assert len(table - view) <= 1
    assert view == set()


# --- next hops --------------------------------------------------------------------------------------------------------


def ring(*others: Descriptor) -> Ring:
    made = Ring(0, own(0, 9, 4), 1_000, 256, 4_000)
    made.learn(0, others)
    made.resweep(0)
    return made


def hops(made: Ring, x: int = 5) -> tuple[str, str, Climb | None]:
    upper, lower, climb = made.next_hops(x)
    return ("" if upper is None else upper.peer), ("" if lower is None else lower.peer), climb


def test_next_hops_follow_when_a_nearer_one_comes_or_one_goes() -> None:
    made = ring(*OTHERS)
    assert hops(made) == ("n", "l", None)
    made.forget(address("n"))
    made.resweep(0)
    assert hops(made) == ("p", "l", (0, 5, 6))
    made.learn(0, [described("k", 0, 9, 4), described("o", 0, 9, 5)])
    made.resweep(0)
    assert hops(made) == ("o", "k", (0, 5, 5))


def test_next_hops_follow_when_the_own_cell_changes() -> None:
    made = ring(*OTHERS)
    assert hops(made) == ("n", "l", None)
    made.present(own(0, 9, 5, version=2))
    made.resweep(0)
    assert hops(made) == ("p", "n", (0, 5, 6))


def test_next_hops_follow_when_the_own_box_changes() -> None:
    made = ring(*OTHERS, described("n1", 0, 19, 4))
    assert hops(made, 15) == ("", "", None)
    made.present(own(10, 19, 4, version=2))
    made.resweep(0)
    assert hops(made, 15) == ("n1", "", None)
    assert hops(made, 5) == ("", "", None)
