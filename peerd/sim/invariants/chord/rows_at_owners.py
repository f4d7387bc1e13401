"""Every active subscription's row stands at the owner of each of its keys."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.chord.circle import members, placed
from protocols.chord.rows import key_of
from protocols.chord.sides import without_side

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    ring = members(swarm)
    for member, placement, place in placed(ring):
        row, at = placement.row, ring[place]
        held = at.chord.storage.rows.get(key_of(row))
        # values that two versions share keep the older row, if nothing else has changed
        rest = without_side(row.box, row.list)
        if held is None or (held.version != row.version and without_side(held.box, row.list) != rest):
            yield f"peer {at.number} lacks row {row.number} of list {row.list} of peer {member.number}"
