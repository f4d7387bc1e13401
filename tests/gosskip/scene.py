"""A swarm of GosSkip in which every place is known by name."""

from collections.abc import Iterable, Sequence
from typing import Any

from peerd.sim.engine import Node
from peerd.sim.invariants import violations
from peerd.sim.invariants.gosskip.places import in_order
from peerd.sim.network import NetworkConfig
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads.workload import Interest, interest_in, product
from protocols.gosskip.overlay import GosSkip
from protocols.gosskip.place import Place
from protocols.model.box import Box
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import Message
from protocols.peer import PeerConfig

NUMBERS = Schema.from_toml(
    "[attributes.x]\ntype = 'int'\nmin = 0\nmax = 999\n[attributes.y]\ntype = 'int'\nmax = 999\nmin = 0"
)


def address(name: str, slot: int = 0) -> Address:
    return Address(name, 1, slot, f"{name}:1")


def box(x: tuple[int, int] | None = None, y: tuple[int, int] | None = None) -> Box:
    """Both ends of a side belong to it; None leaves it open."""
    sides = {name: (lo, hi + 1) for name, side in (("x", x), ("y", y)) if side is not None for lo, hi in [side]}
    return product(NUMBERS, sides)


def descriptor(name: str, of: Box, version: int = 0) -> Descriptor:
    return Descriptor(address(name), of, version)


class Scene:
    """Peers with one box each, started in the order given, and left in peace until they have converged."""

    def __init__(
        self,
        boxes: Iterable[Box | None] = (),
        seed: int = 1,
        schema: Schema = NUMBERS,
        participants_max: int = 0,
        latency: str = "uniform:5:50",
        **settings: Any,
    ) -> None:
        self.schema = schema
        parameters = {key: str(value) for key, value in settings.items()}
        peer = PeerConfig(participants_max=participants_max)
        network = NetworkConfig(latency=latency)
        config = SwarmConfig(
            overlay="gosskip", schema=schema, seed=seed, parameters=parameters, peer=peer, network=network
        )
        self.swarm = Swarm(config)
        self.nodes: list[Node] = []
        for each in boxes:
            self.add(each)
            self.swarm.run(100)
        if self.nodes:
            self.settle()

    def interest(self, of: Box) -> Interest:
        return interest_in(self.schema, of)

    def add(self, of: Box | None) -> Node:
        node = self.swarm.start([] if of is None else [self.interest(of)])
        self.nodes.append(node)
        return node

    def settle(self, limit_s: int = 60) -> None:
        assert self.swarm.converge(limit_s * 1000) is not None, violations(self.swarm)

    def places(self) -> list[Place]:
        return in_order(self.swarm)

    def place(self, node: Node) -> Place:
        """The one place of a peer with one participant."""
        (overlay,) = node.peer.participants.values()
        assert isinstance(overlay, GosSkip)
        (place,) = overlay.places.values()
        return place

    def publish(self, node: Node, **attributes: Any) -> dict[int, int]:
        """Publish an event, wait, and say which peers got it after how many hops."""
        event = self.swarm.publish(attributes, node)
        assert event is not None
        self.swarm.run(2_000)
        return {index: arrival.hops for (index, _), arrival in self.swarm.oracle.arrivals.get(event.id, {}).items()}

    def sent(self, *types: type[Message]) -> int:
        """How many messages of these types were sent so far."""
        return sum(traffic.sent for type_, traffic in self.swarm.engine.traffic.items() if type_ in types)

    def assert_nothing_missing(self) -> None:
        self.swarm.run(11_000)
        verdict = self.swarm.oracle.settle()
        assert verdict.expected
        assert not verdict.missing


def points(values: Sequence[int]) -> list[Box]:
    """Equality on x (and y) for each."""
    return [box((value, value), (0, 0)) for value in values]
