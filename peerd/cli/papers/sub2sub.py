"""Paper 4: bandwidth-aware Sub-2-Sub (section V, simulations A, B and C).

1,000 nodes with one range of [0, 100] each, 1,000 cycles of a second, uniform events. By the length of a node's range:

- *accuracy*: the share of the events that a node should have received which it did;
- *messages*: copies of events that it received, duplicates included;
- *MDR*: copies that it sent over copies that it received. (The log counts all of them; `python -m benchmarks sub2sub`
  counts as the paper seems to have done, see `peerd/sim/experiments/sub2sub.py`, and needs no logs: those of a thousand
  nodes and cycles are tens of gigabytes.)

The paper compares Sub-2-Sub (here `plain`) with its own system (variant `paper`); ours stands beside both. A smaller
scale has fewer nodes, down to 100, and fewer cycles still, down to 40. Table I prints an accuracy of 3 % for the
shortest ranges in simulation A; its number of messages says 53 (specification, section 5), and that is compared.
"""

from statistics import fmean
from typing import Any, Final

from analytics.plots import Plot
from peerd.cli.papers.frame import (
    Claim,
    Experiment,
    Paper,
    Results,
    Variant,
    number,
    percent,
    plain,
    range_length,
    scaled,
    shape,
)
from peerd.sim.experiments.sub2sub import CLASSES, LATENCY, SIMULATIONS, SYSTEMS

ACCURACY: Final = {
    "A": ((53, 90), (52, 97), (53, 66), (53, 38)),
    "B": ((44, 82), (45, 94), (42, 41), (39, 26)),
    "C": ((84, 92), (80, 98), (82, 87), (82, 53)),
}
"""Sub-2-Sub and the paper's system, in percent, by class."""
MDR: Final = {
    "A": ((1.104, 0.797), (1.093, 0.900), (1.000, 1.026), (0.597, 0.963)),
    "B": ((0.904, 0.764), (1.051, 0.890), (0.984, 1.008), (0.546, 0.973)),
    "C": ((1.026, 0.749), (1.099, 0.913), (1.024, 1.018), (0.747, 0.969)),
}


def experiments(scale: float) -> list[Experiment]:
    found = []
    for name, simulation in SIMULATIONS.items():
        cycles = scaled(1_000, scale * scale, 40)
        base: dict[str, Any] = {
            "overlay": "sub2sub",
            "workload": "ranges",
            "peers": scaled(1_000, scale, 100),
            "events": simulation.events * cycles,
            "uploads": simulation.uploads,
            "liveness": "oracle",
            "sampling": "oracle",
            "latency": LATENCY,
        }
        for point, system in ((f"{name}-plain", "baseline"), (name, "cells"), (name, "tuned")):
            settings = SYSTEMS[system]
            rate = simulation.events * 1_000 / int(settings.get("cycle_ms", 1_000))
            variant: Variant = "ours" if system == "tuned" else "paper"
            found.append(Experiment(point, variant, {**base, "rate": rate, "settings": settings}))
    return found


# --- Claims -----------------------------------------------------------------------------------------------------------


def _by_class(results: Results, point: str, variant: Variant = "paper") -> list[dict[str, float]]:
    """Accuracy, messages and MDR by class of length, as means over nodes."""
    if not results.has(point, variant):
        return []
    lengths = {row["peer"]: range_length(row) for row in results.rows(point, "subscription_list", variant)}
    accuracy = {row["peer"]: row for row in results.rows(point, "accuracy_by_peer", variant)}
    ratios = {row["peer"]: row for row in results.rows(point, "dissemination", variant)}
    found = []
    for low, high in CLASSES:
        peers = [peer for peer, length in lengths.items() if length is not None and low <= length < high]
        due = [accuracy[peer] for peer in peers if peer in accuracy and accuracy[peer]["expected"]]
        sent = [ratios[peer] for peer in peers if peer in ratios]
        if due and sent:
            found.append(
                {
                    "accuracy": fmean(1 - row["false_negatives"] / row["expected"] for row in due),
                    "messages": fmean(row["received"] for row in sent),
                    "mdr": fmean(row["mdr"] for row in sent),
                }
            )
    return found if len(found) == len(CLASSES) else []


def claims(results: Results) -> list[Claim]:
    found = []
    for name in SIMULATIONS:
        base, cells, ours = (
            _by_class(results, f"{name}-plain"),
            _by_class(results, name),
            _by_class(results, name, "ours"),
        )
        if not base or not cells:
            continue
        for place, (low, high) in enumerate(CLASSES):
            found += _accuracies(results, name, place, f"{low} to {high}", base, cells, ours)
        flat = max(row["accuracy"] for row in base) - min(row["accuracy"] for row in base)
        found.append(
            Claim(
                "section V",
                f"{name}: Sub-2-Sub treats all lengths alike",
                "within ±6 points",
                f"{100 * flat:.0f} points",
                "",
                "12 points",
                shape(flat <= 0.12),
            )
        )
        gain = cells[0]["accuracy"] > base[0]["accuracy"] and cells[-1]["accuracy"] < base[-1]["accuracy"]
        found.append(
            Claim(
                "section V",
                f"{name}: cells help short ranges and cost the longest",
                "gains, losses",
                f"{_points(cells[0], base[0])}, {_points(cells[-1], base[-1])}",
                f"{_points(ours[0], base[0])}, {_points(ours[-1], base[-1])}" if ours else "",
                "signs",
                shape(gain),
            )
        )
        printed = MDR[name][-1]
        found.append(
            Claim(
                "section V",
                f"{name}: MDR of the longest, Sub-2-Sub and with cells",
                f"{printed[0]} and {printed[1]}",
                f"{plain(base[-1]['mdr'])} and {plain(cells[-1]['mdr'])}",
                plain(ours[-1]["mdr"]) if ours else "",
                "below 0.85, above it",
                shape(base[-1]["mdr"] < 0.85 < cells[-1]["mdr"]),
            )
        )
    return found


def _accuracies(results: Results, name: str, place: int, lengths: str, base: Any, cells: Any, ours: Any) -> list[Claim]:
    plainly, with_cells = ACCURACY[name][place]
    tuned = percent(ours[place]["accuracy"]) if ours else "n/a"
    note = "printed as 3, see above" if (name, place) == ("A", 0) else ""
    return [
        Claim(
            "Table I",
            f"{name}: accuracy of Sub-2-Sub, lengths {lengths}",
            f"{plainly} %",
            percent(base[place]["accuracy"]),
            tuned,
            "±10 points",
            number(results, 100 * base[place]["accuracy"], plainly - 10, plainly + 10),
            note,
        ),
        Claim(
            "Table I",
            f"{name}: accuracy with cells, lengths {lengths}",
            f"{with_cells} %",
            percent(cells[place]["accuracy"]),
            tuned,
            "±10 points",
            number(results, 100 * cells[place]["accuracy"], with_cells - 10, with_cells + 10),
        ),
    ]


def _points(after: dict[str, float], before: dict[str, float]) -> str:
    return f"{100 * (after['accuracy'] - before['accuracy']):+.0f} points"


def figures(results: Results) -> list[Plot]:
    plots = []
    for name in SIMULATIONS:
        series = {}
        for label, rows in (
            ("Sub-2-Sub", _by_class(results, f"{name}-plain")),
            ("with cells", _by_class(results, name)),
            ("as tuned", _by_class(results, name, "ours")),
        ):
            series[label] = [(float(place), 100 * row["accuracy"]) for place, row in enumerate(rows, 1)]
        printed = {
            "paper, Sub-2-Sub": [(place + 0.0, float(a)) for place, (a, _) in enumerate(ACCURACY[name], 1)],
            "paper, with cells": [(place + 0.0, float(b)) for place, (_, b) in enumerate(ACCURACY[name], 1)],
        }
        title = f"Simulation {name}: accuracy by class of length"
        plots.append(Plot(title, "class: 1-4, 4-16, 16-64, 64-256", "accuracy, %", series, "bars", marks=printed))
    return plots


PAPER: Final = Paper(
    "sub2sub",
    "A bandwidth aware topology for publish-subscribe (paper 4)",
    "sub2sub",
    frozenset({"subscription_list", "accuracy_by_peer", "dissemination"}),
    experiments,
    claims,
    figures,
    has_large_logs=True,
)
