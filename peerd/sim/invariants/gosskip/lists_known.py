"""Every participant knows every list in which somebody stands."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.gosskip.places import in_order
from protocols.gosskip.order import NOWHERE
from protocols.gosskip.overlay import GosSkip

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    lists = {place.spot.number for place in in_order(swarm)} - {NOWHERE}
    for node in swarm.live.values():
        for slot, overlay in node.peer.participants.items():
            assert isinstance(overlay, GosSkip)
            unknown = lists - set(overlay.lists())
            if unknown:
                yield f"peer {node.index}: participant {slot} does not know the lists {sorted(unknown)}"
