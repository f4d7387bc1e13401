"""Each checker is silent on a sound ring and speaks up on one that was corrupted by hand."""

from collections.abc import Callable

import pytest

from peerd.sim import invariants
from peerd.sim.invariants.chord import (
    arcs_follow_each_other,
    fingers_exact,
    leases_kept,
    living_successor_listed,
    neighbours_in_order,
    principals_enough,
    rows_at_copies,
    rows_at_owners,
    successor_lists_exact,
    successor_lists_sound,
)
from peerd.sim.invariants.chord.circle import Member, members, placed
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import workload
from protocols.chord.rows import key_of

STOCKS = workload("stocks")


@pytest.fixture
def swarm() -> Swarm:
    sound = Swarm(SwarmConfig(overlay="chord", schema=STOCKS.schema, seed=1, parameters={"successors": "4"}))
    interests = STOCKS.subscriptions(sound.stream("subscriptions"), 12)
    sound.start_many([[interest] for interest in interests], 50)
    sound.run(600)
    assert sound.converge(30_000) is not None
    return sound


def test_a_sound_ring_violates_nothing(swarm: Swarm) -> None:
    assert invariants.violations(swarm) == []


def first(swarm: Swarm) -> Member:
    return members(swarm)[0]


def wrong_successor(swarm: Swarm) -> None:
    ring = first(swarm).ring
    ring.successors = ring.successors[1:]


def wrong_predecessor(swarm: Swarm) -> None:
    first(swarm).ring.predecessor = members(swarm)[3].ring.me


def short_list(swarm: Swarm) -> None:
    ring = first(swarm).ring
    ring.successors = ring.successors[:-1]


def list_out_of_order(swarm: Swarm) -> None:
    ring = first(swarm).ring
    a, b, *rest = ring.successors
    ring.successors = (a, *rest, b)


def list_with_itself(swarm: Swarm) -> None:
    ring = first(swarm).ring
    ring.successors = (*ring.successors[:-1], ring.me)


def most_are_skipped(swarm: Swarm) -> None:
    ring = members(swarm)
    for place, member in enumerate(ring):
        member.ring.successors = (ring[(place + 7) % len(ring)].ring.me,)


def no_living_successor(swarm: Swarm) -> None:
    gone = members(swarm)[1:6]
    for member in gone:
        del swarm.live[member.number]


def wrong_finger(swarm: Swarm) -> None:
    table = first(swarm).chord.fingers.table
    table[159] = table[min(table)]


def gap_between_arcs(swarm: Swarm) -> None:
    ring = first(swarm).ring
    assert ring.low is not None
    ring.low += 1


def row_lost(swarm: Swarm) -> None:
    ring = members(swarm)
    _, placement, place = next(placed(ring))
    ring[place].chord.storage.rows.drop(key_of(placement.row))


def copy_lost(swarm: Swarm) -> None:
    ring = members(swarm)
    _, placement, place = next(placed(ring))
    ring[(place + 2) % len(ring)].chord.storage.rows.drop(key_of(placement.row))


def lease_forgotten(swarm: Swarm) -> None:
    rows = next(m.chord.storage.rows for m in members(swarm) if len(m.chord.storage.rows))
    next(iter(rows._kept.values())).lease_ms = swarm.now_ms - 60_000


CASES: list[tuple[invariants.Checker, Callable[[Swarm], None]]] = [
    (neighbours_in_order.check, wrong_successor),
    (neighbours_in_order.check, wrong_predecessor),
    (successor_lists_exact.check, short_list),
    (successor_lists_sound.check, list_out_of_order),
    (successor_lists_sound.check, list_with_itself),
    (principals_enough.check, most_are_skipped),
    (living_successor_listed.check, no_living_successor),
    (fingers_exact.check, wrong_finger),
    (arcs_follow_each_other.check, gap_between_arcs),
    (rows_at_owners.check, row_lost),
    (rows_at_copies.check, copy_lost),
    (leases_kept.check, lease_forgotten),
]


@pytest.mark.parametrize(("check", "corrupt"), CASES, ids=[corrupt.__name__ for _, corrupt in CASES])
def test_a_corrupted_ring_is_found_out(
    swarm: Swarm, check: invariants.Checker, corrupt: Callable[[Swarm], None]
) -> None:
    assert list(check(swarm)) == []
    corrupt(swarm)
    found = list(check(swarm))
    assert found
    assert found == list(check(swarm))  # the same words for as long as it lasts


def test_every_checker_is_shown_a_corruption() -> None:
    assert {check for check, _ in CASES} == set(invariants.OF_OVERLAY["chord"])
