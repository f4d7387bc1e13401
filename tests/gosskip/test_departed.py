"""Words of a place that has left, and words about it, may come in any order: nobody takes itself for the head by them.

A place that takes itself for the head serves nothing of what falls left of it, and lets others stand before it: a
second chain begins.
"""

from protocols.gosskip.departed import DEPARTED_MS
from protocols.gosskip.messages import Gossip, Insert, Inserted, LeftIs
from protocols.gosskip.overlay import GosSkip
from protocols.gosskip.place import Place
from protocols.model.descriptor import Descriptor
from protocols.overlay import Join, Message, PeerLost, Received
from tests.gosskip.scene import Scene, address, box, descriptor, points


class Right:
    """The last of four places, 10, 20, 30 and 40, which is told what its neighbours say."""

    def __init__(self) -> None:
        self.scene = Scene(points([10, 20, 30, 40]))
        self.k, self.a, self.y, self.me = [self.scene.place(node) for node in self.scene.nodes]
        (overlay,) = self.scene.nodes[3].peer.participants.values()
        assert isinstance(overlay, GosSkip)
        self.overlay = overlay

    def hears(self, by: Place, message: Message, later_ms: int = 0) -> None:
        self.overlay.handle(self.scene.swarm.now_ms + later_ms, Received(by.spot.address, 0, message))

    def left(self) -> Descriptor | None:
        left = self.me.chain.left
        return None if left is None else left.descriptor

    def left_is(self, left: Place, instead: Place) -> LeftIs:
        return LeftIs(self.me.version, left.spot.descriptor, instead.spot.descriptor)

    def gossip(self, of: Place) -> Gossip:
        return Gossip(self.me.version, 0, of.spot.descriptor, ())


def test_gossip_of_a_leaver_that_comes_late_does_not_make_it_the_neighbour_again() -> None:
    right = Right()
    right.hears(right.a, right.left_is(right.a, instead=right.y))
    right.hears(right.y, right.gossip(right.y))
    assert right.left() == right.a.spot.descriptor


def test_two_leave_and_the_news_of_the_second_comes_first() -> None:
    right = Right()
    right.hears(right.k, right.left_is(right.k, instead=right.a))
    right.hears(right.a, right.left_is(right.a, instead=right.y))
    assert right.left() == right.k.spot.descriptor


def test_a_place_of_which_it_was_a_lie_is_heard_again() -> None:
    right = Right()
    right.hears(right.a, right.left_is(right.a, instead=right.y))
    right.hears(right.y, right.gossip(right.y), DEPARTED_MS)
    assert right.left() == right.y.spot.descriptor


def test_leavers_that_stand_for_each_other_are_a_lie() -> None:
    right = Right()
    right.hears(right.k, right.left_is(right.a, instead=right.k))
    right.hears(right.k, right.left_is(right.k, instead=right.a))
    right.hears(right.k, right.left_is(right.k, instead=right.y))
    right.scene.settle()


def test_a_joiner_whose_left_neighbour_has_left_meanwhile_stands_behind_its_heir() -> None:
    scene = Scene(points([10, 20, 30]))
    far, near, beyond = [scene.place(node).spot.descriptor for node in scene.nodes]
    (overlay,) = scene.nodes[0].peer.participants.values()
    assert isinstance(overlay, GosSkip)
    desk = overlay._desk
    joiner = GosSkip(address("joiner"), desk.config, scene.schema, desk.rng)
    joiner._box = points([25])[0]
    joiner.handle(0, Join((near.address,)))
    place = joiner.places[0]
    joiner.handle(50, Received(far.address, 0, LeftIs(0, far, near)))
    inserted = Inserted(0, place.activation.insert_req, near, beyond, (), (), True, (), True)
    joiner.handle(60, Received(near.address, 0, inserted))
    assert place.chain.left is not None
    assert place.chain.left.descriptor == far


def test_who_has_lost_its_left_neighbour_lets_nobody_stand_before_it_as_if_it_were_the_head() -> None:
    right = Right()
    now_ms = right.scene.swarm.now_ms
    for lost in (right.k, right.a, right.y):
        right.overlay.handle(now_ms, PeerLost(lost.spot.address))
    assert right.left() is None
    joiner = descriptor("joiner", box((5, 5), (0, 0)))
    right.hears(right.y, Insert(right.me.version, joiner, 1))
    assert right.left() is None
    right.scene.settle()
