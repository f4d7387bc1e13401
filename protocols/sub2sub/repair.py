"""Repair: neighbours in a ring compare what they received lately.

    RecentIds ──> Want ──> Ring

**New neighbours** tell each other at once what they received lately that falls into the other one's span. So an event
that stopped at a gap which nobody knew of goes on as soon as the gap is closed: make before break alone would still
lose what was under way (specification, section 1).

**All neighbours**: every `repair_ms` each event that is a second old is told to the two ring links of its value, those
to which it goes along the ring, and in the next round once more, should that have been lost. Nothing is left to chance:
what one of two neighbours has, the other has `SETTLED_MS` + `repair_ms` and a round trip later, half of the time in
which it is owed. It costs each member two digests an event, twice, and no more messages than it has links.
"""

from typing import Final

from protocols.model.event import Copy
from protocols.model.ids import Address
from protocols.overlay import Outbox, Repaired
from protocols.parts.digests import digest
from protocols.sub2sub.budget import Budget
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.kept import Kept
from protocols.sub2sub.messages import DIGESTS_MAX, RecentIds, Want
from protocols.sub2sub.order import coordinate_at
from protocols.sub2sub.ring import Ring

SETTLED_MS: Final = 1_000
"""Before that an event may still be on its way by itself, and asking for it would only double it. A guess."""
ROUNDS: Final = 2.25
"""For so many rounds an event is told: in two of them, with the periods' jitter of a tenth."""
WANTED_MAX: Final = 1_024


class Repair:
    __slots__ = ("_budget", "_config", "_kept", "_out", "_wanted")

    def __init__(self, config: Sub2SubConfig, budget: Budget, out: Outbox) -> None:
        self._config = config
        self._budget = budget
        self._out = out
        self._kept = Kept(2 * config.recent_ms, 2 * config.recent_max)
        self._wanted: dict[int, None] = {}  # what was last found to be missing, and asked for

    def keep(self, now_ms: int, copy: Copy) -> None:
        """An event was received, for the first time."""
        if not self._config.repair_ms:
            return
        self._kept.add(now_ms, copy)
        if self._wanted and (digest_ := digest(copy.event.id)) in self._wanted:
            del self._wanted[digest_]
            self._out.report(Repaired("event"))

    def compare(self, now_ms: int, ring: Ring, to: Address) -> None:
        """Tell a new neighbour what we received lately that falls into its span."""
        other = ring.get((to.peer, to.slot))
        if other is None or not self._config.repair_ms:
            return
        lo, hi, place = other.lo, other.hi, ring.place
        digests = [
            each
            for each, copy in self._kept.held(now_ms, 0, self._config.recent_ms)
            if lo <= coordinate_at(copy.event.point, place) < hi
        ]
        if digests:
            self._send(to, RecentIds(tuple(digests[-DIGESTS_MAX:])))

    def round(self, now_ms: int, ring: Ring) -> None:
        """Tell the links of a ring which events they should have had from us, or we from them."""
        until_ms = SETTLED_MS + int(ROUNDS * self._config.repair_ms)
        told: dict[Address, list[int]] = {}
        for each, copy in self._kept.held(now_ms, SETTLED_MS, min(until_ms, self._config.recent_ms)):
            x = coordinate_at(copy.event.point, ring.place)
            if ring.holds(x):
                for to in ring.next_hops(x)[:2]:
                    if to is not None:
                        told.setdefault(to, []).append(each)
        for to, digests in told.items():
            self._send(to, RecentIds(tuple(digests[-DIGESTS_MAX:])))

    def on_recent_ids(self, sender: Address, message: RecentIds) -> None:
        missing = self._kept.missing(message.digests)
        if missing:
            if len(self._wanted) + len(missing) > WANTED_MAX:
                self._wanted.clear()
            self._wanted.update(dict.fromkeys(missing[:WANTED_MAX]))
            self._send(sender, Want(missing))

    def _send(self, to: Address, message: RecentIds | Want) -> None:
        self._budget.pay((to,), message)
        self._out.send(to, message)

    def wanted(self, now_ms: int, message: Want) -> list[Copy]:
        """Those events that are still here."""
        return self._kept.find(now_ms, message.digests)

    def forget(self, now_ms: int) -> None:
        """Let go of what is too old to be told."""
        self._kept.forget(now_ms)
