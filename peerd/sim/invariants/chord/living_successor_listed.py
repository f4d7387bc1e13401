"""Every node's successor list names a living node, so that no crash has cut it off (the other half of Zave's
invariant)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.chord.circle import members

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    ring = members(swarm)
    living = {member.ring.me for member in ring}
    for member in ring:
        if len(ring) > 1 and not living.intersection(member.ring.successors):
            yield f"peer {member.number} lists no living successor"
