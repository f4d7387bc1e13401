"""A sink that tells the steering process what a peer saw.

It must not disturb what it watches: a step of the peer costs an append to a list or an addition, and a batch leaves a
tenth of a second after the first thing in it. A peer that is killed takes its last batch with it.
"""

import asyncio
from collections.abc import Callable
from time import monotonic_ns
from typing import Final

from peerd.testbed.lines import Batch
from protocols.model.event import Attributes, Event
from protocols.model.ids import PEER_SLOT
from protocols.overlay import Active, Deliver, Dropped, Joined, Left, Lost, Reception, Rejected, Repaired, Report

BATCH_S: Final = 0.1

COUNTED: Final = {Lost: "lost", Repaired: "repaired", Rejected: "rejected"}


def now_us() -> int:
    return monotonic_ns() // 1000


class Watch:
    """`tell` gets batches; `ready` is called when the peer stands. Unless `everything`, only the latter happens."""

    def __init__(self, tell: Callable[[Batch], object], ready: Callable[[], object], everything: bool) -> None:
        self._tell = tell
        self._ready = ready
        self._everything = everything
        self._batch = Batch()
        self._waiting = False

    def _note(self) -> Batch:
        """The batch to put something into."""
        if not self._waiting:
            self._waiting = True
            asyncio.get_running_loop().call_later(BATCH_S, self.flush)
        return self._batch

    def flush(self) -> None:
        self._waiting = False
        batch, self._batch = self._batch, Batch()
        self._tell(batch)

    def stop(self) -> None:
        """Nobody is interested any more."""
        self._everything = False

    # --- told by the service ------------------------------------------------------------------------------------------

    def on_publish(self, now_ms: int, event: Event, attributes: Attributes) -> None:
        if self._everything:
            self._note().published.append((event.id, now_us()))

    # --- told by the driver -------------------------------------------------------------------------------------------

    def on_active(self, now_ms: int, effect: Active) -> None:
        if self._everything:
            self._note().active.append((effect.id, now_us()))

    def on_deliver(self, now_ms: int, effect: Deliver) -> None:
        if self._everything:
            self._note().delivered.append((effect.event.id, effect.subscription_ids, effect.hops, now_us()))

    def on_reception(self, now_ms: int, effect: Reception, size: int) -> None:
        if self._everything:
            counts = self._note().receptions
            counts[effect.result] = counts.get(effect.result, 0) + 1

    def on_report(self, now_ms: int, effect: Report) -> None:
        fact = effect.fact
        if effect.slot == PEER_SLOT and isinstance(fact, Joined):
            self._ready()
        if not self._everything:
            return
        if isinstance(fact, Joined | Left):
            self._note().stood.append((effect.slot, isinstance(fact, Joined), now_us()))
        elif isinstance(fact, Dropped):
            counts = self._note().dropped
            counts[fact.reason] = counts.get(fact.reason, 0) + 1
        elif type(fact) in COUNTED:
            counts = self._note().counts
            name = COUNTED[type(fact)]
            counts[name] = counts.get(name, 0) + 1
