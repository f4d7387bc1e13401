"""What a log record is: one row for every kind, with the fields of all kinds.

The contract gives every kind its own fields. They fit into one row, since a name means the same wherever it occurs, and
Parquet stores a column that is empty throughout in a few bytes. What is itself structured (attributes, boxes, schemas)
stays JSON text until somebody needs it: only the swarm's own schema says which types to read it with.
"""

from typing import Final

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

VERSION: Final = 1
"""The newest version of records that this code knows (field `v`)."""

_TEXT, _LONG, _INT, _BOOL, _DOUBLE = StringType(), LongType(), IntegerType(), BooleanType(), DoubleType()

COMMON: Final[dict[str, DataType]] = {
    "v": _INT,
    "ts_us": _LONG,
    "seq": _LONG,
    "order": _LONG,
    "run": _TEXT,
    "peer": _TEXT,
    "boot": _LONG,
    "participant": _INT,
    "overlay": _TEXT,
    "kind": _TEXT,
}
"""`order` is there only where one author wrote for many peers."""

REQUIRED: Final = ("v", "ts_us", "seq", "run", "peer", "boot", "overlay", "kind")

OF_KIND: Final[dict[str, dict[str, DataType]]] = {
    "peer": {
        "change": _TEXT,
        "about": _TEXT,
        "schema": _TEXT,
        "version": _TEXT,
        "parameters": _TEXT,
        "log_detail": _TEXT,
        "log_sample": _DOUBLE,
    },
    "subscription": {
        "change": _TEXT,
        "subscription_id": _TEXT,
        "filter": _TEXT,
        "boxes": _TEXT,
        "regions": _TEXT,
        "coarse": _BOOL,
    },
    "participant": {"change": _TEXT, "box": _TEXT},
    "fault": {"fault": _TEXT, "about": _TEXT, "detail": _TEXT},
    "publish": {"event_id": _TEXT, "attributes": _TEXT, "bytes": _LONG},
    "receive": {
        "event_id": _TEXT,
        "sender": _TEXT,
        "hops": _INT,
        "matched": _BOOL,
        "duplicate": _BOOL,
        "bytes": _LONG,
    },
    "touch": {"event_id": _TEXT, "sender": _TEXT, "hops": _INT},
    "deliver": {"event_id": _TEXT, "subscription_id": _TEXT, "hops": _INT, "latency_us": _LONG},
    "drop": {"event_id": _TEXT, "reason": _TEXT, "receiver": _TEXT},
    "link": {"change": _TEXT, "link": _TEXT, "receiver": _TEXT},
    "traffic": {"message": _TEXT, "sent": _LONG, "received": _LONG, "sent_bytes": _LONG, "received_bytes": _LONG},
    "control": {"fact": _TEXT, "value": _DOUBLE, "detail": _TEXT},
}

NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "peer": ("change",),
    "subscription": ("change", "subscription_id"),
    "participant": ("change",),
    "fault": ("fault",),
    "publish": ("event_id", "attributes"),
    "receive": ("event_id", "sender", "matched", "duplicate"),
    "touch": ("event_id",),
    "deliver": ("event_id", "subscription_id", "hops", "latency_us"),
    "drop": ("event_id", "reason"),
    "link": ("change", "link", "receiver"),
    "traffic": ("message", "sent", "received", "sent_bytes", "received_bytes"),
    "control": ("fact",),
}
"""Without these fields a record of that kind says nothing, and is kept aside."""

KINDS: Final = tuple(OF_KIND)


def _fields() -> dict[str, DataType]:
    fields = dict(COMMON)
    for special in OF_KIND.values():
        fields |= special
    return fields


RECORD: Final = StructType([StructField(name, type_) for name, type_ in _fields().items()])
"""Every record, whatever its kind."""

LIFE: Final = ("run", "peer", "boot")
"""What tells one life of a peer from all others."""

SUBSCRIPTION: Final = (*LIFE, "subscription_id")


def columns_of(kind: str) -> list[str]:
    """The columns that records of a kind can have."""
    return [*COMMON, *OF_KIND[kind]]
