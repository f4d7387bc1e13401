"""Writes a simulated run as log records, many peers in one file: `DIR/run=R/peer=sim/NNNNNN.jsonl`.

What concerns the run and no peer in particular (it has converged, it is over) is written under the name `sim`.
"""

from itertools import count
from typing import Any, Final

import msgspec

from peerd import __version__
from peerd.segments import Segments, place
from peerd.sim.engine import Node, Observer, Traffic
from peerd.trace import Record, Scribe, Wanted
from protocols.model.event import Attributes, Event, decode_body
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import Schema
from protocols.overlay import Active, Deliver, Message, Reception, Report

AUTHOR: Final = "sim"


class Recording(msgspec.Struct, frozen=True):
    """Where records go, under which name, and how often peers tell that they live and what they have sent."""

    directory: str
    run: str
    every_s: int = 1


class Recorder:
    """An observer that writes down what it sees and passes it on."""

    def __init__(self, inner: Observer, recording: Recording, overlay: str, schema: Schema, epoch_ms: int) -> None:
        self._inner = inner
        self._segments = Segments(place(recording.directory, recording.run, AUTHOR))
        self._run = recording.run
        self._overlay = overlay
        self._schema = schema
        self._epoch_ms = epoch_ms
        self._order = count(1)
        self._scribes: dict[int, Scribe] = {}
        self._author = self._new_scribe(Address(AUTHOR, epoch_ms, PEER_SLOT, ""))

    def _new_scribe(self, address: Address) -> Scribe:
        return Scribe(self._run, address, self._overlay, self._schema, self._order)

    def _scribe(self, node: Node) -> Scribe:
        scribe = self._scribes.get(node.index)
        if scribe is None:
            scribe = self._scribes[node.index] = self._new_scribe(node.address)
        return scribe

    def _ts_us(self, now_ms: int) -> int:
        return (self._epoch_ms + now_ms) * 1000

    # --- told by the swarm --------------------------------------------------------------------------------------------

    def on_started(self, now_ms: int, node: Node, parameters: dict[str, Any]) -> None:
        scribe = self._scribe(node)
        self._segments.write(scribe.started(self._ts_us(now_ms), __version__, parameters, "full", 1.0))

    def on_alive(self, now_ms: int, node: Node) -> None:
        self._segments.write(self._scribe(node).alive(self._ts_us(now_ms)))

    def on_leaving(self, now_ms: int, node: Node) -> None:
        self._segments.write(self._scribe(node).leaving(self._ts_us(now_ms)))

    def on_subscription(self, now_ms: int, node: Node, change: str, id_: str, wanted: Wanted) -> None:
        self._segments.write(self._scribe(node).subscription(self._ts_us(now_ms), change, id_, wanted))

    def on_publish(self, now_ms: int, node: Node, event: Event, attributes: Attributes) -> None:
        self._segments.write(self._scribe(node).publish(self._ts_us(now_ms), event, attributes))

    def on_fault(self, now_ms: int, node: Node, fault: str, detail: dict[str, str]) -> None:
        fields = {"fault": fault, "about": node.address.peer, "detail": detail}
        self._segments.write(self._scribe(node).record(self._ts_us(now_ms), PEER_SLOT, "fault", fields))

    def on_calm(self, now_ms: int) -> None:
        """The links have stopped losing: a fault of the whole run, and of no peer."""
        fields: Record = {"fault": "calm", "about": None, "detail": {}}
        self._segments.write(self._author.record(self._ts_us(now_ms), PEER_SLOT, "fault", fields))

    def on_converged(self, now_ms: int, seconds: float) -> None:
        self._segments.write(self._author.control(self._ts_us(now_ms), "run.converged", seconds, {}))

    def on_end(self, now_ms: int) -> None:
        self._segments.write(self._author.control(self._ts_us(now_ms), "run.end", 0.0, {}))

    def on_traffic(self, now_ms: int, node: Node, meters: dict[type[Message], Traffic]) -> None:
        scribe, ts_us = self._scribe(node), self._ts_us(now_ms)
        for type_, meter in meters.items():
            self._segments.write(scribe.traffic(ts_us, str(type_.__struct_config__.tag), meter))

    def close(self) -> None:
        self._segments.close()

    # --- told by the engine -------------------------------------------------------------------------------------------

    def on_active(self, now_ms: int, node: Node, effect: Active) -> None:
        self._inner.on_active(now_ms, node, effect)
        self._segments.write(self._scribe(node).active(self._ts_us(now_ms), effect))

    def on_deliver(self, now_ms: int, node: Node, effect: Deliver) -> None:
        self._inner.on_deliver(now_ms, node, effect)
        published_us = decode_body(effect.event.body).published_us
        for record in self._scribe(node).deliveries(self._ts_us(now_ms), effect, published_us):
            self._segments.write(record)

    def on_reception(self, now_ms: int, node: Node, effect: Reception, size: int) -> None:
        self._inner.on_reception(now_ms, node, effect, size)
        self._segments.write(self._scribe(node).reception(self._ts_us(now_ms), effect, size))

    def on_report(self, now_ms: int, node: Node, effect: Report) -> None:
        self._inner.on_report(now_ms, node, effect)
        record = self._scribe(node).report(self._ts_us(now_ms), effect)
        if record is not None:
            self._segments.write(record)
