"""Repair: neighbours in a ring compare what they received lately.

    RecentIds ──> Want ──> Ring

Digests of the events that fall into the other one's span are told at once when two become neighbours, and every
`repair_ms` to one of the neighbours. So an event that stopped at a gap which nobody knew of goes on as soon as the gap
is closed: make before break alone would still lose what was under way (specification, section 1).
"""

from typing import Final

from protocols.model.event import Copy
from protocols.model.ids import Address
from protocols.overlay import Outbox, Repaired
from protocols.parts.digests import Digests, digest
from protocols.parts.recent import Recent
from protocols.sub2sub.budget import Budget
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.messages import DIGESTS_MAX, RecentIds, Want
from protocols.sub2sub.order import coordinate_at
from protocols.sub2sub.ring import Ring

SETTLED_MS: Final = 1_000
"""Before that an event may still be on its way by itself, and asking for it would only double it. A guess."""
WANTED_MAX: Final = 1_024


class Repair:
    __slots__ = ("_budget", "_config", "_digests", "_out", "_recent", "_wanted")

    def __init__(self, config: Sub2SubConfig, budget: Budget, out: Outbox) -> None:
        self._config = config
        self._budget = budget
        self._out = out
        self._recent = Recent(config.recent_ms + config.rpc_ms, config.recent_max)
        self._digests = Digests(2 * config.recent_ms, 2 * config.recent_max)
        self._wanted: dict[int, None] = {}  # what was last found to be missing, and asked for

    def keep(self, now_ms: int, copy: Copy) -> None:
        """An event was received, for the first time."""
        if not self._config.repair_ms:
            return
        self._recent.add(now_ms, copy)
        self._digests.add(now_ms, copy.event.id)
        if self._wanted and (digest_ := digest(copy.event.id)) in self._wanted:
            del self._wanted[digest_]
            self._out.report(Repaired("event"))

    def compare(self, now_ms: int, ring: Ring, to: Address, settled_ms: int = SETTLED_MS) -> None:
        """Tell a neighbour what we received lately that falls into its span."""
        other = ring.get((to.peer, to.slot))
        if other is None or not self._config.repair_ms:
            return
        lo, hi, place = other.lo, other.hi, ring.place
        digests = [
            digest(copy.event.id)
            for copy in self._recent.held(now_ms, settled_ms, self._config.recent_ms)
            if lo <= coordinate_at(copy.event.point, place) < hi
        ]
        if digests:
            message = RecentIds(tuple(digests[-DIGESTS_MAX:]))
            self._send(to, message)

    def on_recent_ids(self, sender: Address, message: RecentIds) -> None:
        missing = self._digests.missing(message.digests)
        if missing:
            self._wanted = dict.fromkeys(missing[:WANTED_MAX])
            self._send(sender, Want(missing))

    def _send(self, to: Address, message: RecentIds | Want) -> None:
        self._budget.charge(self._budget.of_message(message))
        self._out.send(to, message)

    def wanted(self, now_ms: int, message: Want) -> list[Copy]:
        """Those events that are still here."""
        wanted = dict.fromkeys(message.digests)
        held = self._recent.held(now_ms, 0, self._config.recent_ms + self._config.rpc_ms)
        return [copy for copy in held if digest(copy.event.id) in wanted]
