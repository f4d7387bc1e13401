"""One participant, word by word: edges, searches, handovers and events."""

import pytest

from protocols.model.box import EMPTY
from protocols.model.descriptor import Descriptor
from protocols.model.ids import PEER_SLOT, Address
from protocols.overlay import (
    OWN_BOX,
    Active,
    Deliver,
    Dropped,
    Join,
    Joined,
    Leave,
    Left,
    PeerLost,
    Publish,
    Reception,
    Rejected,
    Sampled,
    TimerFired,
    Undelivered,
    Update,
)
from protocols.rtree import place
from protocols.rtree.messages import (
    HOPS_MAX,
    Adopt,
    Carry,
    Child,
    Claim,
    Covered,
    Dissolve,
    JoinRequest,
    Mbr,
    Move,
    NotChild,
    NotTaken,
    Place,
    Release,
    Released,
    Take,
    Taken,
)
from tests.rtree.scene import Player, address, box, copy, event, facts, host_below, join_request, mbr, sent

# --- Joining and edges ------------------------------------------------------------------------------------------------


def test_the_first_stands_at_once_and_is_active() -> None:
    effects = Player().do(Join(()))
    assert Joined() in facts(effects)
    assert Active(0, OWN_BOX, 0) in effects


def test_a_joiner_stands_only_when_it_is_covered() -> None:
    player = Player()
    asked = sent(player.do(Join((address("a"),))), JoinRequest)
    assert [to for to, _ in asked] == ["a"]
    effects = player.hear("b", Adopt(asked[0][1].req_id, 0, ()))
    ((_, told),) = sent(effects, Mbr)
    assert facts(effects) == []
    effects = player.hear("b", Covered(told.seq, 0, address("b"), ()))
    assert Joined() in facts(effects)
    assert Active(0, OWN_BOX, 0) in effects


def test_a_joiner_asks_the_next_when_nobody_answers() -> None:
    player = Player()
    player.do(Join((address("a"), address("b"))))
    assert [to for to, _ in sent(player.do(TimerFired(0, "search"), 2_100), JoinRequest)] == ["b"]


def test_a_contact_that_is_gone_is_not_asked_again() -> None:
    player = Player()
    player.do(Join((address("a"), address("b"))))
    asked = sent(player.do(PeerLost(address("a"))), JoinRequest)
    assert [to for to, _ in asked] == ["b"]


def test_a_root_takes_a_joiner_in_and_answers_at_once() -> None:
    player = Player().begin()
    effects = player.hear("a", join_request("a", 30, 40))
    assert [to for to, _ in sent(effects, Adopt)] == ["a"]
    assert player.children() == {"me": "member", "a": "expected"}
    effects = player.hear("a", mbr(5, 30, 40))
    assert player.children() == {"me": "member", "a": "member"}
    assert [message.seq for _, message in sent(effects, Covered)] == [5]


def test_a_child_is_covered_only_when_its_parent_is() -> None:
    player = host_below("former")
    effects = player.hear("c", mbr(2, 10, 60))
    assert sent(effects, Covered) == []
    ((to, told),) = sent(effects, Mbr)
    assert (to, told.box) == ("root", box(10, 60))
    effects = player.hear("root", Covered(told.seq, 1, address("root"), ()))
    assert [(to, message.seq) for to, message in sent(effects, Covered)] == [("c", 2)]


def test_what_is_known_above_already_is_answered_at_once() -> None:
    player = host_below("former")
    effects = player.hear("c", mbr(2, 10, 15))
    assert [(to, message.seq) for to, message in sent(effects)] == [("c", 2)]


def test_a_stranger_is_not_a_child() -> None:
    effects = Player().begin().hear("x", mbr(3, 0, 5))
    assert sent(effects) == [("x", NotChild(3, 0))]


def test_who_is_told_that_it_is_no_child_looks_for_another_parent() -> None:
    player = Player().below("a")
    assert player.tree.parent is not None
    effects = player.hear("a", NotChild(player.tree.parent.seq, 0))
    assert player.overlay.links() == []
    assert player.tree.search is not None
    assert sent(effects, Mbr) == []


def test_an_old_word_ends_nothing() -> None:
    player = Player().below("a")
    player.hear("a", NotChild(0, 0))
    assert player.tree.parent is not None


def test_a_claim_is_confirmed_or_released() -> None:
    player = Player().below("a")
    assert [type(message) for _, message in sent(player.hear("a", Claim(0)))] == [Mbr]
    assert sent(player.hear("b", Claim(0))) == [("b", Release(0, leaving=False))]
    assert sent(player.hear("a", Claim(3))) == [("a", Release(3, leaving=False))]


def test_a_child_keeps_its_parent_until_the_next_one_covers_it() -> None:
    player = Player().below("a")
    asked = sent(player.hear("a", Move(0, 0)), JoinRequest)
    assert [to for to, _ in asked] == ["a"]
    effects = player.hear("b", Adopt(asked[0][1].req_id, 0, ()))
    ((_, told),) = sent(effects, Mbr)
    assert player.tree.parent is not None
    assert player.tree.parent.address == address("a")
    effects = player.hear("b", Covered(told.seq, 0, address("b"), ()))
    assert ("a", Release(0, leaving=False)) in sent(effects)
    assert player.tree.parent.address == address("b")


def test_nobody_is_adopted_against_its_will() -> None:
    player = Player().below("a")
    assert sent(player.hear("b", Adopt(99, 0, ()))) == [("b", Release(0, leaving=False))]
    assert sent(player.hear("b", Adopt(0, 0, (address("c"),)))) == [("b", Release(0, leaving=False))]
    assert player.tree.candidate is None


def test_a_silent_child_is_asked_whether_it_is_ours() -> None:
    player = Player().begin()
    player.adopt("a", 30, 40)
    assert sent(player.do(TimerFired(0, "check"), 5_000), Claim) == []
    assert sent(player.do(TimerFired(0, "check"), 9_000), Claim) == [("a", Claim(0))]


def test_a_number_that_a_child_never_said_does_not_shut_it_out() -> None:
    """Forged, or what memory made of it: what is overtaken comes soon or never."""
    player = Player().begin()
    player.adopt("a", 30, 40)
    player.hear("a", mbr(1_000_000, 70, 80))
    assert sent(player.hear("a", mbr(2, 30, 50)), Covered) == []
    effects = player.hear("a", mbr(2, 30, 50), at_ms=9_000)
    assert [message.seq for _, message in sent(effects, Covered)] == [2]
    assert player.tree.nodes[0].entries[address("a")].box == box(30, 50)


def test_a_changed_box_is_active_when_it_is_covered() -> None:
    player = Player().below("a")
    effects = player.do(Update(OWN_BOX, box(50, 60), "", 1))
    ((_, told),) = sent(effects, Mbr)
    assert not any(isinstance(effect, Active) for effect in effects)
    assert Active(0, OWN_BOX, 1) in player.hear("a", Covered(told.seq, 0, address("a"), ()))


def test_a_changed_box_is_active_though_its_participant_becomes_the_root_before_it_is_covered() -> None:
    player = Player().below("a")
    player.do(Update(OWN_BOX, box(50, 60), "", 1))
    effects = player.hear("a", Take(1, 0, ((),), None, whole=True))
    assert player.tree.is_root
    assert Active(0, OWN_BOX, 1) in effects + player.do(TimerFired(0, "chart"), 1_000)


def test_a_leaf_whose_box_lies_elsewhere_now_is_sent_to_a_better_place() -> None:
    player = Player().begin()
    player.adopt("a", 30, 40)
    assert sent(player.hear("a", mbr(2, 32, 38)), Move) == []
    assert sent(player.hear("a", mbr(3, 80, 90)), Move) == [("a", Move(0, 0))]
    assert player.children()["a"] == "leaving"


# --- Places -----------------------------------------------------------------------------------------------------------


def test_a_request_climbs_to_the_root() -> None:
    player = Player().below("a")
    assert [to for to, _ in sent(player.hear("x", join_request("x", 0, 5)), JoinRequest)] == ["a"]


def test_a_request_that_has_travelled_too_far_is_dropped() -> None:
    player = Player().below("a")
    far = JoinRequest(1, address("x"), 0, box(0, 5), False, 0, HOPS_MAX)
    assert sent(player.hear("x", far)) == []


def test_while_a_node_has_no_room_nobody_chooses_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds may wait for one node, and every child that leaves it lets them in."""
    player = Player(children_max=4).begin()
    for number in range(9):
        player.hear(f"p{number}", join_request(f"p{number}", 10 + number, 20 + number))
    assert len(player.children()) == 8
    assert list(player.tree.waiting) == [address("p7"), address("p8")]
    asked: list[Address] = []
    monkeypatch.setattr(place, "on_place", lambda tree, now_ms, sender, message: asked.append(message.who))
    monkeypatch.setattr(place, "on_join_request", lambda tree, now_ms, sender, message: asked.append(message.who))
    player.do(TimerFired(0, "check"), 2_000)
    assert asked == []
    player.do(PeerLost(address("p0")))
    assert asked == [address("p7"), address("p8")]


def test_who_joins_itself_keeps_others_waiting() -> None:
    player = Player()
    asked = sent(player.do(Join((address("a"),))), JoinRequest)
    assert sent(player.hear("x", join_request("x", 0, 5))) == []
    player.hear("a", Adopt(asked[0][1].req_id, 0, ()))
    assert player.tree.candidate is not None
    effects = player.hear("a", Covered(player.tree.candidate.seq, 0, address("a"), ()))
    assert [to for to, _ in sent(effects, JoinRequest)] == ["a"]


@pytest.mark.parametrize(("who", "taken_in"), [("aa", True), ("zz", False)])
def test_of_two_trees_of_one_height_the_greater_makes_the_new_root(who: str, taken_in: bool) -> None:
    player = Player("mm").begin()
    effects = player.hear(who, join_request(who, 30, 40, stands=True))
    assert bool(sent(effects, Adopt)) is taken_in
    assert bool(sent(effects, JoinRequest)) is not taken_in


def test_a_taller_tree_is_asked_to_take_us_in() -> None:
    player = Player("zz").begin()
    effects = player.hear("aa", join_request("aa", 30, 40, level=2, stands=True))
    assert [(to, message.who) for to, message in sent(effects, JoinRequest)] == [("aa", address("zz"))]


def test_a_place_for_no_participant_is_rejected() -> None:
    nobody = Address("x", 1, PEER_SLOT, "x:1")
    player = Player().begin()
    for message in (
        JoinRequest(1, nobody, 0, box(0, 5), False, 0, 0),
        Place(1, nobody, 0, box(0, 5), 0, 1, 0),
    ):
        assert any(isinstance(fact, Rejected) for fact in facts(player.hear("a", message)))


# --- Splits and handovers ---------------------------------------------------------------------------------------------


def crowded() -> Player:
    """A root that can take no more: two near 0, itself one of them, and two near 90."""
    player = Player(low=0, high=5, split="quadratic").begin()
    for name, low in (("a", 2), ("b", 80), ("c", 85)):
        player.adopt(name, low, low + 8)
    return player


def test_a_node_with_too_many_children_is_split() -> None:
    player = crowded()
    effects = player.adopt("d", 90, 99)
    ((successor, take),) = sent(effects, Take)
    assert successor == "b"  # the largest of the other group that has said that it is ours
    assert {child.address.peer for child in take.nodes[0]} == {"c", "d"}
    assert take.parent == player.me
    assert player.tree.top == 2  # the root makes room above itself
    assert player.children() == {"me": "member", "a": "member", "b": "leaving", "c": "leaving", "d": "leaving"}


def test_a_refused_split_is_offered_to_another() -> None:
    player = crowded()
    ((successor, take),) = sent(player.adopt("d", 90, 99), Take)
    player.hear(successor, NotTaken(take.op))
    assert address("b") in player.tree.refusers
    assert player.tree.operation is not None  # the next one was asked at once
    assert player.tree.operation.successor == address("d")


def test_a_node_that_is_too_full_is_split_before_it_changes_its_host() -> None:
    """Else a child that covers more and refuses would be asked at every check, and newcomers wait for ever."""
    player = crowded()
    takes = sent(player.adopt("d", 90, 99), Take)
    while takes:
        ((asked, take),) = takes
        takes = sent(player.hear(asked, NotTaken(take.op)), Take)
    assert player.tree.operation is None
    ((_, again),) = sent(player.do(TimerFired(0, "check"), 2_000), Take)
    assert not again.whole


def test_the_other_half_is_sponsored_and_served_until_it_goes() -> None:
    player = crowded()
    ((successor, take),) = sent(player.adopt("d", 90, 99), Take)
    effects = player.hear(successor, mbr(2, 80, 99, level=1, count=3, sponsor=player.me))
    assert [to for to, _ in sent(effects, Covered)] == [successor]
    player.hear(successor, Taken(take.op))
    player.hear(successor, Release(0, leaving=False))
    assert "c" in [to for to, _ in sent(player.do(Publish(event("e", 90))), Carry)]  # not adopted yet
    for name in ("c", "d"):
        player.hear(name, Release(0, leaving=False))
    assert player.children() == {"me": "member", "a": "member"}
    assert player.children(2) == {"me": "member", "b": "member"}


def test_a_better_cover_is_promoted_and_the_host_becomes_its_child() -> None:
    player = Player().begin()
    player.adopt("a", 30, 90)
    ((to, take),) = sent(player.do(TimerFired(0, "check"), 100), Take)
    assert (to, take.whole, take.parent) == ("a", True, None)
    assert [child.address for child in take.nodes[0]] == [player.me]
    effects = player.hear("a", Taken(take.op))
    assert [to for to, _ in sent(effects, Mbr)] == ["a"]
    assert player.tree.top == 0
    effects = player.hear("a", Covered(sent(effects, Mbr)[0][1].seq, 0, address("a"), ()))
    assert player.tree.parent is not None


def test_only_a_parent_hands_over() -> None:
    player = Player().below("a")
    effects = player.hear("b", Take(1, 0, ((),), None, whole=True))
    assert sent(effects) == [("b", NotTaken(1))]
    assert any(isinstance(fact, Rejected) for fact in facts(effects))


def test_a_successor_that_is_not_covered_gives_the_nodes_back() -> None:
    player = Player().below("a")
    player.hear("a", Take(1, 0, ((),), address("r"), whole=True))
    assert player.tree.top == 1
    assert player.tree.candidate is not None
    effects = player.hear("r", NotChild(player.tree.candidate.seq, 1))
    assert ("a", NotTaken(1)) in sent(effects)
    assert player.tree.top == 0


def test_a_node_that_dissolves_sends_its_children_away_and_follows() -> None:
    player = host_below("former")
    effects = player.hear("root", Dissolve(1))
    assert {to for to, _ in sent(effects, Move)} == {"c", "d"}
    player.hear("c", Release(0, leaving=False))
    effects = player.hear("d", Release(0, leaving=False))
    assert player.tree.top == 0
    assert [(to, message.level) for to, message in sent(effects, JoinRequest)] == [("root", 0)]


def test_what_a_child_was_told_to_do_is_repeated_until_it_is_done() -> None:
    """The message may be lost, and ten seconds of patience are long."""
    player = host_below("former")
    player.hear("root", Dissolve(1))
    player.hear("c", Release(0, leaving=False))
    assert sent(player.do(TimerFired(0, "check"), 2_000), Move) == [("d", Move(0, 0))]
    player.hear("d", Release(0, leaving=False))
    assert sent(player.do(TimerFired(0, "check"), 4_000), Move) == []


# --- Leaving ----------------------------------------------------------------------------------------------------------


def test_a_leaf_leaves_when_its_parent_knows() -> None:
    player = Player().below("a")
    assert sent(player.do(Leave())) == [("a", Release(0, leaving=True))]
    assert Left() in facts(player.hear("a", Released()))


def test_the_last_one_leaves_at_once() -> None:
    assert Left() in facts(Player().begin().do(Leave()))


def test_a_root_hands_its_nodes_over_before_it_leaves() -> None:
    player = Player().begin()
    player.adopt("a", 30, 40)
    player.adopt("b", 50, 80)
    ((to, take),) = sent(player.do(Leave()), Take)
    assert to == "b"
    assert {child.address.peer for child in take.nodes[0]} == {"a"}
    player.hear("b", Release(0, leaving=False))
    assert Left() not in facts(player.hear("b", Taken(take.op)))
    effects = player.hear("a", Release(0, leaving=False))
    assert sent(effects) == [("b", Release(0, leaving=True))]  # which has then got all our events
    assert Left() in facts(player.hear("b", Released()))


def test_a_leaver_that_has_given_up_its_upper_node_looks_for_a_parent_before_it_hands_the_lower_one_over() -> None:
    """The one that it has knows it at the level of the upper node only, and takes nobody in its stead below that."""
    player = host_below("former")
    children = (Child(address("e"), box(10, 90), None, 2, ()),)
    player.hear("root", Take(8, 1, (children,), address("top"), whole=False))
    assert player.tree.candidate is not None
    player.hear("top", Covered(player.tree.candidate.seq, 2, address("top"), ()))
    player.hear("e", mbr(1, 10, 90, level=1, count=2))
    player.hear("top", Dissolve(2))
    player.hear("e", Release(1, leaving=False))
    assert player.tree.top == 1
    effects = player.do(Leave())
    assert sent(effects, Take) == []
    ((to, request),) = sent(effects, JoinRequest)
    assert (to, request.level) == ("top", 1)
    player.hear("new", Adopt(request.req_id, 1, ()))
    assert player.tree.candidate is not None
    ((_, take),) = sent(player.hear("new", Covered(player.tree.candidate.seq, 1, address("top"), ())), Take)
    assert take.parent == address("new")


def test_what_a_leaver_still_passes_on_is_heard_before_it_goes() -> None:
    """It was the root a moment ago, and others send to it; if its successor is gone, too, somebody else must hear."""
    player = Player().begin()
    player.adopt("a", 30, 40)
    ((_, take),) = sent(player.do(Leave()), Take)
    player.hear("a", Release(0, leaving=False))
    farewell = ("a", Release(0, leaving=True))
    assert sent(player.hear("a", Taken(take.op))) == [farewell]
    effects = player.hear("stranger", Carry(copy("e", 30)))
    assert sent(effects)[-1] == farewell
    assert [to for to, _ in sent(effects, Carry)] == ["a"]
    assert Left() not in facts(player.hear("a", Released()))  # that was the answer to the first one
    player.do(Sampled((Descriptor(address("b"), EMPTY, 0),)))
    effects = player.do(Undelivered(0, address("a"), Carry(copy("e", 30)), refused=True))
    assert "b" in [to for to, _ in sent(effects, Carry)]
    assert not [fact for fact in facts(effects) if isinstance(fact, Dropped)]
    assert sent(effects)[-1] == ("b", Release(0, leaving=True))
    assert Left() in facts(player.hear("b", Released()))


def test_a_leaver_that_hands_over_its_upper_nodes_first_stays_a_child_with_the_lower_ones() -> None:
    """Else nobody above would know those, and nobody could take them any more."""
    player = crowded()
    ((_, split),) = sent(player.adopt("d", 90, 99), Take)
    player.hear("b", mbr(2, 80, 99, level=1, count=3, sponsor=player.me))
    player.hear("b", Taken(split.op))
    for name in ("b", "c", "d"):
        player.hear(name, Release(0, leaving=False))
    assert (player.children(), player.children(2)) == ({"me": "member", "a": "member"}, {"me": "member", "b": "member"})
    ((lower, offer),) = sent(player.do(Leave()), Take)
    assert (lower, offer.level) == ("a", 0)
    ((upper, offer),) = sent(player.hear("a", NotTaken(offer.op)), Take)
    assert (upper, offer.level) == ("b", 1)
    assert [child.address for child in offer.nodes[0]] == [player.me]
    effects = player.hear("b", Taken(offer.op))
    assert [(to, told.level) for to, told in sent(effects, Mbr)] == [("b", 1)]


# --- Events -----------------------------------------------------------------------------------------------------------


def test_an_event_goes_up_and_into_the_boxes_that_hold_it() -> None:
    player = host_below("former")
    effects = player.hear("c", Carry(copy("e", 14)))
    assert [to for to, _ in sent(effects, Carry)] == ["d", "root"]
    assert [effect.hops for effect in effects if isinstance(effect, Deliver)] == [1]
    again = player.hear("root", Carry(copy("e", 14)))
    assert sent(again) == []
    assert [effect.result for effect in again if isinstance(effect, Reception)] == ["duplicate"]


def test_what_comes_from_above_does_not_go_back() -> None:
    player = host_below("former")
    assert [to for to, _ in sent(player.hear("root", Carry(copy("e", 14))), Carry)] == ["c", "d"]


def test_an_own_event_goes_straight_to_the_root_or_climbs() -> None:
    for climb, to in (("needed", "top"), ("straight", "top"), ("parents", "a")):
        player = Player(climb=climb).below("a")
        assert player.tree.parent is not None
        player.hear("a", Covered(player.tree.parent.seq, 0, address("top"), ()))
        assert [name for name, _ in sent(player.do(Publish(event("e", 70))), Carry)] == [to]


def test_what_went_straight_to_a_root_that_is_gone_climbs() -> None:
    player = Player().below("a")
    assert player.tree.parent is not None
    player.hear("a", Covered(player.tree.parent.seq, 0, address("top"), ()))
    ((_, carry),) = sent(player.do(Publish(event("e", 70))), Carry)
    assert [to for to, _ in sent(player.do(PeerLost(address("top"))), Carry)] == ["a"]
    bounced = player.do(Undelivered(0, address("top"), carry, refused=True))
    assert [to for to, _ in sent(bounced, Carry)] == ["a"]


def test_look_ahead_spares_a_child_whose_children_do_not_want_it() -> None:
    player = crowded()
    ((successor, _),) = sent(player.adopt("d", 90, 99), Take)
    inner = (box(80, 88), box(95, 99))
    player.hear(successor, mbr(2, 80, 99, level=1, count=3, sponsor=player.me, inner=inner))
    player.hear(successor, Release(0, leaving=False))
    assert successor not in [to for to, _ in sent(player.do(Publish(event("between", 93))), Carry)]
    assert successor in [to for to, _ in sent(player.do(Publish(event("within", 96))), Carry)]


def test_a_new_edge_is_caught_up() -> None:
    player = Player().begin()
    player.do(Publish(event("early", 35)))
    player.do(Publish(event("elsewhere", 70)))
    effects = player.adopt("a", 30, 40)
    assert [message.copy.event.id for to, message in sent(effects, Carry) if to == "a"] == ["early"]


def test_a_box_that_grows_is_caught_up_with_the_new_part_only() -> None:
    player = Player().begin()
    player.adopt("a", 30, 40)
    player.do(Publish(event("old", 35)))
    player.do(Publish(event("new", 45)))
    effects = player.hear("a", mbr(2, 30, 50))
    assert [message.copy.event.id for _, message in sent(effects, Carry)] == ["new"]


def test_a_new_parent_is_caught_up() -> None:
    player = Player().begin()
    player.do(Publish(event("e", 35)))
    player.do(Sampled((Descriptor(address("s"), EMPTY),)))
    assert player.tree.search is not None
    effects = player.hear("big", Adopt(player.tree.search.req_id, 0, ()))
    assert [message.copy.event.id for to, message in sent(effects, Carry) if to == "big"] == ["e"]


def test_expired_events_and_a_full_memory_are_told() -> None:
    player = Player(seen_max=1).begin()
    old = player.hear("a", Carry(copy("old", 15, age_ms=60_000)))
    assert facts(old) == [Dropped("old", "expired")]
    assert facts(player.hear("a", Carry(copy("more", 15)))) == [Dropped("more", "seen-full")]


def test_an_event_for_a_child_that_is_gone_is_counted() -> None:
    player = Player().begin()
    player.adopt("a", 30, 40)
    ((to, carry),) = sent(player.do(Publish(event("e", 35))), Carry)
    assert to == "a"
    again = player.do(Undelivered(0, address("a"), carry, refused=False))
    assert sent(again, Carry) == [("a", carry)]
    gone = player.do(Undelivered(0, address("a"), carry, refused=True))
    assert Dropped("e", "undelivered", address("a")) in facts(gone)
    assert player.children() == {}
