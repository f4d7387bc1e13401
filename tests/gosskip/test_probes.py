"""A probe follows a range to its end, once, whatever is sent again on the way."""

from random import Random

from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import Held, Probe, Taken
from protocols.gosskip.probes import PASSED_MAX, Probes
from protocols.overlay import Message, Send
from tests.gosskip.scene import Scene, address, box, descriptor, points


class Line:
    """One place under the range of `owner`, with a right neighbour there or none."""

    def __init__(self, scene: Scene, is_last: bool = False) -> None:
        self._desk: Desk = scene.place(scene.nodes[0])._desk
        spot = self._desk.dictionary.spot
        self.owner = descriptor("owner", box((10, 90)))
        self.is_beside_gap = False
        self._next = None if is_last else spot(descriptor("next", points([30])[0]))
        me = spot(descriptor("me", points([20])[0]))
        self.probes = Probes(
            self._desk,
            me,
            lambda id_: {me.id: me, spot(self.owner).id: spot(self.owner)}.get(id_),
            lambda _: self._next,
            lambda _: self.is_beside_gap,
        )

    def take(self, req: int, holders: int = 0, told: int = 0) -> list[Message]:
        """What is sent, but for the receipt, when a probe comes from the left."""
        self._desk.out.drain()
        self.probes.take(address("left"), Probe(0, self.owner, req, 7, 0, holders), 0, told)
        return [m for m in self._sent() if not isinstance(m, Taken)]

    def again(self, after_ms: int = 16_000) -> list[Message]:
        self._desk.now_ms += after_ms
        self.probes.send_again()
        return self._sent()

    def taken(self, req: int) -> None:
        self.probes.on_taken(Taken(0, self.owner, req))

    def _sent(self) -> list[Message]:
        return [effect.message for effect in self._desk.out.drain() if isinstance(effect, Send)]


def test_a_probe_is_sent_until_it_is_taken_and_then_never_again() -> None:
    line = Line(Scene(points([1, 2])))
    assert len(line.take(1)) == 1
    assert len(line.again()) == 1
    line.taken(1)
    assert line.again() == []
    assert line.take(1) == []  # it was sent again before the receipt came
    assert len(line.take(2)) == 1


def test_a_probe_that_is_not_taken_is_sent_ever_more_seldom() -> None:
    line = Line(Scene(points([1, 2])))
    line.take(1)
    assert [second for second in range(1, 40) if line.again(1_000)] == [2, 6, 14, 30]
    line.probes.another_right()
    assert line.again(1)
    assert not line.again(1_000)


def test_where_messages_are_slow_probes_are_late_and_not_many() -> None:
    """A second for each message: what is sent again is on its way already. Before, it was ten times as much."""
    scene = Scene(latency="constant:1000")
    for y in range(140, 100, -2):  # each newcomer before all others
        scene.add(box((20, 20), (0, y)))
        scene.swarm.run(100)
    assert scene.swarm.run_until(scene.swarm.all_active, 90_000)
    assert 190 <= scene.sent(Probe) < 4 * 190  # 20 ranges, each known to those behind it


def test_of_several_on_the_way_none_goes_on_twice() -> None:
    line = Line(Scene(points([1, 2])))
    for req in range(1, 1 + PASSED_MAX):
        assert line.take(req)
        line.taken(req)
    assert [line.take(req) for req in range(1, 1 + PASSED_MAX)] == [[]] * PASSED_MAX


def test_beyond_the_end_it_is_answered_once() -> None:
    line = Line(Scene(points([1, 2])), is_last=True)
    (held,) = line.take(1, holders=2, told=1)
    assert isinstance(held, Held)
    assert held.holders == 3
    assert line.take(1, holders=2) == []


def test_whom_a_stuck_probe_has_told_the_next_one_reckons_with() -> None:
    line = Line(Scene(points([1, 2])))
    line.take(1, holders=2, told=1)
    (probe,) = line.take(2, holders=0, told=0)
    assert isinstance(probe, Probe)
    assert (probe.req, probe.holders) == (2, 3)


def test_a_range_is_probed_about_as_often_as_it_is_told() -> None:
    """Each of those who stand under it takes the probe once; before, every copy was copied in its turn."""
    scene = Scene([box((x, x + 400)) for x in Random(1).sample(range(500), 72)])
    assert 0 < scene.sent(Probe) < sum(len(place.known) for place in scene.places())


def test_who_has_lost_its_right_neighbour_does_not_answer_for_those_behind() -> None:
    line = Line(Scene(points([0])), is_last=True)
    line.is_beside_gap = True
    assert not line.take(1)
    assert not line.again()
    line.is_beside_gap = False
    assert [type(message) for message in line.again()] == [Held]
