"""Whether the structure of living peers is as it should be.

The simulator sees all state at once and checks invariants. Here every peer is asked, over its line, and it is taken for
whole when every living peer stands, every subscription is active, links lead to living peers only, and all links
together connect all peers; and that in as many looks in a row as the simulator's invariants have to hold. How long
nothing has changed says little: some overlays exchange links for ever.
"""

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Protocol

from peerd.sim.swarm import CALM_CYCLES, CYCLE_MS
from peerd.testbed.bed import Bed


class Standing(Protocol):
    """How a peer stands: what it says of itself when it is asked."""

    @property
    def ready(self) -> bool: ...
    @property
    def links(self) -> tuple[str, ...]: ...


async def converge(bed: Bed, all_active: Callable[[], bool], limit_s: float) -> float | None:
    """Wait until the structure is whole. After how many seconds that began; None if it does not within the limit."""
    start, calm = monotonic(), 0
    cycle_s = CYCLE_MS / 1000
    while calm < CALM_CYCLES:
        if monotonic() - start > limit_s + CALM_CYCLES * cycle_s:
            return None
        began = monotonic()
        living = bed.living
        looks = await bed.look(living)
        peers = {member.index: member.peer for member in living}
        calm = calm + 1 if all_active() and not faults(peers, looks) else 0
        bed.check()
        await asyncio.sleep(max(0.0, began + cycle_s - monotonic()))
    return round(max(0.0, monotonic() - start - CALM_CYCLES * cycle_s), 3)


def faults(peers: Mapping[int, str], looks: Mapping[int, Standing]) -> list[str]:
    """What is not as it should be, one line each. `peers`: the living ones' ids by number."""
    found = [f"peer {index} does not answer" for index in peers if index not in looks]
    found += [f"peer {index} does not stand" for index, looked in looks.items() if not looked.ready]
    living = dict.fromkeys(peers.values())
    for index, looked in looks.items():
        found += [f"peer {index} has a link to {to}, which does not live" for to in looked.links if to not in living]
    if not found and not _connected(peers, looks):
        found.append("the links do not connect all peers")
    return found


def _connected(peers: Mapping[int, str], looks: Mapping[int, Standing]) -> bool:
    """Whether one can get from any peer to any other over links, in whichever direction."""
    neighbours: dict[str, list[str]] = {id_: [] for id_ in peers.values()}
    for index, looked in looks.items():
        for to in looked.links:
            neighbours[peers[index]].append(to)
            neighbours[to].append(peers[index])
    if not neighbours:
        return True
    reached = {next(iter(neighbours)): None}
    frontier = list(reached)
    while frontier:
        for to in neighbours[frontier.pop()]:
            if to not in reached:
                reached[to] = None
                frontier.append(to)
    return len(reached) == len(neighbours)
