"""Attributes appended at several places at once: every peer ends with the same schema, and nothing owed is lost.

The rule is in `protocols/model/schema.py`, the messages are in `protocols/growth.py`.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from peerd.sim.engine import Node
from peerd.sim.network import NetworkConfig
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import workload
from protocols.growth import GAVE_WAY, TELL_EVERY, SchemaNews, read_schema, schema_news
from protocols.model.descriptor import PeerDescriptor
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import Attribute, Schema, SchemaError
from protocols.overlay import Control, Received, Rejected, Report, SchemaChanged, TimerFired
from protocols.parts.bootstrap import Hello
from protocols.peer import AppendAttributes
from tests.peer.scripted import ME, SCHEMA, Hosted, facts, sent

STOCKS = workload("stocks")
VOLUME = Attribute("volume", "int", 0, 1_000)
BROKER = Attribute("broker", "string")
ALERT = Attribute("alert", "bool")
AGREED_MS = 30_000
"""Three rounds of telling, and the flood before them takes well under a second."""


def swarm_of(peers: int, seed: int, overlay: str = "broadcast", **network: object) -> Swarm:
    config = SwarmConfig(
        overlay=overlay,
        schema=STOCKS.schema,
        seed=seed,
        network=NetworkConfig(**network),  # type: ignore[arg-type]
    )
    swarm = Swarm(config)
    interests = STOCKS.subscriptions(swarm.stream("subscriptions"), peers)
    swarm.start_many([[interest] for interest in interests], 50)
    swarm.run(peers * 50)
    assert swarm.converge(60_000) is not None
    return swarm


def append(swarm: Swarm, node: Node, *attributes: Attribute) -> None:
    swarm.engine.step(node, AppendAttributes(node.peer.schema.append(attributes)))


def schemas(swarm: Swarm) -> set[tuple[Attribute, ...]]:
    return {node.peer.schema.attributes for node in swarm.live.values()}


def agree(swarm: Swarm, *appended: Attribute) -> None:
    expected = (*STOCKS.schema.attributes, *appended)
    assert swarm.run_until(lambda: schemas(swarm) == {expected}, AGREED_MS), schemas(swarm)


def some(swarm: Swarm, *numbers: int) -> Sequence[Node]:
    living = list(swarm.live.values())
    return [living[number] for number in numbers]


# --- many peers, in the simulator -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("latency", ["constant:1", "uniform:5:400"])
def test_two_at_once(seed: int, latency: str) -> None:
    swarm = swarm_of(20, seed, latency=latency)
    one, other = some(swarm, 3, 17)
    append(swarm, one, VOLUME)
    append(swarm, other, BROKER)
    agree(swarm, BROKER, VOLUME)
    append(swarm, one, ALERT)
    agree(swarm, ALERT, BROKER, VOLUME)


@pytest.mark.parametrize("seed", range(3))
def test_one_name_twice(seed: int) -> None:
    """The same one stands everywhere, and every peer that had the other one says so."""
    swarm = swarm_of(20, seed, latency="uniform:5:400")
    told: dict[int, list[Control]] = {}
    on_report = swarm.oracle.on_report

    def watch(now_ms: float, node: Node, effect: Report) -> None:
        on_report(now_ms, node, effect)
        if isinstance(effect.fact, Control) and effect.fact.fact == GAVE_WAY:
            told.setdefault(node.index, []).append(effect.fact)

    swarm.oracle.on_report = watch  # type: ignore[method-assign, assignment]
    retyped = Attribute("volume", "string")
    one, other = some(swarm, 3, 17)
    append(swarm, one, VOLUME)
    append(swarm, other, retyped)
    agree(swarm, VOLUME)
    assert other.index in told and one.index not in told
    for [fact] in told.values():
        assert fact.detail["attribute"] == "volume"
        assert "int" in fact.detail["kept"] and "string" in fact.detail["given_up"]


@pytest.mark.parametrize("seed", range(2))
def test_on_two_sides_of_a_partition(seed: int) -> None:
    swarm = swarm_of(20, seed)
    left = some(swarm, *range(0, 20, 2))
    swarm.partition({node.index: 1 for node in left})
    swarm.run(30_000)
    append(swarm, left[0], VOLUME)
    append(swarm, some(swarm, 1)[0], BROKER)
    swarm.run(30_000)
    assert len(schemas(swarm)) == 2
    swarm.heal()
    assert swarm.converge(60_000) is not None
    agree(swarm, BROKER, VOLUME)


def test_whom_the_flood_has_missed_hears_of_it_later() -> None:
    swarm = swarm_of(20, 5, link="datagram", loss=0.4)
    one, other = some(swarm, 3, 17)
    append(swarm, one, VOLUME)
    append(swarm, other, BROKER)
    agree(swarm, BROKER, VOLUME)


def test_a_newcomer_learns_what_was_appended() -> None:
    swarm = swarm_of(10, 6)
    append(swarm, some(swarm, 3)[0], VOLUME)
    agree(swarm, VOLUME)
    assert swarm.start().peer.schema == STOCKS.schema
    agree(swarm, VOLUME)


# --- one peer ---------------------------------------------------------------------------------------------------------

OTHER = Address("other", 1, PEER_SLOT, "there:1")
Z = Attribute("z", "int", 0, 9)
A = Attribute("a", "string")


def hear(hosted: Hosted, schema: Schema, sender: Address = OTHER) -> list[Any]:
    return hosted.do(Received(sender, PEER_SLOT, schema_news(schema)))


def standing() -> Hosted:
    """A peer that knows one other."""
    hosted = Hosted()
    hosted.begin()
    own = PeerDescriptor(OTHER)
    hosted.do(Received(OTHER, PEER_SLOT, Hello(1, own, (), ME.at, False)))
    assert hosted.peer.membership.known() == [OTHER]
    return hosted


def told(effects: list[Any]) -> list[tuple[Address, Schema]]:
    return [(to, read_schema(message)) for to, message in sent(effects) if isinstance(message, SchemaNews)]


def test_what_is_appended_is_told() -> None:
    hosted = standing()
    longer = SCHEMA.append([Z])
    effects = hosted.do(AppendAttributes(longer))
    assert facts(effects) == [SchemaChanged(3)]
    assert [(to, schema.attributes) for to, schema in told(effects)] == [(OTHER, longer.attributes)]
    assert hosted.do(AppendAttributes(longer)) == [], "no news"
    with pytest.raises(SchemaError, match="does not begin"):
        hosted.do(AppendAttributes(Schema([Z])))


def test_news_are_answered_until_both_know_the_same() -> None:
    hosted = standing()
    hosted.do(AppendAttributes(SCHEMA.append([Z])))
    both = SCHEMA.append([A, Z])
    effects = hear(hosted, SCHEMA.append([A]))
    assert hosted.peer.schema == both
    assert [schema.names for _, schema in told(effects)] == [both.names] * 2, "everybody known, and the sender"
    assert hear(hosted, both) == []
    assert [schema.names for _, schema in told(hear(hosted, SCHEMA))] == [both.names], "who knows less is told"


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"{}", msgspec.json.encode(Schema([Z]).to_dict())])
def test_news_that_make_no_sense_change_nothing(raw: bytes) -> None:
    hosted = standing()
    effects = hosted.do(Received(OTHER, PEER_SLOT, SchemaNews((raw,))))
    [fact] = facts(effects)
    assert isinstance(fact, Rejected) and fact.sender == OTHER
    assert hosted.peer.schema == SCHEMA


def test_participants_are_made_for_the_beginning_whatever_was_appended() -> None:
    hosted = Hosted()
    hosted.do(AppendAttributes(SCHEMA.append([Z])))
    hosted.begin()
    assert hosted.made[0].schema == SCHEMA
    event = hosted.peer.new_event({"x": 1, "z": 5}, 0)
    assert event.point == SCHEMA.point({"x": 1})


def test_only_a_schema_that_has_grown_is_told_again() -> None:
    hosted = standing()
    hello = Received(OTHER, PEER_SLOT, Hello(1, PeerDescriptor(OTHER), (), ME.at, False))

    def rounds(count: int) -> int:
        news = 0
        for _ in range(count):
            hosted.do(hello)  # or it would be dropped from the view: it does not answer
            news += len(told(hosted.do(TimerFired(PEER_SLOT, "gossip"))))
        return news

    assert rounds(3 * TELL_EVERY) == 0
    hosted.do(AppendAttributes(SCHEMA.append([Z])))
    assert rounds(TELL_EVERY) == 1
