"""What the driver has counted so far, and the same as metrics.

Counters only grow, so a delivery is counted as expected or missing once its fate is sealed (`SETTLE_MS` after its
event was published), and never before.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from peerd.fleet.faults import ANNOUNCED, FOUND
from peerd.metrics import LATENCIES_S, Histogram
from peerd.sim.oracle import Verdict

SETTLE_MS: Final = 30_000
"""How long after its publication the fate of an event is sealed. Half of an event's life: what comes later than that is
of no use to anybody. Our choice; three times the grace that decides what is owed."""

COUNTERS: Final = {
    "published": "Events handed to peers.",
    "expected_deliveries": "Deliveries owed, of events whose fate is sealed.",
    "missing_deliveries": "Of these, those that were never read.",
    "read_deliveries": "Deliveries read by applications.",
    "at_risk_deliveries": "Deliveries of events published around a fault.",
    "at_risk_missing_deliveries": "Of these, those that were never read.",
    "spurious_deliveries": "Deliveries that no filter asked for.",
    "duplicate_deliveries": "Deliveries read a second time.",
    "pushed_back": "Events that a peer would not take at once.",
    "refused": "Events that no peer took.",
}


class Ledger(msgspec.Struct):
    """The counts; fields are named after the metrics."""

    published: int = 0
    expected_deliveries: int = 0
    missing_deliveries: int = 0
    read_deliveries: int = 0
    at_risk_deliveries: int = 0
    at_risk_missing_deliveries: int = 0
    spurious_deliveries: int = 0
    duplicate_deliveries: int = 0
    pushed_back: int = 0
    refused: int = 0
    peers: int = 0
    subscriptions: int = 0
    at_risk: bool = False
    converged_s: float | None = None
    """How long the last fault was felt."""
    faults: dict[str, int] = {}

    def settled(self, verdict: Verdict) -> None:
        self.expected_deliveries += verdict.expected
        self.missing_deliveries += verdict.false_negatives
        self.at_risk_deliveries += verdict.at_risk
        self.at_risk_missing_deliveries += verdict.at_risk_missing
        self.spurious_deliveries += verdict.spurious

    def faulted(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1


class Exporter(Collector):
    """The ledger for Prometheus, with the latency from one application to the other, measured by one clock."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.latency = Histogram(LATENCIES_S)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        ledger = self._ledger
        for name, what in COUNTERS.items():
            yield CounterMetricFamily(f"peerd_workload_{name}", what, value=getattr(ledger, name))
        faults = CounterMetricFamily("peerd_workload_faults", "Faults, announced or found out.", labels=["fault"])
        for fault in (*ANNOUNCED, FOUND):  # all, from the start: what appears with its first count hides it from rates
            faults.add_metric([fault], ledger.faults.get(fault, 0))
        yield faults
        yield GaugeMetricFamily("peerd_workload_peers", "Peers that take part.", value=ledger.peers)
        yield GaugeMetricFamily("peerd_workload_subscriptions", "Their subscriptions.", value=ledger.subscriptions)
        yield GaugeMetricFamily("peerd_workload_at_risk", "Whether events are at risk now.", value=ledger.at_risk)
        converged_s = ledger.converged_s or 0.0
        yield GaugeMetricFamily("peerd_workload_converged_seconds", "How long the last fault was felt.", converged_s)
        yield self.latency.family(
            "peerd_workload_latency_seconds", "From handing an event in to reading its delivery, by one clock."
        )
