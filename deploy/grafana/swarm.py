"""Who is there, what is published, and whether everything that is owed arrives."""

from typing import Final

from deploy.grafana.panels import Dashboard, Panel, Query, Row

RECALL: Final = ((0.0, "red"), (0.999, "orange"), (1.0, "green"))
NONE_IS_GOOD: Final = ((1.0, "red"),)

SWARM: Final = Dashboard(
    "peerd-swarm",
    "Swarm",
    "Who is there, what is published, and whether everything that is owed arrives.",
    (
        Row(
            "At a glance",
            (
                Panel(
                    "Peers that stand",
                    "Peers that have joined the overlay, of those that Prometheus reaches.",
                    "none",
                    (Query("swarm:peers_ready:sum", "stand"), Query("swarm:peers_up:sum", "reached")),
                    "stat",
                    width=6,
                    height=5,
                ),
                Panel(
                    "Recall",
                    "Of the deliveries that were owed in the last five minutes, the share that was read. Counted by "
                    "the workload driver 30 s after each publication; what is at risk is counted apart.",
                    "percentunit",
                    (Query("workload:recall:ratio5m", "recall"),),
                    "stat",
                    width=6,
                    height=5,
                    maximum=1,
                    thresholds=RECALL,
                ),
                Panel(
                    "Missing",
                    "Owed deliveries that were never read, since the driver was started.",
                    "none",
                    (Query("sum(peerd_workload_missing_deliveries_total)", "missing"),),
                    "stat",
                    width=6,
                    height=5,
                    thresholds=NONE_IS_GOOD,
                ),
                Panel(
                    "At risk now",
                    "1 from a fault until the overlay has converged again.",
                    "none",
                    (Query("max(peerd_workload_at_risk)", "at risk"),),
                    "stat",
                    width=6,
                    height=5,
                    thresholds=((1.0, "orange"),),
                ),
            ),
        ),
        Row(
            "Peers",
            (
                Panel(
                    "Peers",
                    "Reached by Prometheus, standing in the overlay, and taking part in the workload.",
                    "none",
                    (
                        Query("swarm:peers_up:sum", "reached"),
                        Query("swarm:peers_ready:sum", "stand"),
                        Query("sum(peerd_workload_peers)", "take part"),
                    ),
                ),
                Panel(
                    "Joins",
                    "Times that peers have joined the overlay, and times that a peer found another one dead, a minute.",
                    "none",
                    (
                        Query("sum(increase(peerd_joins_total[1m]))", "joins"),
                        Query("sum(increase(peerd_peer_failures_total[1m]))", "found dead"),
                    ),
                ),
                Panel(
                    "Faults",
                    "What was done to peers, announced or found out by the driver, in five minutes; and whether events "
                    "are at risk.",
                    "none",
                    (
                        Query("sum(increase(peerd_workload_faults_total[5m]))", "faults"),
                        Query("max(peerd_workload_at_risk)", "at risk"),
                    ),
                ),
            ),
        ),
        Row(
            "Events",
            (
                Panel(
                    "Published and delivered",
                    "Events published a second, and deliveries to subscriptions.",
                    "ops",
                    (
                        Query("swarm:published:rate1m", "published"),
                        Query("swarm:deliveries:rate1m", "delivered"),
                        Query("sum(rate(peerd_workload_read_deliveries_total[1m]))", "read by applications"),
                    ),
                ),
                Panel(
                    "Owed",
                    "Deliveries owed and settled a second, those among them that are missing, and those at risk.",
                    "ops",
                    (
                        Query("sum(rate(peerd_workload_expected_deliveries_total[1m]))", "owed"),
                        Query("sum(rate(peerd_workload_missing_deliveries_total[1m]))", "missing"),
                        Query("sum(rate(peerd_workload_at_risk_deliveries_total[1m]))", "at risk"),
                        Query("sum(rate(peerd_workload_at_risk_missing_deliveries_total[1m]))", "at risk and missing"),
                    ),
                ),
                Panel(
                    "Not as promised",
                    "Deliveries that no filter asked for, and deliveries read twice, since the driver was started. "
                    "Both are bugs.",
                    "none",
                    (
                        Query("sum(peerd_workload_spurious_deliveries_total)", "spurious"),
                        Query("sum(peerd_workload_duplicate_deliveries_total)", "twice"),
                    ),
                ),
                Panel(
                    "Latency",
                    "From publication to delivery at the peer; and from handing in to reading, by the driver's clock.",
                    "s",
                    (
                        Query("swarm:delivery_latency_seconds:p50", "peer, median"),
                        Query("swarm:delivery_latency_seconds:p99", "peer, 99 %"),
                        Query("workload:latency_seconds:p99", "application, 99 %"),
                    ),
                ),
                Panel(
                    "Hops",
                    "Links between publisher and subscriber that delivered events took.",
                    "none",
                    (Query("swarm:hops:p50", "median"), Query("swarm:hops:p99", "99 %")),
                ),
                Panel(
                    "Receptions",
                    "Copies of events that participants were sent: wanted, not wanted (false positives of the "
                    "routing), or already known.",
                    "ops",
                    (Query("swarm:receptions:rate1m", "{{result}}"),),
                    stacked=True,
                ),
                Panel(
                    "Drops",
                    "Copies of events that went no further, by reason.",
                    "ops",
                    (Query("swarm:dropped:rate1m or vector(0)", "{{reason}}"),),
                    stacked=True,
                ),
                Panel(
                    "Waiting",
                    "Events and other messages that wait for their connections, in all peers.",
                    "none",
                    (
                        Query("sum(peerd_queue_events)", "events"),
                        Query("sum(peerd_queue_control)", "control"),
                    ),
                ),
                Panel(
                    "Pushed back",
                    "Events that a peer would not take at once, and events that nobody took.",
                    "ops",
                    (
                        Query("sum(rate(peerd_workload_pushed_back_total[1m]))", "pushed back"),
                        Query("sum(rate(peerd_workload_refused_total[1m]))", "refused"),
                    ),
                ),
            ),
        ),
    ),
)
