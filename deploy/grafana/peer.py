"""One peer: its links, its events, its queues, its process."""

from typing import Final

from deploy.grafana.panels import Dashboard, Panel, Query, Row, Variable


def _quantiles(metric: str, labels: str, name: str = "") -> tuple[Query, ...]:
    """Median and 99th percentile of a histogram, of the last minute."""
    return tuple(
        Query(f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{{{labels}}}[1m])))", f"{name}{called}")
        for share, called in ((0.5, "median"), (0.99, "99 %"))
    )


ONE: Final = 'instance="$peer"'

PEER: Final = Dashboard(
    "peerd-peer",
    "Peer",
    "One peer: its links, its events, its queues, its process.",
    (
        Row(
            "$peer",
            (
                Panel(
                    "Who it is",
                    "Name, id, overlay and version.",
                    "none",
                    (Query(f"peerd_info{{{ONE}}}"),),
                    "table",
                    width=16,
                    height=4,
                ),
                Panel(
                    "Stands",
                    "1 if it has joined the overlay.",
                    "none",
                    (Query(f"peerd_ready{{{ONE}}}", "stands"),),
                    "stat",
                    height=4,
                ),
                Panel(
                    "Links by kind",
                    "Links of its participants.",
                    "none",
                    (Query(f"peerd_links{{{ONE}}}", "{{kind}}"),),
                    stacked=True,
                ),
                Panel(
                    "Participants and subscriptions",
                    "Logical nodes in this peer, and the subscriptions that they stand for.",
                    "none",
                    (
                        Query(f"peerd_participants{{{ONE}}}", "participants"),
                        Query(f"peerd_subscriptions{{{ONE}}}", "subscriptions"),
                        Query(f"peerd_connections{{{ONE}}}", "connections"),
                    ),
                ),
                Panel(
                    "Events",
                    "Published and delivered here a second.",
                    "ops",
                    (
                        Query(f"rate(peerd_events_published_total{{{ONE}}}[1m])", "published"),
                        Query(f"rate(peerd_deliveries_total{{{ONE}}}[1m])", "delivered"),
                    ),
                ),
                Panel(
                    "Receptions",
                    "Copies of events that its participants were sent.",
                    "ops",
                    (Query(f"rate(peerd_receptions_total{{{ONE}}}[1m])", "{{result}}"),),
                    stacked=True,
                ),
                Panel(
                    "Latency of deliveries",
                    "From publication to delivery here, by two clocks.",
                    "s",
                    _quantiles("peerd_delivery_latency_seconds", ONE),
                ),
                Panel(
                    "Waiting",
                    "Events and other messages that wait for their connections.",
                    "none",
                    (
                        Query(f"peerd_queue_events{{{ONE}}}", "{{queue}}"),
                        Query(f"peerd_queue_control{{{ONE}}}", "control"),
                    ),
                ),
                Panel(
                    "Messages",
                    "Sent and received a second.",
                    "ops",
                    (Query(f"sum by (direction) (rate(peerd_messages_total{{{ONE}}}[1m]))", "{{direction}}"),),
                ),
                Panel(
                    "CPU",
                    "Share of a core.",
                    "percentunit",
                    (Query(f"rate(process_cpu_seconds_total{{{ONE}}}[1m])", "cpu"),),
                ),
                Panel(
                    "Memory",
                    "Resident memory of the process.",
                    "bytes",
                    (Query(f"process_resident_memory_bytes{{{ONE}}}", "resident"),),
                ),
            ),
        ),
    ),
    (Variable("peer", "Peer", "label_values(peerd_info, instance)"),),
)
