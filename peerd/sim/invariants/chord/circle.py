"""The ring as it should be: all living nodes in the order of their identifiers."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from protocols.chord.overlay import Chord
from protocols.chord.placements import Placement
from protocols.chord.ring import Ring

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


class Member(NamedTuple):
    id: int
    number: int
    chord: Chord

    @property
    def ring(self) -> Ring:
        return self.chord.ring


def members(swarm: "Swarm") -> list[Member]:
    """Every living peer's node, in the order of the ring."""
    found = [
        Member(overlay.ring.id, node.index, overlay)
        for node in swarm.live.values()
        for overlay in node.peer.participants.values()
        if isinstance(overlay, Chord)
    ]
    return sorted(found, key=lambda member: member.id)


def owner(ring: list[Member], ids: list[int], key: int) -> int:
    """The place in the ring of the node that a key belongs to: its successor."""
    return bisect_left(ids, key) % len(ring)


def placed(ring: list[Member]) -> Iterator[tuple[Member, Placement, int]]:
    """Every row that is active: its subscriber, where it has to be, and the key of each value that another owns."""
    ids = [member.id for member in ring]
    for member in ring:
        rotations = member.chord.storage.rows.rotations
        for subscribed in member.chord.placements.subscribed.values():
            if subscribed.active != subscribed.version:
                continue
            for placement in subscribed.placements.values():
                for rotation in rotations:
                    yield from ((member, placement, place) for place in owners(ring, ids, placement, rotation))


def owners(ring: list[Member], ids: list[int], placement: Placement, rotation: int) -> Iterator[int]:
    """The places in the ring of all nodes that a row belongs to."""
    values = placement.values
    value: int | None = values.first
    while value is not None and value <= values.last:
        place = owner(ring, ids, values.key(value, rotation))
        yield place
        if values.ordered and len(ring) > 1:
            value = values.beyond(value, ids[place], rotation)
        else:
            value = value + 1 if not values.ordered else None
