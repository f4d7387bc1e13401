"""Flow control: a cell limits what its feeders send it (paper, section IV.C).

A *broker* has a ring link into a lower cell, a *feeder* one into a higher cell; a participant may be both. The limit of
a cell C is M events per cycle for every length of 2^(C-1).

    overloaded      broker = controller     other brokers        feeders below
        │ FlowEvent ─────>│                       │                    │
        │                 │── FlowQuery ─────────>│ (and on from broker to broker)
        │                 │<───────── FlowRate ───│
        │                 │   is it so? then with `limiting`:          │
        │                 │── FlowQuery ─────────>│── FlowQuery ──────>│
        │                 │<─────────────────────────────── FlowRate ──│
        │                 │   shares in proportion to the rates        │
        │                 │── FlowLimit ──────────────────────────────>│

1. A member whose buffer is a quarter full (the paper prints "<=", which contradicts the purpose) and that receives more
   than the limit on some stretch of its span sends a `FlowEvent` down its cell; the first broker it reaches becomes the
   controller for that range.
2. The controller asks the brokers of the range for their rates: the most that each receives on a stretch of 2^(C-1)
   units, for few of them span the whole range, and what they receive in a part of it says nothing about all of it.
   Members of the cell that are not brokers pass the question on, or it would not get from one broker to the next.
3. If the rates confirm it, it asks again, and the brokers ask their feeders. A feeder answers with the rate at which it
   *has* events for the cell above, not with what a limit lets through, or no limit would ever be needed twice.
4. It sends each feeder its limit. Every 50 cycles steps 3 and 4 are repeated (the text's "3 and 4" counts a step that
   the print has swallowed), and limits that are not needed any more are lifted.

A feeder may have links into several higher cells: rates and limits are those of one of them, in one ring. No stranger
can silence a feeder: alarms and questions are heard from ring links only, answers from those who have heard the
question (its number cannot be guessed), a limit from a ring link or from the controller whose question has come that
way. Shortcuts that lead into the cell meanwhile are closed (`closing`). Feeders keep to limits, and tell their rates,
whether they have a budget or not.

Limits are leases of 75 cycles (differs from the paper, where the limits of a dead controller stay for ever). Of two
controllers on overlapping ranges the one with the lower id stays.

What a feeder holds back is reported as dropped with the reason `limit`.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from protocols.model.ids import Address
from protocols.overlay import Control, Message, Outbox, Rejected
from protocols.sub2sub.closing import Closing
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.messages import HOPS_MAX, FlowClosed, FlowEvent, FlowLimit, FlowQuery, FlowRate
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.order import Coordinate, cell
from protocols.sub2sub.rates import Rates, Units
from protocols.sub2sub.ring import Candidate, Ring

REPEAT_CYCLES: Final = 50
"""Paper, section IV.C."""
LEASE_CYCLES: Final = 75
"""Half as long again as the controller takes to come back (specification, section 5)."""
WAIT_CYCLES: Final = 5
"""T_fc: for rates to come in (specification, section 5)."""
SEQ_BITS: Final = 48
"""Of a question's number, by lot: whoever has not heard it cannot answer."""
ANSWERS_MAX: Final = 256
LIMITS_MAX: Final = 16
ASKED_MAX: Final = 256
ASKED_CYCLES: Final = 2 * WAIT_CYCLES
"""For so long a question is remembered; by then it has been everywhere. With too many at once new ones are refused: who
forgets a question that is still about passes it on again, and it never ends."""


class Limit:
    """A feeder's own: how many events per cycle may go up into a cell in a range, and how many still may."""

    __slots__ = ("beyond", "cell", "controller", "first", "left", "place", "rate", "until")

    def __init__(self, message: FlowLimit, controller: Address, until: int) -> None:
        self.controller = controller
        self.place, self.cell = message.place, message.cell
        self.first, self.beyond = message.first, message.beyond
        self.rate = message.rate
        self.left = message.rate
        self.until = until


class Steering:
    """A controller's work on one range of its cell."""

    __slots__ = (
        "beyond",
        "brokers",
        "cell",
        "deadline",
        "decided",
        "feeders",
        "first",
        "limited",
        "limiting",
        "place",
        "seq",
    )

    def __init__(self, ring: Ring, first: int, beyond: int, deadline: int) -> None:
        self.place, self.cell = ring.place, ring.rank[0]
        self.first, self.beyond = first, beyond
        self.seq = 0  # of the present question
        self.deadline = deadline  # the cycle in which the answers are counted, or the next round begins
        self.limiting = False
        self.decided = False  # limits are told, and stand until the next round
        self.brokers: dict[Address, float] = {}
        self.feeders: dict[Address, float] = {}
        self.limited: dict[Address, None] = {}

    def is_about(self, event: FlowEvent) -> bool:
        """Whether this is what an alarm asks for."""
        overlap = self.first < event.beyond and event.first < self.beyond
        return overlap and (self.place, self.cell) == (event.place, event.cell)


class Flow:
    """One participant's share of flow control. `turn` is called at the end of a cycle, or of several."""

    __slots__ = (
        "_asked",
        "_config",
        "_cycle",
        "_hood",
        "_numbers",
        "_out",
        "_rng",
        "_send",
        "_space_units",
        "closing",
        "held_back",
        "limits",
        "offered",
        "received",
        "steering",
    )

    def __init__(
        self,
        hood: Neighbourhood,
        config: Sub2SubConfig,
        out: Outbox,
        send: Callable[[Address, Message], None],
        rng: Random,
    ) -> None:
        self._hood = hood
        self._config = config
        self._out = out
        self._send = send
        self._rng = rng
        self._cycle = 0
        self._numbers = 0  # of limits
        self._asked: dict[tuple[Address, int], int] = {}  # questions that were passed on already, and when
        self._space_units: dict[int, Units] = {}
        self.received: dict[int, Rates] = {}  # by place
        self.offered: dict[tuple[int, int], Rates] = {}  # by place and higher cell
        self.limits: dict[int, Limit] = {}
        self.closing = Closing(hood, out, send)
        self.steering: Steering | None = None
        self.held_back = 0  # in this cycle

    def units(self, place: int) -> Units:
        units = self._space_units.get(place)
        if units is None:
            units = self._space_units[place] = Units(self._hood.space, place)
        return units

    def count(self, ring: Ring, x: Coordinate, sender: Address) -> None:
        """A new event has come in a ring."""
        rates = self.received.get(ring.place)
        if rates is None:
            rates = self.received[ring.place] = Rates()
        unit = self.units(ring.place).of(x)
        rates.count(unit)
        if self.closing.guarded:
            self.closing.on_copy(ring, unit, sender)

    # --- roles ---

    def feeders(self, ring: Ring, first: int, beyond: int) -> list[Candidate]:
        """Links into lower cells that serve some of these units: they feed us, so we are their broker."""
        units = self.units(ring.place)
        found: dict[Address, Candidate] = {}
        for part in ring.lower:
            a, b = units.between(part.lo, part.hi)
            if a < beyond and first < b and cell(part.who.descriptor) < ring.rank[0]:
                found[part.who.address] = part.who
        return list(found.values())

    def _fellows(self, ring: Ring, first: int, beyond: int) -> list[Address]:
        """Members of our own cell that are known in a range."""
        units, mine = self.units(ring.place), ring.rank[0]
        found: list[Address] = []
        for candidate in ring.links.values():
            a, b = units.between(candidate.lo, candidate.hi)
            if cell(candidate.descriptor) == mine and a < beyond and first < b:
                found.append(candidate.address)
        return found

    # --- a feeder's limit ---

    def admits(self, place: int, x: Coordinate, into: int) -> bool:
        """Whether an event may go up into a higher cell; counted either way."""
        offered = self.offered.get((place, into))
        if offered is None:
            offered = self.offered[place, into] = Rates()
        offered.count(self.units(place).of(x))
        if not self.limits or self.lets_through(place, x, into):
            return True
        self.held_back += 1
        return False

    def lets_through(self, place: int, x: Coordinate, into: int) -> bool:
        """Take the room for one more event from the limits on a higher cell, if there is any left."""
        unit = self.units(place).of(x)
        concerned = [
            limit
            for limit in self.limits.values()
            if (limit.place, limit.cell) == (place, into) and limit.first <= unit < limit.beyond
        ]
        if any(limit.left < 1.0 for limit in concerned):
            return False
        for limit in concerned:
            limit.left -= 1.0
        return True

    def is_open(self, place: int, x: Coordinate, into: int) -> bool:
        """Whether shortcuts may lead into a higher cell at a value."""
        return not self.closing.is_closed(place, into, self.units(place).of(x))

    # --- every cycle ---

    def turn(self, buffered: int, cycles: int = 1) -> None:
        """So many cycles have ended: fill the limits anew, look whether there is too much, and see to what we steer."""
        self._cycle += cycles
        rings = self._hood.rings
        for rates in self.received.values():
            rates.turn(cycles)
        for rates in self.offered.values():
            rates.turn(cycles)
        self._renew_limits(cycles)
        self.closing.expire(self._cycle)
        if self.steering is not None:
            ring = rings.get(self.steering.place)
            if ring is None or ring.rank[0] != self.steering.cell:
                self.steering = None  # we have moved; its limits are leases
            else:
                self._steer(ring, self.steering)
        if 4 * buffered >= self._config.buffer_max:
            for ring in list(rings.values()):
                self._look(ring)

    def _look(self, ring: Ring) -> None:
        """Whether too much comes in a ring."""
        received = self.received.get(ring.place)
        if received is not None:
            first, beyond = self.units(ring.place).between(ring.lo, ring.hi)
            found = received.excess(first, beyond, _width(ring), self._config.rate_max)
            if found is not None:
                self._alarm(ring, FlowEvent(ring.place, ring.rank[0], found[0], found[1], HOPS_MAX))

    def _renew_limits(self, cycles: int) -> None:
        if self.held_back:
            self._out.report(Control("limit-kept", self.held_back))
            self.held_back = 0
        for seq, limit in list(self.limits.items()):
            limit.left = min(limit.left + cycles * limit.rate, max(2 * limit.rate, 1.0))
            if limit.until <= self._cycle:
                del self.limits[seq]
                self._out.report(Control("limit-lifted", limit.rate, {"because": "its lease is over"}))

    def _alarm(self, ring: Ring, message: FlowEvent) -> None:
        """There is too much in a range: be its controller if we are a broker, or tell somebody further down."""
        steering = self.steering
        if steering is not None and steering.is_about(message):
            return
        if steering is None and self.feeders(ring, message.first, message.beyond):
            self._take_control(ring, message.first, message.beyond)
        elif message.ttl:
            units = self.units(ring.place)
            for part in ring.lower:
                a, b = units.between(part.lo, part.hi)
                if a < message.beyond and message.first < b:
                    on = FlowEvent(message.place, message.cell, message.first, message.beyond, message.ttl - 1)
                    self._send(part.who.address, on)
                    return

    def on_event(self, sender: Address, message: FlowEvent) -> None:
        ring = self._hood.rings.get(message.place)
        if ring is not None and ring.rank[0] == message.cell and _is_link(ring, sender):
            self._alarm(ring, message)

    # --- the controller ---

    def _take_control(self, ring: Ring, first: int, beyond: int) -> None:
        self.steering = Steering(ring, first, beyond, self._cycle + WAIT_CYCLES)
        self._out.report(Control("flow-control", self._allowed(ring, first, beyond), {"range": f"{first}-{beyond}"}))
        self._ask(ring, self.steering)

    def _allowed(self, ring: Ring, first: int, beyond: int) -> float:
        """M events per cycle for every length of 2^(C-1)."""
        return self._config.rate_max * max(1.0, (beyond - first) / _width(ring))

    def _ask(self, ring: Ring, steering: Steering) -> None:
        steering.seq = self._rng.getrandbits(SEQ_BITS)
        steering.brokers.clear()
        steering.feeders.clear()
        me = self._hood.me
        query = FlowQuery(
            ring.place, ring.rank[0], steering.first, steering.beyond, me, steering.seq, steering.limiting
        )
        self.on_query(me, query)

    def _steer(self, ring: Ring, steering: Steering) -> None:
        """The answers are due, or another round."""
        if self._cycle < steering.deadline:
            return
        if not steering.limiting:
            if max(steering.brokers.values(), default=0.0) <= self._config.rate_max:
                self.steering = None  # nobody else sees it
                return
            steering.limiting = True
            steering.deadline = self._cycle + WAIT_CYCLES
            self._ask(ring, steering)
        elif steering.decided:  # another fifty cycles have passed
            steering.decided = False
            steering.deadline = self._cycle + WAIT_CYCLES
            self._ask(ring, steering)
        elif steering.feeders:
            self._decide(ring, steering, self._allowed(ring, steering.first, steering.beyond))
            steering.decided = True
            steering.deadline = self._cycle + REPEAT_CYCLES
        else:
            self.steering = None  # there is nobody to limit any more

    def _decide(self, ring: Ring, steering: Steering, allowed: float) -> None:
        """Shares in proportion to the rates; or no limits any more."""
        total = sum(steering.feeders.values())
        lifted = total <= allowed
        for feeder, rate in steering.feeders.items():
            if lifted and feeder not in steering.limited:
                continue
            share = rate * allowed / total if total > 0.0 else 0.0
            limit = FlowLimit(ring.place, ring.rank[0], steering.first, steering.beyond, share, steering.seq, lifted)
            if feeder == self._hood.me:
                self.on_limit(feeder, limit)
            else:
                self._send(feeder, limit)
            if lifted:
                steering.limited.pop(feeder, None)
            elif len(steering.limited) < ANSWERS_MAX:
                steering.limited[feeder] = None
        self._out.report(Control("flow-lifted" if lifted else "flow-limited", total, {"allowed": f"{allowed:.1f}"}))
        steering.feeders.clear()
        if lifted:
            self.steering = None

    # --- questions ---

    def on_query(self, sender: Address, message: FlowQuery) -> None:
        """Answer as broker or as feeder, and pass the question on."""
        key = (message.controller, message.seq)
        ring = self._hood.rings.get(message.place)
        if ring is None or key in self._asked or not (sender == self._hood.me or _is_link(ring, sender)):
            return
        if not self._has_room_to_ask():
            return
        self._asked[key] = self._cycle
        first, beyond = message.first, message.beyond
        if ring.rank[0] < message.cell:
            if message.limiting:
                offered = self.offered.get((ring.place, message.cell))
                self._answer(message, offered.total(first, beyond) if offered is not None else 0.0, True)
            return
        if ring.rank[0] > message.cell or self._yields(message):
            return
        if message.limiting:
            self.closing.guard(message, self._cycle + LEASE_CYCLES)
        feeders = self.feeders(ring, first, beyond)
        if feeders:
            received = self.received.get(ring.place)
            self._answer(message, received.peak(first, beyond, _width(ring)) if received is not None else 0.0, False)
        receivers = self._fellows(ring, first, beyond)
        if message.limiting:
            receivers += [feeder.address for feeder in feeders]
        for to in receivers:
            if to not in (sender, message.controller):
                self._send(to, message)

    def _has_room_to_ask(self) -> bool:
        if len(self._asked) >= ASKED_MAX:
            self._asked = {key: at for key, at in self._asked.items() if at > self._cycle - ASKED_CYCLES}
        return len(self._asked) < ASKED_MAX

    def _yields(self, message: FlowQuery) -> bool:
        """Of two controllers on overlapping ranges the one with the lower id stays. True: the other gives way."""
        steering, me = self.steering, self._hood.me
        if steering is None or message.controller == me:
            return False
        if steering.first >= message.beyond or message.first >= steering.beyond:
            return False
        if message.controller < me:
            self.steering = None
            return False
        return True

    def _answer(self, message: FlowQuery, rate: float, feeder: bool) -> None:
        answer = FlowRate(message.seq, rate, feeder)
        if message.controller == self._hood.me:
            self.on_rate(self._hood.me, answer)
        else:
            self._send(message.controller, answer)

    def on_rate(self, sender: Address, message: FlowRate) -> None:
        steering = self.steering
        if steering is None or message.seq != steering.seq:
            return
        answers = steering.feeders if message.feeder else steering.brokers
        if len(answers) < ANSWERS_MAX:
            answers[sender] = message.rate

    def on_limit(self, sender: Address, message: FlowLimit) -> None:
        """A controller's word to its feeder: to one that it feeds, or whose question has come by way of one."""
        former = [seq for seq, limit in self.limits.items() if limit.controller == sender]
        ring = self._hood.rings.get(message.place)
        if not former and (sender, message.seq) not in self._asked and not (ring and _is_link(ring, sender)):
            self._out.report(Rejected(sender, "limits a stranger"))
            return
        for seq in former:
            del self.limits[seq]
        detail = {"range": f"{message.first}-{message.beyond}", "controller": str(sender)}
        if message.lifted:
            if former:
                self._out.report(Control("limit-lifted", message.rate, detail))
            return
        if len(self.limits) < LIMITS_MAX:
            self._numbers += 1
            self.limits[self._numbers] = Limit(message, sender, self._cycle + LEASE_CYCLES)
            self._out.report(Control("limit-renewed" if former else "limit-set", message.rate, detail))

    def on_closed(self, sender: Address, message: FlowClosed) -> None:
        self.closing.on_closed(sender, message, self._cycle + LEASE_CYCLES)


def _is_link(ring: Ring, other: Address) -> bool:
    link = ring.links.get((other.peer, other.slot))
    return link is not None and link.address == other


def _width(ring: Ring) -> int:
    """2^(C-1): the length that a cell counts in."""
    return 1 << max(0, ring.rank[0] - 1)
