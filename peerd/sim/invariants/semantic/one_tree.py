"""There is one origin, and every participant hangs on it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.semantic.participants import standing

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    participants = standing(swarm)
    origins = [address for address, overlay in participants.items() if overlay.tree.parent is None]
    if participants and len(origins) != 1:
        yield f"there are {len(origins)} origins: {', '.join(map(str, origins[:5]))}"
    hanging = dict.fromkeys(origins)
    for address in participants:
        path: dict[object, None] = {}
        at = address
        while at not in hanging and at not in path and at in participants:
            path[at] = None
            parent = participants[at].tree.parent
            assert parent is not None
            at = parent
        if at in hanging:
            hanging.update(dict.fromkeys(each for each in participants if each in path))
        else:
            yield f"{address} does not hang on an origin"
