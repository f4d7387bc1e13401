"""Level gossip beyond the paper: what is no news is said seldom, and who was wrong takes back what it said."""

from protocols.gosskip.levels import Held, Levels
from protocols.gosskip.messages import Ask, Forwarded, Gossip
from protocols.gosskip.order import Dictionary, Spot
from protocols.gosskip.overlay import GosSkip
from tests.gosskip.scene import NUMBERS, Scene, box, descriptor, points

DICTIONARY = Dictionary(NUMBERS)
T_MS = 1_000


def spot(x: int) -> Spot:
    return DICTIONARY.spot(descriptor(f"at-{x:03}", box((x, x), (0, 0))))


def levels(x: int, calm_turns: int = 1) -> Levels:
    return Levels(spot(x), DICTIONARY, 2, T_MS, 3, True, calm_turns)


def gossip(level: int, sender: int, *forwarded: int) -> Gossip:
    return Gossip(0, level, spot(sender).descriptor, tuple([Forwarded(spot(x).descriptor, 1) for x in forwarded]))


def right(of: Levels) -> dict[int, int]:
    return {level: held.spot.descriptor.box.lo[0] for level, held in of.right.items()}


def test_a_farewell_gives_the_slot_back_to_whom_it_was_taken_from() -> None:
    """Two take this place for their neighbour at level 1, and the one who was wrong was the last to say so."""
    place = levels(10)
    place.receive(0, gossip(1, 30, 50))
    place.receive(1, gossip(1, 40, 60))
    assert right(place) == {1: 40, 2: 60}
    assert set(place.farewell(2, spot(40).id, 1)) == {1, 2}
    assert right(place) == {1: 30, 2: 50}
    assert [entry.place for entry in place.emit(2, 1, spot(0)).entries] == [spot(30).descriptor]


def test_a_farewell_is_for_one_level() -> None:
    place = levels(10)
    place.receive(0, gossip(1, 30))
    place.receive(0, gossip(3, 30))
    place.farewell(0, spot(30).id, 3)
    assert right(place) == {1: 30}


def test_what_is_no_news_is_said_twice_and_then_seldom() -> None:
    place = levels(10, calm_turns=3)
    message = place.emit(0, 1, spot(0))
    assert [place.has_news(spot(0), message) for _ in range(7)] == [True, True, False, True, False, False, True]
    place.receive(0, gossip(1, 30))
    assert place.has_news(spot(0), place.emit(0, 1, spot(0)))


def test_what_was_said_once_and_never_again_is_soon_forgotten() -> None:
    once, often = levels(10, calm_turns=3), levels(10, calm_turns=3)
    for at_ms in (0, 2 * T_MS):
        often.receive(at_ms, gossip(1, 30))
    once.receive(2 * T_MS, gossip(1, 30))
    for place in (once, often):
        place.expire(2 * T_MS + 8 * T_MS)
    assert (right(once), right(often)) == ({}, {1: 30})
    often.expire(2 * T_MS + 20 * T_MS)
    assert right(often) == {}


def test_who_is_silent_for_longer_than_it_should_be_is_asked_and_then_dropped() -> None:
    """Level 3 has turns of 12 s in calm: nobody waits for seven of its periods, and those above for it."""
    place = levels(10, calm_turns=3)
    for at_ms in (0, T_MS):
        place.receive(at_ms, gossip(3, 90, 95))
    last_ms = T_MS + 14 * T_MS
    assert place.silent(last_ms) == []
    assert place.silent(last_ms + 1) == [(spot(90), 3)]
    assert place.expire(last_ms + 3 * T_MS) == []
    assert {3, 4} <= set(place.expire(last_ms + 3 * T_MS + 1))  # at level 4 nobody is left who could name one
    assert place.right == {}
    assert place.emit(last_ms, 3, spot(0)).entries == ()  # what it said does not go on


def test_who_answers_stays() -> None:
    scene = Scene(points(range(0, 640, 10)))
    place, heard_ms = scene.places()[40], scene.swarm.now_ms - 30_000
    held = place.levels.left[4]
    held.heard_ms = heard_ms + 12_000  # as if its gossip had been lost
    before = scene.sent(Ask)
    assert scene.swarm.run_until(lambda: held.heard_ms > heard_ms + 20_000, 3_000, every_ms=10)
    assert scene.sent(Ask) > before
    assert place.levels.left[4] is held


def test_who_is_no_neighbour_any_more_says_so() -> None:
    scene = Scene(points(range(0, 640, 10)))
    places = scene.places()
    stale = places[40].levels.left[4] = Held(places[10].spot, scene.swarm.now_ms - 17_001, places[10].spot.id)
    stale.is_confirmed = True
    assert scene.swarm.run_until(lambda: places[40].levels.left.get(4) is not stale, 1_500, every_ms=10)


def test_a_lie_about_ones_own_places_is_found_out() -> None:
    """A neighbour that stands nowhere, for it is said to be another place of the same participant."""
    scene = Scene(points([10, 20, 30, 40]))
    place = scene.place(scene.nodes[1])
    (overlay,) = scene.nodes[1].peer.participants.values()
    assert isinstance(overlay, GosSkip)
    lie = descriptor("liar", box((25, 25), (0, 0)), version=7)
    place.chain.set_right(DICTIONARY.spot(type(lie)(place.spot.address, lie.box, lie.version)))
    scene.swarm.run(3_000)
    scene.settle()
    assert place.chain.right is not None
    assert place.chain.right.id == scene.place(scene.nodes[2]).spot.id
