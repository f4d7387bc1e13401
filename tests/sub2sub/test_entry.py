"""The way into a ring, when those who were asked have moved, are late, or are gone."""

from protocols.overlay import Dropped, PeerLost, Publish, TimerFired
from protocols.sub2sub.entry import SEEKING_MAX
from protocols.sub2sub.messages import Claim, Enter, Entered, NotHere
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
