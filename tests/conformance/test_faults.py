"""Around faults events are at risk; within its bound the overlay has converged, and from then on none is missing."""

import pytest

from peerd.sim.faults import Fault, schedule
from peerd.sim.network import NetworkConfig
from tests.conformance.support import Stage, choices, cut_off, sizes

SMALL = [(15, 1), (30, 2), (40, 3)]
LARGE = [11, 12]


def calm_after(stage: Stage, least_expected: int = 20) -> None:
    """The swarm converges, and then owes everything again."""
    stage.converge()
    stage.publish(60, 3_000)
    stage.run(3_000)
    stage.finish(least_expected)


@choices("silent", True, False, ids=["vanished", "refusing"])
@sizes(SMALL, LARGE)
def test_a_fifth_crashes_at_once(overlay: str, silent: bool, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.gather(peers)
    stage.publish(60, 6_000)
    stage.run(2_000)
    for node in stage.some(0.2):
        stage.swarm.crash(node, silent)
    stage.run(4_000)
    calm_after(stage)


@sizes(SMALL, LARGE)
def test_churn_of_one_percent_a_second(overlay: str, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.gather(peers)
    for_s = 30 if peers < 100 else 60
    schedule(stage.swarm, (Fault(fault="churn", share=0.01, for_s=for_s),))
    stage.publish(4 * for_s, 1_000 * for_s)
    stage.run(1_000 * for_s)
    stage.all_stand()
    calm_after(stage)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_heavy_churn(overlay: str, seed: int) -> None:
    """A tenth of the peers every second: what is at risk may be missing, but the swarm does not fall apart."""
    stage = Stage(overlay, seed)
    stage.gather(30)
    schedule(stage.swarm, (Fault(fault="churn", share=0.1, for_s=15),))
    stage.publish(60, 15_000)
    stage.run(15_000)
    stage.all_stand()
    calm_after(stage)


@choices("for_s", 15, 5, 60)
@sizes(SMALL, LARGE)
def test_a_third_is_cut_off(overlay: str, for_s: int, peers: int, seed: int) -> None:
    """Too short to notice; long enough to bury each other; long enough for the views to forget the other side."""
    stage = Stage(overlay, seed)
    stage.gather(peers)
    one_side = stage.some(1 / 3)
    stage.swarm.partition(cut_off(one_side))
    stage.publish(for_s, 1_000 * for_s)
    stage.run(1_000 * for_s)
    stage.swarm.heal()
    stage.converge()
    other_side = [node for node in stage.living() if node not in one_side]
    stage.publish(40, 2_000, through=one_side)
    stage.publish(40, 2_000, through=other_side)
    stage.run(2_000)
    stage.finish(least_expected=20)


@pytest.mark.slow
@sizes([(20, 1), (30, 2), (30, 3)], [11])
def test_a_third_is_cut_off_and_the_seed_is_no_more(overlay: str, peers: int, seed: int) -> None:
    """Nobody knows an address of the other side but those whom it lost itself."""
    stage = Stage(overlay, seed)
    first = stage.swarm.start(contacts=())
    for _ in range(peers):
        stage.swarm.start(stage.interests(1), contacts=[first])
    stage.all_stand()
    stage.converge()
    stage.swarm.leave(first)
    stage.run(15_000)
    stage.swarm.partition(cut_off(stage.some(1 / 3)))
    stage.run(60_000)
    stage.swarm.heal()
    calm_after(stage, least_expected=10)


@choices("keep_state", True, False, ids=["with-state", "without-state"])
@sizes(SMALL, LARGE)
def test_restarts(overlay: str, keep_state: bool, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.gather(peers)
    stage.publish(60, 12_000)
    # at once, before anybody else has noticed, and after the swarm has mended itself
    schedule(
        stage.swarm,
        (
            Fault(fault="restart", at_s=0.5, share=0.1, for_s=0.2, keep_state=keep_state),
            Fault(fault="restart", at_s=1.0, share=0.1, for_s=8.0, keep_state=keep_state),
        ),
    )
    stage.run(12_000)
    stage.all_stand()
    assert len(stage.living()) == peers
    calm_after(stage)


@choices("keep_state", False, True, ids=["without-state", "with-state"])
@choices("down_ms", 30_000, 100)
@sizes([(15, 1), (30, 2)], [11])
def test_the_seed_restarts_alone(overlay: str, keep_state: bool, down_ms: int, peers: int, seed: int) -> None:
    """It begins a swarm of its own, which is the same swarm: others that remember its address find it there."""
    stage = Stage(overlay, seed)
    stage.gather(peers)
    first = stage.living()[0]
    stage.swarm.crash(first)
    stage.run(down_ms)
    again = stage.swarm.restart(first, keep_state, contacts=())
    stage.run(1_000)
    assert again.peer.ready
    stage.converge()
    stage.publish(20, 2_000, through=[again])
    stage.publish(40, 2_000)
    stage.run(2_000)
    stage.finish(least_expected=10)


@sizes(SMALL, LARGE)
def test_connections_are_reset_while_events_flow(overlay: str, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.gather(peers)
    stage.publish(200, 10_000)
    for _ in range(20):
        pairs = stage.linked_pairs()
        for a, b in stage.rng.sample(pairs, len(pairs) // 4):
            stage.swarm.reset(a, b)
        stage.run(500)
    assert stage.swarm.oracle.lost == 0  # a broken connection is no dead peer
    calm_after(stage)


@sizes(SMALL, LARGE)
def test_a_stall_kills_nobody(overlay: str, peers: int, seed: int) -> None:
    """A slow peer is not a dead peer, and a stall is no fault: what is owed to those who stall arrives too."""
    stage = Stage(overlay, seed)
    stage.gather(peers)
    stage.publish(100, 20_000)
    for _ in range(3):
        for node in stage.some(0.2):
            stage.swarm.stall(node, 5_000)
        stage.run(6_500)
    stage.run(1_000)
    assert stage.swarm.oracle.lost == 0
    stage.publish(30, 2_000)
    stage.run(2_000)
    verdict = stage.finish(least_expected=30)
    assert verdict.at_risk == 0
    assert stage.swarm.oracle.lost == 0
    stage.converge()


@choices("loss", 0.05, 0.2)
@sizes([(15, 1), (40, 2)], LARGE)
def test_loss_on_a_stream_is_delay(overlay: str, loss: float, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed, network=NetworkConfig(loss=loss))
    stage.gather(peers)
    stage.publish(60, 6_000)
    stage.run(6_000)
    verdict = stage.finish(least_expected=20)
    assert verdict.at_risk == 0


@sizes(SMALL, LARGE)
def test_datagrams_are_safe(overlay: str, peers: int, seed: int) -> None:
    """Lost, doubled and out of order: the swarm converges all the same, and when the loss ends it owes everything."""
    network = NetworkConfig(link="datagram", loss=0.05, duplication=0.05, reordering_ms=100)
    stage = Stage(overlay, seed, network=network)
    stage.swarm.oracle.fault(0)  # a datagram that is lost is lost: nothing is owed before the loss ends
    stage.swarm.start_many([stage.interests(1) for _ in range(peers)], 50)
    stage.run(50 * peers + 1)
    stage.all_stand()
    stage.converge()
    stage.publish(100, 10_000)
    stage.run(10_000)
    stage.swarm.calm()
    calm_after(stage)
