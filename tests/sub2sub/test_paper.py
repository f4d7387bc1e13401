"""One test for each statement of the paper that can be checked, named after it, with its section."""

import pytest

from peerd.sim.swarm import Swarm
from protocols.model.box import Box
from protocols.overlay import Control, Dropped, PeerLost, SetBudget, TimerFired
from protocols.sub2sub.flow import Limit
from protocols.sub2sub.messages import (
    CellSwitch,
    Descend,
    FlowEvent,
    FlowLimit,
    FlowQuery,
    FlowRate,
    Ring,
    RingHello,
    SwitchOk,
)
from protocols.sub2sub.order import cell, first_cell, length, rank, span
from tests.sub2sub.scene import SCHEMA, Player, address, copy, described, facts, participants, sent, swarm_of

RANGES = [(10 * a, 10 * a + size) for a in range(8) for size in (3, 9, 22)]


@pytest.fixture(scope="module")
def rings() -> Swarm:
    return swarm_of(RANGES, variant="baseline", dissemination="both")


@pytest.fixture(scope="module")
def cells() -> Swarm:
    return swarm_of(RANGES, variant="cells", dissemination="both")


def received(swarm: Swarm, x: int) -> tuple[set[int], set[int]]:
    """Whose ranges hold a value, and who received an event with it."""
    event = swarm.publish({"x": x})
    assert event is not None
    swarm.run(6_000)
    return (
        {index for index, (lo, hi) in enumerate(RANGES) if lo <= x <= hi},
        {index for index, _ in swarm.oracle.arrivals.get(event.id, {})},
    )


# --- III. Sub-2-Sub ---------------------------------------------------------------------------------------------------


def test_three_types_of_links(rings: Swarm) -> None:
    """III: random links (the peers' CYCLON), overlapping-interest links and ring links."""
    kinds = {link.kind for participant in participants(rings) for link in participant.links()}
    assert kinds == {"random", "interest", "ring-upper", "ring-lower"}


def test_overlapping_interest_links_are_those_closest_to_or_overlapping_with_the_subscription(rings: Swarm) -> None:
    by_address = {p.descriptor().address: p.descriptor() for p in participants(rings)}
    for participant in participants(rings):
        own = participant.descriptor()
        lo, hi = span(own, 0) or (0, 0)
        neighbours = [by_address[link.to] for link in participant.links() if link.kind == "interest"]
        overlapping = [d for d in neighbours if d.box.lo[0] < hi and lo < d.box.hi[0]]
        all_overlapping = [d for d in by_address.values() if d is not own and d.box.lo[0] < hi and lo < d.box.hi[0]]
        assert len(overlapping) >= min(len(all_overlapping), 20) - 1  # one may be on its way: it is asked just now


def test_upper_ring_links_have_greater_ids_and_lower_ring_links_smaller_ones(rings: Swarm) -> None:
    for participant in participants(rings):
        own = rank(participant.descriptor())
        for link in participant.links():
            if link.kind.startswith("ring"):
                assert ((0, link.to.peer, link.to.slot) > own) == (link.kind == "ring-upper")


def test_the_ring_link_for_a_range_covers_it_and_has_the_closest_id() -> None:
    player = Player("m", 0, 20, variant="baseline")
    player.stand(described("n", 0, 9), described("p", 0, 20), described("l", 15, 20), described("k", 0, 20))
    assert [player.hops(x) for x in (0, 9, 10, 14, 15, 20)] == [
        ("n", "k"),
        ("n", "k"),
        ("p", "k"),
        ("p", "k"),
        ("p", "l"),
        ("p", "l"),
    ]


def test_all_the_matching_nodes_form_a_ring(rings: Swarm) -> None:
    """III, dissemination: going up from the lowest of them visits all of them."""
    by_address = {p.descriptor().address: p for p in participants(rings)}
    for x in range(0, 93, 4):
        matching = sorted((p for p in by_address.values() if p.rings[0].holds(x)), key=lambda p: rank(p.descriptor()))
        chain, at = [matching[0]], matching[0].rings[0].next_hops(x)[0]
        while at is not None:
            chain.append(by_address[at])
            at = by_address[at].rings[0].next_hops(x)[0]
        assert chain == matching


def test_a_new_event_goes_to_upper_and_lower_ring_link_and_to_a_random_matching_neighbour() -> None:
    player = Player("m", 0, 9, variant="baseline", dissemination="both", linger_ms=0)
    others = [described(name, 0, 9) for name in "klnp"]
    player.stand(*others)
    player.overlay._hood.offer_interest(others)
    receivers = [to for to, _ in sent(player.hear("z", Ring(copy("e"))), Ring)]
    assert {"l", "n"} <= set(receivers)
    assert len(receivers) <= 3
    assert set(receivers) <= set("klnp")


def test_an_event_is_not_sent_back_where_it_came_from_and_only_once() -> None:
    player = Player("m", 0, 9, variant="baseline", dissemination="both", shortcuts=0, linger_ms=0)
    player.stand(described("l", 0, 9), described("n", 0, 9))
    assert [to for to, _ in sent(player.hear("l", Ring(copy("e"))), Ring)] == ["n"]
    assert sent(player.hear("n", Ring(copy("e"))), Ring) == []


@pytest.mark.parametrize("x", [3, 17, 45, 92])
def test_the_event_reaches_all_nodes_with_a_matching_subscription(rings: Swarm, x: int) -> None:
    matching, reached = received(rings, x)
    assert reached == matching


# --- IV.A. Topology ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "expected"), [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (63, 6), (64, 7), (100, 7)]
)
def test_a_node_with_length_l_is_placed_in_cell_m(size: int, expected: int) -> None:
    """IV.A.2: 2^(M-1) <= L < 2^M; L = b - a."""
    assert first_cell(length(SCHEMA.space, Box((0,), (size + 1,)), 0)) == expected
    assert 2 ** (expected - 1) <= size < 2**expected


def test_nodes_are_ordered_by_cell_number_and_within_a_cell_by_id() -> None:
    ordered = [described("z", 0, 1, 1), described("a", 0, 3, 2), described("b", 0, 3, 2), described("a", 0, 9, 3)]
    assert sorted(ordered, key=rank) == ordered


def test_the_upper_link_across_a_boundary_is_the_least_id_of_the_next_higher_cell() -> None:
    """IV.A.3, and the lower one the largest id of the next lower cell."""
    player = Player("m", 0, 9)
    cell_ = cell(player.overlay.descriptor())
    below = [described(name, 0, 9, cell_ - 1) for name in "xy"]
    above = [described(name, 0, 9, cell_ + 1) for name in "ab"]
    player.stand(*below, *above)
    assert player.hops(5) == ("a", "y")


def test_brokers_have_ring_links_to_lower_cells_and_feeders_to_higher_ones(cells: Swarm) -> None:
    roles = 0
    for participant in participants(cells):
        flow, ring = participant._cells.flow, participant.rings[0]
        assert flow is not None
        assert all(cell(c.descriptor) < ring.rank[0] for c in flow.feeders(ring, 0, 100))
        assert all(link.rank[0] > ring.rank[0] for role, link in participant._links.across() if role == "feeder")
        roles += len(flow.feeders(ring, 0, 100))
    assert roles


def test_roles_are_links_of_their_own_and_are_told_when_they_change() -> None:
    player = Player("m", 0, 9)
    mine = cell(player.overlay.descriptor())
    below, above = described("x", 0, 9, mine - 1), described("a", 0, 9, mine + 1)
    told = player.stand(below)
    assert Control("role", mine, {"role": "broker"}) in facts(told)
    told = player.hear("a", RingHello(0, above, ()))
    assert Control("role", mine, {"role": "broker and feeder"}) in facts(told)
    kinds = {link.kind: link.to.peer for link in player.overlay.links() if link.kind in ("broker", "feeder")}
    assert kinds == {"feeder": "x", "broker": "a"}, "who brings us events, and whom we bring some"
    told = player.do(PeerLost(below.address))
    assert Control("role", mine, {"role": "feeder"}) in facts(told)


# --- IV.B. Event dissemination ----------------------------------------------------------------------------------------


def test_an_event_is_routed_to_the_smallest_matching_neighbour_that_is_known() -> None:
    """IV.B.2."""
    player = Player("m", 0, 9, dissemination="both")
    mine = cell(player.overlay.descriptor())
    player.stand(described("l", 0, 9, mine), described("c", 0, 9, 1), described("b", 50, 59, 1))
    player.overlay._hood.offer_interest([described("c", 0, 9, 1)])
    assert [to for to, _ in sent(player.hear("z", Descend(0, copy("e"))), Descend)] == ["c"]


def test_routing_stops_when_no_smaller_node_is_found_and_dissemination_starts() -> None:
    player = Player("m", 0, 9, dissemination="both", shortcuts=0)
    player.stand(described("n", 0, 9, 7))
    effects = player.hear("z", Descend(0, copy("e")))
    assert sent(effects, Descend) == []
    assert [to for to, _ in sent(effects, Ring)] == ["n"]


@pytest.mark.parametrize("x", [3, 17, 45, 92])
def test_with_cells_the_event_reaches_all_matching_nodes_too(cells: Swarm, x: int) -> None:
    matching, reached = received(cells, x)
    assert reached == matching


# --- IV.C. Flow control -----------------------------------------------------------------------------------------------


def overloaded(player: Player, per_cycle: int = 80, cycles: int = 4) -> None:
    """More events than the cell may receive, for which there is no budget at all."""
    for number in range(per_cycle * cycles):
        player.hear("y", Ring(copy(f"e{number}", number % 10)))
        if number % per_cycle == per_cycle - 1:
            player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)


def broker() -> Player:
    """A member of cell 4 with a feeder below, a fellow beside it, and no budget for events."""
    player = Player("m", 0, 9, profile="paper")
    player.stand(described("y", 0, 9, 3), described("n", 0, 9, 4))
    player.do(SetBudget(20.0))
    return player


def test_by_default_no_flow_control_is_imposed() -> None:
    player = Player("m", 0, 9, profile="paper")
    player.stand(described("y", 0, 9, 3), described("n", 0, 9, 4))
    overloaded(player)  # without a budget there is no buffer to overflow
    assert player.overlay._cells.flow is not None
    assert player.overlay._cells.flow.steering is None


def test_a_node_whose_buffer_fills_and_whose_rate_exceeds_the_limit_generates_a_flow_control_event() -> None:
    player = Player("m", 0, 9, profile="paper")
    player.stand(described("l", 0, 9, 4), described("n", 0, 9, 4))
    player.do(SetBudget(20.0))
    overloaded(player, cycles=3)
    for number in range(80):
        player.hear("l", Ring(copy(f"f{number}", number % 10)))
    effects = player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    assert [to for to, _ in sent(effects, FlowEvent)] == ["l"]  # down the cell: no broker itself


def test_the_first_broker_that_the_event_reaches_becomes_the_controller() -> None:
    player = broker()
    effects = player.hear("n", FlowEvent(0, 4, 0, 10, 5))
    assert "flow-control" in [fact.fact for fact in facts(effects) if isinstance(fact, Control)]
    assert [to for to, _ in sent(effects, FlowQuery)] == ["n"]  # its neighbour within the range


def test_a_broker_replies_with_its_rate_and_forwards_to_its_neighbours() -> None:
    player = broker()
    effects = player.hear("n", FlowQuery(0, 4, 0, 10, address("n"), 7, False))
    assert [to for to, _ in sent(effects, FlowRate)] == ["n"]
    assert sent(player.hear("n", FlowQuery(0, 4, 0, 10, address("n"), 7, False))) == []  # once


def test_the_controller_decides_by_the_rates_of_brokers_that_see_only_a_part_of_the_range() -> None:
    player = broker()
    flow = player.overlay._cells.flow
    assert flow is not None
    player.hear("n", FlowEvent(0, 4, 0, 80, 5))  # ten times the length that a cell counts in
    assert flow.steering is not None
    player.hear("n", FlowRate(flow.steering.seq, 30.0, False))  # M is 20
    for _ in range(6):
        player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    assert flow.steering is not None
    assert flow.steering.limiting


def test_to_implement_flow_control_brokers_forward_to_their_feeders() -> None:
    effects = broker().hear("n", FlowQuery(0, 4, 0, 10, address("n"), 7, True))
    assert [to for to, _ in sent(effects, FlowQuery)] == ["y"]


def test_a_feeder_replies_with_the_rate_at_its_site() -> None:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 6))
    for number in range(60):
        for x in range(10):
            player.hear("z", Ring(copy(f"{number}-{x}", x)))
        player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    effects = player.hear("n", FlowQuery(0, 6, 0, 5, address("q"), 7, True))
    assert [(to, message.feeder) for to, message in sent(effects, FlowRate)] == [("q", True)]
    in_half_of_it = 6  # of ten values: 0 to 5 are units 0 to 4, for the domain has 101
    assert [message.rate for _, message in sent(effects, FlowRate)] == pytest.approx([in_half_of_it], rel=0.01)


def test_limits_are_proportional_to_the_rates_and_add_up_to_what_the_cell_allows() -> None:
    player = broker()
    flow = player.overlay._cells.flow
    assert flow is not None
    player.hear("n", FlowEvent(0, 4, 0, 8, 5))
    limits: list[tuple[str, FlowLimit]] = []
    for _ in range(14):
        assert flow.steering is not None
        seq = flow.steering.seq
        player.hear("n", FlowRate(seq, 90.0, False))
        player.hear("y", FlowRate(seq, 60.0, True))
        player.hear("x", FlowRate(seq, 20.0, True))
        limits += sent(player.do(TimerFired(0, "cycle"), player.now_ms + 1_000), FlowLimit)
    assert [(to, message.rate, message.lifted) for to, message in limits] == [("y", 15.0, False), ("x", 5.0, False)]


def test_after_50_cycles_limits_are_redefined_or_cancelled() -> None:
    player = broker()
    flow = player.overlay._cells.flow
    assert flow is not None
    player.hear("n", FlowEvent(0, 4, 0, 8, 5))
    told: list[tuple[int, bool]] = []
    for cycle_ in range(90):
        if flow.steering is None:
            break
        seq = flow.steering.seq
        player.hear("n", FlowRate(seq, 90.0, False))
        player.hear("y", FlowRate(seq, 60.0 if cycle_ < 30 else 1.0, True))
        effects = player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
        told += [(cycle_, message.lifted) for _, message in sent(effects, FlowLimit)]
    assert [lifted for _, lifted in told] == [False, True]
    assert told[1][0] - told[0][0] >= 50
    assert flow.steering is None


def test_feeders_stick_to_their_limits_while_sending_to_brokers() -> None:
    player = Player("m", 0, 9, profile="paper")
    player.stand(described("n", 0, 9, 6))
    player.do(SetBudget(1_000.0))
    player.hear("n", FlowLimit(0, 6, 0, 100, 5.0, 1))
    for number in range(30):
        player.hear("z", Ring(copy(f"e{number}", number % 10)))
    effects = player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    assert len(sent(effects, Ring)) <= 10  # what two cycles allow
    assert sum(isinstance(fact, Dropped) and fact.reason == "limit" for fact in facts(effects)) >= 20


def test_a_limit_is_a_lease() -> None:
    """Differs from the paper: the limits of a controller that died do not stay for ever."""
    player = Player("m", 0, 9, profile="paper")
    player.stand(described("n", 0, 9, 6))
    player.do(SetBudget(1_000.0))
    player.hear("n", FlowLimit(0, 6, 0, 100, 5.0, 1))
    flow = player.overlay._cells.flow
    assert flow is not None
    for _ in range(74):
        player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    assert [type(limit) for limit in flow.limits.values()] == [Limit]
    effects = player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    assert flow.limits == {}
    assert "limit-lifted" in [fact.fact for fact in facts(effects) if isinstance(fact, Control)]


# --- IV.D. Cell switching ---------------------------------------------------------------------------------------------


def test_feeders_that_hold_copies_back_set_the_bit_and_receivers_keep_it() -> None:
    feeder = Player("m", 0, 9, profile="paper", threshold=5)
    feeder.stand(described("n", 0, 9, 6))
    feeder.do(SetBudget(100.0))
    for number in range(30):
        feeder.hear("z", Ring(copy(f"e{number}", number % 10)))
    marks = [message.dropped for _, message in sent(feeder.do(TimerFired(0, "cycle"), 1_000), Ring)]
    assert marks[0] is True
    member = Player("m", 0, 9, profile="paper")
    member.stand(described("n", 0, 9, 4))
    member.do(SetBudget(100.0))
    member.hear("z", Ring(copy("e"), True))
    assert [message.dropped for _, message in sent(member.do(TimerFired(0, "cycle"), 1_000), Ring)] == [True]


def starving(budget: float) -> tuple[Player, list[tuple[str, CellSwitch]]]:
    """A member of cell 4 that has received ten marked copies."""
    player = Player("m", 0, 9, profile="paper")
    player.stand(described("y", 0, 9, 3), described("n", 0, 9, 4))
    player.do(SetBudget(budget))
    player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    for number in range(10):
        player.hear("y", Ring(copy(f"e{number}", number), True))
    return player, sent(player.do(TimerFired(0, "cycle"), player.now_ms + 1_000), CellSwitch)


def test_k_dropped_messages_within_k_cycles_and_twice_the_bandwidth_make_a_node_switch() -> None:
    player, asked = starving(1_000.0)
    assert [(to, message.cell) for to, message in asked] == [("y", 3)]
    player.hear("y", SwitchOk(0, described("y", 0, 9, 3), 3))
    assert cell(player.overlay.descriptor()) == 3


def test_a_node_without_sufficient_bandwidth_stays() -> None:
    assert starving(80.0)[1] == []  # 60 for gossip, and 20 for ten copies: twice as many would be 40
    assert starving(110.0)[1] != []


def test_the_message_is_forwarded_until_it_reaches_a_node_that_can_form_a_ring_link() -> None:
    player = Player("m", 0, 9)
    player.stand(described("a", 0, 9, 3), described("n", 0, 9, 4))
    far = player.hear("z", CellSwitch(0, described("z", 0, 9, 3), 2, 9))
    assert [to for to, _ in sent(far, CellSwitch)] == ["a"]  # which would be the next above it
    near = player.hear("z", CellSwitch(0, described("z", 0, 9, 5), 3, 9))
    assert [to for to, _ in sent(near, SwitchOk)] == ["z"]


def test_nodes_move_one_cell_at_a_time_and_back_up_if_the_buffer_fills() -> None:
    player, _ = starving(1_000.0)
    player.hear("y", SwitchOk(0, described("y", 0, 9, 3), 3))
    player.do(SetBudget(21.0))
    for number in range(600):
        player.hear("z", Ring(copy(f"f{number}", number % 10)))
    asked: list[tuple[str, CellSwitch]] = []
    for _ in range(60):
        asked += sent(player.do(TimerFired(0, "cycle"), player.now_ms + 1), CellSwitch)
    assert asked
    assert {message.cell for _, message in asked} == {4}


# --- V. Simulation ----------------------------------------------------------------------------------------------------


def test_a_node_buffers_all_events_of_a_cycle_and_sends_only_at_its_end() -> None:
    player = Player("m", 0, 9, profile="paper", variant="baseline")
    player.stand(described("n", 0, 9))
    assert sent(player.hear("z", Ring(copy("e"))), Ring) == []
    assert [to for to, _ in sent(player.do(TimerFired(0, "cycle"), 1_000), Ring)] == ["n"]


def test_it_sends_at_most_what_its_upload_bandwidth_allows() -> None:
    """A copy costs 2 units; 60 go to gossip: three requests, and on average three replies, of 10 each."""
    player = Player("m", 0, 9, profile="paper", variant="baseline")
    player.stand(described("n", 0, 9))
    player.do(SetBudget(100.0))
    player.do(TimerFired(0, "cycle"), 1_000)
    for number in range(50):
        player.hear("z", Ring(copy(f"e{number}")))
    effects = player.do(TimerFired(0, "cycle"), 2_000)
    assert 30 <= 2 * len(sent(effects, Ring)) <= 40
    assert player.overlay._events.spreading.buffered == 50 - len(sent(effects, Ring))
