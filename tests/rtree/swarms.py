"""Small swarms of the R-tree for tests, and what to ask them."""

from functools import partial

from peerd.sim.engine import Node as Machine
from peerd.sim.invariants.rtree.trees import trees
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import Interest, workload
from protocols.model.box import Box
from protocols.model.ids import Address
from protocols.rtree.tree import Tree

PAPER = {"profile": "paper"}
NARROW = {"children_min": "5", "children_max": "10"}
"""With which a small swarm has a tree of some height."""


def swarm_of(
    peers: int,
    settings: dict[str, str] | None = None,
    seed: int = 1,
    workload_name: str = "zipf-25:75",
    every_ms: float = 50.0,
    **parameters: object,
) -> Swarm:
    """A converged swarm, maintained by the oracle, in which every peer has one subscription."""
    boxes = workload(workload_name, **parameters)
    swarm = Swarm(
        SwarmConfig(
            overlay="rtree",
            schema=boxes.schema,
            seed=seed,
            liveness="oracle",
            sampling="oracle",
            exact_boxes=True,
            parameters=settings or {},
        )
    )
    interests = boxes.subscriptions(swarm.stream("subscriptions"), peers)
    swarm.start_many([[interest] for interest in interests], every_ms)
    swarm.run(int(peers * every_ms) + 1)
    assert swarm.run_until(swarm.all_active, 120_000)
    assert swarm.converge(120_000) is not None
    return swarm


def join_one_by_one(swarm: Swarm, interests: list[Interest]) -> None:
    """Each waits until the tree has come to rest after the one before it."""
    for interest in interests:
        swarm.start([interest])
        assert swarm.converge(60_000) is not None


def root_of(swarm: Swarm) -> Machine:
    (address,) = [address for address, tree in trees(swarm).items() if tree.parent is None]
    return next(machine for machine in swarm.live.values() if machine.address.peer == address.peer)


def tree_of(machine: Machine) -> Tree:
    overlay = machine.peer.participants[0]
    tree: Tree = overlay.tree  # type: ignore[attr-defined]
    return tree


def leaves_below(found: dict[Address, Tree], address: Address, height: int) -> frozenset[Box]:
    """The boxes of all leaves below a node."""
    tree = found[address]
    node = tree.node(height)
    if node is None:
        return frozenset((tree.box,))
    return frozenset[Box]().union(*(leaves_below(found, child, height - 1) for child in node.entries))


def false_positives(
    swarm: Swarm, events: int, at_root: bool = True, workload_name: str = "zipf-25:75", **parameters: object
) -> float:
    """The paper's ratio: how many of the participants receive an event that they do not want."""
    boxes = workload(workload_name, **parameters)
    attributes = boxes.events(swarm.stream("events"), events)
    before = swarm.oracle.receptions["unwanted"]
    publisher = root_of(swarm) if at_root else None
    for number, each in enumerate(attributes):
        swarm.engine.at(swarm.now_ms + 1 + 5 * number, partial(swarm.publish, each, publisher))
    swarm.run(5 * events + 2_000)
    return (swarm.oracle.receptions["unwanted"] - before) / len(trees(swarm)) / events


def degrees(swarm: Swarm) -> list[int]:
    """How many others each interior participant is linked to (the reading of the specification, section 4)."""
    return [
        len({link.to for link in overlay.links()})
        for machine in swarm.live.values()
        for overlay in machine.peer.participants.values()
        if overlay.tree.top  # type: ignore[attr-defined]
    ]
