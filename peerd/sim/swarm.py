"""A simulated swarm: peers that come and go, subscriptions, publications, faults, and when it has converged.

This is what scenarios and tests steer. The peers are the real ones (`protocols/peer.py`); everything random is drawn
from streams of the one seed, each with its own purpose, so that adding a fault does not change the workload.
"""

from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from random import Random
from typing import Final, Literal

import msgspec

from peerd import registry
from peerd.sim.engine import Engine, Node
from peerd.sim.invariants import violations
from peerd.sim.network import NetworkConfig
from peerd.sim.oracle import Oracle
from peerd.sim.recorder import Recorder, Recording
from peerd.sim.workloads import Interest
from peerd.sim.workloads.workload import Document, understood
from peerd.trace import NOTHING, Wanted
from peerd.wire import Codec
from protocols.model.descriptor import Descriptor
from protocols.model.event import Attributes, Event
from protocols.model.filter import Matcher
from protocols.model.ids import PEER_SLOT, Address, endpoint
from protocols.model.schema import Schema
from protocols.overlay import Corruptible, Input, Join, Leave, PeerLost, Publish, Sampled
from protocols.peer import AddSubscription, ChangeSubscription, Peer, PeerConfig, RemoveSubscription, everything

EPOCH_MS: Final = 1_767_225_600_000
"""Virtual time 0 as wall time in records: 2026-01-01T00:00:00Z."""
CALM_CYCLES: Final = 5
"""Converged means that the invariants held for so many consecutive cycles (specification, section 1)."""
CYCLE_MS: Final = 1_000
ORACLE_SAMPLE: Final = 20
"""Participants in one sample of the oracle: as many as a view of CYCLON holds."""
ORACLE_PERIOD_MS: Final = 10_000
TRIES: Final = 4
"""How often per node that is drawn, before all are looked at: enough unless most do not fit."""

Maintenance = Literal["protocol", "oracle"]


class SwarmConfig(msgspec.Struct, frozen=True, kw_only=True):
    overlay: str
    schema: Schema
    parameters: dict[str, str] = {}
    seed: int = 0
    network: NetworkConfig = NetworkConfig()
    peer: PeerConfig = PeerConfig()
    liveness: Maintenance = "protocol"
    sampling: Maintenance = "protocol"
    uploads: tuple[float, ...] = ()
    """Upload budgets: each peer gets one of them, with equal chances. Empty: no limits."""
    exact_boxes: bool = False
    """The boxes of the interests decide, and no filter is compiled: for large swarms with events on the grid."""


class Swarm:
    def __init__(self, config: SwarmConfig, recording: Recording | None = None) -> None:
        self.config = config
        self.kind = registry.kind(config.overlay)
        self.parameters = registry.parameters(config.overlay, config.parameters)
        self.oracle = Oracle()
        self.recorder: Recorder | None = None
        self._record_ms = CYCLE_MS
        if recording is not None:
            self._record_ms = recording.every_s * CYCLE_MS
            self.recorder = Recorder(self.oracle, recording, self.kind.name, config.schema, EPOCH_MS)
        codec = Codec(registry.messages(config.overlay))
        self.engine = Engine(codec, config.network, self.stream("network"), self.recorder or self.oracle)
        self.rng = self.stream("swarm")
        self._uploads = self.stream("uploads")
        self.live: dict[int, Node] = {}
        self.interests: dict[int, dict[str, Interest]] = {}
        self._cut_off: list[Node] = []
        self._root: Node | None = None
        self._identities = 0
        self._subscriptions = 0
        membership = msgspec.structs.replace(
            config.peer.membership,
            sampling=config.sampling == "protocol",
            liveness=config.liveness == "protocol",
        )
        self._peer_config = msgspec.structs.replace(config.peer, membership=membership)
        if config.sampling == "oracle":
            self.engine.at(ORACLE_PERIOD_MS, self._sample_everyone)
        if self.recorder is not None:
            self.engine.meters = {}
            self.engine.at(self._record_ms, self._record_cycle)

    def stream(self, purpose: str) -> Random:
        """A source of randomness of its own for each purpose."""
        return Random(f"{self.config.seed}/{purpose}")

    @property
    def now_ms(self) -> int:
        return self.engine.now_ms

    # --- peers --------------------------------------------------------------------------------------------------------

    def start(self, interests: Iterable[Interest] = (), contacts: Iterable[Node] | None = None) -> Node:
        """Start a peer with these subscriptions; it joins through the given contacts, by default three living peers."""
        self._identities += 1
        id_ = sha256(f"{self.config.seed}/{self._identities}".encode()).hexdigest()[:32]
        address = Address(id_, EPOCH_MS + self.now_ms, PEER_SLOT, f"peer-{self._identities}.sim:6470")
        return self._start(address, list(interests), contacts)

    def _start(self, address: Address, interests: list[Interest], contacts: Iterable[Node] | None) -> Node:
        rng = Random(f"{self.config.seed}/peer/{len(self.engine.nodes)}")
        chosen = self._contacts() if contacts is None else list(contacts)
        peer = Peer(address, self.kind, self.parameters, self.config.schema, self._config_of_peer(), rng)
        node = self.engine.add(address, peer)
        self.live[node.index] = node
        self.interests[node.index] = {}
        self.oracle.peer_started(node)
        if self.recorder is not None:
            self.recorder.on_started(self.now_ms, node, msgspec.to_builtins(self.parameters))
        for interest in interests:
            self.subscribe(node, interest)
        self.engine.step(node, Join(tuple(endpoint(contact.address.at) for contact in chosen)))
        if self.config.sampling == "oracle":
            self._sample(node)
        return node

    def _config_of_peer(self) -> PeerConfig:
        if not self.config.uploads:
            return self._peer_config
        return msgspec.structs.replace(self._peer_config, upload=self._uploads.choice(self.config.uploads))

    def start_many(self, interests: list[list[Interest]], every_ms: float) -> None:
        """Start a peer for each list of interests, one after the other without waiting for each."""
        for number, mine in enumerate(interests):
            self.engine.at(self.now_ms + int(number * every_ms), partial(self.start, mine))

    def _contacts(self) -> list[Node]:
        if not self.live:
            return []
        return [next(iter(self.live.values())), *self._draw(2, _is_living)]

    def _draw(self, count: int, fits: Callable[[Node], bool]) -> list[Node]:
        """Distinct nodes that fit, at random: by trying, since looking at all of them for each newcomer would be
        quadratic; only where that does not find enough, by looking."""
        nodes, found = self.engine.nodes, dict[int, Node]()
        for _ in range(TRIES * count):
            node = nodes[self.rng.randrange(len(nodes))]
            if node.index in self.live and fits(node):
                found[node.index] = node
                if len(found) == count:
                    return list(found.values())
        fitting = [node for node in self.live.values() if fits(node)]
        return self.rng.sample(fitting, min(count, len(fitting)))

    def leave(self, node: Node) -> None:
        """Leave gracefully; the process ends when the peer says that it has left."""
        self._end(node)
        if self.recorder is not None:
            self.recorder.on_leaving(self.now_ms, node)
        self.engine.step(node, Leave())
        self._stop_when_left(node)

    def _stop_when_left(self, node: Node) -> None:
        if node.index in self.oracle.left:
            self._record_traffic(node)
            self.engine.stop(node)
        elif node.alive:
            self.engine.at(self.now_ms + 100, lambda: self._stop_when_left(node))

    def crash(self, node: Node, silent: bool = False) -> None:
        """End a peer without a word; `silent`: its host is gone too, so that nobody refuses connections."""
        self._fault("crash", [node], silent=str(silent).lower())
        self._record_traffic(node)
        self._end(node)
        self.engine.stop(node, silent)
        if self.config.liveness == "oracle":
            for other in self.live.values():
                self.engine.step(other, PeerLost(node.address))

    def _end(self, node: Node) -> None:
        del self.live[node.index]
        self.oracle.peer_ended(self.now_ms, node)

    def restart(self, node: Node, keep_state: bool = True, contacts: Iterable[Node] | None = None) -> Node:
        """The next life of a peer that has ended, at the same endpoint: with its identity and subscriptions, or new.

        Like `start` it finds living peers by itself; the seed of a swarm is restarted with no contacts at all.
        """
        boot = max(node.address.boot + 1, EPOCH_MS + self.now_ms)
        if not keep_state:
            self._identities += 1
            id_ = sha256(f"{self.config.seed}/{self._identities}".encode()).hexdigest()[:32]
            return self._start(Address(id_, boot, PEER_SLOT, node.address.at), [], contacts)
        address = Address(node.address.peer, boot, PEER_SLOT, node.address.at)
        return self._start(address, list(self.interests[node.index].values()), contacts)

    # --- faults of the network ----------------------------------------------------------------------------------------

    def partition(self, sides: dict[int, int]) -> None:
        self._cut_off = [self.engine.nodes[index] for index, side in sides.items() if side]
        self._fault("partition", self._cut_off)
        self.engine.cut(sides)

    def heal(self) -> None:
        self._fault("heal", self._cut_off)  # the structure changes once more
        self.engine.heal()

    def _fault(self, name: str, nodes: list[Node], **detail: str) -> None:
        self.oracle.fault(self.now_ms)
        self._note(name, nodes, **detail)

    def _note(self, name: str, nodes: list[Node], **detail: str) -> None:
        if self.recorder is not None:
            for node in nodes:
                self.recorder.on_fault(self.now_ms, node, name, detail)

    def reset(self, a: Node, b: Node) -> None:
        self._fault("reset", [a, b])
        self.engine.reset(a, b)

    def corrupt(self, node: Node) -> None:
        """Make what the peer's participants know of the overlay wrong, where the overlay claims to stabilise."""
        self._fault("corrupt", [node])
        addresses = [
            overlay.descriptor().address for each in self.live.values() for overlay in each.peer.participants.values()
        ]
        for overlay in node.peer.participants.values():
            if isinstance(overlay, Corruptible):
                overlay.corrupt(self.rng, addresses)

    def calm(self) -> None:
        """From now on the links lose nothing."""
        self.oracle.fault(self.now_ms)  # what was lost until now is missed until the swarm has converged
        if self.recorder is not None:
            self.recorder.on_calm(self.now_ms)
        self.engine.calm()

    def stall(self, node: Node, for_ms: int) -> None:
        """Freeze a peer for a while. That puts nothing at risk: a slow peer is not a dead peer."""
        self._note("stall", [node], for_ms=str(for_ms))
        self.engine.stall(node, for_ms)

    # --- subscriptions and events -------------------------------------------------------------------------------------

    def subscribe(self, node: Node, interest: Interest) -> str:
        self._subscriptions += 1
        id_ = f"s{self._subscriptions}"
        matcher = self._subscribed(node, id_, interest, "added")
        self.engine.step(node, AddSubscription(id_, interest.filter, interest.boxes, matcher, interest.pattern))
        return id_

    def update(self, node: Node, id_: str, interest: Interest) -> None:
        matcher = self._subscribed(node, id_, interest, "updated")
        self.engine.step(node, ChangeSubscription(id_, interest.filter, interest.boxes, matcher, interest.pattern))

    def _subscribed(self, node: Node, id_: str, interest: Interest, change: str) -> Matcher:
        """Note what the subscription is from now on; the matcher is the filter's own where boxes are not exact."""
        self.interests[node.index][id_] = interest
        matcher: Matcher = everything
        wanted = Wanted(interest.filter, interest.boxes, coarse=bool(interest.pattern))
        if not self.config.exact_boxes and not interest.pattern:
            compiled = understood(interest.filter, node.peer.schema)
            matcher, wanted = compiled.matcher, Wanted.by(compiled)
        self.oracle.subscribed(self.now_ms, node, id_, interest.boxes, matcher, interest.pattern)
        if self.recorder is not None:
            self.recorder.on_subscription(self.now_ms, node, change, id_, wanted)
        return matcher

    def unsubscribe(self, node: Node, id_: str) -> None:
        del self.interests[node.index][id_]
        self.oracle.unsubscribed(self.now_ms, node, id_)
        if self.recorder is not None:
            self.recorder.on_subscription(self.now_ms, node, "removed", id_, NOTHING)
        self.engine.step(node, RemoveSubscription(id_))

    def publish(self, what: Attributes | Document, node: Node | None = None) -> Event | None:
        """Publish through a peer, by default any that is ready; None if there is none."""
        if node is None:
            drawn = self._draw(1, _is_open)
            if not drawn:
                return None
            node = drawn[0]
        now_us = (EPOCH_MS + self.now_ms) * 1000
        if isinstance(what, Document):
            attributes = what.attributes
            event = node.peer.new_event(attributes, now_us, payload=what.xml, content_type="application/xml")
        else:
            attributes = what
            event = node.peer.new_event(attributes, now_us)
        self.oracle.published(self.now_ms, event, attributes)
        if self.recorder is not None:
            self.recorder.on_publish(self.now_ms, node, event, attributes)
        self.engine.step(node, Publish(event))
        return event

    def root(self) -> Node | None:
        """The peer at the top of a tree, if the overlay is one: it has children there and no parent."""
        if self._root is None or self._root.index not in self.live or not _is_root(self._root):
            self._root = next((node for node in self.live.values() if _is_root(node)), None)
        return self._root

    # --- time ---------------------------------------------------------------------------------------------------------

    def run(self, for_ms: int) -> None:
        self.engine.run_until(self.now_ms + for_ms)

    def run_until(self, condition: Callable[[], bool], limit_ms: int, every_ms: int = 100) -> bool:
        """Let time pass until the condition holds; False if it does not within the limit."""
        end_ms = self.now_ms + limit_ms
        while not condition():
            if self.now_ms >= end_ms:
                return False
            self.run(every_ms)
        return True

    def all_active(self) -> bool:
        """Whether every living peer is ready and every subscription stands in the overlay."""
        return not self.oracle.not_ready and not self.oracle.inactive

    def lasting_violations(self) -> list[str]:
        """What is violated now and still in a cycle's time: a message under way is not a violation."""
        before = set(violations(self))
        self.run(CYCLE_MS)
        return [line for line in violations(self) if line in before]

    def converge(self, limit_ms: int) -> float | None:
        """Wait until everything is active and no violation has lasted for a cycle, `CALM_CYCLES` times in a row.

        Returns after how many seconds that state began, or None if it does not within the limit.
        """
        start_ms, calm = self.now_ms, 0
        seen = set(violations(self))
        while calm < CALM_CYCLES:
            if self.now_ms - start_ms > limit_ms + CALM_CYCLES * CYCLE_MS:
                return None
            self.run(CYCLE_MS)
            before, seen = seen, set(violations(self))
            calm = calm + 1 if before.isdisjoint(seen) and self.all_active() else 0
        self.oracle.converged(self.now_ms)
        seconds = (self.now_ms - CALM_CYCLES * CYCLE_MS - start_ms) / 1000
        if self.recorder is not None:
            self.recorder.on_converged(self.now_ms, seconds)
        return seconds

    def _record_cycle(self) -> None:
        """Again and again each living peer writes that it lives, and what it has sent and received."""
        assert self.recorder is not None
        for node in self.live.values():
            self.recorder.on_alive(self.now_ms, node)
        for index in list(self.engine.meters or ()):
            self._record_traffic(self.engine.nodes[index])
        self.engine.at(self.now_ms + self._record_ms, self._record_cycle)

    def _record_traffic(self, node: Node) -> None:
        """Write what a peer has sent and received since the last time."""
        if self.recorder is not None and self.engine.meters is not None:
            self.recorder.on_traffic(self.now_ms, node, self.engine.meters.pop(node.index, {}))

    def close(self) -> None:
        """The run is over: write what is left to write."""
        if self.recorder is not None:
            for index in list(self.engine.meters or ()):
                self._record_traffic(self.engine.nodes[index])
            if self._record_ms > CYCLE_MS:  # or they would seem to have fallen silent before the end
                for node in self.live.values():
                    self.recorder.on_alive(self.now_ms, node)
            self.recorder.on_end(self.now_ms)
            self.recorder.close()

    # --- the oracle's sampling ----------------------------------------------------------------------------------------

    def _sample_everyone(self) -> None:
        for node in list(self.live.values()):
            self._sample(node)
        self.engine.at(self.now_ms + ORACLE_PERIOD_MS, self._sample_everyone)

    def _sample(self, node: Node) -> None:
        descriptors: list[Descriptor] = []
        for other in self._draw(ORACLE_SAMPLE, _is_ready):
            if other is not node:
                descriptors += (overlay.descriptor() for overlay in other.peer.participants.values())
        item: Input = Sampled(tuple(descriptors))
        self.engine.step(node, item)


def _is_living(node: Node) -> bool:
    return True


def _is_ready(node: Node) -> bool:
    return node.peer.ready


def _is_open(node: Node) -> bool:
    return node.open and node.peer.ready


def _is_root(node: Node) -> bool:
    kinds = [link.kind for overlay in node.peer.participants.values() for link in overlay.links()]
    return any("child" in kind for kind in kinds) and not any("parent" in kind for kind in kinds)
