"""A top-level peer has depth 1, an interest child one more than its parent, an equal child its parent's."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.semantic.participants import standing

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    participants = standing(swarm)
    for address, overlay in participants.items():
        tree = overlay.tree
        if tree.parent not in participants or tree.is_top:
            continue
        above = participants[tree.parent].tree.depth
        if tree.depth != (above if tree.parent_kind == "equal" else above + 1):
            yield f"{address} has depth {tree.depth} as an {tree.parent_kind} child of one with depth {above}"
