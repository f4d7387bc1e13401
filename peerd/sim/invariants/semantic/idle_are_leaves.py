"""A participant without an interest has no children, unless it is the origin, or there was no room for them above."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.semantic.participants import standing

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    for address, overlay in standing(swarm).items():
        tree = overlay.tree
        children = [child for child in tree.children.values() if not child.spare]
        if tree.is_idle and children and not tree.is_origin:
            yield f"{address} has no interest, but {len(children)} children"
