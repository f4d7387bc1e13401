"""Changes of the containment tree that meet: pulses of several trees, and places next to those who leave."""

import pytest

from protocols.model.box import Box, Point
from protocols.model.event import Copy, Event
from protocols.model.interest import NOTHING, Interest
from protocols.overlay import Effect, Leave, Publish, Send, TimerFired, Undelivered, Update
from protocols.semantic.messages import (
    Attach,
    Attached,
    Below,
    Crown,
    Detach,
    Dismiss,
    Leaving,
    LinkKind,
    Pulse,
    Rank,
    Routed,
)
from protocols.semantic.tree import digest
from tests.semantic.alone import Alone, Origin, at, attach, sent

MINE = Interest(Box((0,), (10,)))


def pulse(rank: str, seq: int, req_id: int = 1, kind: LinkKind = "interest") -> Pulse:
    return Pulse(Rank(0, rank, 0), seq, req_id, kind, digest(MINE), 1, at("me"), (at("p"),))


def test_in_a_cycle_each_pulse_goes_around_once() -> None:
    """Two trees that were mixed up would keep each other's pulses going for ever, and nobody would notice the cycle."""
    me = Alone((at("p"),))
    me.hear("p", Attached(1, pulse("one", 5)))
    me.hear("below", attach("below", 2, 4))
    passed = [bool(sent(me.hear("p", each), Pulse)) for each in (pulse("two", 3), pulse("one", 5), pulse("two", 3))]
    assert passed == [True, False, False]
    assert sent(me.hear("p", pulse("one", 6)), Pulse) == {"below"}


def test_a_former_parent_in_another_tree_is_not_believed() -> None:
    me = Alone((at("p"),))
    me.hear("p", Attached(1, pulse("one", 5)))
    me.hear("below", attach("below", 2, 4))
    me.overlay.tree.set_parent(at("q"), "interest")
    assert me.overlay.tree.former == at("p")
    assert sent(me.hear("p", pulse("two", 9)), Pulse) == set()
    assert me.overlay.tree.rank.peer == "one"


@pytest.mark.parametrize("kind", ["root", "equal"])
def test_whoever_leaves_takes_up_no_place(kind: str) -> None:
    """A joiner that was sent to it would be sent back, again and again, while its own parent waits for it to go."""
    origin = Origin(root_degree=2, equal_degree=2)

    def request(name: str, number: int) -> Attach:
        return attach(name, 20 * number, 20 * number + 5) if kind == "root" else attach(name, 0, 10)

    for number, name in enumerate("ab", 1):
        assert sent(origin.hear(name, request(name, number)), Attached) == {name}
    [full] = [e for e in origin.hear("c", request("c", 3)) if isinstance(e, Send) and isinstance(e.message, Attach)]
    assert full.to[0].peer in "ab"
    for name in "ab":
        origin.hear(name, Below(1, 1, False, True))
    assert sent(origin.hear("c", request("c", 3)), Attached) == {"c"}


def test_whoever_has_changed_its_mind_is_sent_what_its_children_want_until_they_have_gone() -> None:
    """Its parent tests its interest, and would test the new one only. So it says first that there are others."""
    child = Alone((at("p"),))
    child.hear("p", Attached(1, pulse("one", 5)))
    child.hear("below", attach("below", 2, 4))
    told = [e.message for e in child.do(Update("box", Box((50,), (60,)), version=2)) if isinstance(e, Send)]
    [says] = [n for n, message in enumerate(told) if isinstance(message, Below)]
    [asks] = [n for n, message in enumerate(told) if isinstance(message, Attach)]
    assert told[says].beyond  # type: ignore[attr-defined]
    assert says < asks
    told = [e.message for e in child.hear("below", Detach(1)) if isinstance(e, Send)]
    assert [message.beyond for message in told if isinstance(message, Below)] == [False]


@pytest.mark.parametrize(("lo", "kind"), [(20, "root"), (2, "interest")])
def test_a_parent_does_not_test_the_interest_of_a_child_that_serves_others_beyond_it(lo: int, kind: str) -> None:
    origin = Origin()
    origin.hear("a", attach("a", lo, lo + 2))
    assert origin.overlay.tree.of_kind(kind) == [at("a")]  # type: ignore[arg-type]
    unwanted = [Event(f"e-1-{number}", Point((7,))) for number in range(3)]  # the origin wants it, its child does not
    reached = []
    for event, beyond in zip(unwanted, (False, True, False)):
        origin.hear("a", Below(1, 1, True, False, beyond))
        reached.append(sent(origin.do(Publish(event)), Routed))
    assert reached == [set(), {"a"}, set()]


def test_whoever_is_told_again_to_go_does_not_ask_again() -> None:
    """The answer to the first request would be too late, every time."""
    me = Alone((at("p"),))
    me.hear("p", Attached(1, pulse("one", 5)))
    assert sent(me.hear("p", Leaving(at("q"))), Attach) == {"q"}
    assert sent(me.hear("p", Leaving(at("q"))), Attach) == set()
    assert sent(me.hear("p", Leaving(at("r"))), Attach) == {"r"}


@pytest.mark.parametrize(
    ("lo", "hi", "granted", "stays"),
    [(2, 4, "root", True), (50, 60, "interest", False), (50, 60, "root", True)],
    ids=["it contains the other", "the other contains it", "neither, and it has the lower address"],
)
def test_two_that_adopt_each_other_at_once_agree_on_who_stays_above(
    lo: int, hi: int, granted: LinkKind, stays: bool
) -> None:
    """Each has asked the other, and said yes before it heard: both would drop the other as a child, and be its child,
    cut off from the rest."""
    me = Alone((at("p"),))
    me.hear("p", Attached(1, pulse("one", 5, kind="root")))
    assert sent(me.hear("p", Leaving(at("z"))), Attach) == {"z"}
    request = me.overlay._me.seek.request
    assert request is not None
    me.overlay.tree.adopt(at("z"), 7, Interest(Box((lo,), (hi,))), "interest" if lo < 10 else "root")
    told = me.hear("z", Attached(request.req_id, pulse("one", 5, request.req_id, granted)))
    assert (me.overlay.tree.parent == at("p")) is stays
    assert (at("z") in me.overlay.tree.children) is stays
    assert ("z" in sent(told, Detach)) is stays


def test_a_child_that_has_become_the_parent_is_not_lost_by_its_last_word_as_a_child() -> None:
    """An origin that leaves gives its crown to a child. A pulse from before is still on its way to that one, which says
    that it is no child of the leaver; and the leaver took that for the word of its parent, and gave the crown to
    another child: two trees."""
    leaver = Origin()
    leaver.hear("heir", attach("heir", 2, 4))
    leaver.hear("other", attach("other", 5, 7))
    assert sent(leaver.do(Leave()), Crown) == {"heir"}
    request = leaver.overlay._me.handover._crown
    assert request is not None
    leaver.hear("heir", Attached(request[0], pulse("heir", 1, request[0], "root")))
    assert leaver.overlay.tree.parent == at("heir")
    leaver.hear("heir", Detach(1))
    assert leaver.overlay.tree.parent == at("heir")
    leaver.hear("heir", Dismiss())
    assert leaver.overlay.tree.parent is None


def test_whoever_is_sent_a_joiner_is_given_what_the_joiner_may_have_missed() -> None:
    """It was a leaf of the virtual root, and was not sent what it did not want; the joiner may want it."""
    origin = Origin(root_degree=1)
    origin.hear("a", attach("a", 50, 60))
    assert sent(origin.do(Publish(Event("e-1-1", Point((70,))))), Routed) == set()
    told = origin.hear("b", attach("b", 70, 75))
    assert sent(told, Attach) == sent(told, Routed) == {"a"}


@pytest.mark.parametrize("peek", [False, True])
def test_whoever_wants_nothing_any_more_is_sent_what_those_behind_it_want(peek: bool) -> None:
    origin = Origin(peek=peek)
    origin.hear("b", attach("b", 20, 30))
    origin.hear("a", attach("a", 50, 60))
    origin.hear("a", Attach(at("a"), 2, NOTHING, "here"))
    assert origin.overlay.tree.of_kind("idle") == [at("a")]
    for number, beyond in enumerate((False, True, False)):
        unwanted = Routed(Copy(Event(f"e-1-{number}", Point((70,)))))
        assert ("a" in sent(origin.hear("a", Below(1, 2, False, False, beyond)), Routed)) is beyond
        assert sent(origin.hear("b", unwanted), Routed) == ({"a"} if beyond else set())


def child_with_two_behind_it() -> Alone:
    """A relay of the virtual root: what its parent knows of it decides what those behind it are sent."""
    me = Alone((at("p"),))
    me.hear("p", Attached(1, pulse("one", 5, kind="root")))
    for number, name in enumerate("ab", 1):
        me.overlay.tree.adopt(at(name), 1, Interest(Box((20 * number,), (20 * number + 5,))), "root")
    return me


def said(effects: list[Effect]) -> list[Below]:
    return [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Below)]


def test_a_parent_that_had_forgotten_its_child_is_told_again_what_is_behind_it() -> None:
    """It took it for dead, say. It adopts it anew, as a leaf: and would send nothing that only those behind it want."""
    me = child_with_two_behind_it()
    assert [each.tops for each in said(me.hear("a", Below(1, 1, False, False)))] == [3]
    me.now_ms += 7_000
    assert sent(me.do(TimerFired(0, "pulse")), Attach) == {"p"}
    request = me.overlay._me.seek.request
    assert request is not None
    answered = me.hear("p", Attached(request.req_id, pulse("one", 9, request.req_id, "root")))
    assert [each.tops for each in said(answered)] == [3]


def test_what_a_parent_may_not_have_heard_is_said_again() -> None:
    """The connection broke under it. To a parent of before nothing is said any more."""
    me = child_with_two_behind_it()
    [message] = said(me.hear("a", Below(1, 1, False, False)))
    assert said(me.do(Undelivered(0, at("p"), message))) == [message]
    assert said(me.do(Undelivered(0, at("z"), message))) == []


def test_a_child_says_now_and_then_what_is_behind_it() -> None:
    """A datagram may be lost, or a stranger may have spoken for it: else the parent would be mistaken for ever."""
    me = child_with_two_behind_it()
    me.hear("a", Below(1, 1, False, False))
    told = [said(me.hear("p", pulse("one", seq, kind="root"))) for seq in range(6, 26)]
    assert [each.tops for one in told for each in one] == [3] * 4


@pytest.mark.parametrize("lo", [2, 20])
def test_whoever_serves_others_beyond_its_interest_is_sent_what_we_do_not_want_either(lo: int) -> None:
    """It was top-level, and has narrowed its interest to a part of ours: those who hang on it are still there."""
    origin = Origin()
    origin.hear("a", attach("a", lo, lo + 2))
    for event, beyond in ((1, False), (2, True), (3, False)):
        origin.hear("a", Below(1, 1, False, False, beyond))
        reached = sent(origin.do(Publish(Event(f"e-1-{event}", Point((70,))))), Routed)
        assert reached == ({"a"} if beyond else set())
