"""What a publisher remembers, and when it stops to."""

import pytest

from protocols.chord import publications
from protocols.chord.messages import Found, Match, Matched, Notify, Owner, Transfer
from protocols.model.box import Point
from protocols.model.event import Event
from protocols.overlay import Leave, Publish, Rejected, TimerFired, Unsubscribe
from tests.chord.nodes import Node, at, facts, sent
from tests.chord.rings import STOCK, full_circle, subscribe


def standing(**config: str) -> Node:
    node = Node(100, replicas=0, **config)
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


def test_a_publisher_does_not_leave_before_it_has_found_the_homes_of_its_subscribers() -> None:
    """Their access nodes are looked up by c1 (`delivery = "home"`); who leaves meanwhile would take the event along."""
    node = standing(delivery="home")
    questions = asked(node, 1, 1_000)
    (key, *rest) = [key for _, match in questions for key in match.keys]
    node.hear(90, Matched(questions[0][1].event_id, (key,), node.key(240), (Found(at(180), 3, 1, (0,)),)), 1_001)
    effects = node.hear(90, Matched(questions[0][1].event_id, tuple(rest), node.key(240), ()), 1_002)
    assert sent(effects, Notify) == []
    assert sent(node.do(Leave(), 1_003), Transfer) == []
    effects = node.hear(180, Owner(1, (node.key(180),), node.key(150)), 1_004)
    assert [to for to, _ in sent(effects, Notify)] == [180]
    assert [to for to, _ in sent(effects, Transfer)] == [150]


def test_rows_that_linger_are_not_counted_for_another_subscription() -> None:
    """The removal of an old row was lost. Its number is nobody else's, or the new one would seem to be in two lists."""
    ring = full_circle(4, STOCK, matching="parallel")
    subscribe(ring, 3, "old", "Symbol = 'OTE'", STOCK)
    ring.nodes[3].handle(0, Unsubscribe("old"))  # and nobody hears of it
    subscribe(ring, 3, "new", "Price < 9", STOCK)
    ring.publish(5, STOCK.point({"Symbol": "OTE", "Price": 8.4}))
    assert ring.delivered == [ring.nodes[3].ring.me]


def test_a_subscriber_whose_home_is_not_found_is_told_itself() -> None:
    node = standing(delivery="home")
    questions = asked(node, 1, 1_000)
    key = questions[0][1].keys[0]
    found = (Found(at(180), 3, 1, (0,)),)
    node.hear(90, Matched(questions[0][1].event_id, (key,), node.key(240), found), 1_001)
    ticks = [node.do(TimerFired(0, "tick"), 1_000 * second) for second in range(2, 12)]
    told = [(to, message) for effects in ticks for to, message in sent(effects, Notify)]
    assert [(to, message.access, message.home) for to, message in told] == [(180, at(180), False)]


@pytest.mark.parametrize("matching", ["rendezvous", "parallel"])
def test_there_are_only_so_many_matches(matching: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "MATCHES_MAX", 100)
    node = standing(matching=matching)
    ((_, match), *_) = asked(node, 1, 1_000)
    for part in range(20):
        found = tuple(Found(at(number), part, 1, (0,)) for number in range(10 * part, 10 * part + 10))
        effects = node.hear(90, Matched(match.event_id, (), node.key(240), found))
    assert facts(effects, Rejected)
    (publication,) = node.chord._publications._open.values()
    assert len(publication.found) + len(publication.notified) == 100
