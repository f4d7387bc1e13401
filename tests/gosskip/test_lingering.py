"""A place that is gone passes on what still comes, to neighbours that outlast it."""

from protocols.gosskip.chain import GONE
from protocols.gosskip.overlay import GosSkip
from protocols.model.box import Point
from tests.gosskip.scene import Scene, points


def test_a_place_that_is_gone_knows_its_neighbours_only() -> None:
    scene = Scene(points(range(0, 160, 10)))
    place = scene.places()[7]
    left, right = place.chain.left, place.chain.right
    assert left is not None
    assert right is not None
    assert place.levels.spots()
    (node,) = [node for node in scene.swarm.live.values() if node.address.peer == place.spot.address.peer]
    (overlay,) = node.peer.participants.values()
    assert isinstance(overlay, GosSkip)
    scene.swarm.leave(node)
    assert scene.swarm.run_until(lambda: place.state == GONE, 5_000, every_ms=1)
    dictionary = overlay._desk.dictionary
    for x, to in ((0, left), (65, left), (75, left), (80, right), (150, right)):
        hop = place.next_hop(dictionary.event_key(0, Point((x, 0))), overshoot=True)
        assert hop is not None
        assert hop.id == to.id
    assert overlay.links() == []
