"""Flow control in a swarm that is overloaded: limits are set, kept, and lifted when the load is gone."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from peerd.sim.engine import Node
from peerd.sim.invariants.sub2sub import limits_respected
from peerd.sim.swarm import Swarm
from protocols.model.box import Box, Point
from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy, Event
from protocols.overlay import OWN_BOX, Control, Rejected, Report, SetBudget, Subscribe, TimerFired
from protocols.sub2sub.flow import LEASE_CYCLES, Flow
from protocols.sub2sub.messages import FlowEvent, FlowLimit, FlowQuery, FlowRate, Ring, RingHello, RingReply, SwitchOk
from protocols.sub2sub.order import cell
from tests.sub2sub.scene import Player, address, copy, described, facts, participants, sent, swarm_of

RANGES = [(0, 100)] * 4 + [(0, 40), (30, 70), (60, 100)] * 2
PARAMETERS: dict[str, Any] = {"profile": "paper", "rate_max": 4, "buffer_max": 60, "threshold": 30}


def overload(swarm: Swarm, per_cycle: int, cycles: int) -> None:
    rng = swarm.stream("load")
    for number in range(per_cycle * cycles):
        at_ms = swarm.now_ms + number * 1_000 // per_cycle
        swarm.engine.at(at_ms, partial(swarm.publish, {"x": rng.randrange(101)}))
    swarm.run(1_000 * cycles)


def counted(swarm: Swarm) -> Counter[str]:
    """Control facts from now on, as they come."""
    told: Counter[str] = Counter()
    oracle = swarm.oracle

    class Listener:
        on_active, on_deliver, on_reception = oracle.on_active, oracle.on_deliver, oracle.on_reception

        @staticmethod
        def on_report(now_ms: int, node: Node, effect: Report) -> None:
            oracle.on_report(now_ms, node, effect)
            if isinstance(effect.fact, Control):
                told[effect.fact.fact] += 1

    swarm.engine.observe(Listener)
    return told


def test_limits_are_set_kept_and_lifted() -> None:
    swarm = swarm_of(RANGES, uploads=(110.0,), **PARAMETERS)
    told = counted(swarm)
    overload(swarm, 40, 40)
    assert told["flow-control"]
    assert told["limit-set"]
    assert told["limit-kept"]
    assert swarm.oracle.dropped["limit"] > 0  # nothing is gone in silence
    assert not told["flow-lifted"]
    wire = swarm.engine.tap
    assert isinstance(wire, limits_respected.Wire)
    assert sum(len(account.sent) for account in wire.accounts.values()) > 100
    assert list(limits_respected.check(swarm)) == []
    swarm.run(80_000)
    assert told["limit-lifted"]
    assert all(not p.limits() for p in participants(swarm))


def test_without_budgets_there_is_no_flow_control_and_nothing_is_lost() -> None:
    swarm = swarm_of(RANGES, **PARAMETERS)
    told = counted(swarm)
    overload(swarm, 40, 5)
    swarm.run(60_000)
    verdict = swarm.oracle.settle()
    assert verdict.expected > 1_000
    assert verdict.missing == []
    assert told == {}


def feeder(*above: tuple[str, int]) -> Player:
    """A member of cell 4 with budget for everything, which feeds these, each in its cell."""
    player = Player("m", 0, 9, profile="paper")
    size = 10 // len(above)
    player.stand(*[described(name, at * size, at * size + size - 1, cell) for at, (name, cell) in enumerate(above)])
    player.do(SetBudget(1_000.0))
    return player


def offer(player: Player, name: str, count: int = 20) -> list[tuple[str, Ring]]:
    """What it sends of so many events, at the end of the cycle."""
    for number in range(count):
        player.hear("z", Ring(copy(f"{name}{number}", number % 10)))
    return sent(player.do(TimerFired(0, "cycle"), player.now_ms + 1_000), Ring)


def test_a_limit_that_is_lifted_does_not_mark_copies_any_more() -> None:
    player = feeder(("n", 6))
    player.hear("n", FlowLimit(0, 6, 0, 100, 5.0, 1))
    assert len(offer(player, "a")) <= 10
    player.hear("n", FlowLimit(0, 6, 0, 100, 5.0, 2, True))
    assert len(offer(player, "b")) == 20
    assert [message.dropped for _, message in offer(player, "c")] == [False] * 20


def test_a_copy_held_back_in_the_cycle_of_the_lifting_does_not_mark_copies_for_ever() -> None:
    player = feeder(("n", 6))
    flow = player.overlay._cells.flow
    assert flow is not None
    player.hear("n", FlowLimit(0, 6, 0, 100, 1.0, 1))
    assert [flow.admits(0, 5, 6) for _ in range(2)] == [True, False]
    player.hear("n", FlowLimit(0, 6, 0, 100, 1.0, 2, True))
    told = player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    assert Control("limit-kept", 1) in facts(told)
    assert [message.dropped for _, message in offer(player, "b")] == [False] * 20


def test_the_limit_of_a_cell_is_for_copies_into_that_cell() -> None:
    """A feeder may have links into several: what one of them cannot take the other one still wants."""
    player = feeder(("n", 6), ("p", 7))
    player.hear("p", FlowLimit(0, 7, 0, 100, 1.0, 1))
    receivers = Counter(to for to, _ in offer(player, "a"))
    assert receivers["n"] == 10
    assert receivers["p"] <= 2


def test_what_a_limit_holds_back_costs_nothing() -> None:
    """Or a feeder that is limited could not even serve its own cell."""
    player = feeder(("n", 6))
    player.do(SetBudget(100.0))  # 60 of it for gossip: for twenty copies a cycle
    offer(player, "a", 1)
    player.hear("n", FlowLimit(0, 6, 0, 100, 5.0, 1))
    assert len(offer(player, "b", 30)) == 5
    assert player.overlay._events.spreading.buffered == 0, "all were looked at, since none of the others took budget"
    assert player.overlay.budget.last[1] == 10.0


def test_a_limit_is_that_of_one_ring() -> None:
    """A participant that moves stands in two: what the first one limits the second one still wants."""
    player = Player("m", box=Box((0, 0), (10, 101)), profile="paper")
    player.stand(Descriptor(address("n"), Box((0, 0), (10, 101)), 1, 0, (8, 0)))
    player.do(TimerFired(0, "settle"), player.now_ms + 10_000)
    player.do(Subscribe(OWN_BOX, Box((0, 0), (101, 10)), version=1))
    assert list(player.overlay.rings) == [0, 2]
    player.meet(Descriptor(address("p"), Box((0, 0), (101, 10)), 1, 0, (8, 2)))
    player.do(SetBudget(1_000.0))
    player.hear("n", FlowLimit(0, 8, 0, 100, 1.0, 1))
    for number in range(20):
        player.hear("z", Ring(Copy(Event(f"e{number}", Point((5, 5))), 1, 0)))
    receivers = Counter(to for to, _ in sent(player.do(TimerFired(0, "cycle"), player.now_ms + 1_000), Ring))
    assert receivers["n"] <= 2
    assert receivers["p"] == 20


def test_a_stranger_limits_nobody() -> None:
    player = feeder(("n", 6))
    told = facts(player.hear("q", FlowLimit(0, 6, 0, 100, 0.0, 1)))
    assert [type(fact) for fact in told] == [Rejected]
    assert player.overlay.limits() == []
    player.hear("q", FlowQuery(0, 6, 0, 100, address("q"), 1, True))
    player.hear("q", FlowLimit(0, 6, 0, 100, 0.0, 1))
    assert player.overlay.limits() == [], "nor does its own question make it known"
    player.hear("n", FlowQuery(0, 6, 0, 100, address("q"), 1, True))
    player.hear("q", FlowLimit(0, 6, 0, 100, 5.0, 1))
    assert [limit.rate for limit in player.overlay.limits()] == [5.0], "its question has come by way of a link"
    player.hear("n", FlowLimit(0, 6, 0, 100, 5.0, 9))
    assert len(player.overlay.limits()) == 2, "a link needs none"


def test_a_feeder_tells_a_controller_what_it_has_for_its_cell() -> None:
    player = feeder(("n", 6), ("p", 7))
    for number in range(30):
        offer(player, f"{number}-")
    [(to, answer)] = sent(player.hear("p", FlowQuery(0, 7, 0, 100, address("q"), 1, True)), FlowRate)
    assert (to, answer.feeder) == ("q", True)
    assert 9.0 < answer.rate <= 10.0


def test_a_controller_whose_feeders_are_gone_stops_asking() -> None:
    player = Player("m", 0, 9, profile="paper")
    player.stand(described("y", 0, 9, 3), described("n", 0, 9, 4))
    player.do(SetBudget(100.0))
    flow = player.overlay._cells.flow
    assert flow is not None
    player.hear("n", FlowEvent(0, 4, 0, 8, 5))
    for _ in range(30):
        if flow.steering is not None:
            player.hear("n", FlowRate(flow.steering.seq, 90.0, False))
        player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    assert flow.steering is None, "nobody has answered: there is nobody to limit"


def test_a_former_link_into_a_higher_cell_gets_no_more_than_a_limit_allows_either() -> None:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 6))
    player.do(SetBudget(1e6))
    player.hear("n", FlowLimit(0, 6, 0, 100, 2.0, 1))
    player.meet(described("k", 0, 9, 5))  # nearer, so the link to n fades
    receivers = Counter(to for number in range(20) for to, _ in sent(player.hear("z", Ring(copy(f"e{number}"))), Ring))
    assert receivers["k"] == 20
    assert receivers["n"] <= 2


def test_however_many_questions_are_about_none_is_passed_on_twice() -> None:
    """Somebody who forgot one would pass it on again when it comes round, and it would never end."""
    player = Player("m", 0, 9, profile="paper")
    player.stand(described("a", 0, 9, 4), described("z", 0, 9, 4))
    queries = [FlowQuery(0, 4, 0, 8, address("q"), number, False) for number in range(2_000)]
    first = [len(sent(player.hear("a", query), FlowQuery)) for query in queries]
    assert first[0] == 1
    again = [len(sent(player.hear("a", query), FlowQuery)) for query in queries]
    assert sum(again) == 0
    for _ in range(20):
        player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    assert len(sent(player.hear("a", FlowQuery(0, 4, 0, 8, address("q"), 9_999, False)), FlowQuery)) == 1


# --- a feeder without a budget ----------------------------------------------------------------------------------------


def unlimited_feeder() -> Player:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 6))
    return player


def cycle(player: Player, cycles: int = 1) -> list[Any]:
    """What it does at the end of a cycle, or of several in which it had nothing to gossip."""
    return player.do(TimerFired(0, "cycle"), player.now_ms + 1_000 * cycles)


def rate_told(player: Player, into: str, query: FlowQuery) -> float:
    [(_, answer)] = sent(player.hear(into, query), FlowRate)
    rate: float = answer.rate
    return rate


def test_a_feeder_without_a_budget_keeps_to_a_limit() -> None:
    player = unlimited_feeder()
    player.hear("n", FlowLimit(0, 6, 0, 100, 5.0, 1))
    assert sum(len(sent(player.hear("z", Ring(copy(f"e{number}"))), Ring)) for number in range(20)) == 5


def test_and_the_limit_ends_with_its_lease() -> None:
    player = unlimited_feeder()
    player.hear("n", FlowLimit(0, 6, 0, 100, 5.0, 1))
    cycle(player, LEASE_CYCLES - 1)
    assert len(player.overlay.limits()) == 1
    assert Control("limit-lifted", 5.0, {"because": "its lease is over"}) in facts(cycle(player))
    assert player.overlay.limits() == []


def test_and_it_tells_its_rate() -> None:
    player = unlimited_feeder()
    for number in range(40):
        for name in range(20):
            player.hear("z", Ring(copy(f"{number}-{name}")))
        cycle(player)
    assert rate_told(player, "n", FlowQuery(0, 6, 0, 100, address("q"), 1, True)) == pytest.approx(20.0, rel=0.02)


def test_a_cycle_that_took_four_because_gossip_is_idle_counts_as_four() -> None:
    player = unlimited_feeder()
    for number in range(10):
        for name in range(80):
            player.hear("z", Ring(copy(f"{number}-{name}")), player.now_ms + 50)
        cycle(player, 0)
    assert rate_told(player, "n", FlowQuery(0, 6, 0, 100, address("q"), 1, True)) == pytest.approx(20.0, rel=0.03)


# --- rings and cells --------------------------------------------------------------------------------------------------

TALL, WIDE = Box((0, 0), (10, 101)), Box((0, 0), (101, 10))
"""Most selective on the first attribute, whose ring has place 0, and on the second, with place 2."""


def of_two_rings(below: int = 0) -> Player:
    """A participant on its way from one ring to the other, with a link above it in each, and perhaps one below."""
    player = Player("m", box=TALL)
    player.stand(Descriptor(address("n"), TALL, 1, 0, (8, 0)))
    player.do(SetBudget(1e6))
    player.do(TimerFired(0, "settle"), player.now_ms + 10_000)
    player.do(Subscribe(OWN_BOX, WIDE, version=1))
    player.hear("p", RingReply(2, Descriptor(address("p"), WIDE, 1, 0, (8, 2)), (), 1))
    for name, box, place in (("a", TALL, 0), ("b", WIDE, 2)) if below else ():
        player.hear(name, RingHello(place, Descriptor(address(name), box, 1, 0, (below, place)), ()))
    return player


def receive(player: Player) -> None:
    """Twenty events a cycle, all of which fall into unit 4 of both rings."""
    for number in range(40):
        for name in range(20):
            player.hear("z", Ring(Copy(Event(f"{number}-{name}", Point((5, 5))), 1, 0)))
        cycle(player)


def test_a_feeder_tells_what_it_has_for_one_ring() -> None:
    player = of_two_rings()
    receive(player)
    rates = [
        rate_told(player, link, FlowQuery(place, 8, 0, 10, address("q"), place, True))
        for link, place in (("n", 0), ("p", 2))
    ]
    assert rates == pytest.approx([20.0, 20.0], rel=0.02)


def test_a_broker_tells_what_it_receives_in_one_ring() -> None:
    player = of_two_rings(below=1)
    receive(player)
    mine = cell(player.overlay.descriptor())
    rates = [
        rate_told(player, link, FlowQuery(place, mine, 0, 10, address("q"), place, False))
        for link, place in (("a", 0), ("b", 2))
    ]
    assert rates == pytest.approx([20.0, 20.0], rel=0.02)


def flow_of(player: Player) -> Flow:
    flow = player.overlay._cells.flow
    assert flow is not None
    return flow


def test_a_controller_that_has_moved_to_another_ring_steers_no_more() -> None:
    player = Player("m", box=TALL)
    mine = cell(player.overlay.descriptor())
    player.stand(*[Descriptor(address(name), TALL, 1, 0, (at, 0)) for name, at in (("y", 3), ("n", mine))])
    player.do(SetBudget(1e6))
    player.do(TimerFired(0, "settle"), player.now_ms + 10_000)
    player.hear("n", FlowEvent(0, mine, 0, 10, 5))
    steering = flow_of(player).steering
    assert steering is not None
    player.hear("n", FlowRate(steering.seq, 500.0, False))  # or there would be no reason to go on
    player.do(Subscribe(OWN_BOX, WIDE, version=1))
    player.hear("b", RingHello(2, Descriptor(address("b"), WIDE, 1, 0, (3, 2)), ()))
    version = player.overlay.descriptor().version
    player.hear("b", RingReply(2, Descriptor(address("b"), WIDE, 1, 0, (3, 2)), (), version))
    for name, at in (("y", 3), ("n", mine)):
        player.hear(name, RingReply(0, Descriptor(address(name), TALL, 1, 0, (at, 0)), (), version))
    player.do(TimerFired(0, "settle"), player.now_ms + 10_000)
    assert list(player.overlay.rings) == [2]
    cycle(player)
    assert flow_of(player).steering is None


def test_nor_does_one_that_has_moved_to_another_cell() -> None:
    player = Player("m", 0, 9, profile="paper")
    player.stand(described("a", 0, 9, 2), described("y", 0, 9, 3), described("n", 0, 9, 4))
    player.do(SetBudget(1_000.0))
    for number in range(10):
        player.hear("y", Ring(copy(f"e{number}"), True))
    cycle(player)
    player.hear("n", FlowEvent(0, 4, 0, 8, 5))
    assert flow_of(player).steering is not None
    player.hear("y", SwitchOk(0, described("y", 0, 9, 3), 3))
    assert cell(player.overlay.descriptor()) == 3
    cycle(player)
    assert flow_of(player).steering is None


# --- alarms and answers -----------------------------------------------------------------------------------------------


def controller() -> Player:
    """Of cell 7, with a feeder below for one part of its range, and another broker for the rest; it steers 0 to 20."""
    player = Player("m", 0, 99)
    player.stand(described("a", 0, 40, 3), described("l", 41, 99, 7), described("n", 0, 99, 7))
    player.hear("n", FlowEvent(0, 7, 0, 20, 5))
    steering = flow_of(player).steering
    assert steering is not None
    assert (steering.first, steering.beyond) == (0, 20)
    return player


def test_an_alarm_for_another_range_than_the_one_that_is_steered_goes_on_to_the_next_broker() -> None:
    alarm = FlowEvent(0, 7, 60, 90, 5)
    assert sent(controller().hear("n", alarm), FlowEvent) == [("l", FlowEvent(0, 7, 60, 90, 4))]


def test_an_alarm_for_a_range_that_is_steered_already_goes_nowhere() -> None:
    assert sent(controller().hear("n", FlowEvent(0, 7, 10, 90, 5))) == []


def test_a_strangers_alarm_makes_nobody_a_controller() -> None:
    player = Player("m", 0, 9)
    player.stand(described("y", 0, 9, 3), described("n", 0, 9, 4))
    assert player.hear("z", FlowEvent(0, 4, 0, 10, 5)) == []
    assert flow_of(player).steering is None
    player.hear("n", FlowEvent(0, 4, 0, 10, 5))
    assert flow_of(player).steering is not None


def test_an_answer_to_a_question_that_was_not_asked_changes_nothing() -> None:
    player = controller()
    steering = flow_of(player).steering
    assert steering is not None
    before = dict(steering.brokers)
    player.hear("l", FlowRate(steering.seq + 1, 90.0, False))
    assert steering.brokers == before
    player.hear("l", FlowRate(steering.seq, 90.0, False))
    assert steering.brokers == before | {address("l"): 90.0}


def test_nobody_can_guess_what_number_a_question_has() -> None:
    player = controller()
    steering = flow_of(player).steering
    assert steering is not None
    numbers = [steering.seq]
    for _ in range(5):
        player.hear("l", FlowRate(steering.seq, 500.0, False))
        cycle(player)
    numbers.append(steering.seq)
    assert min(numbers) > 1 << 20
    assert abs(numbers[1] - numbers[0]) > 1 << 20
