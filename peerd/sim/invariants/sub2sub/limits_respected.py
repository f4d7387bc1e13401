"""No feeder sends more events into a higher cell than the limits that it was given allow, nor by any way than its ring
links into one that was closed to it.

What is counted is what goes over the simulated wire: limits as controllers send them, and copies of events as feeders
do. What a feeder itself believes of either does not enter here. The first check of a swarm begins to listen.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from peerd.sim.engine import Node
from protocols.model.descriptor import Descriptor
from protocols.model.event import Event
from protocols.model.ids import Address, EventId, PeerId
from protocols.overlay import Overlay, Send
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.flow import LEASE_CYCLES
from protocols.sub2sub.messages import FlowClosed, FlowLimit, Ring
from protocols.sub2sub.order import cell, coordinate_at, places
from protocols.sub2sub.overlay import Sub2Sub
from protocols.sub2sub.rates import Units

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm

SAVED_CYCLES: Final = 4
"""One cycle's worth to begin with, two that may be saved up, and one more for copies that met the limit on the way."""
JITTER: Final = 1.1
"""A feeder's cycles may be so much quicker."""
TOLD_MS: Final = 1_000
"""Within that a message has arrived."""
OVER_MAX: Final = 16
"""Lines that are kept of what was exceeded in limits that are over."""


class Account:
    """What a feeder may send by one controller's word, and what it has sent."""

    __slots__ = ("allowed", "highest", "limit", "sent", "since_ms", "until_ms")

    def __init__(self, now_ms: int, limit: FlowLimit, cycle_ms: int) -> None:
        self.limit = limit
        self.allowed = 0.0  # until `since_ms`
        self.highest = 1.0
        self.sent: dict[EventId, None] = {}
        self.since_ms = now_ms
        self.renew(now_ms, limit, cycle_ms)

    def renew(self, now_ms: int, limit: FlowLimit, cycle_ms: int) -> None:
        """Another word of the same controller; a feeder may begin anew with what it has saved."""
        self.allowed = self.most(now_ms, cycle_ms)
        self.limit, self.since_ms = limit, now_ms
        self.until_ms = now_ms + int(LEASE_CYCLES * cycle_ms / JITTER)
        self.highest = max(1.0, limit.rate)
        self.allowed += SAVED_CYCLES * self.highest

    def is_about(self, now_ms: int, limit: FlowLimit) -> bool:
        """Whether that is another word on the same matter."""
        mine = self.limit
        same = (mine.place, mine.cell, mine.first, mine.beyond) == (limit.place, limit.cell, limit.first, limit.beyond)
        return same and now_ms < self.until_ms

    def most(self, now_ms: int, cycle_ms: int) -> float:
        """How many events may have been sent by now."""
        return self.allowed + JITTER * self.limit.rate * (now_ms - self.since_ms) / cycle_ms


class Wire:
    """Listens to what is sent. It holds who lives, and not the swarm: that holds the engine, which holds this."""

    def __init__(self, swarm: "Swarm", cycle_ms: int) -> None:
        self.cycle_ms = cycle_ms
        self.accounts: dict[tuple[Address, Address], Account] = {}  # by feeder and controller
        self.closings: dict[tuple[Address, Address], tuple[FlowClosed, int]] = {}  # by feeder and teller; since when
        self.over: list[str] = []
        self._space = swarm.config.schema.space
        self._live = swarm.live
        self._nodes: dict[PeerId, Node] = {}

    def __call__(self, now_ms: int, sender: Address, effect: Send) -> None:
        message = effect.message
        if isinstance(message, Ring):
            if self.accounts:
                self._copies(now_ms, sender, effect.to, message.copy.event)
            if self.closings:
                self._shortcuts(now_ms, sender, effect.to, message.copy.event)
        elif isinstance(message, FlowLimit):
            for feeder in effect.to:
                self._limit(now_ms, feeder, sender, message)
        elif isinstance(message, FlowClosed):
            for feeder in effect.to:
                self.closings[feeder, sender] = message, now_ms + TOLD_MS

    def _limit(self, now_ms: int, feeder: Address, controller: Address, message: FlowLimit) -> None:
        key = feeder, controller
        account = self.accounts.get(key)
        if account is not None and (message.lifted or not account.is_about(now_ms, message)):
            self.over = [*self.over, *self.exceeded(now_ms, key)][:OVER_MAX]
            del self.accounts[key]
            account = None
        if message.lifted:
            return
        if account is None:
            self.accounts[key] = Account(now_ms, message, self.cycle_ms)
        else:
            account.renew(now_ms, message, self.cycle_ms)

    def _copies(self, now_ms: int, feeder: Address, receivers: tuple[Address, ...], event: Event) -> None:
        for (limited, _), account in self.accounts.items():
            limit = account.limit
            if limited != feeder or now_ms >= account.until_ms:
                continue
            unit = Units(self._space, limit.place).of(coordinate_at(event.point, limit.place))
            if limit.first <= unit < limit.beyond and any(self._is_in(limit, to) for to in receivers):
                account.sent[event.id] = None

    def _shortcuts(self, now_ms: int, feeder: Address, receivers: tuple[Address, ...], event: Event) -> None:
        """Whoever has told that its cell is closed gets nothing more from those that are no ring links of its."""
        for to in receivers:
            closed, since_ms = self.closings.get((feeder, to), (None, 0))
            if closed is None or not since_ms <= now_ms < since_ms + LEASE_CYCLES * self.cycle_ms / JITTER - TOLD_MS:
                continue
            x = coordinate_at(event.point, closed.place)
            known = closed.first <= Units(self._space, closed.place).of(x) < closed.beyond
            if known and self._is_in(closed, to) and self._is_shortcut(now_ms, feeder, closed, x, to):
                self.over = [*self.over, f"{feeder}: a shortcut into cell {closed.cell}, which is closed"][:OVER_MAX]

    def _is_shortcut(self, now_ms: int, feeder: Address, closed: FlowClosed, x: Any, to: Address) -> bool:
        """Whether the feeder stands below and has no ring link there."""
        participant = self._participant(feeder)
        ring = participant.rings.get(closed.place) if isinstance(participant, Sub2Sub) else None
        if ring is None or ring.rank[0] >= closed.cell:
            return False
        return (to.peer, to.slot) not in ring.links and to not in ring.fading(now_ms, x)

    def _is_in(self, told: FlowLimit | FlowClosed, address: Address) -> bool:
        """Whether a participant stands in that cell, in the ring of that place, by its own word."""
        participant = self._participant(address)
        own: Descriptor | None = None if participant is None else participant.descriptor()
        return own is not None and cell(own) == told.cell and told.place in places(own)

    def _participant(self, address: Address) -> Overlay | None:
        node = self._nodes.get(address.peer)
        if node is None or not node.alive:
            self._nodes = {each.address.peer: each for each in self._live.values()}
            node = self._nodes.get(address.peer)
        return None if node is None else node.peer.participants.get(address.slot)

    def exceeded(self, now_ms: int, key: tuple[Address, Address]) -> Iterator[str]:
        account = self.accounts[key]
        most = account.most(min(now_ms, account.until_ms), self.cycle_ms)
        if len(account.sent) > most:
            yield f"{key[0]}: {len(account.sent)} events into cell {account.limit.cell}, where {most:.0f} are allowed"


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, Sub2SubConfig)
    wire = swarm.engine.tap
    if not isinstance(wire, Wire):
        wire = swarm.engine.tap = Wire(swarm, config.cycle_ms)
    yield from wire.over
    for key in wire.accounts:
        yield from wire.exceeded(swarm.now_ms, key)
