"""In calm: every owed event arrives, once, and nothing else does."""

from protocols.peer import PeerConfig
from tests.conformance.support import Stage, choices, gaps, seeds, sizes

WORKLOADS = ("mixed", "stocks", "uniform-25:75")


@choices("workload", *WORKLOADS)
@sizes([(15, 1), (40, 2), (60, 3)], [11, 12])
def test_everything_owed_arrives_once(overlay: str, workload: str, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed, workload)
    stage.gather(peers, each=2)
    stage.publish(120, 6_000)
    stage.run(6_000)
    verdict = stage.finish(least_expected=20)
    assert verdict.at_risk == 0
    assert gaps(stage.swarm.oracle) == []
    assert stage.swarm.lasting_violations() == []


@choices("participants_max", 4, 1)
@sizes([(6, 4), (12, 5), (12, 6)])
def test_several_subscriptions_share_participants(overlay: str, participants_max: int, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed, "mixed", peer=PeerConfig(participants_max=participants_max))
    stage.gather(peers, each=9)
    stage.publish(100, 5_000)
    stage.run(5_000)
    stage.finish(least_expected=84 * peers)


@sizes([(15, 7), (30, 8)])
def test_peers_without_subscriptions_publish_and_relay(overlay: str, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.swarm.start_many([stage.interests(2 if number % 5 == 0 else 0) for number in range(peers)], 50)
    stage.run(50 * peers + 1)
    stage.all_stand()
    stage.converge()
    idle = [node for node in stage.living() if not stage.swarm.interests[node.index]]
    assert len(idle) == peers * 4 // 5
    stage.publish(60, 3_000, through=idle)
    stage.run(3_000)
    stage.finish(least_expected=20)


@seeds(9, 10)
def test_one_peer_alone_serves_itself(overlay: str, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.gather(1, each=23)
    stage.publish(50, 1_000)
    stage.run(1_000)
    stage.finish(least_expected=100)
