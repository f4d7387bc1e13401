"""Storing, handing over, copies and leases."""

import pytest

from protocols.chord import placements
from protocols.chord.keys import ANY
from protocols.chord.messages import (
    Enter,
    Held,
    Replicate,
    Row,
    Stabilise,
    Store,
    Stored,
    Taken,
    Transfer,
)
from protocols.chord.rows import key_of
from protocols.overlay import PeerLost, Rejected, Subscribe, TimerFired, Unwatch
from tests.chord.nodes import Node, at, box, facts, sent
from tests.chord.tables import row, standing, store, transfer, value


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
    node.hear(60, Taken(part.token, part.part))
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
        ((_, part),) = sent(node.hear(60, Taken(part.token, part.part)), Transfer)
        count += len(part.rows)
    assert count == 150


def test_a_receipt_that_comes_twice_is_not_that_of_the_next_part() -> None:
    node = standing()
    for number in range(150):
        node.hear(10, store(30, number=number))
    ((_, first),) = sent(node.hear(10, Enter(at(60))), Transfer)
    ((_, second),) = sent(node.hear(60, Taken(first.token, 0)), Transfer)
    assert (first.part, second.part) == (0, 1)
    assert sent(node.hear(60, Taken(first.token, 0)), Transfer) == []


def test_an_arc_that_comes_twice_undoes_nothing() -> None:
    """Its receipt was late, so that its last part was sent again."""
    node = Node(100, replicas=0)
    node.stand(10, 150, 200)
    node.chord.ring.set_low(None)
    node.hear(150, transfer(3, 0, "handoff", 10, 100, row(30)))
    node.chord.ring.stand(at(60), (at(150), at(200)), 60)  # the rest was handed over since
    assert sent(node.hear(150, transfer(3, 0, "handoff", 10, 100, row(30))), Taken) == [(150, Taken(3, 0))]
    assert not node.chord.ring.answers_for(30)
    node.hear(10, transfer(4, 0, "copy", 200, 10, row(5)))
    node.hear(10, Replicate(1, row(6, number=2)))
    node.hear(10, transfer(4, 0, "copy", 200, 10, row(5)))
    assert node.chord.storage.rows.get(key_of(row(6, number=2))) is not None


def test_a_first_part_that_comes_twice_is_no_new_beginning() -> None:
    node = standing()
    node.hear(10, transfer(4, 0, "copy", 200, 10, row(5), last=False))
    node.hear(10, transfer(4, 1, "copy", 200, 10, row(6, number=2), last=False))
    node.hear(10, transfer(4, 0, "copy", 200, 10, row(5), last=False))
    node.hear(10, transfer(4, 2, "copy", 200, 10, row(7, number=3)))
    assert len(node.chord.storage.rows) == 3


def test_arcs_that_never_end_are_not_kept_track_of() -> None:
    node = standing(rows_max=8)
    for part in range(20):
        node.hear(10, transfer(4, part, "copy", 200, 10, row(5, number=part), last=False))
        node.hear(10, Replicate(1, row(5, number=part, version=2, removed=True)))
    assert sum(len(rows) for _, rows in node.chord.storage._transfers._incoming.values()) <= 8


def test_a_newcomer_answers_with_the_last_part() -> None:
    node = Node(100, replicas=0)
    node.stand(10, 150, 200)
    node.chord.ring.set_low(None)
    node.hear(150, transfer(3, 0, "handoff", 10, 100, row(30), last=False))
    assert not node.chord.ring.answers_for(30)
    effects = node.hear(150, transfer(3, 1, "handoff", 10, 100, row(40, 2)))
    assert sent(effects, Taken) == [(150, Taken(3, 1))]
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


@pytest.mark.parametrize("way", ["walk", "jump", "multicast"])
def test_a_range_does_not_go_around_the_ring(way: str) -> None:
    """Its last value is beyond all that the attribute has, so that one message would become hundreds."""
    node = Node(100, replicas=0, range_store=way)
    node.stand(10, 150, 200)
    effects = node.hear(10, Store(wide(60, 180), value(60), 2**40))
    assert facts(effects, Rejected)
    assert sent(effects, Store) == []


def test_boxes_that_cannot_be_stored_do_not_keep_the_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their owner has no room, and does not answer."""
    monkeypatch.setattr(placements, "WINDOW", 2)
    node = Node(100)
    node.stand(10, 150, 200)
    for number in range(4):
        node.do(Subscribe(str(number), box(value(160), value(160) + 1 + number)), 1)
    asked = set()
    for second in range(1, 20):
        effects = node.do(TimerFired(0, "tick"), 1 + 1_000 * second)
        asked |= {message.row.number for _, message in sent(effects, Store)}
    assert asked == {0, 1, 2, 3}
