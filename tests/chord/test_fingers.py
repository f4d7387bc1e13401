"""How fingers are found, checked, and left in peace."""

from itertools import pairwise

from protocols.chord.messages import Find, Nearer, Owner, Stabilise, Step
from protocols.overlay import TimerFired, Undelivered
from tests.chord.nodes import Node, at, sent


def standing(*successors: int, **config: int) -> Node:
    """Node 0, which looks at its fingers 1, 2, 4, ..., 128 every second."""
    node = Node(0, replicas=0, **config)
    node.stand(250, *successors)
    return node


def tick(node: Node, seconds: int) -> list[tuple[int, Find]]:
    return sent(node.do(TimerFired(0, "tick"), 1_000 * seconds), Find)


def asked_in(node: Node, seconds: range, owner: int) -> list[int]:
    """The seconds in which a finger was looked up; `owner` answers."""
    found = []
    for second in seconds:
        node.hear(250, Stabilise(), 1_000 * second)  # its predecessor lives
        for _, find in tick(node, second):
            found.append(second)
            node.hear(owner, Owner(find.req_id, find.keys, node.key(30)))
    return found


def test_fingers_that_the_successor_list_reaches_are_read_from_it() -> None:
    node = standing(3, 10, 20)
    ((_, find),) = tick(node, 2)
    assert find.keys == (node.key(32),)
    assert node.chord.fingers.table == {2: at(10), 3: at(10), 4: at(20)}


def test_nobody_is_asked_where_the_list_has_all_there_are() -> None:
    node = standing(100, 250)
    assert [tick(node, second) for second in range(2, 8)] == [[]] * 6
    assert node.chord.fingers.table == {7: at(250)}


def test_who_is_a_finger_is_asked_itself_and_the_ring_if_it_does_not_answer() -> None:
    node = standing(3, 10, 20)
    ((first, find),) = tick(node, 2)
    assert first == 20
    node.hear(200, Owner(find.req_id, find.keys, node.key(30)))
    assert [node.chord.fingers.table[number] for number in (5, 6, 7)] == [at(200)] * 3
    ((again, _),) = tick(node, 4)
    assert again == 200
    ((other, find),) = [(to, find) for to, find in tick(node, 7) if to != 200]
    assert other == 20
    assert at(200) in node.chord.fingers.nodes()  # a message may have been lost
    node.hear(220, Owner(find.req_id, find.keys, node.key(30)))
    assert node.chord.fingers.nodes() == [at(10), at(20), at(220)]


def test_a_lookup_goes_another_way_each_time() -> None:
    """Nodes that a newcomer was told of may have vanished long ago, and nobody says so."""
    node = standing(3, 10, 20)
    node.chord.fingers.learn((at(25), at(28), at(30)))
    ways = [{to for to, find in tick(node, second) if find.keys == (node.key(32),)} for second in (2, 5, 8)]
    assert ways == [{30}, {28}, {25}]
    assert list(node.chord.fingers.known) == [at(25)]


def test_rounds_are_slow_while_nothing_changes() -> None:
    node = standing(3, 10, 20)
    at_first = asked_in(node, range(2, 42), 200)
    assert at_first[:2] == [2, 3] or at_first[:2] == [2, 4]  # a round of one finger
    assert all(4 <= after - before <= 5 for before, after in pairwise(at_first[3:]))
    node.chord.fingers.lost(at(200))
    assert len(asked_in(node, range(42, 50), 200)) >= 3


def test_an_iterative_lookup_goes_around_those_who_have_left_at_once() -> None:
    """Nobody listens there any more; with two or three of them there would be no time left to ask again."""
    node = Node(0, replicas=0, lookup="iterative")
    node.stand(250, 3, 10, 20)
    ((first, step),) = sent(node.do(TimerFired(0, "tick"), 2_000), Step)
    assert first == 20
    ((_, step),) = sent(node.hear(20, Nearer(step.req_id, (at(30), at(28), at(26)))), Step)
    asked = []
    for gone in (30, 28, 26):
        ((to, step),) = sent(node.do(Undelivered(0, at(gone), step, refused=True)), Step)
        asked.append(to)
    assert asked == [28, 26, 20]  # who may know others by now
    assert sent(node.hear(20, Nearer(step.req_id, (at(30), at(28), at(26)))), Step) == []
