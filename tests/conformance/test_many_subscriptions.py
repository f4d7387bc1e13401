"""A thousand subscriptions on one peer cost no more upkeep than `participants_max`, and match exactly all the same."""

import pytest

from peerd.sim.engine import Node
from protocols.model.lint import compile_filter
from protocols.peer import PeerConfig
from tests.conformance.support import Stage, choices, seeds

SUBSCRIPTIONS = 1_000
MEASURED_MS = 20_000


def crowded(overlay: str, seed: int, participants_max: int, subscriptions: int) -> tuple[Stage, Node]:
    """A swarm of ten peers, one of which has that many subscriptions, all active; if it is one, that has one box."""
    stage = Stage(overlay, seed, peer=PeerConfig(participants_max=participants_max))
    stage.gather(9)
    interests = stage.interests(subscriptions)
    while subscriptions == 1 and len(interests[0].boxes) > 1:
        interests = stage.interests(1)
    node = stage.swarm.start(interests)
    stage.all_stand()
    stage.converge()
    return stage, node


def upkeep(stage: Stage, node: Node) -> float:
    """How many messages the peer sends per second while nothing happens."""
    meters = stage.swarm.engine.meters = {}
    stage.run(MEASURED_MS)
    stage.swarm.engine.meters = None
    return sum(traffic.sent for traffic in meters[node.index].values()) * 1000 / MEASURED_MS


@choices("participants_max", 4, 16)
@seeds(1, 2)
def test_upkeep_follows_the_participants(overlay: str, participants_max: int, seed: int) -> None:
    stage, node = crowded(overlay, seed, participants_max, SUBSCRIPTIONS)
    assert len(node.peer.subscriptions.held) == SUBSCRIPTIONS
    assert len(node.peer.participants) <= participants_max
    alone_stage, alone = crowded(overlay, seed, participants_max, 1)
    assert len(alone.peer.participants) == 1
    # half as much again, for participants of one peer have to know strangers too
    assert upkeep(stage, node) <= 1.5 * participants_max * upkeep(alone_stage, alone)


@pytest.mark.slow
@pytest.mark.parametrize("participants_max", [4, 1, 16])
def test_all_match_exactly(overlay: str, participants_max: int) -> None:
    stage, node = crowded(overlay, 3, participants_max, SUBSCRIPTIONS)
    schema = stage.workload.schema
    matchers = {
        id_: compile_filter(interest.filter, schema).matcher
        for id_, interest in stage.swarm.interests[node.index].items()
    }
    stage.publish(40, 2_000)
    stage.run(2_000)
    stage.finish(least_expected=SUBSCRIPTIONS)
    if not stage.complete:
        return
    for id_, publication in stage.swarm.oracle.publications.items():
        wanted = {sub for sub, matcher in matchers.items() if matcher(publication.attributes)}
        got = {sub for index, sub in stage.swarm.oracle.arrivals.get(id_, {}) if index == node.index}
        assert got == wanted


@seeds(4, 5)
def test_most_go_again(overlay: str, seed: int) -> None:
    """Covers shrink with what is left, and what is left is still served."""
    stage, node = crowded(overlay, seed, 4, 200)
    ids = list(stage.swarm.interests[node.index])
    for id_ in stage.rng.sample(ids, 190):
        stage.swarm.unsubscribe(node, id_)
    stage.run(1_000)
    stage.converge()
    stage.publish(60, 3_000)
    stage.run(3_000)
    stage.finish(least_expected=50)
    for id_ in list(stage.swarm.interests[node.index]):
        stage.swarm.unsubscribe(node, id_)
    assert stage.swarm.run_until(lambda: len(node.peer.participants) == 1, 30_000)
    assert node.peer.ready
