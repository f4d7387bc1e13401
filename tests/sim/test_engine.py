"""Links and processes as the engine simulates them."""

import gc
import weakref
from typing import Any

import pytest

from peerd.sim.engine import ROUTES_MAX
from peerd.sim.network import GIVE_UP_MS
from protocols.model.ids import endpoint
from protocols.overlay import CancelTimer, Received, Send, SetTimer
from tests.sim.machines import Room, address
from tests.wire.samples import Note

TEXTS = [f"t{number}" for number in range(40)]


def chatter(room: Room, start_ms: int = 0, every_ms: int = 5) -> None:
    """Machine 0 says all texts to machine 1, one after the other."""
    for number, text in enumerate(TEXTS):
        room.later(start_ms + 1 + number * every_ms, 0, 1, text)


# --- The way there ----------------------------------------------------------------------------------------------------


def test_a_message_takes_its_latency_and_is_a_copy() -> None:
    room = Room()
    note = Note("hello", 7, numbers=(1, 2))
    room.engine.send(room.nodes[0], Send(0, (address(1),), note))
    room.engine.run_until(100)
    [(at_ms, item)] = room.machines[1].diary
    assert at_ms == 20
    assert item == Received(item.sender, -1, note)
    assert item.message is not note
    assert item.sender.peer == "p0"
    assert item.sender.slot == 0


def test_one_send_to_many_is_counted_for_each() -> None:
    room = Room(4)
    to = tuple(address(number) for number in (1, 2, 3))
    room.engine.send(room.nodes[0], Send(0, to, Note("x")))
    room.engine.run_until(100)
    assert [machine.texts() for machine in room.machines] == [[], ["x"], ["x"], ["x"]]
    traffic = room.engine.traffic[Note]
    assert traffic.sent == 3
    assert traffic.sent_bytes % 3 == 0


def test_meters_count_for_each_peer() -> None:
    room = Room(3)
    meters = room.engine.meters = {}
    room.say(0, 1, "a", "b")
    room.say(1, 2, "c")
    room.engine.run_until(100)
    counts = {index: (meters[index][Note].sent, meters[index][Note].received) for index in meters}
    assert counts == {0: (2, 0), 1: (1, 2), 2: (0, 1)}
    assert sum(m[Note].sent_bytes for m in meters.values()) == room.engine.traffic[Note].sent_bytes
    assert sum(m[Note].received_bytes for m in meters.values()) == room.engine.traffic[Note].sent_bytes


@pytest.mark.parametrize("network", [{}, {"loss": 0.3}, {"loss": 0.3, "bandwidth": 5_000}, {"bandwidth": 2_000}])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_stream_keeps_its_order_and_loses_nothing(network: dict[str, Any], seed: int) -> None:
    room = Room(seed=seed, **network)
    chatter(room)
    room.engine.run_until(20_000)
    assert room.machines[1].texts() == TEXTS
    assert room.machines[0].returned() == []


def test_datagrams_may_be_lost_doubled_and_out_of_order() -> None:
    room = Room(link="datagram", loss=0.2, duplication=0.2, reordering_ms=60)
    chatter(room)
    room.engine.run_until(20_000)
    heard = room.machines[1].texts()
    assert set(heard) < set(TEXTS)
    assert len(heard) > len(set(heard))
    assert heard != sorted(heard, key=TEXTS.index)
    assert room.machines[0].returned() == []


# --- Nobody there -----------------------------------------------------------------------------------------------------


def test_a_crashed_process_refuses() -> None:
    room = Room()
    room.engine.stop(room.nodes[1])
    room.say(0, 1, "x")
    room.engine.run_until(100)
    assert room.machines[0].returned() == [(40, "x", True)]
    assert room.machines[1].diary == []


def test_what_is_under_way_to_a_crash_is_refused() -> None:
    room = Room()
    room.say(0, 1, "x")
    room.engine.at(10, lambda: room.engine.stop(room.nodes[1]))
    room.engine.run_until(100)
    assert room.machines[0].returned() == [(40, "x", True)]


def test_an_address_where_nobody_ever_was_refuses() -> None:
    room = Room()
    room.say(0, 7, "x")
    room.engine.run_until(100)
    assert [(text, refused) for _, text, refused in room.machines[0].returned()] == [("x", True)]


def test_a_vanished_host_does_not_even_refuse() -> None:
    room = Room()
    room.engine.stop(room.nodes[1], silent=True)
    room.say(0, 1, "x")
    room.engine.run_until(GIVE_UP_MS - 1)
    assert room.machines[0].diary == []
    room.engine.run_until(GIVE_UP_MS + 1)
    assert room.machines[0].returned() == [(GIVE_UP_MS + 1, "x", False)]


def test_what_is_under_way_to_a_host_that_vanishes_is_given_up() -> None:
    room = Room()
    room.say(0, 1, "x")
    room.engine.at(10, lambda: room.engine.stop(room.nodes[1], silent=True))
    room.engine.run_until(2 * GIVE_UP_MS)
    assert [(text, refused) for _, text, refused in room.machines[0].returned()] == [("x", False)]


def test_a_dead_sender_is_told_nothing() -> None:
    room = Room()
    room.engine.stop(room.nodes[1])
    room.say(0, 1, "x")
    room.engine.stop(room.nodes[0])
    room.engine.run_until(100)
    assert room.machines[0].diary == []


def test_the_next_life_refuses_what_was_meant_for_the_last() -> None:
    room = Room()
    room.engine.stop(room.nodes[1])
    room.add(1, boot=2)
    room.say(0, 1, "dead", boot=1)
    room.say(0, 1, "living", boot=2)
    room.engine.run_until(100)
    assert room.machines[2].texts() == ["living"]
    assert [(text, refused) for _, text, refused in room.machines[0].returned()] == [("dead", True)]


def test_a_host_that_is_back_refuses_what_was_meant_for_the_life_that_vanished_with_it() -> None:
    room = Room()
    room.say(0, 1, "hello")
    room.engine.run_until(100)
    room.engine.stop(room.nodes[1], silent=True)
    room.add(1, boot=2)
    room.say(0, 1, "dead", boot=1)
    room.engine.run_until(1_000)
    assert room.machines[0].returned() == [(140, "dead", True)]


def test_a_former_life_is_on_the_side_of_its_host() -> None:
    room = Room(3)
    room.engine.stop(room.nodes[1])
    room.add(1, boot=2)
    room.engine.cut({0: 1, 3: 1})  # the third node that was added is the next life of the first machine
    room.say(0, 1, "dead", boot=1)
    room.say(0, 2, "across")
    room.engine.run_until(1_000)
    assert [(text, refused) for _, text, refused in room.machines[0].returned()] == [("dead", True)]


def test_more_receivers_than_are_kept_at_hand() -> None:
    room = Room(ROUTES_MAX + 20)
    for _ in range(2):
        for target in range(1, ROUTES_MAX + 20):
            room.say(0, target, "x")
    room.engine.run_until(100)
    assert {len(machine.texts()) for machine in room.machines[1:]} == {2}
    assert len(room.engine.routes[0]) <= ROUTES_MAX


def test_whoever_answers_at_an_endpoint() -> None:
    room = Room()
    room.engine.send(room.nodes[0], Send(-1, (endpoint("host-1:1"),), Note("hello")))
    room.engine.run_until(100)
    assert room.machines[1].texts() == ["hello"]


def test_datagrams_are_never_returned() -> None:
    room = Room(3, link="datagram")
    room.engine.stop(room.nodes[1])
    room.engine.stop(room.nodes[2], silent=True)
    room.say(0, 1, "x")
    room.say(0, 2, "x")
    room.say(0, 9, "x")
    room.engine.run_until(2 * GIVE_UP_MS)
    assert room.machines[0].diary == []


# --- Cuts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [{}, {"loss": 0.3}])
def test_what_is_sent_across_a_cut_waits_and_arrives_in_order(network: dict[str, Any]) -> None:
    room = Room(**network)
    chatter(room)
    room.engine.at(60, lambda: room.engine.cut({1: 1}))
    room.engine.at(150, room.engine.heal)
    room.engine.run_until(20_000)
    assert room.machines[1].texts() == TEXTS
    assert all(at_ms < 81 or at_ms >= 150 for at_ms, _ in room.machines[1].heard()) or network
    assert room.machines[0].returned() == []


def test_a_cut_leaves_those_on_one_side_alone() -> None:
    room = Room(4)
    room.engine.cut({2: 1, 3: 1})
    room.say(0, 1, "near")
    room.say(2, 3, "near")
    room.say(0, 3, "across")
    room.engine.run_until(1_000)
    assert [machine.texts() for machine in room.machines] == [[], ["near"], [], ["near"]]


def test_across_a_long_cut_the_connection_is_given_up() -> None:
    room = Room()
    room.engine.cut({1: 1})
    room.say(0, 1, "early")
    room.later(GIVE_UP_MS - 1_000, 0, 1, "late")
    room.engine.at(GIVE_UP_MS + 500, room.engine.heal)
    room.engine.run_until(3 * GIVE_UP_MS)
    assert [(text, refused) for _, text, refused in room.machines[0].returned()] == [("early", False)]
    assert room.machines[1].texts() == ["late"]


def test_datagrams_across_a_cut_are_lost() -> None:
    room = Room(link="datagram")
    room.engine.cut({1: 1})
    room.say(0, 1, "lost")
    room.engine.at(50, room.engine.heal)
    room.later(60, 0, 1, "found")
    room.engine.run_until(GIVE_UP_MS)
    assert room.machines[1].texts() == ["found"]


def test_who_is_born_during_a_cut_is_on_the_first_side() -> None:
    room = Room(2)
    room.engine.cut({1: 1})
    room.add(2)
    room.say(2, 0, "near")
    room.say(2, 1, "far")
    room.engine.run_until(1_000)
    assert room.machines[0].texts() == ["near"]
    assert room.machines[1].texts() == []


# --- Resets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [{}, {"loss": 0.4}, {"bandwidth": 3_000}, {"loss": 0.4, "bandwidth": 3_000}])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_reset_loses_what_is_under_way_and_says_so(network: dict[str, Any], seed: int) -> None:
    """Of a stream that is broken once, the middle is returned: nothing is lost in silence, nothing comes twice."""
    room = Room(seed=seed, **network)
    chatter(room)
    room.engine.at(100, lambda: room.engine.reset(room.nodes[0], room.nodes[1]))
    before = [text for number, text in enumerate(TEXTS) if 1 + number * 5 < 100]
    room.engine.run_until(30_000)
    heard = room.machines[1].texts()
    returned = [text for _, text, refused in room.machines[0].returned() if not refused]
    assert sorted(heard + returned, key=TEXTS.index) == TEXTS
    assert heard == sorted(heard, key=TEXTS.index)
    assert returned == before[-len(returned) :]  # all that had not arrived, and nothing that was sent later
    assert returned
    assert all(at_ms <= 100 for at_ms, text in room.machines[1].heard() if text in before)


def test_a_reset_breaks_one_connection_in_both_directions() -> None:
    room = Room(3)
    room.say(0, 1, "there")
    room.say(1, 0, "back")
    room.say(0, 2, "aside")
    room.engine.at(10, lambda: room.engine.reset(room.nodes[0], room.nodes[1]))
    room.engine.run_until(1_000)
    assert [text for _, text, _ in room.machines[0].returned()] == ["there"]
    assert [text for _, text, _ in room.machines[1].returned()] == ["back"]
    assert room.machines[2].texts() == ["aside"]


def test_a_reset_loses_what_waits_for_a_cut_to_heal() -> None:
    room = Room()
    room.engine.cut({1: 1})
    room.say(0, 1, "held")
    room.engine.at(50, lambda: room.engine.reset(room.nodes[0], room.nodes[1]))
    room.later(60, 0, 1, "after")
    room.engine.at(100, room.engine.heal)
    room.engine.run_until(1_000)
    assert [text for _, text, _ in room.machines[0].returned()] == ["held"]
    assert room.machines[1].texts() == ["after"]


# --- Stalls -----------------------------------------------------------------------------------------------------------


def test_a_stall_delays_everything_and_keeps_its_order() -> None:
    room = Room()
    chatter(room)
    room.timer(1, "tick", 70)
    room.engine.at(50, lambda: room.engine.stall(room.nodes[1], 1_000))
    room.engine.run_until(2_000)
    assert room.machines[1].texts() == TEXTS
    assert [at_ms for at_ms, _ in room.machines[1].diary if 50 < at_ms < 1_050] == []
    assert room.machines[1].fired() == [(1_050, "tick")]
    kinds = [type(item).__name__ for at_ms, item in room.machines[1].diary if at_ms == 1_050]
    assert kinds.index("TimerFired") == sum(20 + 1 + number * 5 <= 70 for number in range(40)) - 6


def test_a_stalled_peer_is_not_told_of_what_came_back_before_it_wakes() -> None:
    room = Room()
    room.engine.stop(room.nodes[1])
    room.say(0, 1, "x")
    room.engine.stall(room.nodes[0], 500)
    room.engine.run_until(499)
    assert room.machines[0].diary == []
    room.engine.run_until(1_000)
    assert [(text, refused) for _, text, refused in room.machines[0].returned()] == [("x", True)]


def test_the_longer_of_two_stalls_counts() -> None:
    room = Room()
    room.say(0, 1, "x")
    room.engine.stall(room.nodes[1], 1_000)
    room.engine.stall(room.nodes[1], 100)
    room.engine.run_until(2_000)
    assert room.machines[1].heard() == [(1_000, "x")]


def test_who_dies_stalled_stays_dead() -> None:
    room = Room()
    room.say(0, 1, "x")
    room.engine.stall(room.nodes[1], 100)
    room.engine.at(50, lambda: room.engine.stop(room.nodes[1]))
    room.later(200, 0, 1, "y")
    room.engine.run_until(1_000)
    assert room.machines[1].diary == []
    assert [text for _, text, _ in room.machines[0].returned()][-1] == "y"


# --- Timers -----------------------------------------------------------------------------------------------------------


def test_setting_a_timer_again_replaces_it() -> None:
    room = Room(1)
    room.timer(0, "a", 100)
    room.timer(0, "a", 50)
    room.timer(0, "b", 70)
    room.timer(0, "b", 90)
    room.engine.run_until(1_000)
    assert room.machines[0].fired() == [(50, "a"), (90, "b")]


def test_a_cancelled_timer_does_not_fire() -> None:
    room = Room(1)
    room.timer(0, "a", 100)
    room.engine.at(50, lambda: room.engine.cancel_timer(room.nodes[0], CancelTimer(0, "a")))
    room.engine.run_until(1_000)
    assert room.machines[0].fired() == []


def test_a_timer_in_the_past_fires_next() -> None:
    room = Room(1)
    room.engine.run_until(500)
    room.timer(0, "a", 3)
    room.engine.run_until(1_000)
    assert room.machines[0].fired() == [(501, "a")]


def test_a_timer_that_sets_itself_again_fires_once_each_time() -> None:
    room = Room(1)
    room.machines[0].reply = lambda now_ms, item: [SetTimer(0, "a", now_ms + 100)] if now_ms < 350 else []
    room.timer(0, "a", 100)
    room.engine.run_until(1_000)
    assert room.machines[0].fired() == [(100, "a"), (200, "a"), (300, "a"), (400, "a")]


def test_timers_of_the_dead_do_not_fire() -> None:
    room = Room(1)
    room.timer(0, "a", 100)
    room.engine.at(50, lambda: room.engine.stop(room.nodes[0]))
    room.engine.run_until(1_000)
    assert room.machines[0].diary == []


# --- The trace --------------------------------------------------------------------------------------------------------


def test_the_trace_tells_runs_apart() -> None:
    def trace(*texts: str, at_ms: int = 5) -> str:
        room = Room()
        room.later(at_ms, 0, 1, *texts)
        room.engine.run_until(1_000)
        return room.engine.trace_sha256()

    assert trace("a", "b") == trace("a", "b")
    assert len({trace("a", "b"), trace("b", "a"), trace("a"), trace("a", "b", at_ms=6)}) == 4


# --- The end ----------------------------------------------------------------------------------------------------------


def test_a_swarm_that_nobody_holds_any_more_is_gone_from_memory() -> None:
    """Parcels and alarms are not tracked by the garbage collector, so nothing that they name may hold on to them."""
    room = Room(3)
    room.say(0, 1, "a")
    room.say(1, 0, "b")
    room.engine.run_until(100)
    room.engine.stall(room.nodes[2], 10_000)
    room.say(0, 2, "waits")
    room.engine.run_until(200)
    machines = [weakref.ref(machine) for machine in room.machines]
    del room
    gc.collect()
    assert [machine() for machine in machines] == [None, None, None]
