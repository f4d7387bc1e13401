"""No peer has more than `equal_degree` equal children, and only the root of an equivalence tree has other ones."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.semantic.participants import standing
from protocols.semantic.config import SemanticConfig

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, SemanticConfig)
    for address, overlay in standing(swarm).items():
        tree = overlay.tree
        count = len(tree.of_kind("equal"))
        if count > config.equal_degree:
            yield f"{address} has {count} equal children, more than {config.equal_degree}"
        if not tree.is_equal_root and tree.of_kind("interest"):
            yield f"{address} has interest children, though it is not the root of its equivalence tree"
