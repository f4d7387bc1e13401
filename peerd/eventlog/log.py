"""The event log: what happens goes into a queue, and from there to the disk.

The event loop does no more than put what happened into a queue: the effect as it is, and the time. A thread makes
records of it once a second, in small bites so that the loop never waits long for the interpreter, and writes them
(`peerd/segments.py`). So a killed process loses at most its last second, and a slow or full disk never holds up the
peer: the queue is bounded in entries and in bytes, what finds no room is lost and counted, and the numbers of lost
records stay free, so that the gap shows in `seq`. The first loss is told in one line, and so is the end of it.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import sleep
from typing import Any, Final, TypeAlias

import msgspec

from peerd.eventlog.forms import Detail, Form, Records, Sums, Traffic
from peerd.files import FULL
from peerd.segments import Segments, place
from peerd.trace import Meter, Record, Scribe, Wanted
from protocols.model.event import Attributes, Event
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import Active, Deliver, Reception, Report

FLUSH_S: Final = 1.0
"""A killed process loses at most its last second (contract)."""

QUEUE_ENTRIES: Final = 65_536
QUEUE_BYTES: Final = 32 * 2**20
"""What may wait for the thread: seconds of a busy peer, and little memory. Our choice."""

WAKE_ENTRIES: Final = 8_192
"""The thread does not sleep out its second when so much waits."""

BITE: Final = 128
PAUSE_S: Final = 0.000_2
"""After so many entries, about half a millisecond of work, the thread steps back and lets the event loop run."""

ENTRY_BYTES: Final = 256
"""What an entry weighs beside the event's body. A guess."""

CLOSE_S: Final = 5.0
"""Patience with a disk that hangs when the peer stops."""

_log = logging.getLogger("peerd.eventlog")

Notice: TypeAlias = Callable[[str], object]

Entry: TypeAlias = tuple[int, Callable[..., Iterable[Record]], int, tuple[Any, ...]]
"""Weight, what makes records of it, when it happened, and what it was."""


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where records go, under the name of which run, and how much is kept."""

    directory: str
    run: str
    detail: Detail = "full"
    sample: float = 1.0
    keep_bytes: int | None = None


class EventLog:
    """A sink that writes everything down. All methods but `close` return at once, and nobody changes what they got.

    `now_us` is the peer's clock in microseconds, which the thread reads too; a sink is told milliseconds, which are too
    coarse for latencies. `notice` gets lines for the operational log, from either thread.
    """

    def __init__(
        self,
        config: LogConfig,
        address: Address,
        overlay: str,
        schema: Schema,
        now_us: Callable[[], int],
        notice: Notice = _log.warning,
    ) -> None:
        """`OSError` if the directory cannot be used; one that is merely full may have room later."""
        self._now_us = now_us
        self._notice = notice
        self._config = config
        self._scribe = scribe = Scribe(config.run, address, overlay, schema)
        self._form: Form = Sums(scribe) if config.detail == "summary" else Records(scribe, config.detail, config.sample)
        self._receptions = config.detail != "deliveries"
        self._totals: dict[str, Traffic] = {}
        self._place = place(config.directory, config.run, address.peer)
        self._queue: deque[Entry] = deque()
        self._room = QUEUE_ENTRIES
        self._put_bytes = 0  # written by the event loop only
        self._taken_bytes = 0  # written by the thread only
        self._refused = 0  # by the event loop: the queue was full
        self._skipped = 0  # of those, how many the thread has left numbers free for
        self._unwritable = 0  # by the thread: no record could be made of it
        self._told = 0
        self._fault: OSError | None = None
        self._losing = False
        self._closing = False
        self._wake = threading.Event()
        self._segments: Segments | None = None
        try:
            self._segments = Segments(self._place, config.keep_bytes)
        except OSError as error:
            if error.errno not in FULL:
                raise
        self._thread = threading.Thread(target=self._run, name="peerd-eventlog", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Records that were not written."""
        return self._refused + self._unwritable + (0 if self._segments is None else self._segments.lost)

    @property
    def directory(self) -> Path:
        return self._place

    def close(self) -> None:
        """Write what waits and close the file. Blocks, but not for ever."""
        self._closing = True
        self._wake.set()
        self._thread.join(CLOSE_S)
        self._room = 0

    # --- told by the daemon -------------------------------------------------------------------------------------------

    def on_started(self, now_ms: int, parameters: dict[str, Any]) -> None:
        self._put(ENTRY_BYTES, self._form.started, parameters)

    def on_alive(self, now_ms: int) -> None:
        self._put(ENTRY_BYTES, self._form.alive)

    def on_leaving(self, now_ms: int) -> None:
        self._put(ENTRY_BYTES, self._form.leaving)

    def on_subscription(self, now_ms: int, change: str, id_: str, wanted: Wanted) -> None:
        self._put(ENTRY_BYTES * (1 + len(wanted.boxes)), self._form.subscription, change, id_, wanted)

    def on_publish(self, now_ms: int, event: Event, attributes: Attributes) -> None:
        self._put(ENTRY_BYTES + len(event.body), self._form.publish, event, attributes)

    def on_traffic(self, now_ms: int, totals: Mapping[str, Meter]) -> None:
        """An interval ends. `totals`: by type of message, what it did since the peer was started."""
        interval, nothing = {}, Traffic(0, 0, 0, 0)
        for message, meter in totals.items():
            total = Traffic(meter.sent, meter.sent_bytes, meter.received, meter.received_bytes)
            before = self._totals.get(message, nothing)
            if total != before:
                self._totals[message] = total
                interval[message] = Traffic(
                    total.sent - before.sent,
                    total.sent_bytes - before.sent_bytes,
                    total.received - before.received,
                    total.received_bytes - before.received_bytes,
                )
        self._put(ENTRY_BYTES * (1 + len(interval)), self._form.traffic, interval)

    def on_schema(self, now_ms: int, schema: Schema) -> None:
        """Boxes are described by this schema from now on."""
        self._put(ENTRY_BYTES, self._learn, schema)

    # --- told by the driver -------------------------------------------------------------------------------------------

    def on_active(self, now_ms: int, effect: Active) -> None:
        self._put(ENTRY_BYTES, self._form.active, effect)

    def on_deliver(self, now_ms: int, effect: Deliver) -> None:
        self._put(ENTRY_BYTES + len(effect.event.body), self._form.deliver, effect)

    def on_reception(self, now_ms: int, effect: Reception, size: int) -> None:
        if self._receptions:
            self._put(ENTRY_BYTES, self._form.reception, effect, size)

    def on_report(self, now_ms: int, effect: Report) -> None:
        self._put(ENTRY_BYTES, self._form.report, effect)

    def _put(self, weight: int, form: Callable[..., Iterable[Record]], *what: Any) -> None:
        queue = self._queue
        waiting = len(queue)
        if waiting >= self._room or self._put_bytes - self._taken_bytes >= QUEUE_BYTES:
            self._refused += 1
            if not self._losing and not self._closing:
                self._losing = True  # told here, for a thread that hangs in a write tells nothing
                self._notice(f"event log: {self._place} is too slow; records are dropped until it keeps up")
            return
        self._put_bytes += weight
        queue.append((weight, form, self._now_us(), what))
        if waiting >= WAKE_ENTRIES and not self._wake.is_set():
            self._wake.set()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        closing = False
        while not closing:
            self._wake.wait(FLUSH_S)
            self._wake.clear()
            closing = self._closing  # before the queue is emptied: nothing is put after it was set
            self._drain(closing)
            self._flush()
            self._tell()
        if self._segments is not None:
            try:
                self._segments.close()
            except OSError as error:
                self._notice(f"event log: {self._place}: {error.strerror}; the last records are lost")

    def _learn(self, ts_us: int, schema: Schema) -> Iterable[Record]:
        self._scribe.schema = schema
        return (self._scribe.schema_changed(ts_us),)

    def _drain(self, hurry: bool) -> None:
        queue = self._queue
        left = len(queue)  # not what comes meanwhile: the file is due
        while left:
            for _ in range(min(left, BITE)):
                weight, form, ts_us, what = queue.popleft()
                self._taken_bytes += weight
                self._write(form, ts_us, what)
            left = max(0, left - BITE)
            if left and not hurry:
                sleep(PAUSE_S)
        refused = self._refused
        self._scribe.skip(refused - self._skipped)
        self._skipped = refused

    def _write(self, form: Callable[..., Iterable[Record]], ts_us: int, what: tuple[Any, ...]) -> None:
        segments = self._segments
        try:
            for record in form(ts_us, *what):
                if segments is None:
                    self._unwritable += 1
                else:
                    segments.write(record)
        except OSError as error:
            self._fault = error  # the segments count what is lost by it
        except Exception:  # a body that a remote peer made up, text that is no Unicode: the log goes on
            self._scribe.skip(1)
            self._unwritable += 1

    def _flush(self) -> None:
        try:
            if self._segments is None:
                self._segments = Segments(self._place, self._config.keep_bytes)
            else:
                self._segments.flush()
        except OSError as error:
            self._fault = error

    def _tell(self) -> None:
        """One line when records begin to be lost, one line and one record when that is over."""
        lost, fault, self._fault = self.lost, self._fault, None
        if (lost > self._told or fault is not None) and not self._losing:
            self._losing = True
            reason = "what cannot be written" if fault is None else f"{fault.strerror}"
            self._notice(f"event log: {self._place}: {reason}; records are dropped until it recovers")
        elif self._losing and lost == self._told and fault is None:
            self._losing = False
            self._notice(f"event log: {self._place} is written again; {lost} records are lost in all")
            self._write(self._recovered, self._now_us(), (lost,))
        self._told = lost

    def _recovered(self, ts_us: int, lost: int) -> Iterable[Record]:
        return (self._scribe.control(ts_us, "log.lost", float(lost), {}),)
