"""The retained deliveries of one subscription: a log with a bounded tail, and readers that each have a place in it.

Reading deletes nothing. A delivery is kept until it is older than `retain_s`, until there are more than `retain_max`,
or until the memory for deliveries is used up; any number of readers see each one. Readers never hold anything up: one
that falls behind the tail finds a *gap*, and is told how many deliveries it has missed.

A *cursor* names a place in the log: everything up to and with one delivery. It is `epoch` and `sequence` in hexadecimal
digits of fixed width, so cursors of one subscription increase as strings, too. No two logs have the same epoch, not
even of one subscription before and after a restart: a cursor of an earlier life is recognised, and has expired.

A delivery that goes while nobody has read it, or while a reader that is there has not come to it, is lost; each is
reported once. One that everybody has seen may go without a word.

Nobody waits in here. A reader brings a function that is called whenever there may be something new to take, at most
setting a flag or an event: one delivery to a thousand readers makes no task.
"""

from collections import deque
from collections.abc import Callable
from re import compile as pattern
from typing import Final, NamedTuple

import msgspec

RETAIN_S: Final = 600.0
"""Seconds that a delivery is kept (contract)."""
RETAIN_MAX: Final = 10_000
"""Deliveries that are kept (contract)."""
EACH_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one subscription. Our choice: 10,000 events of 150 bytes take a quarter of it."""
ALL_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all subscriptions of a peer. Our choice: 16 subscriptions that are full."""
OVERHEAD_BYTES: Final = 256
"""What a delivery costs beside its body and id: measured 235 bytes for the struct and its numbers."""

_EPOCH_DIGITS: Final = 12
_SEQUENCE_DIGITS: Final = 10
_cursor: Final = pattern(rf"[0-9a-f]{{{_EPOCH_DIGITS + _SEQUENCE_DIGITS}}}").fullmatch


class BadCursor(ValueError):
    """Not a cursor of this subscription, of whatever age."""


class CursorExpired(Exception):
    """What follows the cursor is not kept any more. Reading after `oldest` gives everything that is."""

    def __init__(self, oldest: str) -> None:
        super().__init__(f"what follows this cursor is not kept any more; all that is kept follows {oldest}")
        self.oldest = oldest


class Retained(msgspec.Struct, frozen=True, gc=False):
    """One delivery as it is kept: its body stays encoded until somebody reads it."""

    sequence: int
    at_ms: int
    delivered_us: int
    event_id: str
    body: bytes
    hops: int


class Batch(NamedTuple):
    """What a reader has missed since it last took something, and what it gets now."""

    lost: int
    items: list[Retained]


class Budget:
    """The memory that all subscriptions of a peer share.

    One may have `each_bytes`. When all together have more than `all_bytes`, those give way that have more than their
    share; the others grow up to theirs. So all together never have more than twice `all_bytes`.
    """

    __slots__ = ("all_bytes", "each_bytes", "holders", "used")

    def __init__(self, all_bytes: int = ALL_BYTES, each_bytes: int = EACH_BYTES) -> None:
        self.all_bytes = all_bytes
        self.each_bytes = each_bytes
        self.used = 0
        self.holders = 0

    def exceeded_by(self, own_bytes: int) -> bool:
        """Whether one who has so much has to give way."""
        if own_bytes > self.each_bytes:
            return True
        return self.used > self.all_bytes and own_bytes * self.holders > self.all_bytes


class Reader:
    """A place in the log of one subscription. Take from it until `closed`, then close it."""

    __slots__ = ("_log", "_wake", "closed", "position")

    def __init__(self, log: "Deliveries", position: int, wake: Callable[[], None]) -> None:
        self._log = log
        self._wake = wake
        self.position = position
        self.closed = False

    @property
    def cursor(self) -> str:
        return self._log.cursor(self.position)

    def cursor_of(self, item: Retained) -> str:
        return self._log.cursor(item.sequence)

    def take(self, limit: int, whole: bool = False) -> Batch:
        """The next deliveries, at most `limit`; none if there are none yet.

        `whole`: nothing is taken if some were lost before them, but `CursorExpired` raised.
        """
        return self._log.take(self, limit, whole)

    def wake(self) -> None:
        self._wake()

    def close(self) -> None:
        self._log.forget(self)


class Deliveries:
    __slots__ = (
        "_budget",
        "_bytes",
        "_epoch",
        "_items",
        "_last",
        "_lost",
        "_now_ms",
        "_read",
        "_readers",
        "closed",
        "retain_max",
        "retain_ms",
        "touched_ms",
    )

    def __init__(
        self,
        epoch: int,
        now_ms: Callable[[], int],
        lost: Callable[[str], None],
        budget: Budget | None = None,
        retain_s: float = RETAIN_S,
        retain_max: int = RETAIN_MAX,
    ) -> None:
        self._epoch = epoch
        self._now_ms = now_ms
        self._lost = lost
        self._budget = budget or Budget()
        self._budget.holders += 1
        self.retain_ms = int(retain_s * 1000)
        self.retain_max = retain_max
        self._items: deque[Retained] = deque()
        self._bytes = 0
        self._last = 0  # sequence of the latest delivery; the first is 1
        self._read = 0  # the furthest that any reader has come
        self._readers: dict[Reader, None] = {}
        self.touched_ms = now_ms()
        self.closed = False

    # --- what others ask ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._items)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def readers(self) -> int:
        return len(self._readers)

    @property
    def oldest(self) -> str:
        """The cursor that everything which is kept comes after."""
        return self.cursor(self._before_first())

    @property
    def latest(self) -> str:
        return self.cursor(self._last)

    def cursor(self, sequence: int) -> str:
        return f"{self._epoch:0{_EPOCH_DIGITS}x}{sequence:0{_SEQUENCE_DIGITS}x}"

    def idle_ms(self) -> int:
        """For how long nobody has read."""
        return 0 if self._readers else self._now_ms() - self.touched_ms

    # --- writing ------------------------------------------------------------------------------------------------------

    def push(self, delivered_us: int, event_id: str, body: bytes, hops: int) -> None:
        now_ms = self._now_ms()
        self._last += 1
        self._items.append(Retained(self._last, now_ms, delivered_us, event_id, body, hops))
        size = len(body) + len(event_id) + OVERHEAD_BYTES
        self._bytes += size
        self._budget.used += size
        self.expire(now_ms)
        for reader in self._readers:
            reader.wake()

    def expire(self, now_ms: int) -> None:
        """Let go what is too old, too many or too much."""
        items = self._items
        since = now_ms - self.retain_ms
        while items and (
            items[0].at_ms < since or len(items) > self.retain_max or self._budget.exceeded_by(self._bytes)
        ):
            self._let_go()

    def _let_go(self) -> None:
        item = self._items.popleft()
        size = len(item.body) + len(item.event_id) + OVERHEAD_BYTES
        self._bytes -= size
        self._budget.used -= size
        sequence = item.sequence
        if sequence > self._read or any(reader.position < sequence for reader in self._readers):
            self._lost(item.event_id)

    def close(self, abandoned: bool = False) -> None:
        """The subscription ends. `abandoned`: nobody asked for that, so what nobody has read is lost."""
        if self.closed:
            return
        self.closed = True
        for item in self._items:
            if abandoned and item.sequence > self._read:
                self._lost(item.event_id)
        self._items.clear()
        self._budget.used -= self._bytes
        self._budget.holders -= 1
        self._bytes = 0
        for reader in list(self._readers):
            reader.closed = True
            reader.wake()
        self._readers.clear()

    # --- reading ------------------------------------------------------------------------------------------------------

    def reader(self, after: str | None, wake: Callable[[], None]) -> Reader:
        """Somebody who reads what follows the cursor `after`, or all that is kept.

        `BadCursor` or `CursorExpired` if there is no such place.
        """
        self.expire(self._now_ms())
        reader = Reader(self, self._before_first() if after is None else self._place(after), wake)
        self._readers[reader] = None
        return reader

    def take(self, reader: Reader, limit: int, whole: bool = False) -> Batch:
        now_ms = self.touched_ms = self._now_ms()
        self.expire(now_ms)
        before_first = self._before_first()
        lost = max(0, before_first - reader.position)
        if lost and whole:
            raise CursorExpired(self.oldest)
        start = reader.position + lost - before_first
        stop = min(start + limit, len(self._items))
        items = [self._items[i] for i in range(start, stop)]
        reader.position = before_first + max(start, stop)
        self._read = max(self._read, reader.position)
        return Batch(lost, items)

    def forget(self, reader: Reader) -> None:
        if self._readers.pop(reader, reader) is None:
            self.touched_ms = self._now_ms()
        reader.closed = True

    def _before_first(self) -> int:
        return self._last - len(self._items)

    def _place(self, cursor: str) -> int:
        if _cursor(cursor) is None:
            raise BadCursor("this is not a cursor")
        epoch, sequence = int(cursor[:_EPOCH_DIGITS], 16), int(cursor[_EPOCH_DIGITS:], 16)
        if epoch != self._epoch or sequence < self._before_first():
            raise CursorExpired(self.oldest)
        if sequence > self._last:
            raise BadCursor("there was no delivery with this cursor yet")
        return sequence
