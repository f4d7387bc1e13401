"""Leaving: who inherits, beside newcomers, beside other leavers, and as a whole ring."""

from functools import partial
from hashlib import sha256

import pytest

from peerd.sim.engine import Node as Peer
from peerd.sim.invariants.chord.circle import Member, members
from peerd.sim.swarm import EPOCH_MS
from protocols.chord.ids import Circle
from protocols.chord.messages import Enter, Leaving, Replicate, Taken, Transfer
from protocols.model.ids import Address
from protocols.overlay import Leave, Left, PeerLost, TimerFired
from tests.chord.nodes import Node, at, facts, sent
from tests.chord.tables import row, standing, store, transfer
from tests.conformance.support import Stage, gaps


def bequest(token: int = 3, low: int = 200) -> Transfer:
    """What node 10 leaves to node 100."""
    return transfer(token, 0, "bequest", low, 10, row(5))


def test_a_leaver_goes_when_its_successor_has_everything() -> None:
    node = standing()
    node.hear(10, store(50))
    effects = node.do(Leave())
    ((to, part),) = sent(effects, Transfer)
    assert (to, part.purpose, len(part.rows)) == (150, "bequest", 1)
    assert node.chord.ring.answers_for(50)
    effects = node.hear(150, Taken(part.token, part.part))
    assert facts(effects, Left)
    assert [to for to, _ in sent(effects, Leaving)] == [150, 10]


def test_the_heir_answers_from_the_word_on() -> None:
    node = standing()
    assert sent(node.hear(10, bequest()), Taken) == [(10, Taken(3, 0))]
    assert not node.chord.ring.answers_for(5)
    node.hear(10, Leaving(at(200), (node.me,)))
    assert node.chord.ring.answers_for(5)
    assert node.places[0] == 200


# --- Beside a newcomer ------------------------------------------------------------------------------------------------


def test_who_enters_between_leaver_and_heir_gets_both_arcs_from_the_heir() -> None:
    """Not the heir's own before: it would not know what to do with the leaver's."""
    node = standing()
    node.hear(10, bequest())
    assert sent(node.hear(150, Enter(at(60))), Transfer) == []
    effects = node.hear(10, Leaving(at(200), (node.me,)))
    assert node.chord.ring.answers_for(5)
    ((to, part),) = sent(effects, Transfer)
    assert (to, part.purpose, part.low, part.high) == (60, "handoff", node.key(200), node.key(60))
    assert part.rows == (row(5),)


def test_whose_arc_does_not_begin_at_the_leaver_takes_no_bequest() -> None:
    """A newcomer between has been handed over to: it is the leaver's successor, and soon known to be."""
    node = standing()
    ((_, part),) = sent(node.hear(150, Enter(at(60))), Transfer)
    assert sent(node.hear(10, bequest()), Taken) == []  # it is being handed over to
    node.hear(60, Taken(part.token, part.part))
    assert sent(node.hear(10, bequest()), Taken) == []


def test_a_leaver_asks_the_newcomer_and_goes_with_the_first_receipt() -> None:
    node = standing()
    ((_, first),) = sent(node.do(Leave()), Transfer)
    node.chord.ring.stand(at(10), (at(120), at(150)), 10)
    ((to, second),) = sent(node.do(TimerFired(0, "tick"), 1_000), Transfer)
    assert (to, second.purpose) == (120, "bequest")
    effects = node.hear(150, Taken(first.token, first.part))
    assert facts(effects, Left)
    assert [to for to, _ in sent(effects, Leaving)] == [120, 10, 150]


def test_a_leaver_first_ends_what_it_hands_over() -> None:
    """Whoever takes it answers from then on, and must have what is stored here meanwhile."""
    node = standing()
    ((_, part),) = sent(node.hear(150, Enter(at(60))), Transfer)
    assert sent(node.do(Leave()), Transfer) == []
    assert [to for to, _ in sent(node.hear(150, store(30)), Replicate)] == [60]
    ((to, left),) = sent(node.hear(60, Taken(part.token, part.part)), Transfer)
    assert (to, left.purpose, left.low) == (150, "bequest", node.key(60))


def test_an_heir_whose_leaver_is_not_heard_of_any_more_hands_over_again() -> None:
    node = standing()
    node.hear(10, bequest(), 1)
    node.hear(150, Enter(at(60)), 2)
    assert sent(node.hear(10, bequest(), 3_000), Taken)  # it is still there
    assert sent(node.do(TimerFired(0, "tick"), 6_000), Transfer) == []
    ((to, _),) = sent(node.do(TimerFired(0, "tick"), 8_000), Transfer)
    assert to == 60


def start_between(stage: Stage, low: int, high: int) -> Peer:
    """A newcomer whose place is between these."""
    swarm, circle = stage.swarm, Circle(160)
    while True:
        name = sha256(f"{swarm.config.seed}/{swarm._identities + 1}".encode()).hexdigest()[:32]
        if circle.between(circle.node(Address(name, EPOCH_MS + swarm.now_ms, 0, "")), low, high):
            return swarm.start(stage.interests(1))
        swarm._identities += 1


def rows_of(member: Member) -> int:
    assert member.ring.low is not None
    return len(member.chord.storage.rows.on_arc(member.ring.low, member.id))


@pytest.mark.parametrize(
    ("seed", "ahead_ms"),
    [(1, 95), *(pytest.param(*each, marks=pytest.mark.slow) for each in [(1, 125), (2, 80), (2, 140)])],
)
def test_nothing_owed_is_missing_where_one_joins_beside_one_that_leaves(seed: int, ahead_ms: int) -> None:
    """The newcomer needs some round trips, so that both meet at the successor."""
    stage = Stage("chord", seed, "mixed")
    stage.gather(10, each=6)
    ring = members(stage.swarm)
    place = max(range(len(ring)), key=lambda each: rows_of(ring[each]))
    leaver, heir = ring[place], ring[(place + 1) % len(ring)]
    peer = stage.swarm.live[leaver.number]
    at_ms = stage.swarm.now_ms + 1_000
    stage.swarm.engine.at(at_ms - ahead_ms, lambda: start_between(stage, leaver.id, heir.id))
    stage.swarm.engine.at(at_ms, partial(stage.swarm.leave, peer))
    stage.publish(300, 6_000)
    stage.run(11_000)
    assert not peer.alive
    stage.converge()
    assert stage.finish(least_expected=20).at_risk == 0
    assert gaps(stage.swarm.oracle) == []


# --- Beside other leavers ---------------------------------------------------------------------------------------------


def test_an_heir_does_not_leave_before_it_has_inherited() -> None:
    node = standing()
    node.hear(10, bequest())
    ((_, part),) = sent(node.do(Leave()), Transfer)
    assert not facts(node.hear(150, Taken(part.token, part.part)), Left)
    ((_, part),) = sent(node.hear(10, Leaving(at(200), (node.me,))), Transfer)
    assert part.low == node.key(200)
    assert facts(node.hear(150, Taken(part.token, part.part)), Left)


def test_what_is_stored_after_the_heir_has_all_goes_there_too() -> None:
    node = standing()
    node.hear(10, bequest())
    ((_, part),) = sent(node.do(Leave()), Transfer)
    node.hear(150, Taken(part.token, part.part))
    assert [to for to, _ in sent(node.hear(10, store(50, number=2)), Replicate)] == [150]


def test_of_two_leavers_one_goes_first() -> None:
    """The one that goes first does not take the other's bequest, and the other waits for it."""
    places = [place for place in range(20, 140, 10) if place != 100]
    taken = []
    for place in places:
        node = Node(place, replicas=0)
        node.stand(10, 150, 200)
        node.do(Leave())
        taken.append(bool(sent(node.hear(10, bequest()), Taken)))
    assert True in taken
    assert False in taken


def test_nobody_waits_for_a_leaver_that_dies() -> None:
    node = standing()
    node.hear(10, bequest())
    ((_, part),) = sent(node.do(Leave()), Transfer)
    node.hear(150, Taken(part.token, part.part))
    node.do(PeerLost(at(10)))
    assert node.chord.state == "left"


@pytest.mark.parametrize("peers", [2, 3, 30])
def test_a_whole_ring_leaves(peers: int) -> None:
    stage = Stage("chord", 5, "stocks")
    stage.gather(peers)
    everybody = stage.living()
    for peer in everybody:
        stage.swarm.leave(peer)
    stage.run(4_000)
    assert [peer.index for peer in everybody if peer.index not in stage.swarm.oracle.left] == []
