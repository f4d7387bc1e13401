"""When a place is active: every event published anywhere from then on that falls into its box will be served to it.

That is so

- when it stands in the chain, so that what ends at it is seen;
- when all places under its range and the first one beyond it know the range (`Probe` has come back as `Held`,
  `probes`); if it is broad, when it is kept in all its cells (`Store` has, `keepers`);
- when everyone knows that its list is active (`lists`);
- when no publisher holds a proxy filter any more that it crosses (`proxies`): all that hold one have said so, or the
  longest of them has ended.
"""

from typing import Final

from protocols.gosskip.desk import Desk
from protocols.gosskip.keepers import Keeper
from protocols.gosskip.lists import Announcements
from protocols.gosskip.messages import Held
from protocols.gosskip.order import NOWHERE, Spot
from protocols.gosskip.patience import Patience
from protocols.gosskip.ranges import Known

PROBE_MS: Final = 2_000
"""After that a range is probed again: the specification's time for an answer."""
PROBE_MS_MAX: Final = 64_000
"""At the most. A guess: a probe is lost with a place that goes while it has it, and else it is only slow."""
PROBES_MAX: Final = 8
"""Probes whose answers are waited for: five minutes' worth."""


class Activation:
    """One place's way to being active."""

    __slots__ = (
        "_announcements",
        "_desk",
        "_held",
        "_holders",
        "_keeper",
        "_known",
        "_me",
        "_patience",
        "_probe_reqs",
        "_revoked",
        "_until_ms",
        "done",
        "insert_req",
    )

    def __init__(self, desk: Desk, me: Spot, known: Known, keeper: Keeper, announcements: Announcements) -> None:
        self._desk = desk
        self._me = me
        self._known = known
        self._keeper = keeper
        self._announcements = announcements
        self._held = False
        self._probe_reqs: list[int] = []  # a range may take longer than the wait for an answer
        self.insert_req = 0  # of the place's own `Insert`: holders may answer before its answer comes
        self._patience = Patience(PROBE_MS, PROBE_MS_MAX)
        self._holders = 0
        self._revoked = 0
        self._until_ms = 0
        self.done = False

    def begin(self) -> None:
        """The first place of a swarm: there is nobody to be waited for."""
        self._announcements.done = self._held = self.done = True
        if self._me.is_broad:
            self._keeper.store_own()

    def wait(self, now_ms: int, wait_ms: int, holders: int) -> None:
        """So many hold proxy filters and will say that they have dropped them; none lasts longer than that, and no
        longer than filters do, whatever is said."""
        self._until_ms = max(self._until_ms, now_ms + min(wait_ms, self._desk.config.proxy_ms))
        self._holders += holders

    def strive(self, now_ms: int, left: Spot | None, right: Spot | None) -> None:
        """Do what is left to do."""
        if self.done:
            return
        self._announcements.begin(now_ms, left, right)
        if not self._held and not self._me.is_broad and (right is None or self._me.list == NOWHERE):
            self._held = True
        if self._me.is_broad:
            if not self._keeper.stored_ms:
                self._keeper.store_own()
        elif not self._held and self._patience.is_over(now_ms):
            self._patience.begin(now_ms)
            self._probe_reqs = [*self._probe_reqs[-PROBES_MAX:], self._desk.new_request()]
            self._known.probes.begin(self._probe_reqs[-1])
        is_free = self._revoked >= self._holders or now_ms >= self._until_ms
        if self._held and self._announcements.done and is_free:
            self.done = self._desk.changed = True

    def on_held(self, now_ms: int, message: Held) -> bool:
        """Returns whether this is an answer that was waited for."""
        is_answer = self._keeper.on_held(message.req) or message.req in self._probe_reqs
        if self._held or not is_answer:
            return False
        self._held = True
        self.wait(now_ms, message.wait_ms, message.holders)
        return True

    def on_revoked(self, req: int) -> None:
        if req == self.insert_req or req in self._probe_reqs:
            self._revoked += 1
