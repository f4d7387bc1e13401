"""For every value of its span, a participant's upper and lower ring links are the next in the order that hold it."""

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from peerd.sim.invariants.sub2sub.standing import standing
from protocols.model.descriptor import Descriptor
from protocols.sub2sub.order import places, rank, span
from protocols.sub2sub.sweep import Part, sweep

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


class Member:
    __slots__ = ("address", "hi", "lo", "rank")

    def __init__(self, own: Descriptor, lo: Any, hi: Any) -> None:
        self.address, self.rank, self.lo, self.hi = own.address, rank(own), lo, hi


def check(swarm: "Swarm") -> Iterator[str]:
    participants = standing(swarm)
    members: dict[int, list[Member]] = {}
    for overlay in participants:
        own = overlay.descriptor()
        for place in places(own):
            found = span(own, place)
            if found is not None:
                members.setdefault(place, []).append(Member(own, *found))
    for each in members.values():
        each.sort(key=attrgetter("rank"))
    for overlay in participants:
        own = overlay.descriptor()
        for place, ring in overlay.rings.items():
            at = bisect_left(members[place], rank(own), key=attrgetter("rank"))
            above, below = members[place][at + 1 :], reversed(members[place][:at])
            for kind, candidates, parts in (("upper", above, ring.upper), ("lower", below, ring.lower)):
                exact = sweep(ring.lo, ring.hi, candidates)[0]
                if _said(exact) != _said(parts):
                    yield f"{own.address}: {kind} ring links at place {place} are not exact"


def _said(parts: list[Part]) -> list[tuple[Any, Any, Any]]:
    return [(part.lo, part.hi, part.who.address) for part in parts]
