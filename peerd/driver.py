"""Performing effects: the one function that the daemon and the simulator share, and the driver of a living peer.

A state machine returns effects; somebody has to carry them out, in order. What "send" means differs between a socket
and a simulated link; which effects there are, and that none is forgotten, does not. A host lists its actions once, as a
table from the type of an effect to the function that carries it out for the peer `origin`.

`Driver` is the host of one peer in a daemon. It owns the peer's timers, hands messages to a transport, and tells
sinks (the service, the event log, the metrics) what happened. It knows neither sockets nor HTTP: transport, clock and
timers are given. A step runs to its end before the next one starts, also when a sink or the transport calls back in the
middle of one: such inputs wait their turn.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from peerd.wire import Frame
from protocols.model.ids import PEER_SLOT, Address
from protocols.overlay import (
    Active,
    CancelTimer,
    Deliver,
    Dropped,
    Effect,
    Message,
    Received,
    Reception,
    Rejected,
    Report,
    Send,
    SetTimer,
    TimerFired,
    Undelivered,
)
from protocols.peer import Peer, PeerInput

Origin = TypeVar("Origin")
Origin_contra = TypeVar("Origin_contra", contravariant=True)
Actions: TypeAlias = dict[type, Callable[[Any, Any], None]]


class Host(Protocol[Origin_contra]):
    """What somebody must be able to do who runs peers."""

    def send(self, origin: Origin_contra, effect: Send) -> None: ...
    def set_timer(self, origin: Origin_contra, effect: SetTimer) -> None: ...
    def cancel_timer(self, origin: Origin_contra, effect: CancelTimer) -> None: ...
    def active(self, origin: Origin_contra, effect: Active) -> None: ...
    def deliver(self, origin: Origin_contra, effect: Deliver) -> None: ...
    def reception(self, origin: Origin_contra, effect: Reception) -> None: ...
    def report(self, origin: Origin_contra, effect: Report) -> None: ...


def actions(host: Host[Origin]) -> Actions:
    """The table of a host's actions. `Watch` and `Unwatch` end in the peer and never come here."""
    return {
        Send: host.send,
        SetTimer: host.set_timer,
        CancelTimer: host.cancel_timer,
        Active: host.active,
        Deliver: host.deliver,
        Reception: host.reception,
        Report: host.report,
    }


def perform(table: Actions, origin: object, effects: list[Effect]) -> None:
    """Carry out the effects of one step, in order."""
    for effect in effects:
        table[type(effect)](origin, effect)


# --- A living peer ----------------------------------------------------------------------------------------------------


class Transport(Protocol):
    """Carries messages to other peers; calls the driver's `received` and `undelivered`, at once or later."""

    def send(self, slot: int, to: tuple[Address, ...], message: Message) -> None: ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time in milliseconds that never runs backwards, and calls at a time."""

    def now_ms(self) -> int: ...
    def call_at(self, at_ms: int, call: Callable[..., None], *args: Any) -> Timer: ...


class Sink(Protocol):
    """Somebody who is told what happened."""

    def on_active(self, now_ms: int, effect: Active) -> None: ...
    def on_deliver(self, now_ms: int, effect: Deliver) -> None: ...
    def on_report(self, now_ms: int, effect: Report) -> None: ...


@runtime_checkable
class ReceptionSink(Protocol):
    """A sink that is told of receptions, too: these come for every message, so nobody is told in vain."""

    def on_reception(self, now_ms: int, effect: Reception, size: int) -> None: ...


class Driver:
    def __init__(self, peer: Peer, transport: Transport, clock: Clock) -> None:
        self.peer = peer
        self._transport = transport
        self._clock = clock
        self._now_ms = 0  # when the present step began
        self._sinks: list[Sink] = []
        self._on_reception: list[Callable[[int, Reception, int], None]] = []
        self._timers: dict[tuple[int, str], Timer] = {}
        self._waiting: deque[PeerInput] = deque()
        self._stepping = False
        self._stopped = False
        self._size = 0  # bytes of the message that is being handled
        self._table = actions(self)

    def attach(self, sinks: Sequence[Sink]) -> None:
        """Tell these, too, what happens from now on."""
        self._sinks += sinks
        self._on_reception += [sink.on_reception for sink in sinks if isinstance(sink, ReceptionSink)]

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def step(self, item: PeerInput) -> None:
        """Hand an input to the peer and carry out what it answers."""
        if self._stepping:
            self._waiting.append(item)
            return
        self._waiting.append(item)
        self._stepping = True
        try:
            self._catch_up()
        finally:
            self._stepping = False

    def _catch_up(self) -> None:
        """Take the steps that wait."""
        waiting = self._waiting
        while waiting and not self._stopped:
            now_ms = self._now_ms = self._clock.now_ms()
            perform(self._table, None, self.peer.handle(now_ms, waiting.popleft()))

    def stop(self) -> None:
        """No step after this one, and no timer left."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # --- called by the transport --------------------------------------------------------------------------------------

    def received(self, sender: Address, slot: int, message: Message, size: int) -> None:
        self._size = size
        self.step(Received(sender, slot, message))

    def arrived(self, frames: Iterator[Frame], senders: Mapping[int, Address]) -> None:
        """All that one read has brought: it came at one time, and one look at the clock will do."""
        if self._stepping or self._stopped:
            self._waiting += [Received(senders[each.src_slot], each.dst_slot, each.message) for each in frames]
            return
        table, handle, waiting = self._table, self.peer.handle, self._waiting
        now_ms = self._now_ms = self._clock.now_ms()
        self._stepping = True
        try:
            for frame in frames:
                self._size = frame.size
                item = Received(senders[frame.src_slot], frame.dst_slot, frame.message)
                perform(table, None, handle(now_ms, item))
                if waiting or self._stopped:
                    self._catch_up()
        finally:
            self._stepping = False

    def undelivered(self, slot: int, to: Address, message: Message, refused: bool) -> None:
        self.step(Undelivered(slot, to, message, refused))

    def dropped(self, to: Address, message: Message, reason: str) -> None:
        """A link had no room for a copy of an event."""
        copy = getattr(message, "copy", None)
        if copy is not None:
            self.report(None, Report(PEER_SLOT, Dropped(copy.event.id, reason, to)))

    def rejected(self, sender: Address | None, at: str, reason: str) -> None:
        """Somebody sent what it must not, before the peer could even see it."""
        self.report(None, Report(PEER_SLOT, Rejected(sender or Address("", 0, PEER_SLOT, at), reason)))

    # --- effects (the host's side of `perform`) -----------------------------------------------------------------------

    def send(self, origin: None, effect: Send) -> None:
        self._transport.send(effect.slot, effect.to, effect.message)

    def set_timer(self, origin: None, effect: SetTimer) -> None:
        key = effect.slot, effect.key
        former = self._timers.get(key)
        if former is not None:
            former.cancel()
        self._timers[key] = self._clock.call_at(effect.at_ms, self._fire, key)

    def cancel_timer(self, origin: None, effect: CancelTimer) -> None:
        timer = self._timers.pop((effect.slot, effect.key), None)
        if timer is not None:
            timer.cancel()

    def _fire(self, key: tuple[int, str]) -> None:
        del self._timers[key]
        self.step(TimerFired(*key))

    def active(self, origin: None, effect: Active) -> None:
        for sink in self._sinks:
            sink.on_active(self._now_ms, effect)

    def deliver(self, origin: None, effect: Deliver) -> None:
        for sink in self._sinks:
            sink.on_deliver(self._now_ms, effect)

    def reception(self, origin: None, effect: Reception) -> None:
        for on_reception in self._on_reception:
            on_reception(self._now_ms, effect, self._size)

    def report(self, origin: None, effect: Report) -> None:
        now_ms = self._now_ms if self._stepping else self._clock.now_ms()
        for sink in self._sinks:
            sink.on_report(now_ms, effect)
