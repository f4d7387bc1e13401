"""Which events were here already: a set of ids bounded by time and by capacity.

Every overlay refuses to forward an event twice, and a peer to deliver it twice. An event lives 60 s, and a copy of it
can arrive up to that much later, so its id is kept for twice that time (specification, section 1).

Two generations make forgetting free. New ids go into the young one. When that has been open for `keep_ms` it becomes
the old one, and the former old one is dropped whole. So an id is kept for at least `keep_ms` and for less than twice
that, without a time stamp per id, a list, or a sweep.

At capacity new ids are *refused*: forgetting an id early would let its event circulate again, while a refused event is
dropped once and counted.
"""

from collections.abc import Hashable
from typing import Final, Literal, TypeAlias

from protocols.model.event import LIFETIME_MS

KEEP_MS: Final = 2 * LIFETIME_MS
"""120 s (specification, section 1)."""

CAPACITY: Final = 1 << 18
"""A guess: room for a thousand events a second, each kept for up to 240 s."""

Admission: TypeAlias = Literal["new", "duplicate", "full"]

NEW: Final = "new"
DUPLICATE: Final = "duplicate"
FULL: Final = "full"


class Seen:
    """The ids are event ids, or whatever else names one act of forwarding: (event, level, epoch)."""

    __slots__ = ("_old", "_until_ms", "_young", "capacity", "keep_ms")

    def __init__(self, keep_ms: int = KEEP_MS, capacity: int = CAPACITY) -> None:
        self.keep_ms = keep_ms
        self.capacity = capacity
        self._young: dict[Hashable, None] = {}
        self._old: dict[Hashable, None] = {}
        self._until_ms = 0  # when the young generation grows old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def holds(self, id_: Hashable) -> bool:
        """Whether the id was here and is not forgotten yet."""
        return id_ in self._young or id_ in self._old

    __contains__ = holds

    def has_room(self, now_ms: int) -> bool:
        """Whether it is well below its capacity: a tenth is left for what is on its way already."""
        if now_ms >= self._until_ms:
            self._turn(now_ms)
        return 10 * len(self) < 9 * self.capacity

    def admit(self, now_ms: int, id_: Hashable) -> Admission:
        """Ask whether the id is new and, if it is, remember it."""
        if now_ms >= self._until_ms:
            self._turn(now_ms)
        young, old = self._young, self._old
        if id_ in young or id_ in old:
            return DUPLICATE
        if len(young) + len(old) >= self.capacity:
            return FULL
        young[id_] = None
        return NEW

    def _turn(self, now_ms: int) -> None:
        """The young generation grows old; after a long quiet time it is beyond that and goes too."""
        if now_ms >= self._until_ms + self.keep_ms:
            self._old = {}
            self._until_ms = now_ms + self.keep_ms
        else:
            self._old = self._young
            self._until_ms += self.keep_ms
        self._young = {}
