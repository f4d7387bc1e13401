"""The upload budget of a participant, and what messages cost.

The paper limits uploads, not downloads (section V), and counts in *units*: a CYCLON message costs 10, a copy of an
event 2. VICINITY messages are as large as CYCLON's and cost as much; control messages cost as much as an event
(specification, section 5). A daemon counts *bytes* per second instead, as they will stand on the socket, but for a few:
sizes are reckoned here from what a message holds, since encoding it twice would cost more than it says.

Gossip is charged first and always sent; events get what is left. In the paper's simulations it is charged by the cycle,
three requests and three replies (`gossip_units`): as much for everybody, and as much in a swarm that has converged and
has nothing to say any more.

- `buffered` (the paper's simulations): a budget per cycle. What gossip used during the cycle is taken off, and at its
  end as many events leave as the rest allows;
- otherwise a token bucket: the budget flows in steadily, up to one cycle's worth can be saved, and an event leaves as
  soon as there is enough. Gossip may run into debt, which events wait for.

Differs from the paper: random links are the daemon's own, one CYCLON for all participants, so a participant does not
see its messages. It is charged its share of one request and, on average, one reply per cycle for them. What goes to a
sibling, another participant of the same peer, touches no socket and costs nothing.
"""

from collections.abc import Collection
from typing import Final

from protocols.model.ids import Address
from protocols.overlay import Message, SetBudget
from protocols.parts.vicinity import VicinityReply, VicinityRequest
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.messages import (
    Claims,
    ClaimsDigest,
    Descend,
    Enter,
    Entered,
    FlowRate,
    JoinReply,
    NotHere,
    RecentIds,
    Ring,
    RingHello,
    RingReply,
    Want,
)

CYCLON_UNITS: Final = 10
EVENT_UNITS: Final = 2
"""Both: paper, section V."""
GOSSIP_UNITS: Final = 10
CONTROL_UNITS: Final = 2
"""Both: specification, section 5."""

FRAME_BYTES: Final = 16
"""Frame and tag around anything, and a number or two. Measured: 14 to 26 bytes."""
HEAD_BYTES: Final = 75
"""An event without its body: id, point, counters. Measured: 65 to 90 bytes."""
ORIGIN_BYTES: Final = 60
"""What the way into a ring needs beside the event: an address. Measured: 55 to 70 bytes."""
DESCRIPTOR_BYTES: Final = 100
"""Measured: 80 to 110 bytes with boxes of one to five attributes."""
PEER_BYTES: Final = 150
"""The descriptor of a peer with some of its participants. Measured: 120 to 180 bytes."""
CYCLON_BYTES: Final = 2 * (FRAME_BYTES + 8 * PEER_BYTES)
"""A second, in which the daemon gossips once."""


class Budget:
    """`limit`: units or bytes per cycle; None is unlimited."""

    __slots__ = (
        "_buffered",
        "_by_the_cycle",
        "_bytes",
        "_cycle_ms",
        "_filled_ms",
        "_left",
        "_me",
        "_share",
        "charged",
        "last",
        "limit",
        "on_events",
    )

    def __init__(self, me: Address, config: Sub2SubConfig) -> None:
        self._me = me
        self._share = 1.0  # of what the peer sends by itself
        self.limit: float | None = None
        self.charged = 0.0  # in this cycle, for gossip and control
        self.on_events = 0.0
        self.last = (0.0, 0.0)
        """Both, in the cycle before; what a checker compares with the limit."""
        self._buffered = config.buffered
        self._bytes = config.accounting == "bytes"
        self._by_the_cycle = config.gossip_units
        self._cycle_ms = config.cycle_ms
        self._left = 0.0
        self._filled_ms = 0

    def set(self, now_ms: int, told: SetBudget) -> None:
        """So much from now on: units per cycle, or bytes per second. Begin with half a cycle's worth; of another budget
        no more is kept than the new one could have saved."""
        limit = told.limit * self._cycle_ms / 1_000 if self._bytes else told.limit
        self._left = limit / 2 if self.limit is None else min(self._left, limit)
        self._filled_ms = now_ms
        self.limit, self._share = limit, told.share

    def turn(self) -> None:
        """The next cycle begins: random links are paid for, or all gossip. Buffered, it has a budget of its own."""
        self.last = (self.charged, self.on_events)
        self.charged = self.on_events = 0.0
        if self._buffered and self.limit is not None:
            self._left = self.limit
        cyclon = CYCLON_BYTES * self._cycle_ms / 1_000 if self._bytes else 2 * CYCLON_UNITS
        self.charge(self._by_the_cycle or cyclon * self._share)

    def pay(self, receivers: Collection[Address], message: Message) -> None:
        """A message that cannot wait is sent to these."""
        if self.limit is not None and (remote := self.remote(receivers)):
            self.charge(self.of_message(message) * remote)

    def remote(self, receivers: Collection[Address]) -> int:
        """To how many of them something really has to be sent."""
        if self._share == 1.0:
            return len(receivers)  # there are no siblings
        return sum([to.peer != self._me.peer for to in receivers])

    def charge(self, cost: float) -> None:
        """Something that cannot wait is sent."""
        self._left -= cost
        self.charged += cost

    def take(self, now_ms: int, cost: float) -> bool:
        """Spend that much on events, if it is there."""
        limit = self.limit
        if limit is None:
            return True
        if self._filled_ms < now_ms and not self._buffered:
            grown = self._left + limit * (now_ms - self._filled_ms) / self._cycle_ms
            self._left, self._filled_ms = min(limit, grown), now_ms
        if cost > self._left and not (cost > limit and self._left >= limit):
            return False  # (what would never fit goes when all of the budget is there)
        self._left -= cost
        self.on_events += cost
        return True

    def give_back(self, cost: float) -> None:
        """What was taken is not needed after all."""
        if self.limit is not None:
            self._left += cost
            self.on_events -= cost

    def spare(self, now_ms: int, cost: float) -> bool:
        """Spend that much on what nobody needs, if half a cycle's worth stays for what somebody does."""
        return self.has_spare(cost) and self.take(now_ms, cost)

    def has_spare(self, cost: float) -> bool:
        """Whether there was so much when the budget was last looked at."""
        return self.limit is None or self._left - cost >= self.limit / 2

    def ready_ms(self, now_ms: int, cost: float) -> int:
        """When there will be so much."""
        assert self.limit is not None
        missing = min(cost, self.limit) - self._left
        return now_ms + max(1, int(missing * self._cycle_ms / self.limit) + 1)

    # --- What things cost ---

    def of_event(self, body_bytes: int) -> float:
        return FRAME_BYTES + HEAD_BYTES + body_bytes if self._bytes else EVENT_UNITS

    def of_message(self, message: Message) -> float:
        kind = type(message)
        if self._by_the_cycle and kind in _GOSSIP:
            return 0.0
        if not self._bytes:
            return GOSSIP_UNITS if kind in _GOSSIP else EVENT_UNITS if kind in _EVENTS else CONTROL_UNITS
        if kind in _GOSSIP or kind is JoinReply:
            return FRAME_BYTES + DESCRIPTOR_BYTES * (1 + len(message.entries))  # type: ignore[attr-defined]
        if kind in _EVENTS:
            origin = ORIGIN_BYTES if kind is Enter else 0
            return self.of_event(len(message.copy.event.body)) + origin  # type: ignore[attr-defined]
        if kind is Claims:
            return FRAME_BYTES + DESCRIPTOR_BYTES * len(message.claims)  # type: ignore[attr-defined]
        if kind is ClaimsDigest:
            return FRAME_BYTES + 5 * len(message.parts)  # type: ignore[attr-defined]
        if kind is RecentIds or kind is Want:
            return FRAME_BYTES + 9 * len(message.digests)  # type: ignore[attr-defined]
        return FRAME_BYTES if kind in _SHORT else FRAME_BYTES + DESCRIPTOR_BYTES


_GOSSIP: Final = (VicinityRequest, VicinityReply, RingHello, RingReply)
_EVENTS: Final = (Ring, Descend, Enter)
_SHORT: Final = (Entered, NotHere, FlowRate)
