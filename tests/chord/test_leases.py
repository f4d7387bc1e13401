"""Copies, leases, versions, and what nothing may bring back."""

from peerd.sim.invariants.chord.circle import members
from protocols.chord.messages import (
    Differs,
    Digest,
    Held,
    Lease,
    Refresh,
    Refreshed,
    Replicate,
    Row,
    Store,
    Stored,
    Transfer,
)
from protocols.chord.rows import key_of
from protocols.overlay import Subscribe, TimerFired, Unsubscribe, Update
from tests.chord.nodes import Node, at, box, sent
from tests.chord.tables import row, standing, store, transfer, value
from tests.conformance.support import Stage


def compared(owner: Node, at_ms: int) -> Digest:
    """What the holders of an owner's copies are told."""
    owner.chord.storage.compare(at_ms)
    ((_, digest),) = sent(owner.chord._out.drain(), Digest)
    assert isinstance(digest, Digest)
    return digest


def leases(node: Node) -> list[int]:
    return [lease_ms for _, lease_ms in node.chord.storage.rows.all()]


def test_copies_that_agree_live_on_and_others_are_sent_again() -> None:
    owner, holder = standing(replicas=1), Node(150, replicas=0, lease_ms=60_000)
    holder.stand(100, 200, 10)
    owner.hear(10, store(50))
    holder.hear(100, Replicate(1, row(50)), 1)
    owner.hear(250, Refresh(1, (Lease(1, 0, 1),)), 49_000)
    digest = compared(owner, 50_000)
    assert sent(holder.hear(100, digest, 50_000), Differs) == []
    assert leases(holder) == [110_000]
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


def test_only_the_access_node_renews() -> None:
    """The copies of a row that nobody has renewed agree, and end with it all the same."""
    owner, holder = standing(replicas=1), Node(150, replicas=0)
    holder.stand(100, 200, 10)
    owner.hear(10, store(50), 1)
    owner.hear(10, store(60, number=2), 1)
    holder.hear(100, Replicate(1, row(50)), 1)
    holder.hear(100, Replicate(2, row(60, number=2)), 1)
    owner.hear(250, Refresh(1, (Lease(2, 0, 1),)), 20_000)
    holder.hear(100, compared(owner, 30_000), 30_000)
    holder.hear(100, compared(owner, 40_000), 40_000)
    assert leases(owner) == [60_001, 80_000]
    assert leases(holder) == [60_001, 90_000]  # told once, up to `digest_ms` late


def test_a_row_that_is_passed_on_lives_no_longer_for_it() -> None:
    owner, newcomer = standing(), Node(60, replicas=0)
    newcomer.stand(10, 100, 150)
    newcomer.chord.ring.set_low(None)
    owner.hear(10, store(50), 1)
    owner.now_ms = 40_000
    owner.chord.storage._transfers.begin(40_000, at(60), "handoff", 10, 60)
    ((_, part),) = sent(owner.chord._out.drain(), Transfer)
    newcomer.hear(100, part, 40_010)
    assert leases(newcomer) == [60_011]
    newcomer.hear(100, transfer(2, 0, "copy", 60, 100, row(50), left_ms=5), 40_020)
    assert leases(newcomer) == [60_011]


def test_rows_of_the_dead_end() -> None:
    """Where each value is hashed by itself a row stands everywhere, and everybody holds copies of it for others."""
    stage = Stage("chord", 3, "ranges", settings={"hash": "chord", "range_nodes_max": "1000"})
    stage.gather(10, each=2)
    dead = stage.living()[4]
    gone = {overlay.descriptor().address for overlay in dead.peer.participants.values()}
    held = [row for member in members(stage.swarm) for row, _ in member.chord.storage.rows.all()]
    assert sum(row.access in gone for row in held) > 10
    stage.swarm.crash(dead)
    stage.run(90_000)
    held = [row for member in members(stage.swarm) for row, _ in member.chord.storage.rows.all()]
    assert held
    assert [row for row in held if row.access in gone] == []


# --- Versions ---------------------------------------------------------------------------------------------------------


def test_a_removed_row_does_not_come_back() -> None:
    """A store that was overtaken, a part that was sent twice."""
    node = standing()
    node.hear(10, store(50, version=1), 1)
    node.hear(10, Store(row(50, version=2, removed=True), value(50), value(50)), 2)
    node.hear(10, store(50, version=1), 3)
    node.hear(10, transfer(9, 0, "copy", 200, 10, row(50, version=1)), 4)
    assert not len(node.chord.storage.rows)
    assert sent(node.hear(10, Store(row(50, version=2, removed=True), value(50), value(50)), 5), Stored)  # said again
    node.hear(10, store(50, version=3), 6)
    assert len(node.chord.storage.rows) == 1


def test_an_outdated_row_that_is_removed_meanwhile_goes() -> None:
    holder = standing()
    holder.hear(10, store(50))
    assert sent(holder.hear(10, Replicate(7, row(50, version=2, removed=True), outdated=True)), Held) == [(10, Held(7))]
    assert len(holder.chord.storage.rows) == 0


def test_removals_are_not_remembered_for_ever() -> None:
    node = standing(rows_max=3)
    for number in range(9):
        node.hear(10, Store(row(50, number, 2, removed=True), value(50), value(50)), 1)
    table = node.chord.storage.rows
    assert len(table._ended) == 3
    table.expire(60_001)
    assert len(table._ended) == 0


def test_who_sends_an_older_row_is_told_the_newer_one() -> None:
    """Copies would differ for ever: an owner that an update left alone has the older version."""
    node = standing()
    node.hear(10, Replicate(1, row(5, version=7)))
    ((to, told),) = sent(node.hear(10, transfer(9, 0, "copy", 200, 10, row(5, version=6))), Replicate)
    assert (to, told.row) == (10, row(5, version=7))
    node.hear(10, Replicate(2, row(5, version=8, removed=True)))
    ((to, told),) = sent(node.hear(10, transfer(10, 0, "copy", 200, 10, row(5, version=6))), Replicate)
    assert (told.row.version, told.row.removed) == (8, True)


def test_an_older_version_does_not_spread_to_whom_the_newer_one_does_not_concern() -> None:
    """Node 100 has what an update took away from it, and holds copies for node 60, which the update left alone."""
    holder = Node(100, replicas=0)
    holder.stand(60, 150, 200)
    old, new = wide(30, 90, 1), wide(30, 60, 2)
    holder.hear(60, Store(old, value(61), value(90)))
    assert len(holder.chord.storage.rows) == 1
    holder.hear(60, Store(new, value(61), value(90)))
    assert len(holder.chord.storage.rows) == 0
    answers = holder.hear(60, transfer(9, 0, "copy", 20, 60, old))
    assert [(to, told.row) for to, told in sent(answers, Replicate)] == [(60, new)]  # so that both agree
    assert holder.chord.storage.rows.get(key_of(new)) == new
    assert holder.chord.storage.rows.digest(60, 100) == (0, 0)


def test_a_late_update_does_not_undo_a_removal() -> None:
    node = standing()
    node.hear(10, Store(row(50, version=1), value(50), value(50)))
    node.hear(10, Store(row(50, version=3, removed=True), value(50), value(50)))
    node.hear(10, Store(wide(120, 130, 2), value(50), value(50)))
    node.hear(10, Store(row(50, version=1), value(50), value(50)))
    assert len(node.chord.storage.rows) == 0


def test_who_is_not_concerned_any_more_does_not_take_the_row_from_others() -> None:
    """Node 150 has the older version for values that both versions share, and holds copies for node 100."""
    node, before = Node(150, replicas=0), standing(replicas=1)
    node.stand(100, 200, 10)
    old, new = wide(60, 150, 1), wide(120, 150, 2)
    node.hear(100, Store(old, value(101), value(150)))
    before.hear(250, Store(old, value(60), value(100)))
    ((to, copy),) = sent(before.hear(250, Store(new, value(60), value(100))), Replicate)
    assert to == 150
    node.hear(100, copy)
    assert node.chord.storage.rows.get(key_of(new)) == new


def wide(first: int, last: int, version: int) -> Row:
    """A row with the keys from `first` to `last`."""
    return Row(at(250), 1, 1, 0, version, box(value(first), value(last) + 1))


# --- The access node --------------------------------------------------------------------------------------------------


def subscriber(first: int, last: int) -> Node:
    """Node 250, whose range stands at 100, which answers for (10, 100], and at 150."""
    access = Node(250, replicas=0, linger_ms=1_000, range_nodes_max=1_000)
    access.stand(200, 100, 150)
    access.do(Subscribe("a", box(value(first), value(last) + 1)), 1)
    access.hear(100, Stored(0, 0, 1, access.key(10)), 2)
    access.hear(150, Stored(0, 0, 1, access.key(100)), 3)
    return access


def test_what_an_update_left_alone_is_not_stored_again_when_leases_are_renewed() -> None:
    access = subscriber(60, 120)
    assert sent(access.do(Update("a", box(value(70), value(120) + 1), version=1), 10), Store) == []
    access.chord.placements.refresh(20_000)
    asked = dict(sent(access.chord._out.drain(), Refresh))
    assert asked[150].leases == (Lease(0, 0, 1),)  # the version that it has
    assert sent(access.hear(150, Refreshed(asked[150].token, access.key(100), ()), 20_050), Store) == []


def test_an_owner_that_was_left_alone_has_nothing_but_what_it_had() -> None:
    """Its arc has grown by values that are only in the newer version, and it has the older one."""
    access = subscriber(60, 120)
    access.do(Update("a", box(value(60), value(160) + 1), version=1), 10)
    access.hear(200, Stored(0, 0, 2, access.key(150)), 20)
    access.chord.placements.refresh(20_000)
    asked = dict(sent(access.chord._out.drain(), Refresh))
    effects = access.hear(200, Refreshed(asked[200].token, access.key(155), ()), 20_050)
    assert sent(effects, Store)  # of the values from 151 to 155: 150 covers them only as far as it had them


def test_what_is_told_to_former_owners_ends_with_the_subscription() -> None:
    """The newer version on its way to them would be stored by the one that has some of both."""
    access = subscriber(60, 120)
    access.do(Update("a", box(value(110), value(120) + 1), version=1), 10)
    access.do(Unsubscribe("a"), 20)
    effects = access.do(TimerFired(0, "tick"), 3_000)
    stores = [message.row for _, message in sent(effects, Store)]
    assert stores
    assert all(row.removed for row in stores)
