"""Connections that break: what is sent again, which way, and for how long."""

from protocols.chord.messages import Find, Held, Notify, Refresh, Stabilise
from protocols.model.box import Point
from protocols.model.event import Copy, Event
from protocols.overlay import Dropped, Effect, Message, Undelivered
from protocols.parts.broken import AGAIN_MAX
from tests.chord.nodes import Node, at, facts, sent

HELD = Held(1)


def standing() -> Node:
    node = Node(100, rpc_ms=2_000)
    node.stand(10, 150, 200, 220)
    return node


def returned(node: Node, place: int, message: Message, at_ms: int, refused: bool = False) -> list[Effect]:
    return node.do(Undelivered(0, at(place), message, refused), at_ms)


def test_what_comes_back_is_sent_again_for_as_long_as_one_waits_for_an_answer() -> None:
    node = standing()
    for at_ms in (1_000, 2_000, 2_999):
        assert sent(returned(node, 150, HELD, at_ms), Held) == [(150, HELD)]
    assert returned(node, 150, HELD, 3_000) == []
    assert returned(node, 150, HELD, 13_000) == []
    node.hear(150, Stabilise(), 14_000)
    assert returned(node, 150, HELD, 15_000) != []  # there was a connection in between


def test_what_comes_back_at_once_is_not_sent_again_and_again() -> None:
    node = standing()
    tries = [returned(node, 150, HELD, 1_000) for _ in range(2 * AGAIN_MAX)]
    assert len([effects for effects in tries if effects]) == AGAIN_MAX


def test_nothing_is_sent_again_to_where_nobody_listens() -> None:
    node = standing()
    effects = returned(node, 150, Refresh(1, ()), 1_000, refused=True)
    assert sent(effects, Refresh) == []
    assert node.places[1] == [200, 220]


def test_a_routed_message_goes_another_way() -> None:
    node = standing()
    question = Find(1, (node.key(230),), at(10), 3)
    assert sent(returned(node, 220, question, 1_000), Find) == [(200, Find(1, question.keys, at(10), 4))]
    assert [to for to, _ in sent(node.hear(10, question), Find)] == [220]  # others are not kept from it
    assert returned(node, 220, question, 5_000) == []


def test_an_event_grows_older_by_the_time_that_nothing_gets_through() -> None:
    node = standing()
    notice = Notify(Copy(Event("e-1-1", Point((1,), ()))), at(150), (1,))
    ages = []
    for at_ms in range(10_000, 100_000, 10_000):
        effects = returned(node, 150, notice, at_ms)
        if not sent(effects, Notify):
            assert facts(effects, Dropped) == [Dropped("e-1-1", "expired", at(150))]
            break
        ((_, notice),) = sent(effects, Notify)
        ages.append(notice.copy.age_ms)
    assert ages == [1_000, 11_000, 31_000]
