"""The way into a ring, when those who were asked have moved, are late, or are gone."""

from protocols.overlay import Dropped, PeerLost, Publish, TimerFired
from protocols.sub2sub.entry import SEEKING_MAX
from protocols.sub2sub.messages import Claim, Enter, Entered, NotHere, Ring
from protocols.sub2sub.messages import Claims as ClaimsMessage
from tests.sub2sub.scene import Player, address, copy, described, facts, sent


def publisher(*claims: Claim) -> Player:
    """A participant that stands elsewhere, and has heard of these claims."""
    player = Player("m", 80, 89)
    player.stand(described("z", 80, 89, 7))
    player.hear("z", ClaimsMessage(claims))
    return player


def test_after_a_flood_whoever_turns_up_is_asked_like_anybody_and_may_say_no() -> None:
    player = publisher(Claim(0, described("a", 0, 9), 1))
    ((_, asked),) = sent(player.do(Publish(copy("e", x=5).event)), Enter)
    ((_, flooded),) = sent(player.hear("a", NotHere(asked.req_id)), Enter)
    assert flooded.flood
    player.hear("z", ClaimsMessage((Claim(0, described("b", 0, 9), 1),)))
    ((to, again),) = sent(player.do(TimerFired(0, "seek"), player.now_ms + 2_000), Enter)
    assert (to, again.flood) == ("b", False), "whoever has seen the flood would not answer another one"
    effects = player.hear("b", NotHere(again.req_id))
    assert sent(effects, Enter) == []
    assert not player.overlay._events.is_seeking, "nobody is there: nothing is dropped, nobody is reminded"
    assert not any(isinstance(fact, Dropped) for fact in facts(effects))


def test_however_many_events_were_published_since_the_loss_of_whoever_was_asked_first_is_noticed() -> None:
    player = publisher(Claim(0, described("a", 0, 9), 1), Claim(0, described("b", 20, 29), 1))
    ((to, _),) = sent(player.do(Publish(copy("first", x=5).event)), Enter)
    assert to == "a"
    for number in range(SEEKING_MAX + 1):
        ((_, enter),) = sent(player.do(Publish(copy(f"e{number}", x=25).event)), Enter)
        player.hear("b", Entered(enter.req_id))
    again = sent(player.do(PeerLost(address("a"))), Enter)
    assert [message.copy.event.id for _, message in again] == ["first"]


def test_with_too_many_events_on_their_way_to_a_ring_the_publisher_is_told_and_no_event_is_alone_in_silence() -> None:
    player = publisher(Claim(0, described("a", 0, 9), 1))
    for number in range(SEEKING_MAX):
        player.do(Publish(copy(f"e{number}", x=5).event))
    assert not player.overlay.has_room(player.now_ms)
    effects = player.do(Publish(copy("last", x=5).event))
    assert [to for to, _ in sent(effects, Enter)] == ["a"], "it is sent all the same"
    assert [fact for fact in facts(effects) if isinstance(fact, Dropped)] == [
        Dropped("last", "seeking-full", address("a"))
    ]


def test_an_event_for_which_there_is_no_memory_left_is_not_gone_in_silence() -> None:
    player = Player("m", 0, 9, seen_max=1)
    player.stand(described("n", 0, 9, 7))
    player.hear("n", Ring(copy("first")))
    effects = player.hear("z", Enter(0, copy("second"), address("z"), 1, 5))
    assert Dropped("second", "seen-full") in facts(effects)
    elsewhere = Player("m", 0, 9, seen_max=1)
    elsewhere.stand(described("n", 0, 9, 7))
    elsewhere.hear("z", Enter(0, copy("first", x=50), address("z"), 1, 5, True))
    effects = elsewhere.hear("z", Enter(0, copy("second", x=50), address("z"), 2, 5, True))
    assert Dropped("second", "seen-full") in facts(effects)
