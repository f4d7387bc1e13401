"""The state machine of the baseline, step by step."""

from typing import Any

import pytest

from protocols.broadcast.messages import (
    ALTERNATIVES_MAX,
    Flood,
    Leaving,
    LinkAccept,
    LinkConfirm,
    LinkRefuse,
    LinkRequest,
    RecentIds,
    Unlink,
    Want,
)
from protocols.broadcast.neighbours import WAITING_MAX
from protocols.model.box import EMPTY, Box
from protocols.model.descriptor import Descriptor
from protocols.model.event import onward
from protocols.overlay import (
    OWN_BOX,
    Active,
    Deliver,
    Dropped,
    Join,
    Joined,
    Leave,
    Left,
    LinkDown,
    LinkUp,
    PeerLost,
    Publish,
    Reception,
    Rejected,
    Repaired,
    Sampled,
    TimerFired,
    Undelivered,
    Unwatch,
    Update,
    Watch,
)
from protocols.parts.digests import digest
from tests.broadcast.scene import Player, address, copy, event, facts, sent, timers
from tests.wire.samples import Ping


def sampled(*names: str) -> Sampled:
    return Sampled(tuple(Descriptor(address(name), EMPTY) for name in names))


def standing(*neighbours: str, **config: Any) -> Player:
    """A participant that stands and is linked to these."""
    player = Player(**config)
    player.begin()
    for name in neighbours:
        player.hear(name, LinkRequest())
    assert player.links() == list(neighbours)
    return player


# --- Joining ----------------------------------------------------------------------------------------------------------


def test_the_first_stands_at_once() -> None:
    player = Player()
    effects = player.begin()
    assert facts(effects) == [Joined()]
    assert Active(0, OWN_BOX, 0) in effects
    assert sent(effects) == []


def test_joining_twice_is_misuse() -> None:
    player = Player()
    player.begin()
    with pytest.raises(ValueError, match="joins twice"):
        player.begin()


def test_a_joiner_asks_its_contact_and_stands_with_its_first_link() -> None:
    player = Player()
    effects = player.do(Join((address("a"),)))
    assert sent(effects) == [("a", LinkRequest())]
    assert facts(effects) == []
    effects = player.hear("a", LinkAccept())
    assert facts(effects) == [LinkUp("random", address("a")), Joined()]
    assert Watch(0, address("a")) in effects
    assert Active(0, OWN_BOX, 0) in effects
    assert player.links() == ["a"]


def test_a_joiner_follows_alternatives_and_leaves_who_refused_in_peace() -> None:
    player = Player()
    player.do(Join((address("a"),)))
    effects = player.hear("a", LinkRefuse((address("b"), address("c"))))
    assert sorted(to for to, _ in sent(effects)) == ["b", "c"]
    effects = player.hear("b", LinkRefuse(()))
    assert sent(effects) == []
    due_ms = player.now_ms + 2 * player.config.rpc_ms
    asked = [to for to, _ in sent(player.do(TimerFired(0, "seek"), due_ms), LinkRequest)]
    assert "a" in asked  # by now it may have room


def test_who_joins_through_one_that_joins_waits_there_and_is_called_again() -> None:
    player = Player()
    player.do(Join((address("a"),)))
    assert player.hear("b", LinkRequest()) == []
    effects = player.hear("a", LinkAccept())
    assert ("b", LinkRefuse((player.me,))) in sent(effects)
    effects = player.hear("b", LinkRequest())
    assert ("b", LinkAccept()) in sent(effects)


def test_who_is_called_again_asks_again() -> None:
    player = Player()
    player.do(Join((address("a"),)))
    effects = player.hear("a", LinkRefuse((address("a"),)))
    assert ("a", LinkRequest()) in sent(effects)


def test_not_everybody_may_wait() -> None:
    player = Player()
    player.do(Join((address("a"),)))
    for number in range(WAITING_MAX + 5):
        player.hear(f"w{number}", LinkRequest())
    called = [to for to, _ in sent(player.hear("a", LinkAccept()), LinkRefuse)]
    assert len(called) == WAITING_MAX


def test_a_lost_request_is_asked_again() -> None:
    player = Player()
    player.do(Join((address("a"),)))
    effects = player.do(TimerFired(0, "seek"), player.now_ms + player.config.rpc_ms)
    assert sent(effects, LinkRequest) == [("a", LinkRequest())]


# --- Links ------------------------------------------------------------------------------------------------------------


def test_a_request_is_accepted_while_there_is_room() -> None:
    player = standing(links=2, links_max=3)
    for name in ("a", "b", "c"):
        assert sent(player.hear(name, LinkRequest()), LinkAccept) == [(name, LinkAccept())]
    [(to, refusal)] = sent(player.hear("d", LinkRequest()), LinkRefuse)
    assert to == "d"
    assert [alternative.peer for alternative in refusal.alternatives] == ["a", "b", "c"]
    assert player.links() == ["a", "b", "c"]


def test_alternatives_are_few_and_never_the_asker_itself() -> None:
    names = [f"n{number}" for number in range(12)]
    player = standing(*names, links=3, links_max=12)
    [(_, refusal)] = sent(player.hear("d", LinkRequest()), LinkRefuse)
    assert len(refusal.alternatives) == ALTERNATIVES_MAX
    assert len(set(refusal.alternatives)) == ALTERNATIVES_MAX


def test_who_is_linked_and_asks_again_is_answered_again() -> None:
    player = standing("a")
    effects = player.hear("a", LinkRequest())
    assert sent(effects, LinkAccept) == [("a", LinkAccept())]
    assert player.links() == ["a"]
    assert not any(isinstance(effect, Watch) for effect in effects)


def test_a_link_to_oneself_is_rejected() -> None:
    player = standing()
    [fact] = facts(player.hear("me", LinkRequest()))
    assert isinstance(fact, Rejected)
    assert player.links() == []


def test_samples_are_asked_for_the_links_that_are_missing() -> None:
    player = standing("x", links=3)
    effects = player.do(sampled("a", "b", "c", "d", "me", "x"))
    asked = [to for to, _ in sent(effects, LinkRequest)]
    assert len(asked) == 2
    assert set(asked) <= {"a", "b", "c", "d"}


def test_an_answer_that_nobody_waits_for_makes_no_link() -> None:
    player = standing("x")
    effects = player.hear("a", LinkAccept())
    assert ("a", Unlink()) in sent(effects)
    assert player.links() == ["x"]


def test_a_link_that_the_other_gives_up_is_replaced() -> None:
    player = standing("a", "b", "c", links=3)
    player.do(sampled("d"))
    effects = player.hear("a", Unlink())
    assert LinkDown("random", address("a")) in facts(effects)
    assert Unwatch(0, address("a")) in effects
    assert sent(effects, LinkRequest) == [("d", LinkRequest())]
    assert player.hear("z", Unlink()) == []


def test_half_a_link_is_found_out_by_confirmation() -> None:
    player = standing("a")
    assert sent(player.hear("a", LinkConfirm())) == []
    assert sent(player.hear("b", LinkConfirm())) == [("b", Unlink())]


def test_a_lost_neighbour_is_replaced() -> None:
    player = standing("a", "b", "c", links=3)
    player.do(sampled("a", "d"))
    effects = player.do(PeerLost(address("a")))
    assert Repaired("link") in facts(effects)
    assert player.links() == ["b", "c"]
    assert sent(effects, LinkRequest) == [("d", LinkRequest())]


def test_a_candidate_that_is_gone_is_not_asked_again_and_another_is_at_once() -> None:
    player = standing("a", "b", links=3)
    [(asked, _)] = sent(player.do(sampled("c", "d")), LinkRequest)
    other = {"c": "d", "d": "c"}[asked]
    assert sent(player.do(PeerLost(address(asked))), LinkRequest) == [(other, LinkRequest())]
    player.hear(other, LinkRefuse(()))
    assert sent(player.do(sampled("c", "d")), LinkRequest) == []


def test_rotation_confirms_all_seeks_one_and_gives_up_the_oldest_of_too_many() -> None:
    player = standing("a", "b", "c", links=1, links_max=9)
    player.do(sampled("d", "e"))
    effects = player.do(TimerFired(0, "rotate"))
    assert [to for to, _ in sent(effects, LinkConfirm)] == ["a", "b", "c"]
    assert len(sent(effects, LinkRequest)) == 1
    assert ("a", Unlink()) in sent(effects)
    assert player.links() == ["b", "c"]
    period = timers(effects)["rotate"] - player.now_ms
    assert 0.9 * player.config.rotate_ms <= period <= 1.1 * player.config.rotate_ms


# --- Events -----------------------------------------------------------------------------------------------------------


def test_an_event_goes_over_every_link_but_the_one_it_came_by() -> None:
    player = standing("a", "b", "c")
    effects = player.hear("a", Flood(copy("e", hops=2)))
    assert sent(effects) == [("b", Flood(copy("e", hops=3))), ("c", Flood(copy("e", hops=3)))]
    assert Reception(0, "e", address("a"), 2, "wanted") in effects
    assert Deliver(0, event("e"), (), 2) in effects


def test_an_event_that_nobody_here_wants_is_passed_on_all_the_same() -> None:
    player = standing("a", "b")
    effects = player.hear("a", Flood(copy("e", x=50)))
    assert [to for to, _ in sent(effects, Flood)] == ["b"]
    assert Reception(0, "e", address("a"), 1, "unwanted") in effects
    assert not any(isinstance(effect, Deliver) for effect in effects)


def test_a_second_copy_ends_here() -> None:
    player = standing("a", "b", "c")
    player.hear("a", Flood(copy("e")))
    assert player.hear("b", Flood(copy("e", hops=5))) == [Reception(0, "e", address("b"), 5, "duplicate")]


def test_what_is_published_goes_over_all_links() -> None:
    player = standing("a", "b")
    effects = player.do(Publish(event("e")))
    assert sent(effects) == [("a", Flood(copy("e"))), ("b", Flood(copy("e")))]
    assert Deliver(0, event("e"), (), 0) in effects
    assert player.hear("a", Flood(copy("e", hops=4))) == [Reception(0, "e", address("a"), 4, "duplicate")]


def test_an_event_that_has_outlived_its_time_is_dropped() -> None:
    player = standing("a", "b")
    effects = player.hear("a", Flood(copy("e", age_ms=60_000)))
    assert facts(effects) == [Dropped("e", "expired")]
    assert sent(effects) == []


def test_events_beyond_memory_are_dropped_and_no_id_is_forgotten() -> None:
    player = standing("a", "b", seen_max=2)
    for name in ("e1", "e2"):
        player.hear("a", Flood(copy(name)))
    assert facts(player.hear("a", Flood(copy("e3")))) == [Dropped("e3", "seen-full")]
    assert facts(player.do(Publish(event("e4")))) == [Dropped("e4", "seen-full")]
    assert player.hear("b", Flood(copy("e1")))[0] == Reception(0, "e1", address("b"), 1, "duplicate")


def test_a_new_neighbour_gets_the_events_of_the_last_seconds() -> None:
    player = standing("a")
    player.hear("a", Flood(copy("old")), at_ms=1_000)
    player.hear("a", Flood(copy("new", hops=2)), at_ms=5_000)
    effects = player.hear("b", LinkRequest(), at_ms=1_000 + player.config.replay_ms)
    held_ms = 1_000 + player.config.replay_ms - 5_000
    assert sent(effects, Flood) == [("b", Flood(onward(copy("new", hops=2, age_ms=held_ms))))]
    kinds = [type(message) for to, message in sent(effects) if to == "b"]
    assert kinds == [LinkAccept, Flood]  # the link first, or it would come from a stranger


def test_a_copy_that_came_back_is_sent_again_over_a_link_that_lasts() -> None:
    player = standing("a", "b")
    flood = Flood(copy("e"))
    assert sent(player.do(Undelivered(0, address("a"), flood))) == [("a", flood)]
    for effects in (
        player.do(Undelivered(0, address("a"), flood, refused=True)),
        player.do(Undelivered(0, address("z"), flood)),
    ):
        assert sent(effects) == []
        assert [(fact.event_id, fact.reason) for fact in facts(effects) if isinstance(fact, Dropped)] == [
            ("e", "undelivered")
        ]


def test_a_full_memory_has_no_room_for_another() -> None:
    player = standing("a", seen_max=10)
    for number in range(9):
        assert player.overlay.has_room(player.now_ms)
        player.hear("a", Flood(copy(f"e{number}")))
    assert not player.overlay.has_room(player.now_ms)
    assert player.overlay.has_room(player.now_ms + 300_000)  # nobody has to be admitted for the old to be forgotten


def test_an_answer_that_came_back_made_no_link() -> None:
    player = standing("a", "b", links=2)
    effects = player.do(Undelivered(0, address("a"), LinkAccept()))
    assert LinkDown("random", address("a")) in facts(effects)
    assert player.links() == ["b"]


# --- Repair -----------------------------------------------------------------------------------------------------------


def test_what_one_lacks_it_asks_for_and_gets() -> None:
    knowing, lacking = standing("b"), Player("b")
    lacking.begin()
    knowing.hear("b", Flood(copy("e1")), at_ms=1_000)
    knowing.hear("b", Flood(copy("e2")), at_ms=1_000)
    lacking.hear("c", Flood(copy("e1")), at_ms=1_000)
    [(to, ids)] = sent(knowing.do(TimerFired(0, "repair"), at_ms=4_000), RecentIds)
    assert to == "b"
    assert ids.digests == (digest("e1"), digest("e2"))
    effects = lacking.hear("me", ids, at_ms=4_010)
    assert sent(effects) == [("me", Want((digest("e2"),)))]
    assert facts(effects) == []
    [(to, flood)] = sent(knowing.hear("b", Want((digest("e2"), 12345)), at_ms=4_020))
    assert flood.copy.event.id == "e2"
    effects = lacking.hear("me", flood, at_ms=4_030)
    assert any(isinstance(effect, Deliver) for effect in effects)
    assert Repaired("event") in facts(effects)
    assert facts(lacking.hear("c", Flood(copy("e3")), at_ms=4_040)) == []  # nobody had asked for that one


def test_who_lacks_nothing_is_silent() -> None:
    player = standing("a")
    player.hear("a", Flood(copy("e")))
    assert player.hear("a", RecentIds((digest("e"),))) == []
    assert player.hear("a", Want((99,))) == []


def test_nothing_recent_nothing_to_compare() -> None:
    player = standing("a")
    effects = player.do(TimerFired(0, "repair"))
    assert sent(effects) == []
    assert "repair" in timers(effects)
    player.hear("a", Flood(copy("e")), at_ms=10)
    assert sent(player.do(TimerFired(0, "repair"), at_ms=10 + player.config.recent_ms)) == []


# --- Boxes, leaving, nonsense -----------------------------------------------------------------------------------------


def test_a_box_is_active_at_once_but_not_before_one_stands() -> None:
    player = Player()
    wide = Box((0,), (100,))
    assert player.do(Update(OWN_BOX, wide, "", 1)) == []
    assert Active(0, OWN_BOX, 1) in player.begin()
    assert player.do(Update(OWN_BOX, EMPTY, "", 2)) == [Active(0, OWN_BOX, 2)]
    assert player.overlay.descriptor() == Descriptor(player.me, EMPTY, 2)


def test_a_leaver_names_alternatives_forwards_for_a_while_and_unlinks() -> None:
    player = standing("a", "b", "c")
    effects = player.do(Leave())
    farewell = {
        to: {alternative.peer for alternative in message.alternatives} for to, message in sent(effects, Leaving)
    }
    assert farewell == {"a": {"b", "c"}, "b": {"a", "c"}, "c": {"a", "b"}}
    assert timers(effects) == {"linger": player.now_ms + player.config.linger_ms}
    assert len(sent(player.hear("a", Flood(copy("e"))), Flood)) == 2
    assert sent(player.hear("d", LinkRequest()), LinkRefuse)
    effects = player.do(TimerFired(0, "linger"))
    assert sorted(to for to, _ in sent(effects, Unlink)) == ["a", "b", "c"]
    assert facts(effects)[-1] == Left()
    assert player.links() == []


def test_without_links_one_leaves_at_once() -> None:
    player = standing()
    assert facts(player.do(Leave())) == [Left()]


def test_a_leaving_neighbour_is_replaced_before_it_goes() -> None:
    player = standing("a", "b", "c", links=3)
    effects = player.hear("a", Leaving((address("d"), address("me"))))
    assert sent(effects, LinkRequest) == [("d", LinkRequest())]
    assert player.links() == ["a", "b", "c"]  # it still forwards
    [(_, refusal)] = sent(standing_full_with(player), LinkRefuse)
    assert "a" not in {alternative.peer for alternative in refusal.alternatives}


def standing_full_with(player: Player) -> list[Any]:
    """Fill up the links of a participant and let one more ask."""
    for number in range(player.config.links_max):
        player.hear(f"f{number}", LinkRequest())
    return player.hear("late", LinkRequest())


def test_a_message_of_another_kind_is_rejected() -> None:
    [fact] = facts(standing().hear("a", Ping()))
    assert isinstance(fact, Rejected)


def test_digests_are_the_same_everywhere() -> None:
    assert digest("p1-1-1") == 0x9D7F255BC0AD5A00
