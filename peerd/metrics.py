"""Metrics for Prometheus, under the names that the contract gives.

What happens once per event is counted in plain integers: the sink's methods run in the event loop, and a counter of the
client library takes a lock and a method call more for each. When somebody asks (`render`), one collector turns the
integers into metrics, and reads there and then what others count anyway: links, queues, the network's messages and
connections, the requests of the API. `docs/metrics.md` lists them all; a test keeps the two in step.

No metric has labels that could grow without end. Only `peerd_info` names ids. Labels are words of the code (reasons,
kinds of links, types of messages); should one ever carry more than `LABELS_MAX` different values, the rest is counted
as `other`. Each daemon has a registry of its own, so many can live in one process.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from protocols.model.event import Attributes, Event
from protocols.model.ids import PEER_SLOT
from protocols.overlay import Active, Control, Deliver, Dropped, Joined, Lost, Reception, Rejected, Repaired, Report

HOPS: Final = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""Bounds of the hops: fine where a good overlay of 10,000 peers is (up to a dozen), coarse where one goes astray."""

LATENCIES_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds of the latency: from one hop on loopback to the life of an event, with about three in each power of ten."""

PLAIN: Final = "text/plain"
LABELS_MAX: Final = 64
OTHER: Final = "other"


class Meter(Protocol):
    """Messages and bytes of one type of message since the start."""

    @property
    def sent(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def received(self) -> int: ...
    @property
    def received_bytes(self) -> int: ...


class Connections(Protocol):
    """What the network knows about its connections."""

    @property
    def connections(self) -> int: ...
    @property
    def closed(self) -> Mapping[str, int]: ...
    @property
    def undelivered(self) -> int: ...


class _NoConnections(msgspec.Struct, frozen=True):
    connections: int = 0
    closed: dict[str, int] = {}
    undelivered: int = 0


def _nothing() -> dict[str, int]:
    return {}


def _no_traffic() -> dict[str, Meter]:
    return {}


def _zero() -> int:
    return 0


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """What is read when somebody asks: links by kind, events waiting by queue, and so on."""

    ready: Callable[[], bool] = bool
    links: Callable[[], Mapping[str, int]] = _nothing
    queues: Callable[[], Mapping[str, int]] = _nothing
    queued_control: Callable[[], int] = _zero
    """Messages that carry no event, and wait for their connections."""
    participants: Callable[[], int] = _zero
    subscriptions: Callable[[], int] = _zero
    traffic: Callable[[], Mapping[str, Meter]] = _no_traffic
    """By type of message, what the network has sent and received."""
    network: Callable[[], Connections] = _NoConnections
    http: Callable[[], Mapping[str, int]] = _nothing
    """By result, how many requests have ended so."""
    http_connections_refused: Callable[[], int] = _zero
    log_lost: Callable[[], int] = _zero
    """Records of the event log that could not be written."""


class Info(msgspec.Struct, frozen=True):
    """The labels of `peerd_info`."""

    version: str
    overlay: str
    peer: str
    name: str


class _Head(msgspec.Struct, array_like=True):
    """As much of an event's body as a latency needs: the attributes are skipped, not decoded."""

    attributes: msgspec.Raw
    published_us: int


_published = msgspec.msgpack.Decoder(_Head).decode


class Histogram:
    """Counts by bound. Not cumulative: adding to one number is all that an observation does."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, times: int) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def family(self, name: str, what: str) -> HistogramMetricFamily:
        total, buckets = 0, []
        for bound, count in zip((*map(float, self._bounds), float("inf")), self._counts):
            total += count
            buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
        return HistogramMetricFamily(name, what, buckets=buckets, sum_value=self._sum)


class Metrics(Collector):
    """A sink that counts. `now_us` is the peer's clock in microseconds: milliseconds are too coarse for a latency."""

    def __init__(self, info: Info, now_us: Callable[[], int], sources: Sources) -> None:
        self._info = info
        self._now_us = now_us
        self._sources = sources
        self._published = self._deliveries = self._joins = self._failures = self._repairs = self._rejected = 0
        self._receptions = {"wanted": 0, "unwanted": 0, "duplicate": 0, "touched": 0}
        self._dropped: dict[str, int] = {}
        self._controls: dict[str, tuple[int, float]] = {}  # by fact, how often and the last value
        self._hops = Histogram(HOPS)
        self._latency = Histogram(LATENCIES_S)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics and their content type, in a form that the `Accept` header takes.

        Plain text wherever it is taken, also by those who would rather have OpenMetrics, as Prometheus would: that says
        nothing more here, and takes more than twice as long to write."""
        encode, content_type = choose_encoder("" if PLAIN in accept else accept)
        return encode(self._registry), content_type

    # --- told by the driver -------------------------------------------------------------------------------------------

    def on_active(self, now_ms: int, effect: Active) -> None:
        """The number of subscriptions is read when it is asked for."""

    def on_deliver(self, now_ms: int, effect: Deliver) -> None:
        times = len(effect.subscription_ids)
        self._deliveries += times
        self._hops.observe(effect.hops, times)
        try:
            latency_us = self._now_us() - _published(effect.event.body).published_us
        except msgspec.DecodeError:
            return  # a body that a remote peer made up
        self._latency.observe(max(0, latency_us) / 1e6, times)  # below 0 across clocks, which no histogram can show

    def on_reception(self, now_ms: int, effect: Reception, size: int) -> None:
        self._receptions[effect.result] += 1

    def on_report(self, now_ms: int, effect: Report) -> None:
        match effect.fact:
            case Dropped(_, reason):
                self.dropped(reason)
            case Control(fact, value):
                self._controlled(fact, value)
            case Lost():
                self._failures += 1
            case Repaired():
                self._repairs += 1
            case Rejected():  # by a participant, the peer or the network: all report it
                self._rejected += 1
            case Joined() if effect.slot == PEER_SLOT:
                self._joins += 1

    # --- told by the daemon -------------------------------------------------------------------------------------------

    def on_publish(self, now_ms: int, event: Event, attributes: Attributes) -> None:
        self._published += 1

    def dropped(self, reason: str, count: int = 1) -> None:
        """Copies of events went no further, or deliveries were never read (reason `subscriber`)."""
        key = _label(reason, self._dropped)
        self._dropped[key] = self._dropped.get(key, 0) + count

    def _controlled(self, fact: str, value: float) -> None:
        key = _label(fact, self._controls)
        self._controls[key] = self._controls.get(key, (0, 0.0))[0] + 1, value

    # --- asked by the registry ----------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        yield self._described()
        yield _counter("peerd_events_published", "Events published at this peer.", self._published)
        receptions = CounterMetricFamily(
            "peerd_receptions", "Copies of events that participants were sent.", labels=["result"]
        )
        for result in ("wanted", "unwanted", "duplicate"):
            receptions.add_metric([result], self._receptions[result])
        yield receptions
        yield _counter("peerd_deliveries", "Events delivered to subscriptions.", self._deliveries)
        dropped = CounterMetricFamily("peerd_dropped", "Copies of events that went no further.", labels=["reason"])
        for reason, count in self._dropped.items():
            dropped.add_metric([reason], count)
        yield dropped
        yield self._hops.family("peerd_hops", "Hops of delivered events.")
        yield self._latency.family("peerd_delivery_latency_seconds", "From publication to delivery, by two clocks.")
        yield _counter("peerd_joins", "Times that this peer has joined the overlay.", self._joins)
        yield _counter("peerd_peer_failures", "Other peers that were found dead.", self._failures)
        yield _counter("peerd_repairs", "Things that the overlay has mended.", self._repairs)
        yield _counter("peerd_rejected", "Times that another peer sent what it must not.", self._rejected)
        yield from self._control()
        yield from self._read()
        yield from self._messages()
        yield from self._network()
        yield from self._http()
        lost = self._sources.log_lost()
        yield _counter("peerd_log_records_lost", "Records of the event log that could not be written.", lost)

    def _described(self) -> Metric:
        labels = {key: str(value) for key, value in msgspec.structs.asdict(self._info).items()}
        info = GaugeMetricFamily("peerd_info", "This peer.", labels=list(labels))
        info.add_metric(list(labels.values()), 1)
        return info

    def _control(self) -> Iterable[Metric]:
        times = CounterMetricFamily("peerd_control", "What the overlay made known of itself.", labels=["fact"])
        last = GaugeMetricFamily("peerd_control_value", "The number that came with it last.", labels=["fact"])
        for fact, (count, value) in self._controls.items():
            times.add_metric([fact], count)
            last.add_metric([fact], value)
        return times, last

    def _read(self) -> Iterable[Metric]:
        sources = self._sources
        ready = GaugeMetricFamily("peerd_ready", "Whether this peer stands in the overlay.", value=sources.ready())
        links = GaugeMetricFamily("peerd_links", "Links of this peer's participants.", labels=["kind"])
        for kind, count in _bounded(sources.links()):
            links.add_metric([kind], count)
        queues = GaugeMetricFamily("peerd_queue_events", "Events that wait for their connections.", labels=["queue"])
        for queue, count in _bounded(sources.queues()):
            queues.add_metric([queue], count)
        return (
            ready,
            links,
            queues,
            GaugeMetricFamily(
                "peerd_queue_control",
                "Messages without an event that wait for their connections.",
                value=sources.queued_control(),
            ),
            GaugeMetricFamily("peerd_participants", "Participants of this peer.", value=sources.participants()),
            GaugeMetricFamily("peerd_subscriptions", "Subscriptions of this peer.", value=sources.subscriptions()),
        )

    def _messages(self) -> Iterable[Metric]:
        labels = ["direction", "message"]
        messages = CounterMetricFamily("peerd_messages", "Messages between peers.", labels=labels)
        sizes = CounterMetricFamily("peerd_message_bytes", "Bytes of messages between peers.", labels=labels)
        for message, meter in self._sources.traffic().items():
            messages.add_metric(["sent", message], meter.sent)
            messages.add_metric(["received", message], meter.received)
            sizes.add_metric(["sent", message], meter.sent_bytes)
            sizes.add_metric(["received", message], meter.received_bytes)
        return messages, sizes

    def _network(self) -> Iterable[Metric]:
        network = self._sources.network()
        closed = CounterMetricFamily("peerd_connections_closed", "Connections that ended.", labels=["reason"])
        for reason, count in _bounded(network.closed):
            closed.add_metric([reason], count)
        return (
            GaugeMetricFamily("peerd_connections", "Connections with other peers.", value=network.connections),
            closed,
            _counter("peerd_undelivered", "Messages that surely or possibly did not arrive.", network.undelivered),
        )

    def _http(self) -> Iterable[Metric]:
        requests = CounterMetricFamily("peerd_http_requests", "HTTP requests that have ended.", labels=["result"])
        for result, count in _bounded(self._sources.http()):
            requests.add_metric([result], count)
        refused = self._sources.http_connections_refused()
        return (
            requests,
            _counter("peerd_http_connections_refused", "Connections of clients beyond the limit.", refused),
        )


def _counter(name: str, what: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, what, value=value)


def _label(value: str, known: Mapping[str, object]) -> str:
    return value if value in known or len(known) < LABELS_MAX else OTHER


def _bounded(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    items = sorted(counts.items())
    kept, rest = items[:LABELS_MAX], items[LABELS_MAX:]
    return [*kept, (OTHER, sum(count for _, count in rest))] if rest else kept
