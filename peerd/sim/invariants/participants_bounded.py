"""A living peer has at least one participant and at most `participants_max`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    most = swarm.config.peer.participants_max or swarm.kind.participants_max
    for node in swarm.live.values():
        count = len(node.peer.participants)
        if not 1 <= count <= most:
            yield f"peer {node.index} has {count} participants, not 1 to {most}"
