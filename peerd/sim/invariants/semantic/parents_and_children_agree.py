"""Whoever has a parent is one of its children, and whoever has a child is its parent."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.semantic.participants import standing

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    participants = standing(swarm)
    for address, overlay in participants.items():
        tree = overlay.tree
        if tree.parent in participants and address not in participants[tree.parent].tree.children:
            yield f"{address} hangs on {tree.parent}, which does not know it"
        for child in tree.children:
            if child in participants and address not in (
                participants[child].tree.parent,
                participants[child].tree.former,
            ):
                yield f"{address} has the child {child}, which hangs on another"
