"""One participant of the baseline: the state machine's inputs, and who answers them.

The theory stands where it is used: `neighbours` (a random graph of mutual links), `candidates` (whom to ask for one),
`events` (the flood, and how what was missed is repaired).

**States.** new -> joining -> standing -> leaving -> left. A joiner stands with its first link; the first participant of
a swarm stands at once. A joiner that asks a participant which is joining itself waits there until that one stands.

**Invariants** (`peerd/sim/invariants/broadcast`). Links are mutual, at most `links_max`, and lead to standing
participants; the graph is connected.
"""

from random import Random
from typing import Any, Final

from protocols.broadcast.config import BroadcastConfig
from protocols.broadcast.events import Events
from protocols.broadcast.messages import Flood
from protocols.broadcast.neighbours import Neighbours
from protocols.broadcast.own import LEAVING, LEFT, NEW, STANDING, Own
from protocols.model.box import EMPTY
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import (
    Effect,
    Input,
    Join,
    Leave,
    Link,
    PeerLost,
    Publish,
    Received,
    Reception,
    Rejected,
    Sampled,
    Subscribe,
    TimerFired,
    Undelivered,
    Unsubscribe,
    Update,
)
from protocols.parts.recent import Recent
from protocols.parts.seen import KEEP_MS, Seen


class Broadcast:
    __slots__ = ("_events", "_neighbours", "_own", "_seen")

    def __init__(self, me: Address, config: BroadcastConfig, schema: Schema, rng: Random) -> None:
        self._own = Own(me, config, rng)
        self._seen = Seen(KEEP_MS, config.seen_max)
        recent = Recent(config.recent_ms + config.rpc_ms, config.recent_max)
        self._neighbours = Neighbours(self._own, recent)
        self._events = Events(self._own, self._neighbours, recent, self._seen)

    # --- interface ----------------------------------------------------------------------------------------------------

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        if type(item) is Received:
            message = item.message
            if type(message) is not Flood:
                self._received(now_ms, item)
            elif self._seen.holds(id_ := message.copy.event.id):
                # Most copies have been here before; for them, nothing else is touched.
                return [Reception(item.slot, id_, item.sender, message.copy.hops, "duplicate")]
            elif self._own.state != LEFT:
                self._events.on_flood(now_ms, item.sender, message)
        else:
            self._INPUTS[type(item)](self, now_ms, item)
        return self._own.out.drain()

    def descriptor(self) -> Descriptor:
        return Descriptor(self._own.me, self._own.box, self._own.version)

    def links(self) -> list[Link]:
        return [Link("random", to) for to in self._neighbours.linked]

    def has_room(self, now_ms: int) -> bool:
        return self._seen.has_room(now_ms)

    def is_agreeing_with(self, other: Address) -> bool:
        """Whether a request or a notice is under way that will settle whether the two are linked."""
        return self._neighbours.is_agreeing_with(other)

    # --- joining, leaving, subscriptions ------------------------------------------------------------------------------

    def _join(self, now_ms: int, item: Join) -> None:
        own = self._own
        if own.state != NEW:
            raise ValueError(f"participant {own.me} joins twice")
        own.out.timer("rotate", own.jittered(now_ms, own.config.rotate_ms))
        own.out.timer("repair", own.jittered(now_ms, own.config.repair_ms))
        self._neighbours.join(now_ms, item.contacts)

    def _leave(self, now_ms: int, item: Leave) -> None:
        self._neighbours.leave(now_ms)

    def _subscribe(self, now_ms: int, item: Subscribe | Update) -> None:
        own = self._own
        own.box, own.version = item.box, item.version
        if own.state in (STANDING, LEAVING):
            own.out.active(item.id, item.version)

    def _unsubscribe(self, now_ms: int, item: Unsubscribe) -> None:
        self._own.box, self._own.version = EMPTY, self._own.version + 1

    # --- dispatch -----------------------------------------------------------------------------------------------------

    def _received(self, now_ms: int, item: Received) -> None:
        own, kind = self._own, type(item.message)
        if kind not in Neighbours.MESSAGES and kind not in Events.MESSAGES:
            own.out.report(Rejected(item.sender, f"{kind.__name__} is not for a participant"))
        elif own.state == LEFT:
            return
        elif kind in Neighbours.MESSAGES:
            Neighbours.MESSAGES[kind](self._neighbours, now_ms, item.sender, item.message)
        else:
            Events.MESSAGES[kind](self._events, now_ms, item.sender, item.message)

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        self._neighbours.unreached(now_ms, item)
        if isinstance(item.message, Flood):
            self._events.undelivered(item.to, item.message, item.refused)

    def _publish(self, now_ms: int, item: Publish) -> None:
        self._events.publish(now_ms, item.event)

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.key == "seek":
            self._neighbours.seek(now_ms)
        elif item.key == "rotate":
            self._neighbours.rotate(now_ms)
        elif item.key == "repair":
            self._events.repair(now_ms)
        elif item.key == "linger" and self._own.state == LEAVING:
            self._neighbours.leave_now()

    def _sampled(self, now_ms: int, item: Sampled) -> None:
        self._neighbours.sampled(now_ms, item.descriptors)

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        self._neighbours.lost(now_ms, item.address)

    _INPUTS: Final[dict[type, Any]] = {
        Join: _join,
        Leave: _leave,
        Subscribe: _subscribe,
        Update: _subscribe,
        Unsubscribe: _unsubscribe,
        Publish: _publish,
        TimerFired: _timer,
        Undelivered: _undelivered,
        PeerLost: _peer_lost,
        Sampled: _sampled,
    }
