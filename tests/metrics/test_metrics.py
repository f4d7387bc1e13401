"""Metrics: the contract's names and labels, and the right numbers."""

import time
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from peerd.driver import Sink
from peerd.metrics import HOPS, LABELS_MAX, LATENCIES_S, Info, Metrics, Sources
from protocols.model.event import Body, Event, encode_body
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import STOCKS
from protocols.overlay import (
    Active,
    Control,
    Deliver,
    Dropped,
    Joined,
    LinkUp,
    Lost,
    Reception,
    Rejected,
    Repaired,
    Report,
    Suspected,
)

OTHER = Address("cd" * 16, 3, 0, "127.0.0.1:6471")
NOW_US = 10_000_000

CONTRACT = {
    "peerd_events_published": (),
    "peerd_receptions": ("result",),
    "peerd_deliveries": (),
    "peerd_dropped": ("reason",),
    "peerd_hops": ("le",),
    "peerd_delivery_latency_seconds": ("le",),
    "peerd_links": ("kind",),
    "peerd_queue_events": ("queue",),
    "peerd_messages": ("direction", "message"),
    "peerd_message_bytes": ("direction", "message"),
    "peerd_joins": (),
    "peerd_peer_failures": (),
    "peerd_repairs": (),
    "peerd_participants": (),
    "peerd_subscriptions": (),
    "peerd_rejected": (),
    "peerd_control": ("fact",),
    "peerd_control_value": ("fact",),
    "peerd_ready": (),
    "peerd_log_records_lost": (),
    "peerd_queue_control": (),
    "peerd_connections": (),
    "peerd_connections_closed": ("reason",),
    "peerd_undelivered": (),
    "peerd_http_requests": ("result",),
    "peerd_http_connections_refused": (),
    "peerd_info": ("overlay", "name", "peer", "version"),
}
"""Families as a parser names them: a counter without its `_total`."""


class Traffic(msgspec.Struct):
    sent: int
    sent_bytes: int
    received: int
    received_bytes: int


class Connections(msgspec.Struct):
    connections: int
    closed: dict[str, int]
    undelivered: int


SOURCES = Sources(
    ready=lambda: True,
    log_lost=lambda: 8,
    links=lambda: {"random": 3},
    queues=lambda: {"events": 7},
    queued_control=lambda: 9,
    participants=lambda: 2,
    subscriptions=lambda: 5,
    traffic=lambda: {"forward": Traffic(4, 600, 3, 450)},
    network=lambda: Connections(11, {"stalled": 2, "broken": 1}, 13),
    http=lambda: {"answered": 20, "stalled": 3},
    http_connections_refused=lambda: 6,
)


def metrics(sources: Sources = SOURCES, now_us: int = NOW_US) -> Metrics:
    return Metrics(Info("0.1", "broadcast", "ab" * 16, 'a "name"\\'), lambda: now_us, sources)


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = metrics.render()[0].decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, sample: str, /, **labels: str) -> float:
    return samples(metrics)[sample, tuple(sorted(labels.items()))]


def delivery(hops: int, published_us: int, times: int = 1, body: bytes | None = None) -> Deliver:
    attributes: dict[str, Any] = {"symbol": "OTE", "price": 8.5}
    raw = encode_body(Body(attributes, published_us, {"a": [1]})) if body is None else body
    return Deliver(PEER_SLOT, Event("e-1-1", STOCKS.point(attributes), raw), ("s",) * times, hops)


def busy() -> Metrics:
    found = metrics()
    found.on_publish(0, delivery(0, 0).event, {})
    found.on_deliver(0, delivery(2, NOW_US - 1_500, times=3))
    for result in ("wanted", "unwanted", "duplicate", "duplicate", "touched"):
        found.on_reception(0, Reception(0, "e", OTHER, 1, result), 100)
    found.on_report(0, Report(0, Dropped("e", "link-full", OTHER)))
    found.on_report(0, Report(PEER_SLOT, Joined()))
    found.on_report(0, Report(0, Joined()))
    found.on_report(0, Report(PEER_SLOT, Lost(OTHER)))
    found.on_report(0, Report(PEER_SLOT, Suspected(OTHER)))
    found.on_report(0, Report(0, Repaired("link")))
    found.on_report(0, Report(0, LinkUp("random", OTHER)))
    found.on_report(0, Report(0, Rejected(OTHER, "nonsense")))
    found.on_report(0, Report(PEER_SLOT, Rejected(OTHER, "other nonsense")))
    found.on_report(0, Report(0, Control("split", 5)))
    found.on_report(0, Report(1, Control("split", 3)))
    found.on_active(0, Active(PEER_SLOT, "s", 0))
    found.dropped("subscriber", 4)
    return found


def test_it_is_a_sink_of_the_driver() -> None:
    sink: Sink = metrics()
    sink.on_active(0, Active(PEER_SLOT, "s", 0))


def test_names_and_labels_are_those_of_the_contract() -> None:
    text = busy().render()[0].decode()
    found = {
        family.name: {label for sample in family.samples for label in sample.labels}
        for family in text_string_to_metric_families(text)
        if family.name.startswith("peerd_")
    }
    assert found == {name: set(labels) for name, labels in CONTRACT.items()}


def test_the_page_of_metrics_is_complete() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    families = text_string_to_metric_families(busy().render()[0].decode())
    rows = []
    for family in families:
        if family.name.startswith("peerd_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = ", ".join(f"`{label}`" for label in CONTRACT[family.name] if label != "le")
            rows.append(f"| `{name}` | {family.type} | {labels} | {family.documentation} |".replace("|  |", "| |"))
    assert [line for line in page.splitlines() if line.startswith("| `peerd_")] == rows


def test_counters_are_there_before_anything_happens() -> None:
    """A rate over a counter that appears with its first event misses that event."""
    found = samples(metrics())
    for name in ("events_published", "deliveries", "joins", "peer_failures", "repairs", "rejected"):
        assert found[f"peerd_{name}_total", ()] == 0
    assert found["peerd_receptions_total", (("result", "unwanted"),)] == 0
    assert found["peerd_hops_count", ()] == 0


def test_numbers() -> None:
    found = busy()
    assert value(found, "peerd_events_published_total") == 1
    assert value(found, "peerd_deliveries_total") == 3
    assert value(found, "peerd_receptions_total", result="wanted") == 1
    assert value(found, "peerd_receptions_total", result="duplicate") == 2
    assert value(found, "peerd_dropped_total", reason="link-full") == 1
    assert value(found, "peerd_dropped_total", reason="subscriber") == 4
    assert value(found, "peerd_joins_total") == 1
    assert value(found, "peerd_peer_failures_total") == 1
    assert value(found, "peerd_repairs_total") == 1
    assert value(found, "peerd_control_total", fact="split") == 2
    assert value(found, "peerd_control_value", fact="split") == 3
    assert value(found, "peerd_ready") == 1
    assert value(found, "peerd_log_records_lost_total") == 8
    assert value(found, "peerd_links", kind="random") == 3
    assert value(found, "peerd_queue_events", queue="events") == 7
    assert value(found, "peerd_queue_control") == 9
    assert value(found, "peerd_rejected_total") == 2
    assert value(found, "peerd_connections") == 11
    assert value(found, "peerd_connections_closed_total", reason="stalled") == 2
    assert value(found, "peerd_undelivered_total") == 13
    assert value(found, "peerd_http_requests_total", result="answered") == 20
    assert value(found, "peerd_http_requests_total", result="stalled") == 3
    assert value(found, "peerd_http_connections_refused_total") == 6
    assert value(found, "peerd_participants") == 2
    assert value(found, "peerd_subscriptions") == 5
    assert value(found, "peerd_messages_total", direction="sent", message="forward") == 4
    assert value(found, "peerd_message_bytes_total", direction="received", message="forward") == 450
    info = {"version": "0.1", "overlay": "broadcast", "peer": "ab" * 16, "name": 'a "name"\\'}
    assert value(found, "peerd_info", **info) == 1


def test_histograms_count_each_delivery_below_its_bound() -> None:
    found = metrics()
    found.on_deliver(0, delivery(2, NOW_US - 1_500, times=3))
    found.on_deliver(0, delivery(40, NOW_US - 61_000_000))
    found.on_deliver(0, delivery(0, NOW_US - 1_000))
    assert [value(found, "peerd_hops_bucket", le=le) for le in ("0.0", "1.0", "2.0", "32.0", "+Inf")] == [1, 1, 4, 4, 5]
    assert value(found, "peerd_hops_sum") == 46
    latency = "peerd_delivery_latency_seconds"
    bounds = ("0.001", "0.0025", "60.0", "+Inf")
    assert [value(found, f"{latency}_bucket", le=le) for le in bounds] == [1, 4, 4, 5]
    assert value(found, f"{latency}_count") == 5
    assert abs(value(found, f"{latency}_sum") - 61.0055) < 1e-9
    assert list(HOPS) == sorted(HOPS)
    assert list(LATENCIES_S) == sorted(LATENCIES_S)


def test_a_clock_that_is_behind_gives_no_negative_latency() -> None:
    found = metrics()
    found.on_deliver(0, delivery(1, NOW_US + 3_000_000))
    assert value(found, "peerd_delivery_latency_seconds_sum") == 0


def test_a_body_that_makes_no_sense_is_still_a_delivery() -> None:
    found = metrics()
    for body in (b"", b"\xc1", b"\x93", b"\x92\x80\xa1x", b"\x80"):
        found.on_deliver(0, delivery(1, 0, body=body))
    assert value(found, "peerd_deliveries_total") == 5
    assert value(found, "peerd_delivery_latency_seconds_count") == 0


def test_no_label_grows_without_end() -> None:
    many = {f"kind-{number}": 1 for number in range(1000)}
    network = Connections(0, many, 0)
    found = metrics(Sources(links=lambda: many, queues=lambda: many, network=lambda: network, http=lambda: many))
    for number in range(1000):
        found.dropped(f"reason-{number}")
        found.on_report(0, Report(0, Control(f"fact-{number}", 1)))
    names = [name for name, _ in samples(found)]
    counters = "peerd_dropped_total", "peerd_connections_closed_total", "peerd_http_requests_total"
    for name in ("peerd_links", "peerd_queue_events", "peerd_control_total", "peerd_control_value", *counters):
        assert names.count(name) == LABELS_MAX + 1
    assert value(found, "peerd_dropped_total", reason="other") == 1000 - LABELS_MAX
    assert value(found, "peerd_links", kind="other") == 1000 - LABELS_MAX


def test_the_process_is_described() -> None:
    assert value(metrics(), "process_resident_memory_bytes") > 1e6


def test_the_form_that_was_asked_for() -> None:
    found = busy()
    data, content_type = found.render()
    assert content_type.startswith("text/plain")
    assert data.endswith(b"\n")
    data, content_type = found.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert data.endswith(b"# EOF\n")
    prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    assert found.render(prometheus)[1].startswith("text/plain")


def test_many_daemons_in_one_process() -> None:
    first, second = metrics(), metrics()
    first.on_publish(0, delivery(0, 0).event, {})
    assert value(second, "peerd_events_published_total") == 0


def test_counting_is_cheap() -> None:
    """Against the machine's own pace: a reception costs no more than a few plain function calls."""
    found, effect = metrics(), Reception(0, "e", OTHER, 1, "wanted")

    def nothing(now_ms: int, effect: Reception, size: int) -> None:
        pass

    def timed(call: Any) -> float:
        start = time.perf_counter()
        for _ in range(20_000):
            call(0, effect, 100)
        return time.perf_counter() - start

    assert min(timed(found.on_reception) for _ in range(5)) < 10 * min(timed(nothing) for _ in range(5))
