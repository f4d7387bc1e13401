"""What a publisher remembers, and when it stops to."""

from protocols.chord.messages import Match, Matched
from protocols.model.box import Point
from protocols.model.event import Event
from protocols.overlay import Publish, TimerFired
from tests.chord.nodes import Node, sent


def standing() -> Node:
    node = Node(100, replicas=0)
    node.stand(90, 150, 200, 240)
    return node


def asked(node: Node, number: int, at_ms: int) -> list[tuple[int, Match]]:
    """Publish the event of value 5, which has two keys: its own, and that of all."""
    event = Event(f"e-1-{number}", Point((5,), ()))
    return sent(node.do(Publish(event), at_ms), Match)


def test_an_owner_that_does_not_answer_is_not_asked_first_again() -> None:
    """One that has vanished: only the first event waits for it."""
    node = standing()
    first = [(to, match, key) for to, match in asked(node, 1, 1_000) for key in match.keys]
    owner = 90  # of all that is not ours
    for _, match, key in first:
        node.hear(owner, Matched(match.event_id, (key,), node.key(240), ()), 1_001)
    assert owner in [to for to, _ in asked(node, 2, 1_002)]
    again = sent(node.do(TimerFired(0, "tick"), 4_000), Match)
    assert again
    assert owner not in [to for to, _ in again]
    assert owner not in [to for to, _ in asked(node, 3, 4_001)]
