"""Whatever a remote peer sends, what a place remembers of it has a bound."""

from msgspec.structs import replace

from protocols.gosskip.chain import JOINING
from protocols.gosskip.messages import SUCCESSORS_MAX, Held, Insert, Leaving, LeftIs, Probe, Ranges
from protocols.gosskip.overlay import GosSkip
from protocols.model.descriptor import Descriptor
from protocols.overlay import Effect, Message, Received, Send
from tests.gosskip.scene import Scene, box, descriptor, points


def tell(scene: Scene, sender: Descriptor, message: Message) -> list[Effect]:
    """Have the first peer hear a message."""
    (overlay,) = scene.nodes[0].peer.participants.values()
    assert isinstance(overlay, GosSkip)
    return overlay.handle(scene.swarm.now_ms, Received(sender.address, 0, message))


def test_joiners_that_come_ever_closer_are_not_all_remembered() -> None:
    scene = Scene(points([0, 999]))
    place = scene.place(scene.nodes[0])
    for x in range(998, 300, -1):
        joiner = descriptor(f"liar{x}", points([x])[0])
        tell(scene, joiner, Insert(place.version, joiner, 1))
    assert place.chain.right is not None
    assert place.chain.right.key[1][0] == 301
    assert len(place.chain.successors) <= SUCCESSORS_MAX
    assert [spot.key[1][0] for spot in place.chain.successors[:3]] == [302, 303, 304]


def test_ranges_that_are_told_without_an_end_are_not_all_remembered() -> None:
    scene = Scene(points([900, 0]), entries_max=20)
    place, left = scene.place(scene.nodes[0]), scene.place(scene.nodes[1]).spot.descriptor
    tell(scene, left, Ranges(place.version, left, (), begin=True))
    for number in range(200):
        told = tuple([descriptor(f"p{number}-{each}", box((each, 950))) for each in range(3)])
        tell(scene, left, Ranges(place.version, left, told))
        tell(scene, left, Ranges(place.version, left, (), told))
    assert len(place.known) <= 20
    assert place.known._named is not None
    assert len(place.known._named) <= 20
    scene.settle()


def test_no_third_one_makes_a_range_forgotten() -> None:
    """Who has left is named by itself, or by whoever stands there instead."""
    scene = Scene([points([500])[0], box((10, 900)), points([300])[0]])
    place, owner = scene.place(scene.nodes[0]), scene.place(scene.nodes[1]).spot
    left, liar = scene.place(scene.nodes[2]).spot.descriptor, descriptor("liar", points([400])[0])
    tell(scene, liar, LeftIs(place.version, left, owner.descriptor))
    assert owner.id in place.known
    tell(scene, left, LeftIs(place.version, left, owner.descriptor))
    assert owner.id not in place.known


def test_only_who_stands_there_gives_up_a_place() -> None:
    scene = Scene(points([0, 500]))
    place, right = scene.place(scene.nodes[0]), scene.place(scene.nodes[1]).spot.descriptor
    tell(scene, descriptor("liar", points([400])[0]), Leaving(place.version, right, None))
    assert place.chain.right is not None
    tell(scene, right, Leaving(place.version, right, None))
    assert place.chain.right is None


def test_who_does_not_stand_yet_does_not_answer_a_probe() -> None:
    """It knows its ranges in part, and nobody to the right: it would take itself for the last one."""
    scene = Scene([points([500])[0], box((10, 900))])
    owner = scene.place(scene.nodes[1]).spot.descriptor
    place = scene.place(scene.nodes[0])
    place.chain.set_right(None)
    probe = Probe(place.version, owner, 7, 0)
    assert Held in {type(e.message) for e in tell(scene, owner, probe) if isinstance(e, Send)}
    place.chain.state = JOINING
    assert not [e for e in tell(scene, owner, replace(probe, req=8)) if isinstance(e, Send)]


def test_nobody_waits_longer_than_a_proxy_filter_lasts() -> None:
    scene = Scene(points([10, 500]), proxy_ms=1_000)
    newcomer = scene.add(box((5, 400)))
    (overlay,) = newcomer.peer.participants.values()
    assert isinstance(overlay, GosSkip)
    assert scene.swarm.run_until(
        lambda: any(p.known.probes.waiting for p in overlay.places.values()), 2_000, every_ms=1
    )
    place = scene.place(newcomer)
    (probe,) = place.known.probes.waiting.values()
    liar = descriptor("liar", box((500, 500))).address
    overlay.handle(scene.swarm.now_ms, Received(liar, 0, Held(place.version, probe.req, 1 << 40, 1 << 40)))
    assert not place.active
    assert scene.swarm.run_until(lambda: place.active, 3_000)
