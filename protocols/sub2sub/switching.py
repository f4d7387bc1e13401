"""Cell switching: who starves above and has bandwidth to spare moves down (paper, section IV.D).

A feeder that holds copies back, for want of budget (its buffer exceeds 500 events) or because of a limit, sets a bit in
what it does forward to the brokers above; whoever passes such a copy on keeps the bit. A participant that has received
K = 10 of them within 10 cycles, and whose budget would bear twice the events that it sends now, looks for its ring
neighbour in the next lower cell (`CellSwitch`, from node to node to the best candidate; `SwitchOk` back) and moves
there.

It moves one cell at a time, and back up if its buffer then fills to the threshold. A participant that has moved stays
for 50 cycles (differs from the paper, which would let it swing every ten).
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from protocols.model.ids import Address
from protocols.overlay import Control, Message, Outbox
from protocols.sub2sub.budget import Budget
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.messages import HOPS_MAX, CellSwitch, SwitchOk
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.order import cell

FLAGGED: Final = 10
FLAGGED_CYCLES: Final = 10
"""K messages within K cycles (paper, section IV.D)."""
DAMPING_CYCLES: Final = 50
"""As long as flow control takes to come back (specification, section 5)."""
ROOM: Final = 2.0
"""The budget has to bear twice the present events (paper, section IV.D)."""
SEARCH_CYCLES: Final = 5
"""For how long a participant looks for its place in another cell. A guess."""


class Switching:
    """Decides, and finds the ring link in the new cell; the overlay makes the move (`shift` cells below that of its
    length). `turn` is called once per cycle."""

    __slots__ = (
        "_budget",
        "_config",
        "_cycle",
        "_flagged",
        "_hood",
        "_moved",
        "_out",
        "_send",
        "_spent",
        "_wanted",
        "shift",
    )

    def __init__(
        self,
        hood: Neighbourhood,
        config: Sub2SubConfig,
        budget: Budget,
        out: Outbox,
        send: Callable[[Address, Message], None],
    ) -> None:
        self._hood = hood
        self._config = config
        self._budget = budget
        self._out = out
        self._send = send
        self._cycle = 0
        self._flagged: deque[int] = deque(maxlen=FLAGGED)  # in which cycles marked copies came
        self._moved = -DAMPING_CYCLES
        self._spent = 0.0  # what events have cost per cycle lately
        self._wanted: tuple[int, int] | None = None  # the cell to move to, and the cycle in which we give it up
        self.shift = 0

    def turn(self, buffered: int, marked: int) -> None:
        """A cycle ends, with so many events in the buffer, and so many marked copies that came."""
        self._cycle += 1
        self._flagged.extend([self._cycle] * min(marked, FLAGGED))
        self._spent += 0.1 * (self._budget.on_events - self._spent)
        by = self._direction(buffered)
        if by and self._hood.rings and (self._wanted is None or self._wanted[1] <= self._cycle):
            self._search(cell(self._hood.own) + by)

    def _direction(self, buffered: int) -> int:
        """By how many cells to move: -1, 0 or 1."""
        limit = self._budget.limit
        if limit is None or self._cycle - self._moved < DAMPING_CYCLES:
            return 0
        if self.shift > 0 and buffered >= self._config.threshold:
            return 1
        starving = len(self._flagged) == FLAGGED and self._flagged[0] > self._cycle - FLAGGED_CYCLES
        spent = max(self._spent, self._budget.on_events)  # lately, or just now: a mean of cycles lags behind
        able = limit - self._budget.charged >= ROOM * spent
        return -1 if starving and able and cell(self._hood.own) > 1 else 0

    def _search(self, wanted: int) -> None:
        """Look for somebody who would be our ring link in another cell."""
        own = self._hood.own
        place, ring = next(iter(self._hood.rings.items()))
        nearest = ring.nearest((wanted, own.address.peer, own.address.slot), own)
        if nearest is None:  # we would be next to the place ourselves; a neighbour tells, or knows better
            nearest = next(iter(ring.links.values()), None)
        self._wanted = (wanted, self._cycle + SEARCH_CYCLES)
        if nearest is not None:
            self._send(nearest.address, CellSwitch(place, own, wanted, HOPS_MAX))

    def on_switch(self, sender: Address, message: CellSwitch) -> None:
        """Somebody looks for its place: pass it on to whom we think best, or say that we would be next to it."""
        own, ring = message.own, self._hood.rings.get(message.place)
        wanted = (message.cell, own.address.peer, own.address.slot)
        nearest = None if ring is None else ring.nearest(wanted, own)
        if ring is None or nearest is None or not message.ttl or nearest.address in (sender, own.address):
            self._send(own.address, SwitchOk(message.place, self._hood.own, message.cell))
        else:
            self._send(nearest.address, CellSwitch(message.place, own, message.cell, message.ttl - 1))

    def on_ok(self, now_ms: int, message: SwitchOk) -> bool:
        """A ring link in the new cell is found. Returns whether to move now: then `shift` says how far."""
        if self._wanted is None or self._wanted[0] != message.cell:
            return False
        present = cell(self._hood.own)
        self.shift += present - message.cell
        self._moved = self._cycle
        self._wanted = None
        self._flagged.clear()
        self._out.report(Control("cell-switch", message.cell, {"from": str(present)}))
        return True
