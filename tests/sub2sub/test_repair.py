"""Repair: what one of two ring neighbours has, the other has soon after."""

from protocols.overlay import Dropped, Leave, Left, Publish, SetBudget, TimerFired
from protocols.parts.digests import digest
from protocols.sub2sub.messages import Claim, Claims, FlowLimit, RecentIds, Ring, Want
from protocols.sub2sub.repair import SETTLED_MS
from tests.sub2sub.scene import Player, address, copy, described, facts, sent

ABOVE = [described(f"n{number:02}", 5 * number, 5 * number + 4, 7) for number in range(20)]
BELOW = described("l", 0, 100, 1)


def told(player: Player, at_ms: int) -> list[tuple[str, tuple[int, ...]]]:
    pairs = sent(player.do(TimerFired(0, "repair"), at_ms), RecentIds)
    return [(to, message.digests) for to, message in pairs]


def test_each_event_is_told_to_both_links_of_its_value_and_to_nobody_else() -> None:
    player = Player("m", 0, 100)
    player.stand(*ABOVE, BELOW)
    player.hear("l", Ring(copy("e", x=43)), 10_000)
    assert told(player, 10_500) == [], "it may still be on its way by itself"
    expected = [("n08", (digest("e"),)), ("l", (digest("e"),))]
    assert told(player, 10_000 + SETTLED_MS) == expected
    assert told(player, 12_000 + SETTLED_MS) == expected, "once more, should that have been lost"
    assert told(player, 15_000 + SETTLED_MS) == []


def test_what_was_missed_is_asked_for_once_it_is_told() -> None:
    player = Player("m", 0, 100)
    player.stand(*ABOVE, BELOW)
    asked = sent(player.hear("n08", RecentIds((digest("e"),))), Want)
    assert asked == [("n08", Want((digest("e"),)))]
    player.hear("n08", Ring(copy("e", x=43)))
    assert sent(player.hear("l", RecentIds((digest("e"),))), Want) == []


def test_repair_does_not_bring_what_a_limit_has_held_back() -> None:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 6))
    player.do(SetBudget(1e6))
    player.hear("n", FlowLimit(0, 6, 0, 100, 2.0, 1))
    names = [f"e{number}" for number in range(20)]
    sent_on = [message for name in names for _, message in sent(player.hear("z", Ring(copy(name))), Ring)]
    assert len(sent_on) == 2
    missing = tuple(digest(name) for name in names[2:])
    assert sent(player.hear("n", Want(missing)), Ring) == []
    assert len(sent(player.hear("l", Want(missing)), Ring)) == 18, "of nobody else anything is held back"


def test_whoever_goes_says_what_it_leaves_undone() -> None:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 6))
    player.do(SetBudget(1_000.0))
    for number in range(20):
        player.hear("z", Ring(copy(f"e{number}")))
    waiting = player.overlay._events.spreading.buffered
    assert waiting > 5
    player.do(Leave())
    told_ = facts(player.do(TimerFired(0, "linger")))
    assert Left() in told_
    assert sum(isinstance(fact, Dropped) and fact.reason == "left" for fact in told_) == waiting


def test_so_does_a_publisher_whose_event_is_in_no_ring_yet() -> None:
    player = Player("m", 80, 89)
    player.stand(described("z", 80, 89, 7))
    player.hear("z", Claims((Claim(0, described("a", 0, 9), 1),)))
    player.do(Publish(copy("e", x=5).event))
    player.do(Leave())
    player.do(TimerFired(0, "seek"), player.now_ms + 2_000)
    player.do(Publish(copy("f", x=5).event))
    told_ = [fact for fact in facts(player.do(TimerFired(0, "linger"))) if isinstance(fact, Dropped)]
    assert told_ == [Dropped("e", "left", address("a"))], "f is under way"


def test_what_is_twice_as_old_as_what_is_compared_is_let_go() -> None:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 6))
    player.hear("z", Ring(copy("e")), 10_000)
    wanted = Want((digest("e"),))
    kept_ms = 2 * player.config.recent_ms
    player.do(TimerFired(0, "repair"), 10_000 + kept_ms - 1)
    assert len(sent(player.hear("n", wanted, player.now_ms), Ring)) == 1
    player.do(TimerFired(0, "repair"), 10_000 + kept_ms)
    assert sent(player.hear("n", wanted, player.now_ms), Ring) == []
