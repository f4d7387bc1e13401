"""Whatever a remote peer sends, a peer neither falls nor grows without bound, says what it refused, and goes on."""

from collections import deque
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest

from peerd.registry import kind, messages
from peerd.sim.engine import Node
from peerd.wire import BadMessage, Codec
from protocols.membership import Gone
from protocols.model.bounds import SLOT_MAX
from protocols.model.event import Body, Event, encode_body
from protocols.model.ids import PEER_SLOT, Address, of_peer
from protocols.overlay import Effect, Publish, Received, Rejected, Report, Send
from protocols.peer import MESSAGES, PeerConfig
from tests.conformance.forger import Forger
from tests.conformance.support import Stage, seeds, sizes

SLOTS = (PEER_SLOT, PEER_SLOT, 0, 0, 0, 1, 99, SLOT_MAX)


def victims(stage: Stage, count: int) -> list[Node]:
    return stage.rng.sample(stage.living(), count)


def serves_again(stage: Stage) -> None:
    """The swarm converges, and what is owed from then on arrives."""
    stage.run(1_000)
    stage.converge()
    stage.publish(60, 3_000)
    stage.run(3_000)
    stage.finish(least_expected=10)


def troubled(overlay: str, peers: int, seed: int) -> Stage:
    """A swarm in which something has been published and somebody has died, so that there is something to lie about."""
    stage = Stage(overlay, seed)
    stage.gather(peers)
    stage.publish(10, 500)
    stage.swarm.crash(stage.living()[-1])
    stage.run(1_000)
    return stage


@sizes([(12, 1), (20, 2), (20, 3)])
def test_random_messages_from_anybody(overlay: str, peers: int, seed: int) -> None:
    stage = troubled(overlay, peers, seed)
    forger = Forger(stage.swarm.stream("forger"), stage.swarm)
    for _ in range(20):
        for node in victims(stage, 4):
            for type_ in messages(overlay):
                item = Received(forger.sender(), stage.rng.choice(SLOTS), forger.message(type_))
                stage.swarm.engine.step(node, item)
        stage.run(stage.rng.randrange(1, 300))
    serves_again(stage)


@sizes([(12, 1), (20, 2), (20, 3)])
def test_random_messages_from_neighbours(overlay: str, peers: int, seed: int) -> None:
    """In the name of those to whom it is linked, and in its own."""
    stage = troubled(overlay, peers, seed)
    forger = Forger(stage.swarm.stream("forger"), stage.swarm)
    for _ in range(20):
        for node in victims(stage, 4):
            slot = stage.rng.choice(list(node.peer.participants))
            own = node.peer.participants[slot].descriptor().address
            known = [link.to for link in node.peer.participants[slot].links()] or [own]
            for type_ in messages(overlay):
                sender = stage.rng.choice((stage.rng.choice(known), of_peer(stage.rng.choice(known)), own))
                at = PEER_SLOT if type_ in MESSAGES else slot
                stage.swarm.engine.step(node, Received(sender, at, forger.message(type_)))
        stage.run(stage.rng.randrange(1, 300))
    serves_again(stage)


@sizes([(12, 1), (20, 2), (20, 3)])
def test_a_joining_peer_is_lied_to(overlay: str, peers: int, seed: int) -> None:
    stage = troubled(overlay, peers, seed)
    forger = Forger(stage.swarm.stream("forger"), stage.swarm)
    joiner = stage.swarm.start(stage.interests(2))
    for _ in range(10):
        for type_ in messages(overlay):
            item = Received(forger.sender(), stage.rng.choice(SLOTS), forger.message(type_))
            stage.swarm.engine.step(joiner, item)
        stage.run(20)
    stage.all_stand()
    serves_again(stage)


@sizes([(12, 1), (20, 2)])
def test_random_bytes_are_refused(overlay: str, peers: int, seed: int) -> None:
    """What still decodes after its bytes were changed is handed in like everything else that decodes."""
    stage = troubled(overlay, peers, seed)
    codec, rng = Codec(messages(overlay)), Random(seed)
    forger = Forger(stage.swarm.stream("forger"), stage.swarm)
    refused = 0
    for round_ in range(300):
        encoded = bytearray(codec.encode(forger.message(rng.choice(messages(overlay)))))
        for _ in range(rng.randrange(1, 4)):
            encoded[rng.randrange(len(encoded))] = rng.randrange(256)
        for data in (bytes(encoded), rng.randbytes(rng.randrange(1, 60))):
            try:
                message = codec.decode(data)
            except BadMessage:
                refused += 1
                continue
            node = rng.choice(stage.living())
            stage.swarm.engine.step(node, Received(forger.sender(), rng.choice(SLOTS), message))
        if round_ % 10 == 0:
            stage.run(50)
    assert refused > 300
    serves_again(stage)


@sizes([(12, 1), (20, 2)])
def test_events_that_are_not_what_they_say(overlay: str, peers: int, seed: int) -> None:
    """A publisher that does not validate: a body of other types, no body at all, a point that is somewhere else."""
    stage = Stage(overlay, seed)
    stage.gather(peers, each=2)
    node = stage.living()[0]
    schema = stage.workload.schema
    wrong: list[Any] = ["text", 7, -1.5, True]
    for number, attributes in enumerate(stage.events(60)):
        swapped = {name: stage.rng.choice(wrong) for name in attributes}
        bodies = [encode_body(Body(swapped, 0)), b"", b"\xc1", stage.rng.randbytes(20)]
        points = [schema.point(attributes), msgspec.structs.replace(schema.point(attributes), numbers=())]
        event = Event(f"{node.address.peer}-1-{number}", stage.rng.choice(points), stage.rng.choice(bodies))
        stage.swarm.engine.at(stage.swarm.now_ms + 1, partial(stage.swarm.engine.step, node, Publish(event)))
        stage.run(100)
    assert stage.swarm.oracle.dropped.get("undecodable", 0) > 0
    stage.swarm.oracle.arrivals.clear()  # nothing can be said about what was nonsense
    serves_again(stage)


def evidence(effects: list[Effect], sender: Address, slot: int) -> bool:
    """Whether a step has answered `Gone` to the sender, or reported that it rejected something."""
    gone = Send(PEER_SLOT, (of_peer(sender),), Gone(slot))
    return gone in effects or any(isinstance(e, Report) and isinstance(e.fact, Rejected) for e in effects)


@seeds(1, 2, 3)
def test_bad_input_leaves_evidence(overlay: str, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.gather(8)
    node = stage.living()[3]
    forger = Forger(stage.swarm.stream("forger"), stage.swarm)
    now_ms, slot = stage.swarm.now_ms, next(iter(node.peer.participants))
    for type_ in messages(overlay):
        sender = forger.stranger(0)
        if type_ is not Gone:  # which is never answered, or two peers would say it to each other for ever
            effects = node.peer.handle(now_ms, Received(sender, 50, forger.message(type_)))
            assert evidence(effects, sender, 50), f"{type_.__name__} for a slot that does not exist"
        wrong_slot = slot if type_ in MESSAGES else PEER_SLOT
        effects = node.peer.handle(now_ms, Received(sender, wrong_slot, forger.message(type_)))
        assert evidence(effects, sender, wrong_slot), f"{type_.__name__} in slot {wrong_slot}"


@seeds(1, 2)
def test_a_slot_that_is_gone_is_mourned(overlay: str, seed: int) -> None:
    """Who is linked to a participant that its peer does not know any more learns of it, and mends."""
    stage = Stage(overlay, seed)
    stage.gather(12)
    node = stage.rng.choice(stage.living())
    slot, former = next(iter(node.peer.participants.items()))
    neighbours = [link.to for link in former.links() if link.to.peer != node.address.peer]
    assert neighbours
    for address in neighbours:
        other = next(n for n in stage.living() if n.address.peer == address.peer)
        told = of_peer(former.descriptor().address)
        stage.swarm.engine.step(other, Received(told, PEER_SLOT, Gone(slot)))
        left = [link.to for overlay_ in other.peer.participants.values() for link in overlay_.links()]
        assert former.descriptor().address not in left
    serves_again(stage)


# --- What a remote peer can fill --------------------------------------------------------------------------------------

SEEN_MAX = 500
CONTAINER_MAX = 1_024
"""No container has a greater capacity, once what a parameter allows to be larger is cut down to `SEEN_MAX`."""
MESSAGES_EACH = 2_400


def census(root: object) -> dict[str, int]:
    """How many elements each container has that is reachable from an object, by the way to it."""
    sizes: dict[str, int] = {}
    visited: dict[int, None] = {}
    frontier: list[tuple[str, Any]] = [("peer", root)]
    while frontier:
        path, value = frontier.pop()
        if id(value) in visited or isinstance(value, str | bytes | int | float | type(None) | type | Random):
            continue
        visited[id(value)] = None
        if isinstance(value, dict | list | set | deque | tuple):
            sizes[path] = max(sizes.get(path, 0), len(value))
            inner = [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
            frontier += [(f"{path}[]", each) for each in inner]
        else:
            frontier += [(f"{path}.{name}", getattr(value, name)) for name in _fields(value) if hasattr(value, name)]
    return sizes


def _fields(value: object) -> list[str]:
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    return [*slots, *getattr(value, "__dict__", {})]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_what_strangers_can_fill_has_a_capacity(overlay: str, seed: int) -> None:
    """Messages of every type by the thousand, each from somebody else, in a peer that stands and in one that joins."""
    defaults = msgspec.structs.asdict(kind(overlay).config())
    large = [name for name, value in defaults.items() if name.endswith("_max") and value > CONTAINER_MAX]
    settings = dict.fromkeys(large, str(SEEN_MAX))
    stage = Stage(overlay, seed, peer=PeerConfig(seen_max=SEEN_MAX), settings=settings)
    stage.gather(8)
    joiner = stage.swarm.start(stage.interests(1))
    forger = Forger(stage.swarm.stream("forger"), stage.swarm)
    for node in (stage.living()[2], joiner):
        now_ms, slot = stage.swarm.now_ms, next(iter(node.peer.participants))
        for type_ in messages(overlay):
            at = PEER_SLOT if type_ in MESSAGES else slot
            for number in range(MESSAGES_EACH):
                message = honest(forger.message(type_), sender := forger.stranger(at))
                node.peer.handle(now_ms + number // 50, Received(sender, at, message))
            now_ms += MESSAGES_EACH // 50
        too_large = {path: size for path, size in census(node.peer).items() if size > CONTAINER_MAX}
        assert too_large == {}


def honest(message: Any, sender: Address) -> Any:
    """The message with the sender's own address where a peer names itself, or it would be turned away at the door."""
    own = getattr(message, "own", None)
    if own is None:
        return message
    return msgspec.structs.replace(message, own=msgspec.structs.replace(own, address=of_peer(sender)))
