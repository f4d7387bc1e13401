"""All tables of a report: what each is called, what it says, and how it is made."""

from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.measures import (
    accuracy,
    churn,
    control,
    convergence,
    degree,
    dissemination,
    drops,
    duplicates,
    links,
    load,
    losses,
    subscriptions,
    summary,
    timeline,
    traffic,
    ways,
)
from analytics.store import of_kind
from analytics.truth import Truth

SHOWN: Final = 40
"""Rows of a table on the page; the files have all."""


OF_SUMMARY: Final = ("accuracy", "deliveries", "hops", "latency", "traffic", "churn", "subscriptions")
"""Tables that the summary is made of."""


class Table(NamedTuple):
    name: str
    title: str
    says: str
    frame: DataFrame | Callable[[Callable[[str], DataFrame]], DataFrame]
    """What it is made of; or how it is made of tables before it, which are asked for by their names."""
    needs: str = "deliveries"
    """The least log detail that it can be made from."""
    sort: str = ""
    """By what its first rows on the page are chosen, largest first; empty: as they come."""


class Sources(NamedTuple):
    """What tables are made from."""

    truth: Truth
    aside: DataFrame
    clocks: DataFrame


def tables(sources: Sources) -> list[Table]:
    """In the order in which they are made."""
    return [
        *_main(sources),
        *_ways(sources),
        *_load(sources),
        *_structure(sources),
        *_log(sources),
        _summary(sources.truth.runs),
    ]


def _summary(runs: DataFrame) -> Table:
    def made(of: Callable[[str], DataFrame]) -> DataFrame:
        return summary.by_run(runs, *[of(name) for name in OF_SUMMARY])

    return Table("summary", "Summary", "The figures of each run, as the simulator prints them.", made, "summary")


def _main(sources: Sources) -> list[Table]:
    truth, receptions = sources.truth, sources.truth.receptions
    by_run = accuracy.by_run(truth.runs, truth.publications, truth.owed, receptions)
    by_event = accuracy.by_event(truth.publications, truth.owed, receptions)
    return [
        Table("accuracy", "Accuracy", "What was owed, missing and received in vain, by run and overlay.", by_run),
        Table(
            "accuracy_by_event",
            "Accuracy by event",
            "Events with the most missing deliveries first.",
            by_event,
            "full",
            "false_negatives",
        ),
        Table(
            "accuracy_by_peer",
            "Accuracy by peer",
            "Peers with the most missing deliveries first.",
            accuracy.by_peer(truth.lives, truth.owed, receptions),
            "full",
            "false_negatives",
        ),
        Table(
            "deliveries",
            "Deliveries",
            "Made, made again, and made though nobody had asked for them.",
            summary.deliveries(truth.arrivals, truth.spurious),
        ),
        Table(
            "subscriptions",
            "Subscriptions",
            "Those that were there when publishing began; filters that cannot be judged.",
            summary.subscriptions(truth.versions, truth.publications),
        ),
        Table(
            "subscription_list",
            "Subscriptions, one by one",
            "What each asked for.",
            subscriptions.listed(truth.versions),
        ),
        Table(
            "missing", "Missing deliveries", "Each owed delivery that never came; `explain` says why.", _missing(truth)
        ),
        Table(
            "timeline",
            "Timeline",
            "What happened in each second of the run.",
            timeline.by_second(truth.runs, truth.publications, truth.arrivals, truth.owed, receptions, truth.records),
        ),
    ]


def _missing(truth: Truth) -> DataFrame:
    absent = truth.owed.where("missing").select("run", "event_id", "peer", "subscription_id", "at_us", "at_risk")
    return absent.orderBy("run", "at_risk", "at_us", "event_id")


def _ways(sources: Sources) -> list[Table]:
    truth = sources.truth
    return [
        Table("hops", "Hops", "Hops of deliveries.", ways.hops(truth.arrivals)),
        Table("hops_distribution", "Hops, distribution", "Deliveries by hops.", ways.hops_distribution(truth.arrivals)),
        Table(
            "event_hops",
            "Hops by event",
            "To the first delivery, or as far as it got.",
            ways.by_event(truth.publications, truth.receptions, truth.arrivals),
            "full",
            "hops",
        ),
        Table("latency", "Latency", "From publication to delivery, in milliseconds.", ways.latency(truth.arrivals)),
        Table(
            "latency_distribution",
            "Latency, distribution",
            "Deliveries by latency.",
            ways.latency_distribution(truth.arrivals),
        ),
        Table(
            "slow_links",
            "Slow links",
            "From a peer's first sight of an event to the next peer's, slowest links first.",
            links.slowest(links.hop_times(truth.receptions, truth.publications)),
            "full",
        ),
    ]


def _load(sources: Sources) -> list[Table]:
    truth, receptions = sources.truth, sources.truth.receptions
    loads = load.by_peer(truth.lives, truth.publications, receptions)
    messages = traffic.by_message(of_kind(truth.records, "traffic"))
    return [
        Table("load", "Load and noise", "How evenly receptions are spread over peers.", load.evenness(loads), "full"),
        Table("load_by_peer", "Load and noise by peer", "Busiest peers first.", loads, "full", "load"),
        Table(
            "noise_distribution",
            "Noise, distribution",
            "Share of the peers by noise.",
            load.noise_distribution(loads),
            "full",
        ),
        Table(
            "dissemination",
            "Dissemination ratio",
            "Copies sent over copies received, by peer; most copies first.",
            dissemination.ratio_by_peer(receptions),
            "full",
            "received",
        ),
        Table(
            "duplicates",
            "Duplicates",
            "Copies that came again, and deliveries made again.",
            duplicates.by_run(receptions, truth.arrivals),
            "full",
        ),
        Table("traffic_by_message", "Traffic by message", "All messages, most bytes first.", messages, "summary"),
        Table(
            "traffic",
            "Traffic",
            "Messages and bytes sent, and bytes for each delivery.",
            traffic.by_run(messages, truth.arrivals),
            "summary",
        ),
        Table("drops", "Drops", "Copies that went no further.", drops.by_reason(of_kind(truth.records, "drop"))),
    ]


def _structure(sources: Sources) -> list[Table]:
    truth = sources.truth
    degrees = degree.by_peer(degree.links(of_kind(truth.records, "link"), truth.lives))
    controls = of_kind(truth.records, "control")
    return [
        Table("degree", "Degree", "Neighbours of peers at the end of the run.", degree.by_run(degrees), "full"),
        Table("degree_by_peer", "Degree by peer", "Most neighbours first.", degrees, "full", "degree"),
        Table(
            "degree_distribution", "Degree, distribution", "Peers by neighbours.", degree.distribution(degrees), "full"
        ),
        Table("churn", "Churn", "Lives of peers and how they ended.", churn.by_run(truth.lives), "summary"),
        Table(
            "churn_by_second",
            "Churn by second",
            "Who came and went, and when.",
            churn.steps(truth.lives, truth.runs),
            "summary",
        ),
        Table(
            "convergence",
            "Faults and convergence",
            "Seconds from each fault until the structure was whole again.",
            convergence.after_faults(truth.faults, truth.runs),
            "summary",
        ),
        Table("control", "What overlays say", "Facts told by overlays, counted.", control.facts(controls), "summary"),
        Table(
            "cells_and_flow",
            "Cells and flow control",
            "Limits and cell switches, in order of time.",
            control.history(controls, truth.runs),
        ),
    ]


def _log(sources: Sources) -> list[Table]:
    truth = sources.truth
    unjudged = truth.versions.where(~F.col("judged")).select("run", "peer", "subscription_id", "version", "filter")
    return [
        Table("lost_records", "Lost records", "Lives whose records have gaps.", losses.by_peer(truth.lives), "summary"),
        Table("aside", "Lines kept aside", "Lines that are no records, and why.", sources.aside, "summary"),
        Table(
            "clocks",
            "Wrong clocks",
            "Peers whose clock was off; times are corrected, their latencies left out.",
            sources.clocks,
        ),
        Table(
            "unjudged",
            "Filters that cannot be judged",
            "Too complex for boxes, or about attributes that are not known.",
            unjudged,
        ),
    ]
