"""A parent's interest contains that of its interest children, and is equivalent to that of its equal children."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.semantic.participants import standing
from protocols.model.interest import contains, equivalent, is_empty

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    participants = standing(swarm)
    for address, overlay in participants.items():
        tree = overlay.tree
        if tree.parent not in participants:
            continue
        above = participants[tree.parent].tree.interest
        right = {
            "root": True,
            "idle": is_empty(tree.interest),
            "interest": contains(above, tree.interest),
            "equal": equivalent(above, tree.interest),
        }
        if not right[tree.parent_kind]:
            yield f"{address} is an {tree.parent_kind} child of {tree.parent}, which is wrong for their interests"
