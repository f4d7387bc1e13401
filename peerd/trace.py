"""Log records: what a peer did, as rows for the analytics.

Peers and the simulator write the same JSON lines; which kinds there are and what fields each has is part of the
contract. This module turns inputs and effects into records and does nothing else: who writes them, and when, is for the
owner. Every record of one life of one peer has the next number (`seq`), so a gap shows that something was lost. Where
one author writes for many peers, as the simulator does, all its records are numbered too (`order`): that tells what
came first in the same microsecond.
"""

from collections.abc import Iterator
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from protocols.model.box import Box
from protocols.model.describe import describe_box, describe_region
from protocols.model.event import Attributes, Event
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.lint import CompiledFilter
from protocols.model.regions import Region
from protocols.model.schema import Schema
from protocols.overlay import (
    Active,
    Control,
    Deliver,
    Dropped,
    Fact,
    Joined,
    Left,
    LinkDown,
    LinksShown,
    LinkUp,
    Lost,
    Placed,
    Reception,
    Rejected,
    Repaired,
    Report,
    SchemaChanged,
    Suspected,
)

VERSION: Final = 1

Record: TypeAlias = dict[str, Any]
Fields: TypeAlias = tuple[str, dict[str, Any]]
"""The kind of a record and the fields of that kind."""


class Wanted(msgspec.Struct, frozen=True):
    """What a subscription asks for, as its records tell it."""

    filter: str | None = None
    boxes: tuple[Box, ...] = ()
    regions: tuple[Region, ...] | None = None
    """What the filter says before it is rounded to boxes; None where the boxes hold exactly that."""
    coarse: bool = False
    """The filter was too complex: boxes and regions enclose more than it matches."""
    schema: Schema | None = None
    """What numbers the attributes of the regions."""

    @classmethod
    def by(cls, compiled: CompiledFilter) -> "Wanted":
        regions = None if compiled.exact else compiled.regions
        return cls(compiled.text, compiled.boxes, regions, compiled.coarse, compiled.schema)


NOTHING: Final = Wanted()


class Meter(Protocol):
    """Messages and bytes of one type of message."""

    @property
    def sent(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def received(self) -> int: ...
    @property
    def received_bytes(self) -> int: ...


class Scribe:
    """Numbers the records of one life of one peer and puts the common fields before the special ones."""

    __slots__ = ("_common", "_order", "_seq", "schema")

    def __init__(
        self, run: str, address: Address, overlay: str, schema: Schema, order: Iterator[int] | None = None
    ) -> None:
        self._common = {"run": run, "peer": address.peer, "boot": address.boot, "overlay": overlay}
        self.schema = schema
        self._seq = 0
        self._order = order

    def record(self, ts_us: int, slot: int, kind: str, fields: dict[str, Any]) -> Record:
        self._seq += 1
        head = {"v": VERSION, "ts_us": ts_us, "seq": self._seq, **self._common}
        if self._order is not None:
            head["order"] = next(self._order)
        return {**head, "participant": slot if slot != PEER_SLOT else None, "kind": kind, **fields}

    def skip(self, count: int) -> None:
        """Leave out numbers: so many records were lost before they were written."""
        self._seq += count

    def started(self, ts_us: int, version: str, parameters: dict[str, Any], detail: str, sample: float) -> Record:
        fields = {
            "change": "started",
            "about": None,
            "schema": self.schema.to_dict(),
            "version": version,
            "parameters": parameters,
            "log_detail": detail,
            "log_sample": sample,
        }
        return self.record(ts_us, PEER_SLOT, "peer", fields)

    def alive(self, ts_us: int) -> Record:
        return self.record(ts_us, PEER_SLOT, "peer", {"change": "alive", "about": None})

    def leaving(self, ts_us: int) -> Record:
        """The peer was told to leave: from now on nothing is owed to it."""
        return self.record(ts_us, PEER_SLOT, "peer", {"change": "leaving", "about": None})

    def schema_changed(self, ts_us: int) -> Record:
        """Attributes were appended: what the records that follow are about."""
        fields = {"change": "schema", "about": None, "schema": self.schema.to_dict()}
        return self.record(ts_us, PEER_SLOT, "peer", fields)

    def traffic(self, ts_us: int, message: str, meter: Meter) -> Record:
        """What was sent and received of one type of message in an interval."""
        fields = {
            "message": message,
            "sent": meter.sent,
            "received": meter.received,
            "sent_bytes": meter.sent_bytes,
            "received_bytes": meter.received_bytes,
        }
        return self.record(ts_us, PEER_SLOT, "traffic", fields)

    def control(self, ts_us: int, fact: str, value: float, detail: dict[str, str]) -> Record:
        return self.record(ts_us, PEER_SLOT, "control", {"fact": fact, "value": value, "detail": detail})

    def active(self, ts_us: int, effect: Active) -> Record:
        return self.subscription(ts_us, "active", effect.id, NOTHING)

    def subscription(self, ts_us: int, change: str, id_: str, wanted: Wanted) -> Record:
        fields: dict[str, Any] = {
            "change": change,
            "subscription_id": id_,
            "filter": wanted.filter,
            "boxes": [describe_box(self.schema, box) for box in wanted.boxes],
        }
        if wanted.regions is not None:
            schema = wanted.schema or self.schema
            fields["regions"] = [describe_region(schema, region) for region in wanted.regions]
        if wanted.coarse:
            fields["coarse"] = True
        return self.record(ts_us, PEER_SLOT, "subscription", fields)

    def publish(self, ts_us: int, event: Event, attributes: Attributes) -> Record:
        fields = {"event_id": event.id, "attributes": attributes, "bytes": len(event.body)}
        return self.record(ts_us, PEER_SLOT, "publish", fields)

    def reception(self, ts_us: int, effect: Reception, size: int) -> Record:
        fields = {"event_id": effect.event_id, "sender": effect.sender.peer, "hops": effect.hops}
        if effect.result == "touched":
            return self.record(ts_us, effect.slot, "touch", fields)
        fields |= {
            "matched": effect.result == "wanted",
            "duplicate": effect.result == "duplicate",
            "bytes": size,
        }
        return self.record(ts_us, effect.slot, "receive", fields)

    def deliveries(self, ts_us: int, effect: Deliver, published_us: int) -> list[Record]:
        return [
            self.record(
                ts_us,
                effect.slot,
                "deliver",
                {
                    "event_id": effect.event.id,
                    "subscription_id": id_,
                    "hops": effect.hops,
                    "latency_us": ts_us - published_us,
                },
            )
            for id_ in effect.subscription_ids
        ]

    def report(self, ts_us: int, effect: Report) -> Record | None:
        """The record of a fact, if it has one."""
        found = of_fact(effect.slot, effect.fact, self.schema)
        return None if found is None else self.record(ts_us, effect.slot, *found)


def of_fact(slot: int, fact: Fact, schema: Schema) -> Fields | None:
    """The kind and the fields of the record of a fact, if it has one."""
    match fact:
        case Joined():
            return (
                ("peer", {"change": "joined", "about": None})
                if slot == PEER_SLOT
                else ("participant", {"change": "joined", "box": None})
            )
        case Left():
            return (
                ("peer", {"change": "left", "about": None})
                if slot == PEER_SLOT
                else ("participant", {"change": "left", "box": None})
            )
        case Placed(box, moved):
            return "participant", {"change": "moved" if moved else "active", "box": describe_box(schema, box)}
        case Suspected(address):
            return "peer", {"change": "suspected", "about": address.peer}
        case Lost(address):
            return "peer", {"change": "lost", "about": address.peer}
        case LinkUp(kind, to):
            return "link", {"change": "up", "link": kind, "receiver": to.peer}
        case LinkDown(kind, to):
            return "link", {"change": "down", "link": kind, "receiver": to.peer}
        case Dropped(event_id, reason, receiver):
            return "drop", {"event_id": event_id, "reason": reason, "receiver": receiver.peer if receiver else None}
        case Rejected(sender, reason):
            return "control", {"fact": "rejected", "value": 1.0, "detail": {"sender": sender.peer, "reason": reason}}
        case SchemaChanged(version):
            return "control", {"fact": "schema", "value": float(version), "detail": {}}
        case LinksShown():
            return None
        case Repaired(what):
            return "control", {"fact": "repaired", "value": 1.0, "detail": {"what": what}}
        case Control(name, value, detail):
            return "control", {"fact": name, "value": value, "detail": detail}
