"""What is stored outlives those who store it, and goes when it belongs elsewhere."""

import pytest

from peerd.sim.invariants.chord import rows_at_copies, rows_at_owners
from peerd.sim.invariants.chord.circle import Member, members
from protocols.chord.config import ChordConfig
from protocols.chord.keys import HOME
from protocols.chord.rows import key_of
from tests.conformance.support import Stage


def strangers(ring: list[Member], config: ChordConfig) -> list[tuple[int, int]]:
    """Rows at a node that neither answers for a key of theirs nor holds copies for one that does."""
    found = []
    for place, member in enumerate(ring):
        before = ring[place - min(config.replicas, len(ring) - 1) - 1]  # from there on its copies reach
        rows = member.chord.storage.rows
        for row, _ in rows.all():
            if not rows.touches(key_of(row), before.id, member.id):
                found.append((member.number, row.number))
    return found


def config_of(stage: Stage) -> ChordConfig:
    config = stage.swarm.parameters
    assert isinstance(config, ChordConfig)
    return config


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True], ids=["refusing", "vanished"])
@pytest.mark.parametrize("seed", [21, 26, 27, 28])
def test_a_fifth_of_200_crashes_and_no_subscription_of_the_living_is_missing(seed: int, silent: bool) -> None:
    """Three holders of some row die together, so copies alone do not do: the access nodes store again what was lost."""
    stage = Stage("chord", seed, "stocks")
    stage.gather(200, each=2)
    before = {
        (row.access, row.number): [
            member.number for member in members(stage.swarm) if member.chord.storage.rows.get(key_of(row)) is not None
        ]
        for member in members(stage.swarm)
        for row, _ in member.chord.storage.rows.all()
    }
    crashed = {node.index for node in stage.some(0.2)}
    for node in [node for node in stage.living() if node.index in crashed]:
        stage.swarm.crash(node, silent)
    living = {member.ring.me for member in members(stage.swarm)}
    lost = [key for key, held in before.items() if key[0] in living and crashed.issuperset(held)]
    assert lost  # or the copies would have sufficed
    stage.run(1_000)
    stage.converge()
    for member in members(stage.swarm):
        for subscribed in member.chord.placements.subscribed.values():
            assert subscribed.active == subscribed.version
    assert list(rows_at_owners.check(stage.swarm)) == []
    assert list(rows_at_copies.check(stage.swarm)) == []


def test_rows_that_belong_elsewhere_go_with_their_lease() -> None:
    """A ring that has grown: who stored a row once, and does not answer for it any more, has let go of it."""
    stage = Stage("chord", 22, "stocks")
    stage.gather(8, each=4)
    stage.gather(24)
    config = config_of(stage)
    assert strangers(members(stage.swarm), config)  # as long as their leases run
    stage.run(config.lease_ms + config.refresh_ms + 2 * config.digest_ms)
    assert strangers(members(stage.swarm), config) == []
    assert list(rows_at_owners.check(stage.swarm)) == []


def nodes_taken_up(stage: Stage) -> list[int]:
    """By each row."""
    return [
        len(placement.coverage.owners())
        for member in members(stage.swarm)
        for subscribed in member.chord.placements.subscribed.values()
        for placement in subscribed.placements.values()
    ]


def test_a_range_that_the_ring_has_outgrown_is_stored_elsewhere() -> None:
    """Owed events arrive meanwhile, though the row goes from one list to another."""
    stage = Stage("chord", 24, "ranges", settings={"range_nodes_max": "4", "refresh_ms": "4000", "linger_ms": "2000"})
    stage.gather(6, each=4)
    assert max(nodes_taken_up(stage)) > 1
    stage.publish(300, 30_000)
    stage.gather(50)
    stage.run(10_000)
    assert max(nodes_taken_up(stage)) <= 2 * 4
    stage.run(20_000)
    verdict = stage.finish(least_expected=100)
    assert verdict.at_risk == 0


def test_who_joins_with_a_wide_range_knows_how_large_the_ring_is() -> None:
    stage = Stage("chord", 25, "ranges", settings={"range_nodes_max": "4"})
    stage.gather(40)
    newcomer = stage.swarm.start(stage.interests(8))
    assert stage.swarm.run_until(stage.swarm.all_active, 10_000)
    (chord,) = [member.chord for member in members(stage.swarm) if member.number == newcomer.index]
    owners = [len(p.coverage.owners()) for s in chord.placements.subscribed.values() for p in s.placements.values()]
    assert max(owners) <= 2 * 4


@pytest.mark.parametrize("place", [3, 8])
def test_metadata_outlive_their_home_node(place: int) -> None:
    """Whoever is the successor of c1 has them, though the node of that name is gone (paper, section 3)."""
    stage = Stage("chord", 23, "stocks", settings={"profile": "paper"})
    stage.gather(12)
    ring = members(stage.swarm)
    home, numbers = ring[place].ring.me, list(ring[place].chord.placements.by_number)
    heir = ring[(place + 1) % len(ring)].chord
    stage.swarm.crash(stage.swarm.live[ring[place].number])
    assert stage.swarm.run_until(lambda: heir.ring.answers_for(heir.circle.node(home)), 30_000)
    assert numbers
    assert all(heir.storage.rows.get((home, number, HOME)) is not None for number in numbers)


@pytest.mark.parametrize(
    ("watched", "row", "within_s"),
    [(2, 8, 22), *(pytest.param(*each, marks=pytest.mark.slow) for each in [(2, 2, 12), (4, 4, 12), (4, 8, 22)])],
)
def test_a_row_of_nodes_that_vanish_together_is_closed(watched: int, row: int, within_s: int) -> None:
    """Silence takes 10 s to notice, but not for each of them: more are watched while some are found dead."""
    stage = Stage("chord", 7, "stocks", settings={"watched": str(watched)})
    stage.gather(40)
    ring = members(stage.swarm)
    for member in ring[5 : 5 + row]:
        stage.swarm.crash(stage.swarm.live[member.number], True)
    before, after = ring[4].ring, ring[5 + row].ring
    assert stage.swarm.run_until(lambda: before.head == after.me, 1_000 * within_s, 100)
