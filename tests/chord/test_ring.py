"""The rules of the ring, one by one."""

from protocols.chord.messages import Accepted, Enter, Leaving, Meet, Neighbours, Stabilise
from protocols.chord.ring import LOST_MS
from protocols.model.ids import PEER_SLOT, in_slot
from protocols.overlay import Effect, Join, Joined, PeerLost, Rejected, Sampled, TimerFired, Unwatch, Watch
from tests.chord.nodes import Node, at, facts, sent


def neighbours(predecessor: int | None, *successors: int, low: bytes = b"", number: int = 7) -> Neighbours:
    before = None if predecessor is None else at(predecessor)
    return Neighbours(before, low, number, tuple(at(place) for place in successors))


# --- Joining ----------------------------------------------------------------------------------------------------------


def test_the_first_node_answers_for_everything() -> None:
    node = Node(100)
    assert facts(node.begin(), Joined)
    assert all(node.chord.ring.answers_for(key) for key in range(256))


def test_a_newcomer_takes_over_the_whole_list_in_one_step() -> None:
    node = Node(100)
    asked = node.do(Join((at(7),)))
    assert sent(asked, Enter) == [(7, Enter(node.me))]
    effects = node.hear(120, Accepted(at(90), (at(120), at(130), at(140), at(150)), ()))
    assert facts(effects, Joined)
    assert node.places == (90, [120, 130, 140])
    assert not node.chord.ring.answers_for(100)  # until its successor has handed over


def test_nobody_is_accepted_by_a_node_that_is_not_the_successor() -> None:
    node = Node(100)
    node.do(Join((at(7),)))
    effects = node.hear(50, Accepted(at(90), (at(120), at(130)), ()))
    assert facts(effects, Rejected)
    assert not node.chord.ring.standing


def test_newcomers_in_one_gap_follow_each_other_at_once() -> None:
    node = Node(100)
    node.stand(10, 150, 200)
    effects = node.hear(150, Enter(at(40)))
    (accepted,) = [message for to, message in sent(effects, Accepted) if to == 40]
    assert accepted.predecessor == at(10)
    assert accepted.successors == (node.me, at(150), at(200))
    assert (10, Meet(at(40))) in sent(effects, Meet)
    effects = node.hear(150, Enter(at(60)))
    (accepted,) = [message for to, message in sent(effects, Accepted) if to == 60]
    assert accepted.predecessor == at(40)
    assert sent(node.hear(150, Enter(at(30))), Enter) != []  # somebody else's: passed on


def test_a_newcomer_whose_answer_was_lost_is_accepted_again() -> None:
    node = Node(100)
    node.stand(10, 150, 200)
    node.hear(150, Enter(at(40)))
    assert [to for to, _ in sent(node.hear(150, Enter(at(40))), Accepted)] == [40]


def test_a_successor_that_has_not_heard_of_it_is_none() -> None:
    """Datagrams: the first newcomer's answer is lost, others have entered behind it, and it asks again."""
    node = Node(100)
    node.begin()
    node.hear(40, Enter(at(40)))
    node.hear(60, Enter(at(60)))
    assert node.places == (60, [40])
    effects = node.hear(60, Enter(at(40)))
    assert node.places == (60, [60])
    assert [to for to, _ in sent(effects, Stabilise)] == [60]  # which knows who stands before it, and so on
    assert [to for to, _ in sent(effects, Enter)] == [60]


def test_newcomers_wait_until_the_node_stands() -> None:
    node = Node(100)
    node.do(Join((at(7),)))
    assert sent(node.hear(40, Enter(at(110))), Accepted) == []
    effects = node.hear(120, Accepted(at(90), (at(120), at(130)), ()))
    assert sent(effects, Enter)  # it belongs between us and our successor, and is sent on


def test_a_peer_is_not_a_node() -> None:
    node = Node(100)
    node.stand(10, 150, 200)
    assert facts(node.hear(150, Enter(in_slot(at(40), PEER_SLOT))), Rejected)
    assert node.places[0] == 10


# --- Stabilise and rectify --------------------------------------------------------------------------------------------


def test_stabilise_adopts_the_successors_list() -> None:
    node = Node(100)
    node.stand(10, 150, 200, 220)
    effects = node.do(TimerFired(0, "tick"), 1000)
    assert [to for to, _ in sent(effects, Stabilise)] == [150]
    node.hear(150, neighbours(100, 160, 170, 180))
    assert node.places == (10, [150, 160, 170])


def test_rounds_are_rare_while_nothing_changes_and_every_answer_comes() -> None:
    node = Node(100)
    node.stand(10, 150, 200, 220)
    asked = []
    for second in range(1, 40):
        node.hear(10, Stabilise(), 1000 * second - 1)  # its predecessor lives
        if sent(node.do(TimerFired(0, "tick"), 1000 * second), Stabilise):
            asked.append(second)
            if second != 31:
                node.hear(150, neighbours(100, 200, 220, number=7), 1000 * second)
    assert asked == [*range(1, 11), 13, 16, 19, 22, 25, 28, 31, 32, 35, 38]


def test_a_list_that_is_known_is_not_sent_again() -> None:
    node = Node(100)
    node.stand(10, 150, 200, 220)
    ((_, first),) = sent(node.hear(10, Stabilise()), Neighbours)
    assert first.successors == tuple(map(at, (150, 200, 220)))
    ((_, again),) = sent(node.hear(10, Stabilise(first.list)), Neighbours)
    assert again.successors == ()


def test_a_nearer_successor_is_adopted_only_when_it_answers() -> None:
    node = Node(100)
    node.stand(10, 150, 200, 220)
    node.do(TimerFired(0, "tick"), 1000)
    effects = node.hear(150, neighbours(120, 200, 220, 10))
    assert node.places[1][0] == 150
    assert [to for to, _ in sent(effects, Stabilise)] == [120]
    effects = node.hear(120, neighbours(100, 150, 200, 220))
    assert node.places[1] == [120, 150, 200]
    assert (120, Meet(at(150))) in sent(effects, Meet)  # if they are of two rings, they learn of each other


def test_nobody_is_adopted_who_was_not_asked() -> None:
    node = Node(100)
    node.stand(10, 150, 200)
    node.hear(120, neighbours(100, 150, 200))
    assert node.places[1] == [150, 200]


def test_rectify_takes_who_stands_between_and_keeps_the_predecessor_otherwise() -> None:
    node = Node(100)
    node.stand(10, 150, 200)
    node.hear(200, Stabilise())
    assert node.places[0] == 10
    node.hear(50, Stabilise())
    assert node.places[0] == 50
    node.do(PeerLost(at(50)))
    node.hear(10, Stabilise())
    assert node.places[0] == 10


def test_a_predecessor_that_has_another_successor_is_given_up() -> None:
    node = Node(100)
    node.stand(10, 150, 200)
    node.hear(50, Stabilise(), 1000)
    node.do(TimerFired(0, "tick"), 1000 + node.config.silent_ms - 1)
    assert node.places[0] == 50
    node.do(TimerFired(0, "tick"), 1000 + node.config.silent_ms)
    assert node.places[0] is None


def test_a_dead_successor_is_replaced_by_the_next_and_not_taken_back_on_hearsay() -> None:
    node = Node(100)
    node.stand(10, 150, 200, 220)
    effects = node.do(PeerLost(at(150)), 1000)
    assert node.places[1] == [200, 220]
    assert [to for to, _ in sent(effects, Stabilise)] == [200]
    node.hear(200, neighbours(150, 220, 10), 1001)
    assert node.places[1] == [200, 220, 10]
    node.do(TimerFired(0, "tick"), 1000 + LOST_MS)
    effects = node.hear(200, neighbours(150, 220, 10, number=8), 1001 + LOST_MS)
    assert [to for to, _ in sent(effects, Stabilise)] == [150]  # it may live after all


def test_where_successors_die_together_more_of_the_next_ones_are_watched_until_one_answers() -> None:
    node = Node(100, successors=8, watched=2, replicas=0)
    node.stand(10, 110, 120, 130, 140, 150, 160)
    effects = node.do(PeerLost(at(110)), 1000)
    assert watched(effects) == [130, 140, 150]  # 120 was
    assert watched(node.do(PeerLost(at(120)), 1001)) == [160]
    effects = node.hear(130, neighbours(100, 140, 150, 160), 1002)
    assert [node.circle.node(effect.address) for effect in effects if isinstance(effect, Unwatch)] == [150, 160]


def watched(effects: list[Effect]) -> list[int]:
    circle = Node(0).circle
    return [circle.node(effect.address) for effect in effects if isinstance(effect, Watch)]


def test_who_has_lost_everybody_is_alone() -> None:
    node = Node(100)
    node.stand(10, 10)
    node.do(PeerLost(at(10)))
    assert node.places == (None, [])
    assert node.chord.ring.answers_for(5)


# --- Two rings --------------------------------------------------------------------------------------------------------


def test_a_stranger_beside_us_is_asked_and_one_elsewhere_looked_for() -> None:
    node = Node(100)
    node.stand(10, 150, 200)
    assert [to for to, _ in sent(node.hear(10, Meet(at(120))), Stabilise)] == [120]
    assert sent(node.hear(10, Meet(at(60))), Meet) == [(60, Meet(node.me))]  # before us, if it knows no nearer one
    assert sent(node.hear(10, Meet(at(210))), Meet) == [(200, Meet(at(210), 1))]


def test_two_who_stand_behind_each_other_do_not_send_each_other_to_and_fro() -> None:
    """Two rings of two, 20 and 80 in one, 150 and 220 in the other: it is 80 that 150 comes after, and 220 20."""
    one, other = Node(20), Node(150)
    one.stand(80, 80)
    other.stand(220, 220)
    assert sent(one.hear(80, Meet(at(150))), Meet) == [(150, Meet(at(20)))]
    assert sent(other.hear(20, Meet(at(20))), Meet) == [(220, Meet(at(20), 1))]
    before = Node(80)
    before.stand(20, 20)
    assert sent(before.hear(20, Meet(at(150), 1)), Stabilise) == [(150, Stabilise())]


def test_samples_between_us_and_our_successor_are_asked() -> None:
    node = Node(100)
    node.stand(10, 150, 200)
    effects = node.do(Sampled(tuple(Node(place).chord.descriptor() for place in (20, 120, 170))))
    assert [to for to, _ in sent(effects, Stabilise)] == [120]


def test_who_is_alone_asks_again_whoever_has_not_answered() -> None:
    """The only other one: its answer, or the question, was lost."""
    node = Node(100)
    node.begin()
    other = Sampled((Node(120).chord.descriptor(),))
    assert [to for to, _ in sent(node.do(other, 1_000), Stabilise)] == [120]
    assert sent(node.do(other, 1_500), Stabilise) == []
    node.do(TimerFired(0, "tick"), 4_000)
    assert [to for to, _ in sent(node.do(other, 4_500), Stabilise)] == [120]


# --- Leaving ----------------------------------------------------------------------------------------------------------


def test_neighbours_of_a_leaver_close_the_gap() -> None:
    before, after = Node(10), Node(150)
    before.stand(200, 100, 150, 200)
    after.stand(100, 200, 10)
    word = Leaving(at(10), (at(150), at(200)))
    before.hear(100, word)
    after.hear(100, word)
    assert before.places == (200, [150, 200])
    assert after.places == (10, [200, 10])


def test_a_list_that_was_left_out_but_is_not_known_any_more_is_asked_for_again() -> None:
    """Datagrams: an old list overtakes the answer that relies on the new one."""
    node = Node(100)
    node.stand(10, 150, 200, 220)
    node.do(TimerFired(0, "tick"), 1000)
    node.hear(150, neighbours(100, 200, 220, number=7))
    ((_, asked),) = sent(node.do(TimerFired(0, "tick"), 2000), Stabilise)
    assert asked.known == 7
    node.hear(150, neighbours(100, 190, 200, number=6))
    node.hear(150, neighbours(100, number=7))
    assert node.places[1] == [150, 190, 200]
    ((_, asked),) = sent(node.do(TimerFired(0, "tick"), 3000), Stabilise)
    assert asked.known == 0
