"""Gossip slows down when nothing changes, and hurries when somebody does not answer."""

from protocols.overlay import SetBudget, TimerFired
from protocols.parts.vicinity import VicinityReply, VicinityRequest
from tests.sub2sub.scene import Player, described, sent

OTHERS = [described(name, 0, 9, 7) for name in ("n", "o", "p")]


def asked_in(player: Player, cycles: int, answering: bool) -> int:
    """How many questions about interests it asks in so many cycles."""
    count = 0
    for _ in range(cycles):
        for to, request in sent(player.do(TimerFired(0, "cycle"), player.now_ms + 1_000), VicinityRequest):
            count += 1
            if answering:
                [own] = [each for each in OTHERS if each.address.peer == to]
                player.hear(to, VicinityReply(request.req_id, own, tuple(OTHERS)), player.now_ms)
    return count


def test_a_question_without_an_answer_makes_gossip_quick() -> None:
    """Interest links are not watched: the dead among them go only by being asked."""
    player = Player("m", 0, 9)
    player.stand(*OTHERS)
    player.do(SetBudget(1e9))  # with a budget there is a round in every cycle
    asked_in(player, 40, True)
    assert asked_in(player, 20, True) == 5, "one cycle in four"
    assert asked_in(player, 20, False) > 10
