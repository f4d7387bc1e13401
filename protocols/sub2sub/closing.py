"""A cell that is limited is closed to shortcuts: it gets its events from its feeders alone.

Flow control limits feeders, which it finds along ring links. With `dissemination = "upward"` shortcuts lead into higher
cells, too, from participants that no controller ever hears of: what they sent would come on top of what the limits
allow. So while its cell is being limited, a member that gets a copy from somebody who is no ring link of its tells the
sender that the cell is closed, and that one keeps to its upper ring link there. Nobody needs a shortcut: whoever closes
a cell for no reason, a liar too, makes it slower at worst.

    controller           member                     somebody far below
        │ FlowQuery ──────>│                               │
        │   (limiting)     │<────────────────────── Ring ──│ a shortcut
        │                  │── FlowClosed ────────────────>│ none into this cell and range, for 75 cycles

The paper has no shortcuts into other cells (section IV.B).
"""

from collections.abc import Callable
from typing import Final

from protocols.model.ids import Address
from protocols.overlay import Message, Outbox, Rejected
from protocols.sub2sub.messages import FlowClosed, FlowQuery
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.ring import Ring

CLOSED_MAX: Final = 64
"""Ranges that are remembered, of our own cell and of others. A guess: of each place and cell there is mostly one."""
TOLD_MAX: Final = 256
"""Senders that are not told again until the controller asks again. A guess: many views' worth."""

Closed = tuple[int, int, int]
"""First unit, the one beyond the last, and the cycle in which it ends."""


class Closing:
    """Both ends of it. `send` charges what it sends."""

    __slots__ = ("_hood", "_out", "_send", "_told", "closed", "guarded")

    def __init__(self, hood: Neighbourhood, out: Outbox, send: Callable[[Address, Message], None]) -> None:
        self._hood = hood
        self._out = out
        self._send = send
        self.guarded: dict[tuple[int, int], Closed] = {}  # by place and cell: while we stand there, no shortcuts
        self.closed: dict[tuple[int, int], Closed] = {}  # higher cells that we have no shortcuts into
        self._told: dict[Address, None] = {}

    def expire(self, cycle: int) -> None:
        if self.guarded:
            self.guarded = {key: each for key, each in self.guarded.items() if each[2] > cycle}
        if self.closed:
            self.closed = {key: each for key, each in self.closed.items() if each[2] > cycle}

    # --- in the cell ---

    def guard(self, query: FlowQuery, until: int) -> None:
        """A controller limits our cell."""
        self._told.clear()
        _note(self.guarded, (query.place, query.cell), (query.first, query.beyond, until))

    def on_copy(self, ring: Ring, unit: int, sender: Address) -> None:
        """Somebody has sent an event in the ring: if it need not have, and we are limited, tell it."""
        if (sender.peer, sender.slot) in ring.links or sender in self._told:
            return
        place, cell = ring.place, ring.rank[0]
        first, beyond, _ = self.guarded.get((place, cell), (0, 0, 0))
        if first <= unit < beyond:
            if len(self._told) >= TOLD_MAX:
                self._told.clear()
            self._told[sender] = None
            self._send(sender, FlowClosed(place, cell, first, beyond))

    # --- below it ---

    def on_closed(self, sender: Address, message: FlowClosed, until: int) -> None:
        ring = self._hood.rings.get(message.place)
        if ring is None or ring.rank[0] >= message.cell:
            return  # a fellow, or we have moved since
        if not self._hood.interest.holds(sender):
            self._out.report(Rejected(sender, "closes a cell to strangers"))
            return
        _note(self.closed, (message.place, message.cell), (message.first, message.beyond, until))

    def is_closed(self, place: int, cell: int, unit: int) -> bool:
        first, beyond, _ = self.closed.get((place, cell), (0, 0, 0))
        return first <= unit < beyond


def _note(ranges: dict[tuple[int, int], Closed], key: tuple[int, int], closed: Closed) -> None:
    """What overlaps with another range, or lies beside it, becomes one with it until both would be over."""
    former = ranges.pop(key, None)
    if former is not None:
        closed = min(former[0], closed[0]), max(former[1], closed[1]), max(former[2], closed[2])
    if len(ranges) >= CLOSED_MAX:
        del ranges[next(iter(ranges))]
    ranges[key] = closed
