"""Repair: what one of two ring neighbours has, the other has soon after."""

from protocols.overlay import TimerFired
from protocols.parts.digests import digest
from protocols.sub2sub.messages import RecentIds, Ring, Want
from protocols.sub2sub.repair import SETTLED_MS
from tests.sub2sub.scene import Player, copy, described, sent

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
