"""Whoever cannot have more children sends joiners on to where there is room; and nobody can be made to have more."""

import msgspec
import pytest
from msgspec.structs import replace

from peerd.sim.invariants import violations
from protocols.model.box import Box, Point
from protocols.model.event import Event
from protocols.model.interest import Interest
from protocols.overlay import Publish, Rejected, Report, Send
from protocols.semantic.messages import HOPS_MAX, MEMBERS_MAX, Attach, Attached, Below, LinkKind, Pulse, Rank, Routed
from protocols.semantic.tree import digest
from tests.semantic.alone import Alone, Origin, at, attach, sent
from tests.semantic.orchard import Orchard

ROOM = 16
"""The least that `children_max` can be."""


def quotes(number: int) -> str:
    """Interests of which none contains another."""
    return f"exchange = 'ATHEX' AND price BETWEEN {6 + number / 4} AND {6.1 + number / 4}"


ABOVE = {
    "below the top level": ["exchange = 'ATHEX'", "exchange = 'ATHEX' AND price >= 5"],
    "at the top level": ["symbol = 'OTE'", "exchange = 'ATHEX'"],
    "the origin": ["TRUE"],
}


@pytest.mark.parametrize("above", ABOVE.values(), ids=ABOVE)
@pytest.mark.parametrize("profile", ["paper", "tuned"])
def test_there_is_a_place_for_more_than_their_container_can_have(above: list[str], profile: str) -> None:
    orchard = Orchard(children_max=str(ROOM), profile=profile)
    for number, filter_ in enumerate(above):
        orchard.plant(f"above{number}", filter_)
    for number in range(ROOM + 8):
        orchard.plant(f"P{number}", quotes(number))
    assert len(orchard.tree(f"above{len(above) - 1}").of_kind("interest")) == ROOM
    results = orchard.publish("P0", exchange="ATHEX", price=6.05 + (ROOM + 7) / 4)
    assert results[f"P{ROOM + 7}"] == "wanted"
    assert violations(orchard.swarm) == []


@pytest.mark.parametrize("subscribers", [0, 1])
def test_there_is_a_place_for_many_who_only_publish(subscribers: int) -> None:
    orchard = Orchard(children_max=str(ROOM), profile="tuned")
    for number in range(subscribers):
        orchard.plant(f"S{number}", "exchange = 'ATHEX'")
    for number in range(2 * ROOM):
        orchard.plant(f"P{number}")
    assert max(len(orchard.tree(name).children) for name in orchard.nodes) <= ROOM
    if not subscribers:
        orchard.plant("S0", "exchange = 'ATHEX'")  # it is the origin, before long, and takes its place among them
        orchard.swarm.run(20_000)
    for name in ("P0", f"P{2 * ROOM - 1}"):
        assert orchard.publish(name, exchange="ATHEX")["S0"] == "wanted"
    assert violations(orchard.swarm) == []


def test_whoever_has_no_room_does_not_offer_itself() -> None:
    orchard = Orchard(children_max=str(ROOM))
    orchard.plant("narrow", "exchange = 'ATHEX' AND price >= 5")
    orchard.plant("broad", "exchange = 'ATHEX'")
    for number in range(ROOM + 1):
        orchard.plant(f"P{number}", quotes(number))
    assert orchard.parents()[f"P{ROOM}"] == ("interest", "broad")


@pytest.mark.parametrize(("lo", "hi"), [(0, 10), (50, 60)], ids=["equals", "top-level peers"])
def test_those_who_say_that_they_leave_take_up_room_all_the_same(lo: int, hi: int) -> None:
    """Leavers do not count where others look for a place; but there cannot be any number of them."""
    origin = Origin(children_max=ROOM, root_degree=4, equal_degree=4)
    for number in range(10 * ROOM):
        origin.hear(f"p{number}", attach(f"p{number}", lo, hi if lo == 0 else hi + number))
        origin.hear(f"p{number}", Below(1, 1, False, True))
    assert len(origin.overlay.tree.children) <= ROOM + 4 + 4


@pytest.mark.parametrize(("lo", "wider"), [(0, 0), (50, 1)], ids=["equals", "top-level peers"])
def test_who_may_be_passed_on_no_further_has_a_place_whatever_the_degree(lo: int, wider: int) -> None:
    """With a degree of 1 they are a chain, and nobody would get in any more when that is as long as requests go."""
    origin = Origin(root_degree=1, equal_degree=1)
    a, b, c = (attach(name, lo, lo + 10 + number * wider) for number, name in enumerate("abc"))
    assert sent(origin.hear("a", a), Attached) == {"a"}
    assert sent(origin.hear("b", b), Attach) == {"a"}
    assert sent(origin.hear("c", replace(c, hops=HOPS_MAX - 1)), Attached) == {"c"}


@pytest.mark.parametrize(("lo", "hi", "kind"), [(0, 10, "equal"), (50, 60, "root")])
def test_a_liar_cannot_make_us_send_numbers_that_nobody_takes(lo: int, hi: int, kind: LinkKind) -> None:
    me = Alone((at("p"),))
    known = digest(Interest(Box((0,), (10,))))
    me.hear("p", Attached(1, Pulse(Rank(0, "p", 0), 1, 1, "root", known, 1, at("me"), (at("p"),))))
    said = []
    for number in range(3):
        me.overlay.tree.adopt(at(f"c{number}"), 1, Interest(Box((lo,), (hi,))), kind)
        told = me.hear(f"c{number}", Below(MEMBERS_MAX, MEMBERS_MAX, False, False))
        said += [e.message for e in told if isinstance(e, Send) and isinstance(e.message, Below)]
    assert said
    for message in said:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Below) == message


def test_a_pattern_within_a_pattern_within_a_pattern_is_rejected() -> None:
    """Predicates nested as deep as the length of a text allows."""
    origin = Origin()
    nested = Interest(Box((0,), (10,)), "/a" + "[a" * 340 + "]" * 340)
    [effect] = origin.hear("a", Attach(at("a"), 1, nested, "climb"))
    assert isinstance(effect, Report)
    assert isinstance(effect.fact, Rejected)
    origin.hear("b", attach("b", 2, 4))
    assert sent(origin.do(Publish(Event("e-1-1", Point((3,))))), Routed) == {"b"}
