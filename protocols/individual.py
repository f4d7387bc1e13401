"""Each box by itself: for overlays whose participant takes every subscription of its peer.

The sibling of `grouping`, with the same questions and answers. Where participants route by one box, boxes share covers;
where the overlay keeps subscriptions apart (a ring that stores each under its own keys), nothing is gained by that. So
there is one participant, with the empty box as its own, and every box of a subscription is an id of its own to it:
`Subscribe`, `Update` and `Unsubscribe` name boxes, `Active` answers for one.

A subscription that changes keeps the ids of its former boxes as far as they go: a box that is in both versions stays
untouched, the others are updated, which the overlay does without a gap; what is left over goes when the new version is
active. A version that is overtaken before it was active is withdrawn and the next one placed in its stead at once.
"""

from protocols.grouping import Awaited, Change, Cover
from protocols.model.box import EMPTY, Box
from protocols.model.interest import NOTHING

SLOT = 0
"""The one participant."""


class Individual:
    __slots__ = ("_active", "_awaited", "_covers", "_held", "_made", "_placed", "_users")

    def __init__(self) -> None:
        self._covers: dict[int, Cover] = {}
        self._made = 0  # how many ids there were
        self._placed: dict[str, list[str]] = {}  # key -> the ids of its boxes
        self._held: dict[str, tuple[Box, int]] = {}  # id -> the box and version asked for
        self._active: dict[str, int] = {}  # id -> the version that stands
        self._users: dict[str, int] = {}  # id -> how many keys name it
        self._awaited = Awaited()

    @property
    def covers(self) -> dict[int, Cover]:
        return self._covers

    def first(self) -> Change:
        """The participant that every peer has."""
        self._covers[SLOT] = Cover(NOTHING)
        return Change("create", SLOT, EMPTY, 0)

    def place(self, key: str, boxes: tuple[Box, ...], former: str | None = None, pattern: str = "") -> list[Change]:
        """Hand each box of a subscription over, instead of those of its former version, if it has one. (No overlay that
        takes boxes one by one takes patterns.)"""
        if key in self._placed:
            raise ValueError(f"{key} is placed already")
        changes = [] if self._covers else [self.first()]
        spare = list(self._placed.get(former or "", ()))
        ids: dict[int, str] = {}
        for number, box in enumerate(boxes):  # what is in both versions stays
            same = next((id_ for id_ in spare if self._held[id_][0] == box), None)
            if same is not None:
                spare.remove(same)
                ids[number] = same
        for number, box in enumerate(boxes):
            if number not in ids:
                ids[number], change = self._hand_over(spare.pop(0) if spare else None, box)
                changes.append(change)
        self._placed[key] = [ids[number] for number in range(len(boxes))]
        for id_ in self._placed[key]:
            self._users[id_] = self._users.get(id_, 0) + 1
        wanted = {id_: self._held[id_][1] for id_ in self._placed[key]}
        self._awaited.add(key, {id_: version for id_, version in wanted.items() if self._active.get(id_) != version})
        return changes

    def remove(self, key: str) -> list[Change]:
        """Take a subscription's boxes away, but for those that another version of it has too."""
        self._awaited.drop(key)
        changes: list[Change] = []
        for id_ in self._placed.pop(key):
            self._users[id_] -= 1
            if not self._users[id_]:
                _, version = self._held.pop(id_)
                del self._users[id_]
                self._active.pop(id_, None)
                changes.append(Change("unsubscribe", SLOT, EMPTY, version, id_))
        return changes

    def activated(self, slot: int, version: int, id_: str) -> list[str]:
        """The overlay says that this version of a box stands: which subscriptions are active now?"""
        if id_ not in self._held or version < self._active.get(id_, 0):
            return []
        self._active[id_] = version
        return self._awaited.stands(id_, version)

    def left(self, slot: int) -> None:
        """The participant is gone, and with it the peer."""

    def is_active(self, key: str) -> bool:
        return key in self._placed and key not in self._awaited

    def _hand_over(self, id_: str | None, box: Box) -> tuple[str, Change]:
        """Give an id another box, or make one for it."""
        if id_ is not None:
            version = self._held[id_][1] + 1
            self._held[id_] = (box, version)
            return id_, Change("update", SLOT, box, version, id_)
        id_ = str(self._made)
        self._made += 1
        self._held[id_] = (box, 0)
        return id_, Change("subscribe", SLOT, box, 0, id_)
