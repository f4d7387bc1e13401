"""A chain of siblings that changes while events are on their way along it loses none of them (paper, section 3)."""

import pytest

from protocols.model.box import Box, Point
from protocols.model.event import Copy, Event
from protocols.model.interest import NOTHING, Interest
from protocols.overlay import Publish, Send, Unsubscribe, Update
from protocols.semantic.messages import Attach, Attached, Below, Detach, Leaving, LinkKind, Pulse, Rank, Routed
from protocols.semantic.tree import digest
from tests.semantic.alone import Alone, Origin, at, attach, sent

EVENT = Event("e-1-1", Point((4,)))
"""Everybody here wants it."""
SIBLINGS = {"a", "b", "c", "d"}


def parent_of_four(chain_above: int) -> tuple[Origin, str]:
    """A parent that has sent an event to one of its four children, for all of them; and which one that is."""
    parent = Origin(peek=False, chain_above=chain_above)
    for number, name in enumerate(sorted(SIBLINGS)):
        parent.hear(name, attach(name, number, number + 5))
    [entry] = sent(parent.do(Publish(EVENT)), Routed)
    return parent, entry


def pulse(req_id: int, kind: LinkKind = "interest", left: str = "", right: str = "") -> Pulse:
    known = digest(Interest(Box((0,), (10,))))
    siblings = (at(name) if name else None for name in (left, right))
    return Pulse(Rank(0, "p", 0), req_id, req_id, kind, known, 1, at("me"), (at("p"),), *siblings)


def child_of_p(left: str = "", right: str = "") -> Alone:
    """One that hangs on p, between those siblings."""
    child = Alone((at("p"),), peek=False)
    child.hear("p", Attached(1, pulse(1, "interest", left, right)))
    return child


@pytest.mark.parametrize("chain_above", [2, 3])
def test_what_was_sent_to_one_who_had_gone_is_sent_again(chain_above: int) -> None:
    """To one of those who pass it on among themselves; to each of them, if they are too few for a chain by now."""
    parent, entry = parent_of_four(chain_above)
    again = sent(parent.hear(entry, Detach(1)), Routed)
    assert again <= SIBLINGS - {entry}
    assert len(again) == (1 if chain_above == 2 else 3)


def test_whoever_is_about_to_go_is_in_no_chain_any_more() -> None:
    """It is sent itself what it wants, beside the chain that closes without it, until it comes back."""
    parent, entry = parent_of_four(chain_above=2)
    again = sent(parent.hear(entry, Below(1, 1, False, True)), Routed)
    assert entry in again
    assert len(again) == 2
    to = sent(parent.do(Publish(Event("e-1-2", Point((4,))))), Routed)
    assert entry in to
    assert len(to) == 2
    parent.hear(entry, Attach(at(entry), 2, parent.overlay.tree.children[at(entry)].interest, "here"))
    assert len(parent.overlay.routing.chain) == 4


def test_a_former_parent_is_told_not_to_count_on_one_that_has_moved() -> None:
    """It is kept for a child that only it can serve."""
    child = child_of_p(left="a", right="b")
    child.hear("y", attach("y", 2, 4))
    child.do(Update("box", Box((50,), (60,)), version=2))
    request = child.overlay._me.seek.request
    assert request is not None
    told = child.hear("q", Attached(request.req_id, pulse(request.req_id)))
    assert child.overlay.tree.former == at("p")
    assert "p" in sent(told, Below)


def test_what_a_sibling_sends_that_has_moved_below_us_climbs() -> None:
    """The parent has not said yet that it is no sibling any more; nor is that remembered when it has."""
    child = child_of_p(left="a", right="b")
    assert sent(child.hear("a", attach("a", 2, 6)), Attached) == {"a"}
    assert "p" in sent(child.hear("a", Routed(Copy(EVENT))), Routed)
    child.hear("p", pulse(1, right="b"))
    assert "p" in sent(child.hear("a", Routed(Copy(Event("e-1-2", Point((4,)))))), Routed)


def test_a_sibling_that_we_have_not_heard_of_yet_is_one_all_the_same() -> None:
    """What it sends goes on along the chain, at once or when we hear who is next, and does not climb."""
    unwanted = Routed(Copy(Event("e-1-1", Point((70,)))), along=True)
    child = child_of_p(right="b")
    assert sent(child.hear("z", unwanted), Routed) == {"b"}
    child = child_of_p()
    assert sent(child.hear("z", unwanted), Routed) == set()
    assert sent(child.hear("p", pulse(1, left="a", right="b")), Routed) == {"a", "b"}


def test_a_new_sibling_is_given_what_came_along_lately_and_nothing_else() -> None:
    """The rest was sent to everybody one by one, or has yet to come along."""
    child = child_of_p(left="a", right="b")
    child.hear("y", attach("y", 2, 4))
    assert sent(child.hear("y", Routed(Copy(Event("e-1-1", Point((70,)))))), Routed) == {"p"}
    assert sent(child.hear("p", pulse(1, left="z", right="b")), Routed) == set()
    assert sent(child.hear("z", Routed(Copy(Event("e-1-2", Point((70,)))), along=True)), Routed) == {"b"}
    assert sent(child.hear("p", pulse(1, left="z", right="c")), Routed) == {"c"}


def test_a_departure_costs_the_parent_what_it_had_begun_there_and_no_more() -> None:
    """A parent of many, which the chain is to relieve, must not send all that it has lately whenever one of them goes:
    of four it had begun a quarter of the events with each."""
    parent = Origin(peek=False, chain_above=2)
    for number, name in enumerate(sorted(SIBLINGS)):
        parent.hear(name, attach(name, number, number + 5))
    begun = [sent(parent.do(Publish(Event(f"e-1-{number}", Point((4,))))), Routed) for number in range(100)]
    again = [e for e in parent.hear("c", Detach(1)) if isinstance(e, Send) and isinstance(e.message, Routed)]
    assert len(again) == begun.count({"c"}) < 50


def test_whoever_wants_nothing_any_more_sends_those_away_who_want_nothing_either() -> None:
    child = child_of_p()
    assert sent(child.hear("z", Attach(at("z"), 1, NOTHING, "here")), Attached) == {"z"}
    assert sent(child.do(Unsubscribe("box")), Leaving) == {"z"}
