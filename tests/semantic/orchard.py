"""A containment tree that grows peer by peer, as in the paper's figures, with names."""

from peerd.sim.engine import Node
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import workload
from peerd.sim.workloads.workload import Interest
from protocols.model.event import Attributes
from protocols.model.ids import Address
from protocols.model.lint import compile_filter
from protocols.semantic.containment import Containment
from protocols.semantic.tree import Tree

STOCKS = workload("stocks").schema

SETTLE_MS = 4_000
"""A probe, a move, and the pulse after it."""


class Orchard:
    def __init__(self, seed: int = 1, **settings: str) -> None:
        self.swarm = Swarm(
            SwarmConfig(overlay="semantic", schema=STOCKS, seed=seed, parameters={"profile": "paper", **settings})
        )
        self.nodes: dict[str, Node] = {}

    def plant(self, name: str, filter_: str = "") -> Node:
        """A peer joins, and finds its place before the next one comes."""
        interests = [Interest(filter_, compile_filter(filter_, STOCKS).boxes)] if filter_ else []
        contacts = list(self.nodes.values())[:1]
        node = self.nodes[name] = self.swarm.start(interests, contacts)
        assert self.swarm.run_until(self.swarm.all_active, 10_000)
        self.swarm.run(SETTLE_MS)
        return node

    def overlay(self, name: str) -> Containment:
        [found] = self.nodes[name].peer.participants.values()
        assert isinstance(found, Containment)
        return found

    def tree(self, name: str) -> Tree:
        return self.overlay(name).tree

    def name_of(self, address: Address | None) -> str | None:
        if address is None:
            return None
        return next(name for name, node in self.nodes.items() if node.address.peer == address.peer)

    def parents(self) -> dict[str, tuple[str, str | None]]:
        """Who hangs on whom, and why; a top-level peer on nobody."""
        found: dict[str, tuple[str, str | None]] = {}
        for name, node in self.nodes.items():
            if node.alive:
                tree = self.tree(name)
                found[name] = ("top", None) if tree.is_top else (tree.parent_kind, self.name_of(tree.parent))
        return found

    def publish(self, name: str, **attributes: float | str) -> dict[str, str]:
        """Publish through a peer; what each of the others that got it thought of it."""
        results: dict[str, str] = {}
        original = self.swarm.oracle.on_reception

        def noted(now_ms: float, node: Node, effect: object, size: int) -> None:
            result = getattr(effect, "result", "")
            if result != "duplicate":
                results[self.name_of(node.address) or ""] = result
            original(now_ms, node, effect, size)  # type: ignore[arg-type]

        self.swarm.engine._on_reception = noted
        event: Attributes = dict(attributes)
        self.swarm.publish(event, self.nodes[name])
        self.swarm.run(3_000)
        self.swarm.engine._on_reception = original
        return results


FIGURE_1 = {
    "P1": "exchange = 'ATHEX'",
    "P2": "exchange = 'ATHEX' AND price >= 5",
    "P4": "price >= 5",
    "P3": "exchange = 'ATHEX' AND price >= 8",
    "P5": "exchange = 'ATHEX' AND symbol = 'OTE'",
    "P6": "exchange = 'ATHEX' AND symbol = 'OTE' AND price BETWEEN 3 AND 4",
    "P7": "symbol = 'ALPHA'",
    "P8": "symbol = 'ALPHA' AND price < 10",
    "P9": "symbol = 'ALPHA' AND price < 10",
    "P10": "symbol = 'ALPHA' AND price < 10",
}
"""Subscriptions to stock quotes that stand to each other as the paper says of its Figure 1, whose own are not in the
text: P8, P9 and P10 are equivalent; P2 and P4 both contain P3, but P2 is deeper; so are P5 and P1 for P6."""

P_NEW = "exchange = 'ATHEX' AND symbol = 'OTE' AND price <= 4.5"
"""Figure 2: contained in P5, and it contains P6."""


def figure_1(seed: int = 1, **settings: str) -> Orchard:
    orchard = Orchard(seed, **settings)
    for name, filter_ in FIGURE_1.items():
        orchard.plant(name, filter_)
    return orchard
