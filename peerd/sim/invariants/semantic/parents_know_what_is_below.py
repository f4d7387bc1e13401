"""A parent knows how many equals and top-level peers hang on a child, whether it contains anybody, serves others beyond
its interest, or leaves: on that depends what the child is sent."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.semantic.participants import standing
from protocols.semantic.messages import Below

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    participants = standing(swarm)
    for address, overlay in participants.items():
        for child, known in overlay.tree.children.items():
            if child not in participants or participants[child].tree.parent != address:
                continue
            taken_for = Below(known.equals, known.tops, known.contains, known.leaving, known.beyond)
            if taken_for != participants[child].below:
                yield f"{address} takes its child {child} for {taken_for}, which is {participants[child].below}"
