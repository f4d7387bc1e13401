"""Probes: the proof that a range is known all over (`ranges`).

Those who know a range are always the first so many places under it, whatever joins (which copies its left neighbour's
knowledge) or leaves meanwhile. So a `Probe` that follows the range from place to place, and is dropped where the range
is not known yet, proves by reaching the first place beyond the end that it is known all over.

    owner ──Probe──► x ──Probe──► … ──Probe──► the first place beyond the end ──Held──► owner
            ◄─Taken──  ◄─Taken──

Each place that has taken a probe sends it on until the next one has, ever more seldom (`patience`). What is sent again
while the answer is under way comes twice, and must not go on twice: along hundreds of places each copy would be copied
in its turn. Where the right neighbour was lost a probe waits: to be beside a gap is not to be the last.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import ANY, Held, Probe, Taken
from protocols.gosskip.order import PlaceId, Spot
from protocols.gosskip.patience import Patience
from protocols.model.ids import Address

PASSED_MAX: Final = 4
"""Probes of one range that are remembered when they have gone on. A guess: as many as are on their way at once, since
the owner waits twice as long for each."""
AGAIN_MS_MAX: Final = 16_000
"""After so long at the most the right neighbour is sent a probe again. A guess: as long as a host may stand still."""


class Probes:
    """Those that are at one place."""

    __slots__ = ("_desk", "_me", "_must_wait", "_next_under", "_owner_of", "_passed", "_patience", "waiting")

    def __init__(
        self,
        desk: Desk,
        me: Spot,
        owner_of: Callable[[PlaceId], Spot | None],
        next_under: Callable[[Spot], Spot | None],
        must_wait: Callable[[Spot], bool],
    ) -> None:
        """`owner_of` is asked for the owner of a range that is known here, `next_under` for the next place that has to
        know it; `must_wait`, whether there may be one, but which it is is not known yet."""
        self._desk = desk
        self._me = me
        self._owner_of = owner_of
        self._next_under = next_under
        self._must_wait = must_wait
        self._passed: dict[PlaceId, tuple[int, ...]] = {}  # range -> its probes that have gone on from here
        self.waiting: dict[PlaceId, Probe] = {}  # range -> what the right neighbour has not taken yet
        self._patience: dict[PlaceId, Patience] = {}  # of each of them

    def begin(self, req: int) -> None:
        """Have this place's own range followed to its end."""
        self._wait(self._me.id, Probe(ANY, self._me.descriptor, req, self._me.version))

    def is_new(self, message: Probe) -> bool:
        """Whether a probe is for a range that is known here, and has not come before."""
        id_ = message.owner.address, message.owner.version
        owner, waiting = self._owner_of(id_), self.waiting.get(id_)
        if owner is None or owner is self._me or (waiting is not None and waiting.req == message.req):
            return False
        return message.req not in self._passed.get(id_, ())

    def take(self, sender: Address, message: Probe, wait_ms: int, holders: int) -> None:
        """Pass a probe on, or answer it beyond the end of its range; it ends silently where the range is not known.
        On its account so many holders of proxy filters were told here, and none holds one for longer than that."""
        id_ = message.owner.address, message.owner.version
        owner = self._owner_of(id_)
        if owner is None or owner is self._me:
            return
        self._desk.send(sender, Taken(message.sender_at, owner.descriptor, message.req))
        if not self.is_new(message):
            return
        waiting = self.waiting.get(id_, message)  # whom a former one has told must not be forgotten with it
        told = holders + message.holders + (waiting.holders if waiting is not message else 0)
        longest_ms = max(wait_ms, message.wait_ms, waiting.wait_ms)
        self._wait(id_, replace(message, sender_at=self._me.version, wait_ms=longest_ms, holders=told))

    def _wait(self, id_: PlaceId, probe: Probe) -> None:
        """Send a probe on, and keep it until it is taken."""
        self.waiting[id_] = probe
        self._patience[id_] = Patience(self._desk.config.rpc_ms, AGAIN_MS_MAX)
        self._send(id_)

    def send_again(self) -> None:
        """Once a period: what the right neighbour has not taken for long."""
        for id_ in list(self.waiting):
            if self._patience[id_].is_over(self._desk.now_ms):
                self._send(id_)

    def another_right(self) -> None:
        """There is another right neighbour, or it stands only now: it has got none of what waits."""
        for patience in self._patience.values():
            patience.end()

    def on_taken(self, message: Taken) -> None:
        id_ = message.owner.address, message.owner.version
        probe = self.waiting.get(id_)
        if probe is not None and probe.req == message.req:
            self._gone_on(id_)

    def forget(self, id_: PlaceId) -> None:
        """A range is not known here any more."""
        self.waiting.pop(id_, None)
        self._patience.pop(id_, None)
        self._passed.pop(id_, None)

    def _gone_on(self, id_: PlaceId) -> None:
        probe = self.waiting.pop(id_)
        del self._patience[id_]
        if id_ != self._me.id:
            self._passed[id_] = (*self._passed.get(id_, ())[1 - PASSED_MAX :], probe.req)

    def _send(self, id_: PlaceId) -> None:
        owner, probe = self._owner_of(id_), self.waiting[id_]
        to = None if owner is None else self._next_under(owner)
        if to is not None:
            self._patience[id_].begin(self._desk.now_ms)
            self._desk.send(to.address, replace(probe, at=to.version))
        elif owner is not None and not self._must_wait(owner):
            self._gone_on(id_)
            self._desk.send(owner.address, Held(owner.version, probe.req, probe.wait_ms, probe.holders))
