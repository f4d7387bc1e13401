"""What a service does for those who ask it."""

import asyncio
from random import Random
from typing import Any

import pytest

from peerd import registry
from peerd.documents import NewEvent, NewSubscription
from peerd.driver import Driver
from peerd.service import About, Service, ServiceConfig, SubscriptionRecord
from peerd.service.deliveries import CursorExpired, Retained
from peerd.service.interests import WARNED_MAX
from peerd.service.refusals import (
    EventTooLarge,
    InvalidEvent,
    InvalidSchema,
    InvalidSubscription,
    NotReady,
    PushedBack,
    TooManySubscriptions,
    UnknownSubscription,
)
from protocols.membership import MembershipConfig
from protocols.model.event import decode_body
from protocols.model.filter import FilterError
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import STOCKS
from protocols.overlay import Dropped, Join, Leave, Message, Report
from protocols.parts.seen import KEEP_MS
from protocols.peer import Peer, PeerConfig
from tests.support.memory import ManualClock, MemorySwarm
from tests.support.waiting import until


def nothing() -> None:
    pass


def wanted(filter_: str = "TRUE", **more: Any) -> NewSubscription:
    return NewSubscription(filter=filter_, **more)


def quote(price: float = 8.5, symbol: str = "OTE", **more: Any) -> NewEvent:
    return NewEvent({"symbol": symbol, "price": price}, **more)


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth else []


def prices(items: list[Retained]) -> list[object]:
    return [decode_body(item.body).attributes["price"] for item in items]


# --- subscriptions ----------------------------------------------------------------------------------------------------


async def test_an_event_reaches_the_subscriptions_that_match_it(swarm: MemorySwarm) -> None:
    first, second, third = (living.service for living in swarm.peers)
    one = first.subscriptions.add(wanted("symbol = 'OTE' AND price > 8"))
    other = second.subscriptions.add(wanted("price < 8"))
    assert await first.subscriptions.wait_active(one.id, 5)
    assert await second.subscriptions.wait_active(other.id, 5)
    readers = [
        first.subscriptions.reader(one.id, None, nothing),
        second.subscriptions.reader(other.id, None, nothing),
    ]
    for price in (7.0, 9.0):
        third.publisher.publish(quote(price))
    await until(lambda: first.subscriptions.shown(one.id).retained and second.subscriptions.shown(other.id).retained)
    assert prices(readers[0].take(10).items) == [9.0]
    assert prices(readers[1].take(10).items) == [7.0]


async def test_a_subscription_is_shown_as_the_contract_says(swarm: MemorySwarm) -> None:
    service = swarm.peers[0].service
    shown = service.subscriptions.add(wanted("price BETWEEN 8.31 AND 8.69"), "mine")
    await service.subscriptions.wait_active("mine", 5)
    shown = service.subscriptions.shown("mine")
    assert (shown.id, shown.filter, shown.state) == ("mine", "price BETWEEN 8.31 AND 8.69", "active")
    assert shown.boxes == [{"price": {"ge": 8.31, "le": 8.69}}]
    assert (shown.retain_s, shown.retain_max, shown.idle_s) == (600, 10_000, 300)
    assert service.subscriptions.all() == [shown]


async def test_warnings_tell_of_other_subscriptions(swarm: MemorySwarm) -> None:
    service = swarm.peers[0].service
    service.subscriptions.add(wanted(), "all")
    assert "contained in subscription all" in service.subscriptions.add(wanted("price > 3"), "some").warnings
    assert "matches everything" in service.subscriptions.shown("all").warnings
    assert service.subscriptions.change("some", wanted("price > 4")).warnings == ["contained in subscription all"]


async def test_only_warnings_of_containment_are_cut_short(swarm: MemorySwarm) -> None:
    """The cut bounds came first, and so many of them left no place for the others."""
    service = swarm.peers[0].service
    for number in range(WARNED_MAX + 5):
        service.subscriptions.add(wanted(), f"all-{number}")
    bounds = " AND ".join(f"price <= {bound}" for bound in range(21, 21 + WARNED_MAX))
    warnings = service.subscriptions.add(wanted(f"price > 3 AND {bounds}"), "some").warnings
    assert [line for line in warnings if "contained in" in line] == [
        f"contained in subscription all-{number}" for number in range(WARNED_MAX)
    ]
    assert len(warnings) == 2 * WARNED_MAX


async def test_a_change_states_the_filter_and_keeps_what_is_left_out(swarm: MemorySwarm) -> None:
    service = swarm.peers[0].service
    service.subscriptions.add(wanted("price > 3", retain_s=5, retain_max=7, idle_s=None), "mine")
    with pytest.raises(InvalidSubscription, match="needs a filter"):
        service.subscriptions.change("mine", NewSubscription(retain_s=9))
    shown = service.subscriptions.change("mine", wanted("price > 3", retain_s=9))
    assert (shown.retain_s, shown.retain_max, shown.idle_s) == (9, 7, None)


async def test_a_changed_filter_keeps_deliveries_and_serves_the_new_one(swarm: MemorySwarm) -> None:
    service, other = swarm.peers[0].service, swarm.peers[1].service
    service.subscriptions.add(wanted("price > 8"), "mine")
    assert await service.subscriptions.wait_active("mine", 5)
    reader = service.subscriptions.reader("mine", None, nothing)
    other.publisher.publish(quote(9))
    await until(lambda: service.subscriptions.shown("mine").retained == 1)
    service.subscriptions.change("mine", wanted("price < 8", retain_max=7))
    assert await service.subscriptions.wait_active("mine", 5)
    other.publisher.publish(quote(9))
    other.publisher.publish(quote(7))
    await until(lambda: service.subscriptions.shown("mine").retained == 2)
    assert prices(reader.take(10).items) == [9, 7]
    assert service.subscriptions.shown("mine").retain_max == 7
    assert service.subscriptions.shown("mine").idle_s == 300


async def test_wrong_subscriptions_are_refused(swarm: MemorySwarm) -> None:
    service = swarm.peers[0].service
    for filter_, position in (("price >", 7), ("nothing = 1", 0), ("price > 8 AND price < 7", 14)):
        with pytest.raises(FilterError) as caught:
            service.subscriptions.add(wanted(filter_))
        assert caught.value.position == position
    for wrong in (NewSubscription(), NewSubscription(xpath="/a")):
        with pytest.raises(InvalidSubscription):
            service.subscriptions.add(wrong)
    for id_ in ("", "a b", "a#1", "-a", "x" * 65, "ä"):
        with pytest.raises(InvalidSubscription):
            service.subscriptions.add(wanted(), id_)
    for call in (service.subscriptions.remove, service.subscriptions.shown):
        with pytest.raises(UnknownSubscription):
            call("nobody")
    assert len(service.subscriptions) == 0


async def test_a_removed_subscription_ends_its_readers_and_waiters(swarm: MemorySwarm) -> None:
    late = swarm.add(join=False)
    late.service.subscriptions.add(wanted(), "mine")
    waiting = asyncio.create_task(late.service.subscriptions.wait_active("mine", 60))
    reader = late.service.subscriptions.reader("mine", None, nothing)
    await asyncio.sleep(0)
    late.service.subscriptions.remove("mine")
    assert not await waiting
    assert reader.closed


async def test_waiting_for_a_subscription_that_cannot_stand_ends_in_time(swarm: MemorySwarm) -> None:
    late = swarm.add(join=False)
    shown = late.service.subscriptions.add(wanted())
    assert not await late.service.subscriptions.wait_active(shown.id, 0.01)
    assert late.service.subscriptions.shown(shown.id).state == "joining"
    swarm.join(late)
    assert await late.service.subscriptions.wait_active(shown.id, 5)
    assert late.service.subscriptions.shown(shown.id).state == "active"


async def test_there_are_only_so_many_subscriptions() -> None:
    swarm = MemorySwarm()
    service = swarm.add(ServiceConfig(subscriptions_max=2)).service
    for _ in range(2):
        service.subscriptions.add(wanted())
    with pytest.raises(TooManySubscriptions):
        service.subscriptions.add(wanted())
    swarm.close()


class Store:
    def __init__(self) -> None:
        self.records: dict[str, SubscriptionRecord] = {}

    def subscription_changed(self, record: SubscriptionRecord) -> None:
        self.records[record.id] = record

    def subscription_removed(self, id_: str) -> None:
        del self.records[id_]


async def test_subscriptions_survive_a_restart_but_not_those_of_a_connection() -> None:
    store = Store()
    swarm = MemorySwarm()
    service = swarm.add(store=store).service
    service.subscriptions.add(wanted("price > 1", idle_s=None), "kept")
    service.subscriptions.add(wanted("price > 1"), "removed")
    service.subscriptions.add(wanted("price > 1"), "passing", lasting=False)
    service.subscriptions.change("kept", wanted("price > 2"))
    service.subscriptions.remove("removed")
    service.subscriptions.remove("passing")
    swarm.close()
    assert store.records == {"kept": SubscriptionRecord("kept", "price > 2", idle_s=None)}
    again = MemorySwarm()
    living = again.add(store=store, join=False)
    bad = SubscriptionRecord("bad", "no such filter")
    assert living.service.subscriptions.restore([*store.records.values(), bad]) == ["bad"]
    assert living.service.subscriptions.restore(store.records.values()) == []
    again.join(living)
    assert await living.service.subscriptions.wait_active("kept", 5)
    again.close()


async def test_a_cursor_of_the_life_before_has_expired() -> None:
    cursors: list[str] = []
    for _ in range(2):
        swarm = MemorySwarm()
        service = swarm.add().service
        await swarm.ready()
        service.subscriptions.restore([SubscriptionRecord("kept", "TRUE")])
        service.publisher.publish(quote())
        await until(lambda service=service: service.subscriptions.shown("kept").retained)  # type: ignore[misc]
        if cursors:
            with pytest.raises(CursorExpired):
                service.subscriptions.reader("kept", cursors[0], nothing)
        cursors.append(service.subscriptions.shown("kept").cursor)
        swarm.close()
    assert cursors == sorted(cursors)


async def test_idle_subscriptions_are_removed_unless_somebody_reads() -> None:
    swarm = MemorySwarm()
    living = swarm.add()
    service = living.service
    await swarm.ready()
    lost: list[str] = []
    living.driver.attach([Losses(lost)])
    service.subscriptions.add(wanted(idle_s=1), "idle")
    service.subscriptions.add(wanted(idle_s=1), "read")
    service.subscriptions.add(wanted(idle_s=None), "for-ever")
    service.subscriptions.reader("read", None, nothing)
    published = service.publisher.publish(quote())
    for held in service.subscriptions._held.values():
        held.deliveries.touched_ms -= 2_000
    service._sweep()
    assert [shown.id for shown in service.subscriptions.all()] == ["read", "for-ever"]
    assert lost == [published.id]
    swarm.close()


class Losses:
    """A sink that remembers which events a subscriber has lost."""

    def __init__(self, lost: list[str]) -> None:
        self._lost = lost

    def on_active(self, now_ms: int, effect: object) -> None: ...
    def on_deliver(self, now_ms: int, effect: object) -> None: ...
    def on_reception(self, now_ms: int, effect: object, size: int) -> None: ...

    def on_report(self, now_ms: int, effect: Report) -> None:
        if isinstance(effect.fact, Dropped) and effect.fact.reason == "subscriber":
            self._lost.append(effect.fact.event_id)


async def test_an_absent_reader_loses_its_oldest_deliveries_and_they_are_counted() -> None:
    swarm = MemorySwarm()
    living = swarm.add()
    await swarm.ready()
    lost: list[str] = []
    living.driver.attach([Losses(lost)])
    living.service.subscriptions.add(wanted(retain_max=3), "mine")
    assert await living.service.subscriptions.wait_active("mine", 5)
    published = [living.service.publisher.publish(quote(price)).id for price in range(8)]
    await until(lambda: living.service.subscriptions.shown("mine").retained == 3)
    assert lost == published[:5]
    swarm.close()


# --- publishing -------------------------------------------------------------------------------------------------------


async def test_a_repeated_id_gets_the_first_answer_and_publishes_nothing(swarm: MemorySwarm) -> None:
    service = swarm.peers[0].service
    service.subscriptions.add(wanted(), "mine")
    assert await service.subscriptions.wait_active("mine", 5)
    first = service.publisher.publish(quote(id="once"))
    again = service.publisher.publish(quote(9, id="once"))
    assert not first.repeated
    assert again == (first.id, True)
    last = service.publisher.publish(quote(id="twice"))
    await until(lambda: service.subscriptions.shown("mine").cursor.endswith("2"))
    items = service.subscriptions.reader("mine", None, nothing).take(10).items
    assert [item.event_id for item in items] == [first.id, last.id]


@pytest.mark.parametrize(
    "event",
    [
        NewEvent({"unknown": 1}),
        NewEvent({"price": "8"}),
        NewEvent({"price": True}),
        NewEvent({"symbol": 1}),
        NewEvent({"symbol": "x" * 1025}),
        NewEvent({"symbol": "ä" * 513}),
        NewEvent({"price": float("inf")}),
        NewEvent({"price": float("nan")}),
        NewEvent({"price": 2**53}),
        NewEvent({"price": 10**400}),
        NewEvent({f"a{n}": 1 for n in range(33)}),
        NewEvent({"price": 1}, payload=1, payload_base64="AAAA"),
        NewEvent({"price": 1}, payload_base64="not base64"),
        NewEvent({"price": 1}, payload_base64="AAA"),
        NewEvent({"price": 1}, payload=2**64),
        NewEvent({"price": 1}, payload={"deep": nested(70)}),
        NewEvent({"price": 1}, payload="\ud800"),
    ],
    ids=repr,
)
async def test_events_that_break_the_rules_are_refused(event: NewEvent) -> None:
    swarm = MemorySwarm()
    service = swarm.add().service
    await swarm.ready()
    with pytest.raises(InvalidEvent):
        service.publisher.publish(event)
    swarm.close()


async def test_an_event_has_a_greatest_size(swarm: MemorySwarm) -> None:
    service = swarm.peers[0].service
    service.publisher.publish(quote(payload="x" * 65_000))
    with pytest.raises(EventTooLarge):
        service.publisher.publish(quote(payload="x" * 65_536))


async def test_what_is_published_arrives_as_it_was(swarm: MemorySwarm) -> None:
    service, other = swarm.peers[0].service, swarm.peers[2].service
    service.subscriptions.add(wanted(), "mine")
    assert await service.subscriptions.wait_active("mine", 5)
    payloads = [None, 1, 1.5, "x", True, [1, {"a": None}], {"a": [1]}, 2**63, ""]
    for payload in payloads:
        other.publisher.publish(quote(payload=payload, content_type="text/x", headers={"k": "v"}, ttl_s=5))
    other.publisher.publish(quote(payload_base64="AAEC"))
    await until(lambda: service.subscriptions.shown("mine").retained == len(payloads) + 1)
    bodies = [decode_body(item.body) for item in service.subscriptions.reader("mine", None, nothing).take(100).items]
    assert sorted(repr(body.payload) for body in bodies) == sorted(repr(p) for p in [*payloads, b"\0\1\2"])
    assert {(body.content_type, body.headers.get("k")) for body in bodies} == {("text/x", "v"), ("", None)}


async def test_who_does_not_stand_publishes_nothing(swarm: MemorySwarm) -> None:
    late = swarm.add(join=False)
    with pytest.raises(NotReady) as caught:
        late.service.publisher.publish(quote())
    assert caught.value.retry_after > 0
    swarm.join(late)
    assert await late.service.wait_ready(5)
    late.service.publisher.publish(quote())
    late.driver.step(Leave())
    with pytest.raises(NotReady):
        late.service.publisher.publish(quote())


async def test_publishers_are_pushed_back_by_rate_and_by_queues() -> None:
    swarm = MemorySwarm()
    living = swarm.add(ServiceConfig(publish_rate=0.5, publish_burst=2))
    await swarm.ready()
    for _ in range(2):
        living.service.publisher.publish(quote())
    with pytest.raises(PushedBack) as caught:
        living.service.publisher.publish(quote())
    assert 1 < caught.value.retry_after <= 2
    queued = [0]
    config = ServiceConfig(queue_events_max=10)
    jammed = Service(living.driver, living.clock, About(overlay="broadcast"), config, queued=lambda: queued[0])
    jammed.publisher.publish(quote())
    queued[0] = 11
    with pytest.raises(PushedBack):
        jammed.publisher.publish(quote())
    swarm.close()


async def test_publishers_are_pushed_back_while_the_overlay_can_remember_no_more() -> None:
    clock, steps = ManualClock(), []
    me = Address("01", 1, PEER_SLOT, "memory:1")
    config = PeerConfig(seen_max=10, membership=MembershipConfig(begin_after_ms=0))
    peer = Peer(me, registry.kind("broadcast"), registry.parameters("broadcast"), STOCKS, config, Random(1))
    driver = Driver(peer, Nowhere(), clock)
    service = Service(driver, clock, About(overlay="broadcast"))
    service.publisher.listeners.append(lambda now_ms, event, attributes: steps.append(event.id))
    driver.attach([service])
    driver.step(Join())
    clock.advance(1_000)
    for _ in range(9):
        service.publisher.publish(quote())
    with pytest.raises(PushedBack) as caught:
        service.publisher.publish(quote())
    assert caught.value.retry_after > 0
    assert len(steps) == 9, "nothing was published"
    clock.advance(2 * KEEP_MS)
    service.publisher.publish(quote())  # what is remembered goes with time, not only with new events


class Nowhere:
    """A network for somebody who is alone."""

    def send(self, slot: int, to: tuple[Address, ...], message: Message) -> None: ...


async def test_listeners_are_told_of_events_and_subscriptions(swarm: MemorySwarm) -> None:
    service = swarm.peers[0].service
    told: list[Any] = []
    service.publisher.listeners.append(lambda now_ms, event, attributes: told.append((event.id, attributes)))
    service.subscriptions.listeners.append(
        lambda now_ms, change, id_, wanted: told.append((change, id_, wanted.filter))
    )
    service.subscriptions.add(wanted("price > 1"), "mine")
    service.subscriptions.change("mine", wanted("price > 2"))
    service.subscriptions.change("mine", wanted("price > 2", retain_s=3))
    id_ = service.publisher.publish(quote()).id
    service.subscriptions.remove("mine")
    assert told == [
        ("added", "mine", "price > 1"),
        ("updated", "mine", "price > 2"),
        (id_, {"symbol": "OTE", "price": 8.5}),
        ("removed", "mine", None),
    ]


# --- the peer ---------------------------------------------------------------------------------------------------------


async def test_the_peer_tells_about_itself(swarm: MemorySwarm) -> None:
    service = swarm.peers[0].service
    shown = service.peer()
    assert (shown.id, shown.name, shown.overlay, shown.ready) == ("00000001", "peer-1", "broadcast", True)
    assert shown.schema_version == 5
    assert len(shown.participants) == 1
    assert 0 <= shown.settled_ms <= shown.uptime_s * 1000 + 1


async def test_links_are_shown_by_kind(swarm: MemorySwarm) -> None:
    await until(lambda: all(len(living.service.links().links.get("random", ())) == 2 for living in swarm.peers))
    shown = swarm.peers[0].service.links()
    assert {link.peer for link in shown.links["random"]} == {"00000002", "00000003"}


async def test_the_settled_time_starts_anew_with_a_change(swarm: MemorySwarm) -> None:
    service = swarm.peers[0].service
    await until(lambda: service.settled_ms > 60)
    swarm.add()
    await until(lambda: service.settled_ms < 50)


async def test_appended_attributes_reach_every_peer(swarm: MemorySwarm) -> None:
    first, _, third = (living.service for living in swarm.peers)
    told: list[int] = []
    third.on_schema.append(lambda now_ms, schema: told.append(schema.version))
    assert first.append_schema([{"name": "volume", "type": "int", "min": 0, "max": 9}]).version == 6
    await until(lambda: third.schema.version == 6)
    assert told == [6]
    third.subscriptions.add(wanted("volume > 3"), "mine")
    assert await third.subscriptions.wait_active("mine", 5)
    first.publisher.publish(NewEvent({"volume": 4}))
    await until(lambda: third.subscriptions.shown("mine").retained == 1)


@pytest.mark.parametrize(
    "attributes",
    [
        [],
        [{}],
        [{"name": "price", "type": "int", "min": 0, "max": 1}],
        [{"name": "a", "type": "date"}],
        [{"name": "a", "type": "int", "min": 0, "max": 10**400}],
        [{"name": "a", "type": "float", "min": "0", "max": 1, "precision": 1}],
        [{"name": 1, "type": "int"}],
        {"a": 1},
        {f"a{n}": {"type": "bool"} for n in range(200)},
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_attributes_that_cannot_be_appended_are_refused(attributes: Any) -> None:
    swarm = MemorySwarm()
    service = swarm.add().service
    with pytest.raises(InvalidSchema):
        service.append_schema(attributes)
    assert service.schema.version == 5
    swarm.close()
