"""What waits to be sent to one remote peer: two lanes, control before events, each with bounds on count and bytes.

A remote (`Remote`) is one life of a peer, or an endpoint where it is not known yet who answers. It outlives its
connections: what is queued stays while the network dials, and goes over whichever connection comes about first.

An event lane that is full still takes events for a while, up to a hard cap: bursts are normal. After that it takes none
until it has room again. Nobody looks at a clock for that while the lane is not full.
"""

from asyncio import TimerHandle
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from protocols.model.ids import Address
from protocols.overlay import Message

if TYPE_CHECKING:
    from peerd.net.connection import Connection

from peerd.net.config import NetConfig


class Tally:
    """The traffic of one type of message. An event travels in a field `copy`; every other message is control."""

    __slots__ = ("is_event", "name", "received", "received_bytes", "sent", "sent_bytes")

    def __init__(self, message_type: type[Message]) -> None:
        self.name = str(message_type.__struct_config__.tag)
        self.is_event = "copy" in message_type.__struct_fields__
        self.sent = self.sent_bytes = self.received = self.received_bytes = 0


Entry: TypeAlias = tuple[bytes, int, tuple[Address, ...], Message, Tally]
"""A frame on its way: its bytes, and what is needed to give the message back (slot, receivers, message). One entry
waits for all its receivers: a flood makes one for each event, not for each copy. `Remote.addressee` tells who it is."""


class Lane:
    __slots__ = ("bytes", "bytes_max", "count_max", "entries")

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self.entries: deque[Entry] = deque()
        self.bytes = 0
        self.count_max = count_max
        self.bytes_max = bytes_max

    def __len__(self) -> int:
        return len(self.entries)

    def has_room(self, size: int, factor: int = 1) -> bool:
        return len(self.entries) < self.count_max * factor and self.bytes + size <= self.bytes_max * factor

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.bytes += len(entry[0])

    def extend(self, entries: list[Entry], size: int) -> bool:
        """Take entries of so many bytes in all, if there is room for every one of them."""
        if self.bytes + size > self.bytes_max or len(self.entries) + len(entries) > self.count_max:
            return False
        self.entries.extend(entries)
        self.bytes += size
        return True

    def take(self, bytes_max: int, taken: list[Entry]) -> int:
        """Move entries to `taken`, at least one, up to so many bytes; returns what is left of these."""
        entries = self.entries
        while entries and (not taken or len(entries[0][0]) <= bytes_max):
            entry = entries.popleft()
            bytes_max -= len(entry[0])
            self.bytes -= len(entry[0])
            taken.append(entry)
        return bytes_max

    def clear(self) -> None:
        self.entries.clear()
        self.bytes = 0


class Remote:
    """One life of a remote peer (or, with peer "", an endpoint): what waits for it, and how it is reached."""

    __slots__ = (
        "at",
        "boot",
        "connection",
        "control",
        "dial",
        "dirty",
        "ending",
        "events",
        "failures",
        "full_since",
        "not_before",
        "peer",
        "since",
        "timer",
    )

    def __init__(self, peer: str, boot: int, at: str, config: NetConfig) -> None:
        self.peer = peer
        self.boot = boot
        self.at = at
        self.control = Lane(config.control_max, config.control_bytes_max)
        self.events = Lane(config.events_max, config.events_bytes_max)
        self.connection: Connection | None = None
        """What messages leave by; others to the same peer may still be coming up or draining."""
        self.dial: object | None = None
        """The task that dials, then the connection that it made, until that has been greeted."""
        self.ending: Connection | None = None
        """A former connection on which the other side may still be talking."""
        self.dirty = False
        """Whether it is on the list for this turn's flush."""
        self.full_since: float | None = None
        self.failures = 0
        self.since: float | None = None
        """Since when it cannot be reached."""
        self.not_before = 0.0
        """Back-off: no dial before that."""
        self.timer: TimerHandle | None = None

    def addressee(self, entry: Entry) -> Address:
        """Which participant here the entry is for. Its receivers are in one slot, and one without an id is alone."""
        for address in entry[2]:
            if address.peer == self.peer and address.boot == self.boot:
                return address
        return entry[2][0]

    @property
    def queued(self) -> int:
        return len(self.control.entries) + len(self.events.entries)

    @property
    def busy(self) -> bool:
        """Whether it must not be forgotten."""
        return bool(self.connection or self.dial or self.timer or self.ending or self.queued)

    def admits_event(self, size: int, now: float, config: NetConfig) -> bool:
        """Whether an event that finds the lane full is taken all the same."""
        if self.full_since is None:
            self.full_since = now
        if now - self.full_since >= config.full_s:
            return False
        return self.events.has_room(size, config.events_hard_factor)

    def take(self, bytes_max: int) -> list[Entry]:
        """What to write next: control before events, all of it if it fits."""
        control, events = self.control, self.events
        if control.bytes + events.bytes <= bytes_max:
            taken = list(events.entries)
            if control.entries:
                taken = [*control.entries, *taken]
                control.clear()
            events.clear()
        else:
            taken = []
            left = control.take(bytes_max, taken)
            if not control.entries:
                events.take(left, taken)
        if self.full_since is not None and events.has_room(0):
            self.full_since = None
        return taken

    def take_all(self) -> list[Entry]:
        taken = list(chain(self.control.entries, self.events.entries))
        self.control.clear()
        self.events.clear()
        self.full_since = None
        return taken

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
