"""Writes a simulated run as log records, many peers in one file: `DIR/run=R/peer=sim/NNNNNN.jsonl`."""

from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from peerd import __version__
from peerd.sim.engine import Node, Observer, Traffic
from peerd.trace import Record, Scribe
from protocols.model.event import Attributes, Event, decode_body
from protocols.model.ids import PEER_SLOT
from protocols.model.schema import Schema
from protocols.overlay import Active, Deliver, Message, Reception, Report

SEGMENT_BYTES: Final = 64 * 2**20
"""When a file is closed and the next begun (contract)."""


class Segments:
    """JSON lines in numbered files; the last one ends in `.open` until it is closed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._number = len(list(directory.glob("*.jsonl")))
        self._size = 0
        self._file: BinaryIO | None = None
        self._encode = msgspec.json.Encoder().encode

    def write(self, record: Record) -> None:
        if self._file is None:
            self._file = (self._directory / f"{self._number:06}.jsonl.open").open("wb", buffering=1 << 20)
        line = self._encode(record) + b"\n"
        self._file.write(line)
        self._size += len(line)
        if self._size >= SEGMENT_BYTES:
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            path = self._directory / f"{self._number:06}.jsonl"
            path.with_suffix(".jsonl.open").rename(path)
            self._file, self._size, self._number = None, 0, self._number + 1


class Recording(msgspec.Struct, frozen=True):
    """Where records go, and under which name."""

    directory: str
    run: str


class Recorder:
    """An observer that writes down what it sees and passes it on."""

    def __init__(self, inner: Observer, recording: Recording, overlay: str, schema: Schema, epoch_ms: int) -> None:
        self._inner = inner
        self._segments = Segments(Path(recording.directory) / f"run={recording.run}" / "peer=sim")
        self._run = recording.run
        self._overlay = overlay
        self._schema = schema
        self._epoch_ms = epoch_ms
        self._scribes: dict[int, Scribe] = {}

    def _scribe(self, node: Node) -> Scribe:
        scribe = self._scribes.get(node.index)
        if scribe is None:
            scribe = self._scribes[node.index] = Scribe(self._run, node.address, self._overlay, self._schema)
        return scribe

    def _ts_us(self, now_ms: int) -> int:
        return (self._epoch_ms + now_ms) * 1000

    # --- told by the swarm --------------------------------------------------------------------------------------------

    def on_started(self, now_ms: int, node: Node, parameters: dict[str, Any]) -> None:
        scribe = self._scribe(node)
        self._segments.write(scribe.started(self._ts_us(now_ms), __version__, parameters, "full", 1.0))

    def on_alive(self, now_ms: int, node: Node) -> None:
        self._write(now_ms, node, "peer", {"change": "alive", "about": None})

    def on_subscription(
        self, now_ms: int, node: Node, change: str, id_: str, filter_: str | None, boxes: tuple[Any, ...]
    ) -> None:
        record = self._scribe(node).subscription(self._ts_us(now_ms), change, id_, filter_, boxes)
        self._segments.write(record)

    def on_publish(self, now_ms: int, node: Node, event: Event, attributes: Attributes) -> None:
        self._segments.write(self._scribe(node).publish(self._ts_us(now_ms), event, attributes))

    def on_fault(self, now_ms: int, node: Node, fault: str, detail: dict[str, str]) -> None:
        self._write(now_ms, node, "fault", {"fault": fault, "about": node.address.peer, "detail": detail})

    def on_traffic(self, now_ms: int, node: Node, meters: dict[type[Message], Traffic]) -> None:
        for type_, meter in meters.items():
            fields = {
                "message": type_.__struct_config__.tag,
                "sent": meter.sent,
                "received": meter.received,
                "sent_bytes": meter.sent_bytes,
                "received_bytes": meter.received_bytes,
            }
            self._write(now_ms, node, "traffic", fields)

    def _write(self, now_ms: int, node: Node, kind: str, fields: dict[str, Any]) -> None:
        self._segments.write(self._scribe(node).record(self._ts_us(now_ms), PEER_SLOT, kind, fields))

    def close(self) -> None:
        self._segments.close()

    # --- told by the engine -------------------------------------------------------------------------------------------

    def on_active(self, now_ms: int, node: Node, effect: Active) -> None:
        self._inner.on_active(now_ms, node, effect)
        record = self._scribe(node).subscription(self._ts_us(now_ms), "active", effect.id, None, ())
        self._segments.write(record)

    def on_deliver(self, now_ms: int, node: Node, effect: Deliver) -> None:
        self._inner.on_deliver(now_ms, node, effect)
        published_us = decode_body(effect.event.body).published_us
        for record in self._scribe(node).deliveries(self._ts_us(now_ms), effect, published_us):
            self._segments.write(record)

    def on_reception(self, now_ms: int, node: Node, effect: Reception, size: int) -> None:
        self._inner.on_reception(now_ms, node, effect, size)
        if effect.result != "touched":
            self._segments.write(self._scribe(node).reception(self._ts_us(now_ms), effect, size))

    def on_report(self, now_ms: int, node: Node, effect: Report) -> None:
        self._inner.on_report(now_ms, node, effect)
        record = self._scribe(node).report(self._ts_us(now_ms), effect)
        if record is not None:
            self._segments.write(record)
