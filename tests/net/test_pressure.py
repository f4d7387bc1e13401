"""Bounds: on what waits for a peer that does not read, on what the transport holds, on what is read ahead."""

import asyncio
from random import Random

import msgspec
import pytest

from peerd.net import NetConfig
from peerd.net.lanes import Entry, Lane, Remote, Tally
from protocols.model.ids import Address
from tests.net.support import QUICK, Node, event, nodes, note, until
from tests.wire.samples import Carry, Note

TO = Address("b", 1, 0, "127.0.0.1:1")
TALLIES = {True: Tally(Carry), False: Tally(Note)}


def entry(number: int, is_event: bool, size: int = 10) -> tuple[bytes, int, tuple[Address, ...], Note, Tally]:
    return bytes(size), 0, (TO,), note(number), TALLIES[is_event]


def numbers(entries: list[tuple[bytes, int, tuple[Address, ...], Note, Tally]]) -> list[int]:
    return [e[3].number for e in entries]


def test_which_messages_are_events() -> None:
    assert (TALLIES[True].is_event, TALLIES[False].is_event) == (True, False)
    assert TALLIES[True].name == "carry"


@pytest.mark.parametrize("bytes_max", [1, 25, 60, 1000])
def test_control_leaves_before_events_in_chunks(bytes_max: int) -> None:
    remote = Remote("b", 1, "", QUICK)
    for number in range(5):
        remote.events.append(entry(number, True))
        remote.control.append(entry(10 + number, False))
    taken, chunks = [], 0
    while remote.queued:
        chunk = remote.take(bytes_max)
        assert len(chunk) == 1 or sum(len(e[0]) for e in chunk) <= bytes_max
        taken += chunk
        chunks += 1
    assert numbers(taken) == [10, 11, 12, 13, 14, 0, 1, 2, 3, 4]  # type: ignore[arg-type]
    assert (remote.control.bytes, remote.events.bytes) == (0, 0)
    assert remote.take(bytes_max) == []


def test_lanes_count_their_bytes() -> None:
    rng = Random(2)
    lane, taken = Lane(10, 1000), list[Entry]()
    for number in range(200):
        if rng.random() < 0.6:
            lane.append(entry(number, True, rng.randrange(1, 50)))
        else:
            lane.take(rng.randrange(100), taken)
        assert lane.bytes == sum(len(e[0]) for e in lane.entries)


def test_a_full_event_lane_takes_events_for_a_while_up_to_a_cap() -> None:
    config = NetConfig(events_max=10, full_s=2.0, events_hard_factor=4)
    remote = Remote("b", 1, "", config)
    for number in range(10):
        remote.events.append(entry(number, True))
    assert remote.admits_event(10, 100.0, config)
    assert remote.admits_event(10, 101.9, config)
    assert not remote.admits_event(10, 102.0, config)
    remote.take(20)  # room again: the patience starts anew
    remote.events.append(entry(0, True))
    assert remote.admits_event(10, 103.0, config)
    for number in range(31):
        remote.events.append(entry(number, True))
    assert not remote.admits_event(10, 103.1, config)
    assert not Remote("b", 1, "", NetConfig(events_bytes_max=10)).admits_event(41, 0.0, NetConfig(events_bytes_max=10))


async def stalled(a: Node, b: Node) -> None:
    """Connect a to b and stop b's reading."""
    a.send(b, note(0))
    await until(lambda: b.told.received_)
    (connection,) = b.network.pairs.connections
    connection._transport.pause_reading()


def resume(b: Node) -> None:
    (connection,) = b.network.pairs.connections
    connection._transport.resume_reading()


async def test_a_link_that_stays_full_drops_events_until_it_has_room() -> None:
    config = msgspec.structs.replace(QUICK, events_max=50, full_s=0.2, events_hard_factor=1000)
    async with nodes("a", "b", config=config) as (a, b):
        await stalled(a, b)
        sent = 0

        async def push() -> None:
            nonlocal sent
            sent += 1
            a.send(b, event(sent, 20_000))
            await asyncio.sleep(0.001)

        while not a.told.dropped_:
            await push()
        first_dropped = sent
        queue = a.network.stats().queues[0]
        assert queue.events > 50  # it took more for a while
        to, _, reason = a.told.dropped_[0]
        assert (to, reason) == (b.address(), "link-full")
        a.send(b, note(1))  # control still goes
        resume(b)
        await until(lambda: not a.network.stats().queues[0].events)
        await push()
        await until(lambda: sent in b.told.events())
        assert a.network.stats().dropped == {"link-full": len(a.told.dropped_)}
        expected = [
            n for n in range(1, sent + 1) if n not in range(first_dropped, first_dropped + len(a.told.dropped_))
        ]
        assert b.told.events() == expected
        assert b.told.numbers() == [0, 1]
        assert a.told.undelivered_ == []


async def test_a_hard_cap_drops_at_once() -> None:
    config = msgspec.structs.replace(QUICK, events_max=10, full_s=1000.0, events_hard_factor=3, backoff_s=100.0)
    async with nodes("a", "b", config=config) as (a, b):
        await stalled(a, b)
        for number in range(1, 2000):
            a.send(b, event(number, 20_000))
        await until(lambda: a.told.dropped_)
        assert a.network.stats().queues[0].events <= 30
        resume(b)
        await until(lambda: len(b.told.events()) + len(a.told.dropped_) == 1999)


async def test_too_much_control_ends_the_connection() -> None:
    config = msgspec.structs.replace(QUICK, control_max=20)
    async with nodes("a", "b", config=config) as (a, b):
        await stalled(a, b)
        a.send(b, *(event(number, 60_000) for number in range(1, 200)))
        await until(lambda: next(iter(a.network.pairs.connections)).paused)
        a.send(b, *(note(number) for number in range(1, 25)))
        await until(lambda: a.told.undelivered_)
        await until(lambda: a.network.stats().closed)
        assert a.network.stats().closed == {"control-overflow": 1}
        returned = a.told.returned()
        assert not any(refused for _, refused in returned)
        assert {(n, False) for n in range(1, 22)} <= set(returned)


async def test_the_transport_holds_one_chunk_at_the_most() -> None:
    config = msgspec.structs.replace(QUICK, write_bytes=30_000)
    async with nodes("a", "b", config=config) as (a, b):
        await stalled(a, b)
        a.send(b, *(event(number, 10_000) for number in range(1, 1500)))
        await until(lambda: next(iter(a.network.pairs.connections)).paused)
        (connection,) = a.network.pairs.connections
        for number in range(1500, 1600):
            a.send(b, event(number, 10_000))
            await asyncio.sleep(0)
            assert connection._transport.get_write_buffer_size() <= 30_000
        resume(b)
        await until(lambda: len(b.told.events()) == 1599)
        assert b.told.events() == list(range(1, 1600))


async def test_a_sender_is_slowed_down_by_tcp_and_nothing_is_read_ahead() -> None:
    """A receiver that is busy in every message gets all of them; its decoder never keeps more than part of a frame."""
    async with nodes("a", "b") as (a, b):
        kept: list[int] = []

        def busy(sender: Address, slot: int, message: object) -> None:
            (connection,) = b.network.pairs.connections
            kept.append(connection._decoder.pending_bytes + len(connection._pending))

        b.told.on_received = busy
        a.send(b, *(event(number, 30_000) for number in range(100)))
        await until(lambda: len(b.told.received_) == 100)
        assert max(kept) < b.network.config.read_bytes + 31_000
