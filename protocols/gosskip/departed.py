"""Who has left beside a place lately, and who stands there instead.

Words about one link come from several places, and those of different senders in any order: what a leaver said last may
come after the news that it has left, and so may the word of another one that did not know yet. Taken at its word, a
place that is gone would be the left neighbour again; then nobody would be, and a place that nobody stands left of takes
itself for the head of the chain.
"""

from typing import Final

from protocols.gosskip.desk import Desk
from protocols.gosskip.order import PlaceId, Spot

DEPARTED_MAX: Final = 64
"""Leavers remembered. A guess: more than leave one beside the other within that time."""
DEPARTED_MS: Final = 5_000
"""How long. A guess: beyond what a message takes; a place of which it is a lie is heard again then."""


class Departed:
    __slots__ = ("_desk", "_heirs")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._heirs: dict[PlaceId, tuple[int, Spot | None]] = {}  # leaver -> when, and who stands there instead

    def note(self, leaver: PlaceId, heir: Spot | None) -> None:
        self._heirs.pop(leaver, None)
        if len(self._heirs) >= DEPARTED_MAX:
            del self._heirs[next(iter(self._heirs))]
        self._heirs[leaver] = self._desk.now_ms, heir

    def __contains__(self, id_: PlaceId) -> bool:
        known = self._heirs.get(id_)
        return known is not None and self._desk.now_ms - known[0] < DEPARTED_MS

    def heir(self, spot: Spot | None) -> Spot | None:
        """The place itself if it has not left, else who stands there instead, if anybody."""
        for _ in range(len(self._heirs)):  # of lies there may be a circle
            if spot is None or spot.id not in self:
                break
            spot = self._heirs[spot.id][1]
        return spot
