"""What becomes of that which happened. How much is kept is a choice of the user:

- `full`: everything.
- `deliveries`: no `receive`, `touch` and `link` records, which are most of all records.
- `summary`: `peer` and `traffic` records, and for everything else one `control` record per interval, kind and label,
  with the fact `sum.KIND`: the value is the sum and `detail` has the `count` of what went into it. `sum.publish`,
  `sum.receive` (`result`), `sum.deliver`, `sum.drop` (`reason`), `sum.link` (`change`, `link`), `sum.subscription` and
  `sum.participant` (`change`) count; `sum.hops` and `sum.latency_us` sum over deliveries; an overlay's own facts are
  summed under `sum.NAME`. An interval is what lies between two `traffic` records.

A sample keeps the `publish`, `receive`, `touch`, `deliver` and `drop` records of some events only: those whose id
hashes low. All peers choose the same events, so a sampled event is whole. What is left out on purpose takes no number.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from peerd import __version__
from peerd.trace import Record, Scribe, Wanted, of_fact
from protocols.model.event import Attributes, Event, decode_body
from protocols.model.ids import EventId
from protocols.overlay import Active, Deliver, Dropped, LinkDown, LinkUp, Reception, Report

Detail: TypeAlias = Literal["full", "deliveries", "summary"]

SUMS_MAX: Final = 256
"""Different sums in one interval; what comes beyond is summed without its labels."""


def sampled(id_: EventId, rate: float) -> bool:
    """Whether a sample of that rate keeps an event: the same answer at every peer."""
    return int.from_bytes(blake2b(id_.encode(), digest_size=8).digest()) < rate * 2.0**64


class Traffic(msgspec.Struct, frozen=True):
    """What one type of message did in an interval."""

    sent: int
    sent_bytes: int
    received: int
    received_bytes: int


class Form(Protocol):
    """Makes records, in the thread. Every method has the time and what the sink was told."""

    def started(self, ts_us: int, parameters: dict[str, Any]) -> Iterable[Record]: ...
    def alive(self, ts_us: int) -> Iterable[Record]: ...
    def leaving(self, ts_us: int) -> Iterable[Record]: ...
    def subscription(self, ts_us: int, change: str, id_: str, wanted: Wanted) -> Iterable[Record]: ...
    def publish(self, ts_us: int, event: Event, attributes: Attributes) -> Iterable[Record]: ...
    def active(self, ts_us: int, effect: Active) -> Iterable[Record]: ...
    def deliver(self, ts_us: int, effect: Deliver) -> Iterable[Record]: ...
    def reception(self, ts_us: int, effect: Reception, size: int) -> Iterable[Record]: ...
    def report(self, ts_us: int, effect: Report) -> Iterable[Record]: ...
    def traffic(self, ts_us: int, interval: dict[str, Traffic]) -> Iterable[Record]: ...


class Records:
    """One record for each thing, but for what the user does not want (`full`, `deliveries`)."""

    def __init__(self, scribe: Scribe, detail: Detail, sample: float) -> None:
        self._scribe = scribe
        self._detail = detail
        self._sample = sample
        self._full = detail == "full"

    def _kept(self, id_: EventId) -> bool:
        return self._sample >= 1.0 or sampled(id_, self._sample)

    def started(self, ts_us: int, parameters: dict[str, Any]) -> Iterable[Record]:
        return (self._scribe.started(ts_us, __version__, parameters, self._detail, self._sample),)

    def alive(self, ts_us: int) -> Iterable[Record]:
        return (self._scribe.alive(ts_us),)

    def leaving(self, ts_us: int) -> Iterable[Record]:
        return (self._scribe.leaving(ts_us),)

    def subscription(self, ts_us: int, change: str, id_: str, wanted: Wanted) -> Iterable[Record]:
        return (self._scribe.subscription(ts_us, change, id_, wanted),)

    def publish(self, ts_us: int, event: Event, attributes: Attributes) -> Iterable[Record]:
        return (self._scribe.publish(ts_us, event, attributes),) if self._kept(event.id) else ()

    def active(self, ts_us: int, effect: Active) -> Iterable[Record]:
        return (self._scribe.active(ts_us, effect),)

    def deliver(self, ts_us: int, effect: Deliver) -> Iterable[Record]:
        if not self._kept(effect.event.id):
            return ()
        return self._scribe.deliveries(ts_us, effect, decode_body(effect.event.body).published_us)

    def reception(self, ts_us: int, effect: Reception, size: int) -> Iterable[Record]:
        return (self._scribe.reception(ts_us, effect, size),) if self._full and self._kept(effect.event_id) else ()

    def report(self, ts_us: int, effect: Report) -> Iterable[Record]:
        fact = effect.fact
        if isinstance(fact, Dropped) and not self._kept(fact.event_id):
            return ()
        if isinstance(fact, LinkUp | LinkDown) and not self._full:
            return ()
        record = self._scribe.report(ts_us, effect)
        return () if record is None else (record,)

    def traffic(self, ts_us: int, interval: dict[str, Traffic]) -> Iterable[Record]:
        return [self._scribe.traffic(ts_us, message, meter) for message, meter in interval.items()]


class Sums:
    """Interval sums only (`summary`)."""

    _LABELS: Final = {"drop": ("reason",), "link": ("change", "link"), "participant": ("change",)}

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self._sums: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[int, float]] = {}

    def _add(self, what: str, value: float = 1.0, **labels: str) -> Iterable[Record]:
        key = f"sum.{what}", tuple(labels.items())
        if key not in self._sums and len(self._sums) >= SUMS_MAX:
            key = f"sum.{what}" if len(self._sums) < 2 * SUMS_MAX else "sum.other", ()
        count, total = self._sums.get(key, (0, 0.0))
        self._sums[key] = count + 1, total + value
        return ()

    def started(self, ts_us: int, parameters: dict[str, Any]) -> Iterable[Record]:
        return (self._scribe.started(ts_us, __version__, parameters, "summary", 1.0),)

    def alive(self, ts_us: int) -> Iterable[Record]:
        return (self._scribe.alive(ts_us),)

    def leaving(self, ts_us: int) -> Iterable[Record]:
        return (self._scribe.leaving(ts_us),)

    def subscription(self, ts_us: int, change: str, id_: str, wanted: Wanted) -> Iterable[Record]:
        return self._add("subscription", change=change)

    def publish(self, ts_us: int, event: Event, attributes: Attributes) -> Iterable[Record]:
        return self._add("publish")

    def active(self, ts_us: int, effect: Active) -> Iterable[Record]:
        return self._add("subscription", change="active")

    def deliver(self, ts_us: int, effect: Deliver) -> Iterable[Record]:
        latency_us = ts_us - decode_body(effect.event.body).published_us
        for _ in effect.subscription_ids:
            self._add("deliver")
            self._add("hops", effect.hops)
            self._add("latency_us", latency_us)
        return ()

    def reception(self, ts_us: int, effect: Reception, size: int) -> Iterable[Record]:
        return self._add("receive", result=effect.result)

    def report(self, ts_us: int, effect: Report) -> Iterable[Record]:
        found = of_fact(effect.slot, effect.fact, self._scribe.schema)
        if found is None:
            return ()
        kind, fields = found
        if kind == "peer":
            return (self._scribe.record(ts_us, effect.slot, kind, fields),)
        if kind == "control":
            return self._add(fields["fact"], fields["value"])
        return self._add(kind, **{label: fields[label] for label in self._LABELS[kind]})

    def traffic(self, ts_us: int, interval: dict[str, Traffic]) -> Iterable[Record]:
        records = [self._scribe.traffic(ts_us, message, meter) for message, meter in interval.items()]
        sums, self._sums = self._sums, {}
        for (what, labels), (count, total) in sums.items():
            records.append(self._scribe.control(ts_us, what, total, {**dict(labels), "count": str(count)}))
        return records
