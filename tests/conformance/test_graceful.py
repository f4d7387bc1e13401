"""Through graceful change: peers join and leave, subscriptions come, change and go, and no owed event is missing."""

from functools import partial

from peerd.sim.engine import Node
from peerd.sim.workloads.workload import Interest, interest_in, product
from protocols.model.box import Box
from protocols.model.event import Attributes
from protocols.peer import PeerConfig
from tests.conformance.support import Stage, choices, gaps, seeds, sizes

LEAVE_BOUND_MS = PeerConfig().leave_ms + 1_000
"""A peer that leaves has gone by then: its patience, and a second for the simulator to see it."""


class Changes:
    """Something graceful happens every `every_ms`, drawn at random."""

    def __init__(self, stage: Stage, every_ms: int, count: int) -> None:
        self._stage = stage
        self.left: list[tuple[int, Node]] = []
        for number in range(count):
            stage.swarm.engine.at(stage.swarm.now_ms + 1 + number * every_ms, self._happen)

    def _happen(self) -> None:
        swarm, rng = self._stage.swarm, self._stage.rng
        ready = [node for node in self._stage.living() if node.peer.ready]
        node = rng.choice(ready)
        few = len(ready) < 8  # a swarm that dwindles away shows nothing
        match rng.choice(("join", "join" if few else "leave", "update", "subscribe", "unsubscribe")):
            case "join":
                swarm.start(self._stage.interests(2))
            case "leave":
                self.left.append((swarm.now_ms, node))
                swarm.leave(node)
            case "subscribe":
                swarm.subscribe(node, self._stage.interest())
            case change:
                mine = list(swarm.interests[node.index])
                if mine and change == "update":
                    id_ = rng.choice(mine)
                    swarm.update(node, id_, self._stage.updated(swarm.interests[node.index][id_]))
                elif mine:
                    swarm.unsubscribe(node, rng.choice(mine))


@choices("workload", "mixed", "uniform-25:75")
@choices("participants_max", 4, 0)
@sizes([(10, 1), (20, 2), (25, 3)], [11])
def test_nothing_owed_is_missing(overlay: str, workload: str, participants_max: int, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed, workload, peer=PeerConfig(participants_max=participants_max))
    stage.gather(peers, each=2)
    changes = Changes(stage, every_ms=250, count=80)
    stage.publish(200, 20_000)
    stage.run(20_000)
    assert changes.left
    stage.run(LEAVE_BOUND_MS)
    assert [node.index for _, node in changes.left if node.alive] == []
    stage.converge()
    stage.publish(40, 2_000)
    stage.run(2_000)
    verdict = stage.finish(least_expected=10)
    assert verdict.at_risk == 0  # nothing that happened is a fault
    if stage.complete:
        assert gaps(stage.swarm.oracle) == []


@choices("participants_max", 0, 4)
@sizes([(12, 4), (20, 5), (20, 6)])
def test_updates_leave_no_gap(overlay: str, participants_max: int, peers: int, seed: int) -> None:
    """Narrower, wider and elsewhere, in turn, while events fall into the part that all of them share."""
    stage = Stage(overlay, seed, "uniform-25:75", peer=PeerConfig(participants_max=participants_max))
    stage.gather(peers)
    schema = stage.workload.schema

    def sides(lo: int, hi: int) -> Interest:
        return interest_in(schema, product(schema, {"x01": (lo, hi)}, Box((0,) * 4, (1_001,) * 4)))

    watchers = stage.some(0.3)
    ids = {node.index: stage.swarm.subscribe(node, sides(300, 700)) for node in watchers}
    assert stage.swarm.run_until(stage.swarm.all_active, 30_000)
    shapes = [sides(400, 600), sides(100, 900), sides(450, 950), sides(50, 550), sides(300, 700)]
    for number, shape in enumerate(shapes):
        for node in watchers:
            at_ms = stage.swarm.now_ms + 500 + number * 1_500 + stage.rng.randrange(400)
            stage.swarm.engine.at(at_ms, partial(stage.swarm.update, node, ids[node.index], shape))
    shared: Attributes = {"x01": 500, "x02": 500, "x03": 500, "x04": 500}  # in every one of the shapes
    for number in range(90):
        stage.swarm.engine.at(stage.swarm.now_ms + 1 + number * 100, partial(stage.swarm.publish, shared))
    stage.run(9_000)
    stage.finish()
    if stage.complete:
        assert gaps(stage.swarm.oracle) == []
        for arrivals in stage.swarm.oracle.arrivals.values():
            assert {index for index, _ in arrivals} >= set(ids)


@sizes([(20, 1), (30, 2), (30, 3)])
def test_publish_and_leave_at_once(overlay: str, peers: int, seed: int) -> None:
    """The last word of a peer that leaves is heard like any other."""
    stage = Stage(overlay, seed)
    stage.gather(peers, each=2)
    leavers = stage.some(0.3)
    for number, (node, attributes) in enumerate(zip(leavers, stage.events(len(leavers)))):
        at_ms = stage.swarm.now_ms + 1 + number * 300
        stage.swarm.engine.at(at_ms, partial(stage.swarm.publish, attributes, node))
        stage.swarm.engine.at(at_ms, partial(stage.swarm.leave, node))
    stage.run(300 * len(leavers) + LEAVE_BOUND_MS)
    assert not any(node.alive for node in leavers)
    stage.finish(least_expected=5)


@sizes([(15, 1), (30, 2), (30, 3)])
def test_most_leave_at_once(overlay: str, peers: int, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.gather(peers)
    leavers = stage.some(0.7)
    for node in leavers:
        stage.swarm.leave(node)
    stage.publish(40, 8_000)
    stage.run(LEAVE_BOUND_MS)
    assert not any(node.alive for node in leavers)
    stage.converge()
    stage.publish(20, 1_000)
    stage.run(1_000)
    stage.finish(least_expected=5)


@sizes([(12, 1), (20, 2)])
def test_the_first_peer_leaves(overlay: str, peers: int, seed: int) -> None:
    """Who began the swarm is no more than anybody else once it stands."""
    stage = Stage(overlay, seed)
    stage.gather(peers)
    stage.swarm.leave(stage.living()[0])
    stage.publish(60, 12_000)
    stage.run(12_000)
    stage.converge()
    newcomer = stage.swarm.start(stage.interests(3))
    assert stage.swarm.run_until(stage.swarm.all_active, 30_000)
    stage.publish(20, 1_000)
    stage.run(1_000)
    stage.finish(least_expected=10)
    assert newcomer.peer.ready


@seeds(1, 2, 3)
def test_a_peer_that_exchanges_its_subscriptions_stays_ready(overlay: str, seed: int) -> None:
    """Whatever participants come and go by it, a peer that stands can publish at any moment."""
    stage = Stage(overlay, seed, peer=PeerConfig(participants_max=4))
    stage.gather(12)
    node = stage.rng.choice(stage.living())
    for _ in range(30):
        former = list(stage.swarm.interests[node.index])
        for interest in stage.interests(2):
            stage.swarm.subscribe(node, interest)
        for id_ in former:
            stage.swarm.unsubscribe(node, id_)
        for _ in range(5):
            assert node.peer.ready
            stage.publish(1, 1, through=[node])
            stage.run(stage.rng.randrange(1, 120))
            assert len(node.peer.participants) <= 4
    assert stage.swarm.oracle.dropped == {}
    assert stage.swarm.run_until(stage.swarm.all_active, 30_000)
    stage.publish(20, 1_000)
    stage.run(1_000)
    stage.finish(least_expected=50)
