"""What is done to the peers while events flow, and what that means for what is owed.

Whoever does it announces it before (`POST /v1/faults`) and says when it is over (`DELETE /v1/faults/ID`).

    kill     a fault; the peer is gone until it stands again
    stop     graceful: no fault. The peer is gone, and everything that is owed to the others stays owed
    pause    a fault; the peer lives, and cannot be reached until it is over
    cut      a fault; the same

What nobody has announced is found out by looking: a peer that is silent, or that has begun a new life, has crashed
(`found`). The fault dates from when it was seen last.
"""

from typing import Final, Literal, TypeAlias, get_args

import msgspec

Announced: TypeAlias = Literal["kill", "stop", "pause", "cut"]
ANNOUNCED: Final[tuple[Announced, ...]] = get_args(Announced)

GRACEFUL: Final = frozenset({"stop"})
ENDING: Final = frozenset({"kill", "stop"})
"""After these the peer is gone; after the others it is away."""
FOUND: Final = "found"
RECORDED: Final = {"kill": "crash", FOUND: "crash", "pause": "pause", "cut": "partition"}
"""What log records call them, as the simulator does. Who leaves gracefully records that itself."""

HOSTS_MAX: Final = 1_000
OPEN_MAX: Final = 100
"""Faults that go on at once."""


class Announcement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is about to be done, and to whom: `about` has the addresses of peers, without ports."""

    fault: Announced
    about: tuple[str, ...]


class TooMany(Exception):
    """More faults at once than anybody could mean."""


class OpenFaults:
    """The announced faults that are not over."""

    def __init__(self) -> None:
        self._open: dict[str, Announcement] = {}
        self._count = 0

    @property
    def unhealed(self) -> bool:
        """Whether somebody who lives cannot be reached: before that is over nothing can converge."""
        return any(each.fault not in ENDING for each in self._open.values())

    def add(self, announcement: Announcement) -> str:
        if len(self._open) >= OPEN_MAX or len(announcement.about) > HOSTS_MAX:
            raise TooMany
        self._count += 1
        id_ = str(self._count)
        self._open[id_] = announcement
        return id_

    def end(self, id_: str) -> Announcement | None:
        return self._open.pop(id_, None)
