"""Every box of a subscription lies within the box that its participant shows to the overlay."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from protocols.model.box import contains

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    for node in swarm.live.values():
        peer = node.peer
        for slot, cover in peer.grouping.covers.items():
            shown = peer.participants[slot].descriptor().box
            for (key, number), interest in cover.members.items():
                if not contains(shown, interest.box):
                    yield f"peer {node.index}: participant {slot} does not cover box {number} of {key}"
