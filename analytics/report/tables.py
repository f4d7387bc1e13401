"""All tables of a report: what each is called, what it says, and how it is made.

A table is made when somebody asks for it, from the truth or from tables that are finished already: loads of peers are
counted once, and their spread is made from that, not from millions of receptions again.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from pyspark.sql import DataFrame

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

Of: TypeAlias = Callable[[str], DataFrame]
"""A finished table, by its name."""


class Table(NamedTuple):
    name: str
    title: str
    says: str
    make: Callable[[Of], DataFrame]
    """It is given the finished tables, for those that are made of others."""
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
    """In the order in which a reader finds them."""
    return [
        *_main(sources.truth),
        *_ways(sources.truth),
        *_load(sources.truth),
        *_structure(sources.truth),
        *_log(sources),
        _summary(sources.truth),
    ]


def _summary(truth: Truth) -> Table:
    parts = ("accuracy", "deliveries", "hops", "latency", "traffic", "churn", "subscriptions")
    return Table(
        "summary",
        "Summary",
        "The figures of each run, as the simulator prints them.",
        lambda of: summary.by_run(truth.runs, *[of(name) for name in parts]),
        "summary",
    )


def _main(truth: Truth) -> list[Table]:
    return [
        Table(
            "accuracy",
            "Accuracy",
            "What was owed, missing and received in vain, by run.",
            lambda of: accuracy.by_run(truth.runs, truth.publications, truth.owed, truth.receptions),
        ),
        Table(
            "accuracy_by_overlay",
            "Accuracy by overlay",
            "The same over all runs of an overlay.",
            lambda of: accuracy.by_overlay(of("accuracy")),
        ),
        Table(
            "accuracy_by_event",
            "Accuracy by event",
            "Events with the most missing deliveries first.",
            lambda of: accuracy.by_event(truth.publications, truth.owed, truth.receptions),
            "full",
            "false_negatives",
        ),
        Table(
            "accuracy_by_peer",
            "Accuracy by peer",
            "Peers with the most missing deliveries first.",
            lambda of: accuracy.by_peer(truth.lives, truth.owed, truth.receptions),
            "full",
            "false_negatives",
        ),
        Table(
            "deliveries",
            "Deliveries",
            "Made, made again, and made though nobody had asked for them.",
            lambda of: summary.deliveries(truth.arrivals, truth.spurious),
        ),
        Table(
            "subscriptions",
            "Subscriptions",
            "Those that were there when publishing began; filters that cannot be judged.",
            lambda of: summary.subscriptions(truth.versions, truth.publications),
        ),
        Table(
            "subscription_list",
            "Subscriptions, one by one",
            "What each asked for.",
            lambda of: subscriptions.listed(truth.versions),
        ),
        Table(
            "missing",
            "Missing deliveries",
            "Each owed delivery that never came; `explain` says why.",
            lambda of: _missing(truth),
        ),
        Table(
            "timeline",
            "Timeline",
            "What happened in each second of the run; what was sent counts in the second in which a peer told it.",
            lambda of: timeline.by_second(
                truth.runs, truth.publications, truth.arrivals, truth.owed, truth.receptions, truth.records
            ),
        ),
    ]


def _missing(truth: Truth) -> DataFrame:
    absent = truth.owed.where("missing").select("run", "event_id", "peer", "subscription_id", "at_us", "at_risk")
    return absent.orderBy("run", "at_risk", "at_us", "event_id")


def _ways(truth: Truth) -> list[Table]:
    return [
        Table("hops", "Hops", "Hops of deliveries.", lambda of: ways.hops(truth.arrivals)),
        Table(
            "hops_distribution",
            "Hops, distribution",
            "Deliveries by hops.",
            lambda of: ways.hops_distribution(truth.arrivals),
        ),
        Table(
            "event_hops",
            "Hops by event",
            "To the first delivery, or as far as it got.",
            lambda of: ways.by_event(truth.publications, truth.receptions, truth.arrivals),
            "full",
            "hops",
        ),
        Table(
            "latency",
            "Latency",
            "From publication to delivery, in milliseconds.",
            lambda of: ways.latency(truth.arrivals),
        ),
        Table(
            "latency_distribution",
            "Latency, distribution",
            "Deliveries by latency.",
            lambda of: ways.latency_distribution(truth.arrivals),
        ),
        Table(
            "slow_links",
            "Slow links",
            "From a peer's first sight of an event to the next peer's, slowest links first.",
            lambda of: links.slowest(links.hop_times(truth.receptions, truth.publications)),
            "full",
        ),
    ]


def _load(truth: Truth) -> list[Table]:
    return [
        Table(
            "load",
            "Load and noise",
            "How evenly receptions are spread over peers.",
            lambda of: load.evenness(of("load_by_peer")),
            "full",
        ),
        Table(
            "load_by_peer",
            "Load and noise by peer",
            "Busiest peers first.",
            lambda of: load.by_peer(truth.lives, truth.publications, truth.receptions),
            "full",
            "load",
        ),
        Table(
            "noise_distribution",
            "Noise, distribution",
            "Share of the peers by noise.",
            lambda of: load.noise_distribution(of("load_by_peer")),
            "full",
        ),
        Table(
            "dissemination",
            "Dissemination ratio",
            "Copies sent over copies received, by peer; most copies first.",
            lambda of: dissemination.ratio_by_peer(truth.receptions),
            "full",
            "received",
        ),
        Table(
            "duplicates",
            "Duplicates",
            "Copies that came again, and deliveries made again.",
            lambda of: duplicates.by_run(truth.receptions, truth.arrivals),
            "full",
        ),
        Table(
            "traffic_by_message",
            "Traffic by message",
            "All messages, most bytes first.",
            lambda of: traffic.by_message(of_kind(truth.records, "traffic")),
            "summary",
        ),
        Table(
            "traffic",
            "Traffic",
            "Messages and bytes sent, and bytes for each delivery.",
            lambda of: traffic.by_run(of("traffic_by_message"), truth.arrivals),
            "summary",
        ),
        Table(
            "drops",
            "Drops",
            "Copies that went no further.",
            lambda of: drops.by_reason(of_kind(truth.records, "drop")),
        ),
    ]


def _structure(truth: Truth) -> list[Table]:
    return [
        Table(
            "degree",
            "Degree",
            "Neighbours of peers at the end of the run.",
            lambda of: degree.by_run(of("degree_by_peer")),
            "full",
        ),
        Table(
            "degree_by_peer",
            "Degree by peer",
            "Most neighbours first.",
            lambda of: degree.by_peer(degree.links(of_kind(truth.records, "link"), truth.lives)),
            "full",
            "degree",
        ),
        Table(
            "degree_distribution",
            "Degree, distribution",
            "Peers by neighbours.",
            lambda of: degree.distribution(of("degree_by_peer")),
            "full",
        ),
        Table("churn", "Churn", "Lives of peers and how they ended.", lambda of: churn.by_run(truth.lives), "summary"),
        Table(
            "churn_by_second",
            "Churn by second",
            "Who came and went, and when.",
            lambda of: churn.steps(truth.lives, truth.runs),
            "summary",
        ),
        Table(
            "convergence",
            "Faults and convergence",
            "Seconds from each fault until the structure was seen to be whole again.",
            lambda of: convergence.after_faults(truth.faults, truth.runs),
            "summary",
        ),
        Table(
            "control",
            "What overlays say",
            "Facts told by overlays, counted.",
            lambda of: control.facts(of_kind(truth.records, "control")),
            "summary",
        ),
        Table(
            "cells_and_flow",
            "Cells and flow control",
            "Limits, roles and cell switches, in order of time.",
            lambda of: control.history(of_kind(truth.records, "control"), truth.runs),
        ),
    ]


def _log(sources: Sources) -> list[Table]:
    truth = sources.truth
    return [
        Table(
            "lost_records",
            "Lost records",
            "Lives whose records have gaps.",
            lambda of: losses.by_peer(truth.lives),
            "summary",
        ),
        Table("aside", "Lines kept aside", "Lines that are no records, and why.", lambda of: sources.aside, "summary"),
        Table(
            "clocks",
            "Wrong clocks",
            "Peers whose clock was off; times are corrected, their latencies left out.",
            lambda of: sources.clocks,
        ),
        Table(
            "unjudged",
            "Filters that cannot be judged",
            "Too complex for boxes, or about attributes that are not known.",
            lambda of: subscriptions.unjudged(truth.versions),
        ),
    ]
