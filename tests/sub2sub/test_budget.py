"""Budgets: what is charged, and that no more is spent than there is."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.registry import messages
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import workload
from peerd.wire import Codec
from protocols.overlay import Effect, Send, SetBudget
from protocols.peer import Peer, PeerInput
from protocols.sub2sub.budget import Budget
from protocols.sub2sub.config import PROFILES, Sub2SubConfig
from protocols.sub2sub.messages import MESSAGES as OWN
from protocols.sub2sub.messages import Ring, RingHello
from tests.sub2sub.scene import address, copy, described

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
