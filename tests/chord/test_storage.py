"""Handing over, copies and leases."""

import pytest

from protocols.chord.keys import ANY
from protocols.chord.messages import (
    Differs,
    Digest,
    Enter,
    Held,
    Lease,
    Leaving,
    Refresh,
    Refreshed,
    Replicate,
    Row,
    Stabilise,
    Store,
    Stored,
    Taken,
    Transfer,
)
from protocols.chord.rows import key_of
from protocols.overlay import Leave, Left, PeerLost, Rejected, Subscribe, TimerFired, Unwatch
from tests.chord.nodes import BITS, Node, at, box, facts, sent

OFFSET = Node(0).chord.circle.hash("x")
"""Where the values of x begin: with 256 of them on a circle of 256, value v has the key OFFSET + v."""


def value(place: int) -> int:
    """The value whose key is that place."""
    return (place - OFFSET) % (1 << BITS)


def row(place: int, number: int = 1, version: int = 1, access: int = 250, removed: bool = False) -> Row:
    """A row with the one key `place`."""
    return Row(at(access), number, 1, 0, version, box(value(place), value(place) + 1), removed)


def store(place: int, number: int = 1, version: int = 1) -> Store:
    return Store(row(place, number, version), value(place), value(place))


def standing(**config: int) -> Node:
    """Node 100, which answers for (10, 100]."""
    node = Node(100, replicas=config.pop("replicas", 0), **config)
    node.stand(10, 150, 200)
    return node


def test_a_row_is_acknowledged_when_all_copies_are() -> None:
    node = standing(replicas=2)
    effects = node.hear(10, store(50))
    copies = sent(effects, Replicate)
    assert sent(node.hear(10, store(50)), Replicate) == []  # once is enough
    assert [to for to, _ in copies] == [150, 200]
    assert sent(effects, Stored) == []
    token = copies[0][1].token
    assert sent(node.hear(150, Held(token)), Stored) == []
    assert sent(node.hear(200, Held(token)), Stored) == [(250, Stored(1, 0, 1, node.key(10)))]


def test_nothing_waits_for_a_dead_copy() -> None:
    node = standing(replicas=2)
    token = sent(node.hear(10, store(50)), Replicate)[0][1].token
    node.hear(150, Held(token))
    assert sent(node.do(PeerLost(at(200))), Stored)


def test_a_row_of_another_node_is_passed_on() -> None:
    node = standing()
    effects = node.hear(10, store(170))
    assert [to for to, _ in sent(effects, Store)] == [150]
    assert not len(node.chord.storage.rows)


def test_the_newest_version_wins() -> None:
    node = standing()
    node.hear(10, store(50, version=5))
    node.hear(10, store(50, version=4))
    assert node.chord.storage.rows.get(key_of(row(50))) == row(50, version=5)
    node.hear(10, Store(row(50, version=4, removed=True), value(50), value(50)))
    assert len(node.chord.storage.rows) == 1
    node.hear(10, Store(row(50, version=5, removed=True), value(50), value(50)))
    assert len(node.chord.storage.rows) == 0


def test_a_full_table_says_so_and_acknowledges_nothing() -> None:
    node = standing(rows_max=1)
    node.hear(10, store(50))
    effects = node.hear(10, store(60, number=2))
    assert facts(effects, Rejected)
    assert sent(effects, Stored) == []


# --- A newcomer -------------------------------------------------------------------------------------------------------


def test_a_newcomer_is_handed_its_arc_and_the_giver_answers_until_the_receipt() -> None:
    node = standing()
    for place in (30, 40, 80):
        node.hear(10, store(place, number=place))
    ((to, part),) = sent(node.hear(10, Enter(at(60))), Transfer)
    assert to == 60
    assert (part.purpose, part.low, part.high, part.last) == ("handoff", node.key(10), node.key(60), True)
    assert sorted(each.number for each in part.rows) == [30, 40]
    assert node.chord.ring.answers_for(30)
    node.hear(60, Taken(part.token))
    assert not node.chord.ring.answers_for(30)
    assert node.chord.ring.answers_for(80)


def test_what_is_stored_meanwhile_goes_to_both() -> None:
    node = standing()
    node.hear(10, Enter(at(60)))
    effects = node.hear(10, store(30))
    assert [to for to, _ in sent(effects, Replicate)] == [60]
    assert sent(effects, Stored) == []


def test_a_large_arc_comes_in_parts_and_a_part_that_is_not_received_comes_again() -> None:
    node = standing()
    for number in range(150):
        node.hear(10, store(30, number=number))
    ((_, part),) = sent(node.hear(10, Enter(at(60))), Transfer)
    count = len(part.rows)
    again = sent(node.do(TimerFired(0, "tick"), node.now_ms + 3_000), Transfer)
    assert again == [(60, part)]
    while not part.last:
        ((_, part),) = sent(node.hear(60, Taken(part.token)), Transfer)
        count += len(part.rows)
    assert count == 150


def test_a_newcomer_answers_with_the_last_part() -> None:
    node = Node(100, replicas=0)
    node.stand(10, 150, 200)
    node.chord.ring.set_low(None)
    node.hear(150, Transfer(3, "handoff", node.key(10), node.key(100), (row(30),), True, False))
    assert not node.chord.ring.answers_for(30)
    effects = node.hear(150, Transfer(3, "handoff", node.key(10), node.key(100), (row(40, 2),), False, True))
    assert sent(effects, Taken) == [(150, Taken(3))]
    assert node.chord.ring.answers_for(30)
    assert len(node.chord.storage.rows) == 2


def test_until_then_its_successor_is_asked() -> None:
    node = Node(100, replicas=0)
    node.stand(10, 150, 200)
    node.chord.ring.set_low(None)
    assert [to for to, _ in sent(node.hear(10, store(50)), Store)] == [150]


def test_after_a_death_the_successor_answers_at_once() -> None:
    node = standing()
    node.do(PeerLost(at(10)))
    node.hear(240, Stabilise())
    assert node.chord.ring.answers_for(5)


def test_who_takes_an_arc_over_is_watched_until_it_has() -> None:
    """Another newcomer may come between; if the first one vanishes then, the second has to get the arc all the same."""
    node = standing()
    ((to, _),) = sent(node.hear(10, Enter(at(60))), Transfer)
    assert to == 60
    effects = node.hear(10, Enter(at(80)))
    assert sent(effects, Transfer) == []
    assert not [effect for effect in effects if isinstance(effect, Unwatch) and effect.address == at(60)]
    ((to, part),) = sent(node.do(PeerLost(at(60))), Transfer)
    assert (to, part.purpose, part.low, part.high) == (80, "handoff", node.key(10), node.key(80))


# --- A leaver ---------------------------------------------------------------------------------------------------------


def test_a_leaver_goes_when_its_successor_has_everything() -> None:
    node = standing()
    node.hear(10, store(50))
    effects = node.do(Leave())
    ((to, part),) = sent(effects, Transfer)
    assert (to, part.purpose, len(part.rows)) == (150, "bequest", 1)
    assert node.chord.ring.answers_for(50)
    effects = node.hear(150, Taken(part.token))
    assert facts(effects, Left)
    assert [to for to, _ in sent(effects, Leaving)] == [150, 10]


def test_the_heir_answers_from_the_word_on() -> None:
    node = standing()
    node.hear(10, Transfer(3, "bequest", node.key(200), node.key(10), (row(5),), True, True))
    assert not node.chord.ring.answers_for(5)
    node.hear(10, Leaving(at(200), (node.me,)))
    assert node.chord.ring.answers_for(5)
    assert node.places[0] == 200


def test_an_heir_does_not_leave_before_it_has_inherited() -> None:
    node = standing()
    ((_, part),) = sent(node.do(Leave()), Transfer)
    node.hear(10, Transfer(3, "bequest", node.key(200), node.key(10), (row(5),), True, True))
    assert not facts(node.hear(150, Taken(part.token)), Left)
    ((_, part),) = sent(node.hear(10, Leaving(at(200), (node.me,))), Transfer)
    assert part.low == node.key(200)
    assert facts(node.hear(150, Taken(part.token)), Left)


# --- Copies and leases ------------------------------------------------------------------------------------------------


def test_copies_that_agree_live_on_and_others_are_sent_again() -> None:
    owner, holder = standing(replicas=1), Node(150, replicas=0, lease_ms=60_000)
    holder.stand(100, 200, 10)
    owner.hear(10, store(50))
    holder.hear(100, Replicate(1, row(50)), 1)
    owner.chord.storage.compare(50_000)
    ((_, digest),) = sent(owner.chord._out.drain(), Digest)
    assert sent(holder.hear(100, digest, 50_000), Differs) == []
    assert [lease_ms for _, lease_ms in holder.chord.storage.rows.all()] == [110_000]
    holder.hear(100, Replicate(2, row(60, number=2)), 50_001)
    assert sent(holder.hear(100, digest, 50_002), Differs) == [(100, Differs())]
    ((to, part),) = sent(owner.hear(150, Differs()), Transfer)
    assert (to, part.purpose) == (150, "copy")
    holder.hear(100, part)
    assert [each.number for each, _ in holder.chord.storage.rows.all()] == [1]  # what the owner has not, goes


def test_a_row_whose_lease_ends_goes() -> None:
    node = standing(lease_ms=60_000)
    node.hear(10, store(50), 0)
    node.hear(250, Refresh(1, (Lease(1, 0, 1),)), 30_000)
    node.chord.storage.compare(89_999)
    assert len(node.chord.storage.rows) == 1
    node.chord.storage.compare(90_000)
    assert len(node.chord.storage.rows) == 0


def test_what_is_missing_is_said_and_stored_again_at_once() -> None:
    node = standing()
    ((_, answer),) = sent(node.hear(250, Refresh(9, (Lease(1, 0, 1), Lease(2, 0, 1)))), Refreshed)
    assert answer == Refreshed(9, node.key(10), (0, 1))
    access = Node(250, replicas=0)
    access.stand(200, 100, 150)
    access.do(Subscribe("a", box(value(50), value(50) + 1)))
    access.hear(100, Stored(0, 0, 1, access.key(10)))
    access.chord.placements.refresh(20_000)
    ((to, asked),) = sent(access.chord._out.drain(), Refresh)
    assert to == 100
    effects = access.hear(100, Refreshed(asked.token, access.key(10), (0,)), 20_050)
    assert [to for to, _ in sent(effects, Store)] == [100]


def test_an_arc_that_was_handed_over_is_stored_at_its_new_owner() -> None:
    access = Node(250, replicas=0)
    access.stand(200, 100, 150)
    access.do(Subscribe("a", box(value(50), value(50) + 1)))
    access.hear(100, Stored(0, 0, 1, access.key(10)))
    access.chord.placements.refresh(20_000)
    ((_, asked),) = sent(access.chord._out.drain(), Refresh)
    effects = access.hear(100, Refreshed(asked.token, access.key(60), ()), 20_050)
    assert sent(effects, Store)


def test_an_owner_that_answers_for_less_uncovers_the_row() -> None:
    """Its answer was doubled on the way, or overtaken by that of the one that the arc was handed over to."""
    access = Node(250, replicas=0)
    access.stand(200, 100, 150)
    access.do(Subscribe("a", box(value(50), value(50) + 1)), 1)
    access.hear(100, Stored(0, 0, 1, access.key(10)), 2)
    access.hear(100, Stored(0, 0, 1, access.key(60)), 3)
    assert sent(access.do(TimerFired(0, "tick"), 2_500), Store)


def wide(first: int, last: int) -> Row:
    """A row with the keys from `first` to `last`."""
    return Row(at(250), 1, 1, 0, 1, box(value(first), value(last) + 1))


@pytest.mark.parametrize("way", ["walk", "multicast"])
def test_a_range_that_was_handed_past_its_node_is_routed_there(way: str) -> None:
    """The sender does not know yet who stands between it and us; to go on from here would be to go around the ring."""
    node = Node(150, replicas=0, range_store=way)
    node.stand(140, 200, 100)
    message = Store(wide(120, 180), value(120), value(180), direct=True)
    ((to, onward),) = sent(node.hear(100, message), Store)
    assert (to, onward.direct, onward.first) == (100, False, value(120))


def test_a_multicast_ends_where_others_see_to_the_rest() -> None:
    """Even if nobody that we know stands there: the successor would take the whole circle for its part."""
    node = Node(100, replicas=0, range_store="multicast")
    node.stand(10, 150, 200)
    message = Store(wide(60, 180), value(60), value(180), direct=True)
    assert [to for to, _ in sent(node.hear(10, message), Store)] == [150]
    message = Store(wide(60, 180), value(60), value(180), direct=True, until=node.key(120))
    assert sent(node.hear(10, message), Store) == []


def test_a_box_of_no_attribute_is_stored_where_every_event_asks() -> None:
    node = Node(100)
    node.begin()
    node.do(Subscribe("all", box(-1, 256)))
    assert [each.list for each, _ in node.chord.storage.rows.all()] == [ANY]
