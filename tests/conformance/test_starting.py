"""However peers come together, they become one swarm."""

import pytest

from protocols.membership import MembershipConfig
from protocols.peer import PeerConfig
from tests.conformance.support import Stage, choices, seeds, sizes


def serves(stage: Stage, least_expected: int = 10) -> None:
    stage.converge()
    stage.publish(60, 3_000)
    stage.run(3_000)
    stage.finish(least_expected)


@sizes([(20, 1), (50, 2), (50, 3)], [11])
def test_all_join_in_the_same_millisecond(overlay: str, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed)
    first = stage.swarm.start(stage.interests(1), contacts=())
    for _ in range(peers):
        stage.swarm.start(stage.interests(1), contacts=[first])
    stage.all_stand()
    serves(stage)


@seeds(1, 2, 3)
def test_join_through_one_that_has_not_joined(overlay: str, seed: int) -> None:
    """A chain in which each knows only the one before it, and the first is not there yet."""
    stage = Stage(overlay, seed)
    first = stage.swarm.start(contacts=())
    stage.swarm.crash(first)
    chain = [first]
    for _ in range(6):
        chain.append(stage.swarm.start(stage.interests(2), contacts=[chain[-1]]))
    stage.run(5_000)
    assert not any(node.peer.ready for node in chain[1:])
    again = stage.swarm.restart(first, contacts=())
    stage.all_stand()
    assert again.peer.ready
    serves(stage)


@seeds(1, 2, 3)
def test_the_contact_dies_while_one_joins(overlay: str, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.gather(12)
    contact, other = stage.living()[4], stage.living()[5]
    joiners = [stage.swarm.start(stage.interests(1), contacts=[contact, other]) for _ in range(4)]
    stage.run(stage.rng.randrange(1, 200))
    stage.swarm.crash(contact)
    stage.all_stand()
    assert all(node.peer.ready for node in joiners)
    serves(stage)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_only_contact_dies_and_comes_back(overlay: str, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.gather(12)
    contact = stage.living()[4]
    joiners = [stage.swarm.start(stage.interests(1), contacts=[contact]) for _ in range(4)]
    stage.run(stage.rng.randrange(1, 100))
    stage.swarm.crash(contact)
    stage.run(5_000)
    stage.swarm.restart(contact)
    stage.all_stand()
    assert all(node.peer.ready for node in joiners)
    serves(stage)


@choices("others", 0, 12)
@seeds(1, 2, 3)
def test_two_beginnings_merge(overlay: str, others: int, seed: int) -> None:
    """Two that know of each other, but found nobody in time, each begin a swarm; it is the same swarm."""
    begin = PeerConfig(membership=MembershipConfig(begin_after_ms=3_000))
    stage = Stage(overlay, seed, peer=begin)
    placeholder = stage.swarm.start(contacts=())
    stage.swarm.crash(placeholder)
    one = stage.swarm.start(stage.interests(3), contacts=[placeholder])
    two = stage.swarm.restart(placeholder, keep_state=False, contacts=[one])
    for interest in stage.interests(3):
        stage.swarm.subscribe(two, interest)
    stage.run(2_500)
    assert [one.peer.ready, two.peer.ready] == [False, False]
    stage.run(1_000)
    assert [one.peer.ready, two.peer.ready] == [True, True]
    for number in range(others):
        stage.swarm.start(stage.interests(1), contacts=[(one, two)[number % 2]])
    stage.all_stand()
    serves(stage)


@seeds(1, 2)
def test_all_crash_and_come_back(overlay: str, seed: int) -> None:
    """The whole swarm loses power; whoever is up first begins, for nobody is there to be found."""
    stage = Stage(overlay, seed)
    stage.gather(12)
    nodes = stage.living()
    for node in nodes:
        stage.swarm.crash(node)
    stage.run(20_000)
    restarted = [stage.swarm.restart(nodes[0], contacts=())]
    for node in nodes[1:]:
        stage.run(200)
        restarted.append(stage.swarm.restart(node, contacts=[restarted[0]]))
    stage.all_stand()
    serves(stage)
