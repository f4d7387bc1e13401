"""What the whole thing costs: processor, memory, bytes, files."""

from typing import Final

from deploy.grafana.panels import Dashboard, Panel, Query, Row

TESTBED: Final = Dashboard(
    "peerd-testbed",
    "Testbed",
    "What the whole thing costs: processor, memory, bytes, files.",
    (
        Row(
            "All peers",
            (
                Panel(
                    "CPU",
                    "Cores that all peers use, and the workload driver.",
                    "none",
                    (
                        Query('sum(rate(process_cpu_seconds_total{job="peers"}[1m]))', "peers"),
                        Query('sum(rate(process_cpu_seconds_total{job="workload"}[1m]))', "workload"),
                        Query('sum(rate(process_cpu_seconds_total{job="prometheus"}[1m]))', "Prometheus"),
                    ),
                    stacked=True,
                ),
                Panel(
                    "CPU of the busiest peers",
                    "Share of a core; one that works more than the others holds the overlay up.",
                    "percentunit",
                    (Query('topk(5, rate(process_cpu_seconds_total{job="peers"}[1m]))', "{{instance}}"),),
                ),
                Panel(
                    "Memory",
                    "Resident memory of all processes together. Pages that they share count as often as they are used.",
                    "bytes",
                    (
                        Query('sum(process_resident_memory_bytes{job="peers"})', "peers"),
                        Query('sum(process_resident_memory_bytes{job="workload"})', "workload"),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Memory of a peer",
                    "Resident memory: mean, and that of the greatest.",
                    "bytes",
                    (
                        Query('avg(process_resident_memory_bytes{job="peers"})', "mean"),
                        Query('max(process_resident_memory_bytes{job="peers"})', "greatest"),
                    ),
                ),
                Panel(
                    "Bytes between peers",
                    "Sent a second by all peers.",
                    "Bps",
                    (Query("sum(swarm:message_bytes:rate1m)", "sent"),),
                ),
                Panel(
                    "Bytes for one delivery",
                    "All bytes between peers over all deliveries, keeping the structure in order included.",
                    "bytes",
                    (Query("sum(swarm:message_bytes:rate1m) / (swarm:deliveries:rate1m > 0)", "bytes"),),
                ),
                Panel(
                    "Messages between peers",
                    "Sent a second by all peers.",
                    "ops",
                    (Query("sum(swarm:messages:rate1m)", "sent"),),
                ),
                Panel(
                    "Connections and files",
                    "Connections between peers (each counted at both ends), and open files of all peers.",
                    "none",
                    (
                        Query("sum(peerd_connections)", "connections"),
                        Query('sum(process_open_fds{job="peers"})', "open files"),
                    ),
                ),
                Panel(
                    "HTTP requests",
                    "Requests to all peers that ended, a second, by how.",
                    "ops",
                    (Query("sum by (result) (rate(peerd_http_requests_total[1m]))", "{{result}}"),),
                    stacked=True,
                ),
                Panel(
                    "Log records lost",
                    "Records that could not be written, since the peers were started: a full or slow volume.",
                    "none",
                    (Query("sum(peerd_log_records_lost_total)", "lost"),),
                ),
                Panel(
                    "Scrapes",
                    "How long Prometheus takes for a peer's metrics: mean and longest.",
                    "s",
                    (
                        Query('avg(scrape_duration_seconds{job="peers"})', "mean"),
                        Query('max(scrape_duration_seconds{job="peers"})', "longest"),
                    ),
                ),
            ),
        ),
    ),
)
