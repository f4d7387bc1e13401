"""Budgets: what is charged, and that no more is spent than there is."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.registry import messages
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import workload
from peerd.sim.workloads.workload import interest_in
from peerd.wire import Codec
from protocols.model.box import Box, Point
from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy, Event
from protocols.overlay import Effect, Join, Received, Send, SetBudget, SetTimer, TimerFired
from protocols.parts.digests import digest
from protocols.peer import Peer, PeerInput
from protocols.sub2sub.budget import CYCLON_BYTES, Budget
from protocols.sub2sub.config import PROFILES, Sub2SubConfig
from protocols.sub2sub.messages import MESSAGES as OWN
from protocols.sub2sub.messages import FlowLimit, JoinReply, Ring, RingHello, Want
from tests.sub2sub.scene import SCHEMA, Player, address, copy, described, sent

ME = address("m")
PAPER = Sub2SubConfig(**PROFILES["paper"])


def test_a_daemons_budget_is_bytes_per_second_whatever_a_cycle_is() -> None:
    budget = Budget(ME, Sub2SubConfig(cycle_ms=200))
    budget.set(0, SetBudget(5_000.0))
    assert budget.limit == 1_000.0


def test_without_a_budget_everything_goes() -> None:
    assert Budget(ME, Sub2SubConfig()).take(0, 1e12)


def test_the_papers_units() -> None:
    hello = RingHello(0, described("a", 0, 1), ())
    budget = Budget(ME, Sub2SubConfig(accounting="units"))
    assert budget.of_message(Ring(copy("e"))) == 2
    assert budget.of_message(hello) == 10
    by_the_cycle = Budget(ME, PAPER)
    assert by_the_cycle.of_message(hello) == 0
    by_the_cycle.turn()
    assert by_the_cycle.charged == 60, "whatever is said in it"


def test_bytes_grow_with_what_is_sent() -> None:
    budget = Budget(ME, Sub2SubConfig())
    small, large = RingHello(0, described("a", 0, 1), ()), RingHello(0, described("a", 0, 1), (described("b", 0, 1),))
    assert 0 < budget.of_message(small) < budget.of_message(large)
    assert budget.of_event(1_000) - budget.of_event(0) == 1_000


@given(gossip=st.lists(st.integers(0, 40), max_size=4), wanted=st.integers(0, 200))
def test_a_cycle_never_spends_more_than_its_budget(gossip: list[int], wanted: int) -> None:
    budget = Budget(ME, PAPER)
    budget.set(0, SetBudget(100.0))
    budget.turn()
    for cost in gossip:
        budget.charge(cost)
    for _ in range(wanted):
        budget.take(0, 2)
    budget.turn()
    charged, on_events = budget.last
    assert charged == 60 + sum(gossip)
    assert on_events == 0 or charged + on_events <= 100


@given(
    steps=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 60)), max_size=60),
)
def test_a_token_bucket_never_exceeds_its_rate_by_more_than_one_cycle(steps: list[tuple[int, int]]) -> None:
    budget = Budget(ME, Sub2SubConfig(accounting="units"))
    budget.set(0, SetBudget(100.0))
    now_ms, spent = 0, 0
    for pause_ms, cost in steps:
        now_ms += pause_ms
        if budget.take(now_ms, cost):
            spent += cost
    assert spent <= 100 + 100 * now_ms / 1_000


def test_it_says_when_there_will_be_enough() -> None:
    budget = Budget(ME, Sub2SubConfig(accounting="units"))
    budget.set(0, SetBudget(100.0))
    assert budget.take(0, 50)
    assert not budget.take(0, 20)
    at_ms = budget.ready_ms(0, 20)
    assert not budget.take(at_ms - 5, 20)
    assert budget.take(at_ms, 20)


def test_what_never_fits_goes_when_all_of_the_budget_is_there() -> None:
    budget = Budget(ME, Sub2SubConfig(accounting="units"))
    budget.set(0, SetBudget(100.0))
    assert not budget.take(0, 250)
    assert budget.take(600, 250)
    assert not budget.take(1_600, 250)


def test_what_is_reckoned_is_what_stands_on_the_socket() -> None:
    """Within a fifth over all that a swarm says, and a quarter for each kind of which there is much."""
    codec, budget = Codec(messages("sub2sub")), Budget(ME, Sub2SubConfig())
    reckoned: Counter[str] = Counter()
    encoded: Counter[str] = Counter()
    workload_ = workload("stocks")
    swarm = Swarm(SwarmConfig(overlay="sub2sub", schema=workload_.schema, seed=1))
    handle = Peer.handle

    def listening(peer: Peer, now_ms: int, item: PeerInput) -> list[Effect]:
        effects = handle(peer, now_ms, item)
        for effect in effects:
            if isinstance(effect, Send) and type(effect.message) in OWN:
                kind = type(effect.message).__name__
                frame = codec.frame(0, 0, codec.encode(effect.message))
                encoded[kind] += len(frame) * len(effect.to)
                reckoned[kind] += round(budget.of_message(effect.message) * len(effect.to))
        return effects

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Peer, "handle", listening)
        interests = workload_.subscriptions(Random(1), 30)
        swarm.start_many([interests[n : n + 2] for n in range(0, 30, 2)], 50)
        swarm.run(5_000)
        for attributes in workload_.events(Random(2), 60, interests):
            swarm.publish(attributes)
            swarm.run(50)
    assert reckoned.total() == pytest.approx(encoded.total(), rel=0.2)
    for kind, count in encoded.items():
        if count > encoded.total() / 20:
            assert reckoned[kind] == pytest.approx(count, rel=0.25), kind


# --- siblings ---------------------------------------------------------------------------------------------------------

SIBLING = address("m", 1)


def test_what_goes_to_a_sibling_costs_nothing() -> None:
    hello = RingHello(0, described("a", 0, 1), ())
    budget = Budget(ME, Sub2SubConfig())
    budget.set(0, SetBudget(1e6, 0.5))
    budget.pay((SIBLING, address("a"), address("b"), address("m", 2)), hello)
    assert budget.charged == 2 * budget.of_message(hello)
    budget.pay((SIBLING,), hello)
    assert budget.charged == 2 * budget.of_message(hello)
    assert budget.remote((SIBLING, address("a"))) == 1


def test_nor_do_copies_for_a_sibling_wait_for_budget() -> None:
    player, sibling = Player("m", 0, 9), Descriptor(SIBLING, Box((0,), (10,)), 1, 0, (6, 0))
    player.do(Join((SIBLING,)))
    player.do(Received(SIBLING, 0, JoinReply(sibling, ())))
    player.do(SetBudget(1.0, 0.5))
    player.overlay.budget.charge(1e6)
    receivers = [to for number in range(50) for to, _ in sent(player.hear("z", Ring(copy(f"e{number}"))), Ring)]
    assert receivers == ["m"] * 50
    assert player.overlay.budget.on_events == 0.0


@pytest.mark.parametrize("cycle_ms", [200, 1_000, 5_000])
def test_the_daemons_cyclon_is_charged_once_a_second_for_all_participants_together(cycle_ms: int) -> None:
    """It gossips once a second, whatever a cycle of ours is."""
    budget = Budget(ME, Sub2SubConfig(cycle_ms=cycle_ms))
    budget.set(0, SetBudget(1e6, 0.1))
    budget.turn()
    assert 10 * budget.charged == pytest.approx(CYCLON_BYTES * cycle_ms / 1_000)


def test_a_peer_with_ten_participants_and_an_ample_budget_delivers_all_that_is_owed() -> None:
    """Three times of what their gossip costs: with less, some of them have too little, for each has a tenth."""
    swarm = Swarm(SwarmConfig(overlay="sub2sub", schema=SCHEMA, seed=1, uploads=(40_000.0,), exact_boxes=True))
    los = [[(17 * peer + 13 * number) % 80 for number in range(10)] for peer in range(6)]
    boxes = [[Box((lo,), (lo + 12 + number,)) for number, lo in enumerate(mine)] for mine in los]
    swarm.start_many([[interest_in(SCHEMA, box) for box in mine] for mine in boxes], 20)
    swarm.run(2_000)
    assert swarm.converge(60_000) is not None
    for number in range(60):
        swarm.publish({"x": 37 * number % 101})
        swarm.run(250)
    swarm.run(12_000)
    verdict = swarm.oracle.settle()
    assert verdict.expected > 500
    assert verdict.missing == []
    assert dict(swarm.oracle.dropped) == {}


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_an_event_for_three_waits_for_one_timer_and_not_for_hundreds() -> None:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 4))
    for name in ("mm", "ma"):  # each nearer than the one before, which fades
        player.hear(name, RingHello(0, described(name, 0, 9, 4), ()))
    event = Event("e", Point((5,)), b"x" * 200)
    player.do(SetBudget(4 * player.overlay.budget.of_event(200)))  # half of it is there at once: for two
    effects = player.hear("z", Ring(Copy(event, 1, 0)))
    assert sent(effects, Ring) == []
    [at_ms] = [effect.at_ms for effect in effects if isinstance(effect, SetTimer) and effect.key == "flush"]
    receivers = [to for to, _ in sent(player.do(TimerFired(0, "flush"), at_ms), Ring)]
    assert sorted(receivers) == ["ma", "mm", "n"]


def test_whoever_has_nobody_to_send_to_keeps_nothing_however_deep_in_debt() -> None:
    player = Player("m", 0, 9)
    player.stand(described("l", 0, 9, 4))  # below: to whom nothing goes
    player.do(SetBudget(2_000.0))
    player.overlay.budget.charge(1e6)
    for number in range(50):
        player.hear("l", Ring(copy(f"e{number}")))
    assert player.overlay._events.spreading.buffered == 0


def test_a_question_for_what_was_missed_takes_nothing_from_a_limit_if_there_is_no_budget_for_an_answer() -> None:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 6))
    for number in range(5):
        player.hear("z", Ring(copy(f"e{number}")))
    player.hear("n", FlowLimit(0, 6, 0, 100, 3.0, 1))
    player.do(SetBudget(1_000.0))
    player.overlay.budget.charge(1e6)
    assert sent(player.hear("n", Want(tuple([digest(f"e{number}") for number in range(5)]))), Ring) == []
    assert [limit.left for limit in player.overlay.limits()] == [3.0]


def test_nor_does_it_cost_anything_if_there_is_budget_but_no_room_in_a_limit() -> None:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 6))
    for number in range(5):
        player.hear("z", Ring(copy(f"e{number}")))
    player.hear("n", FlowLimit(0, 6, 0, 100, 3.0, 1))
    player.do(SetBudget(1e6))
    assert len(sent(player.hear("n", Want(tuple([digest(f"e{number}") for number in range(5)]))), Ring)) == 3
    assert player.overlay.budget.on_events == pytest.approx(3 * player.overlay.budget.of_event(0))
