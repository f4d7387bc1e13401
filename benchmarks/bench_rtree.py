"""The distributed R-tree at the paper's own scale: 10,000 peers in 4 dimensions, 2,500 events (paper 3, section 5).

Times are of the processor, so that a loaded machine does not count; the rest are the paper's own measures, which do not
depend on the machine: the degree of interior peers beside Table 2, and the false-positive ratio of the default and of
each improvement by itself as a share of the profile `paper` with the same (m, M), at 10,000 peers and at the other
sizes of the paper's Table 1. `python -m benchmarks rtree` takes most of an hour on one core; `PEERD_BENCH_PEERS=2000`
makes it quicker: with smaller trees, and none that are larger.
"""

import gc
import os
from collections.abc import Iterator
from functools import partial
from math import ceil, log
from time import process_time
from typing import Final

from benchmarks.figure import Figure
from peerd.sim.invariants.rtree.trees import trees
from peerd.sim.scenario import hardly_any_garbage_collection
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import workload

PEERS: Final = int(os.environ.get("PEERD_BENCH_PEERS", "10000"))
EVENTS: Final = 2_500
JOIN_MS: Final = 30_000
WORKLOAD: Final = "zipf-25:75"
PAPER: Final = {"profile": "paper"}

TABLE_2: Final[dict[tuple[int, int], tuple[float, float, float]]] = {
    (2, 5): (4.59, 4.61, 3.91),
    (5, 10): (7.99, 7.93, 7.49),
    (10, 20): (14.92, 14.82, 15.05),
    (15, 30): (21.91, 21.69, 22.28),
    (20, 40): (28.02, 28.39, 30.00),
}
"""The paper's average degree of interior peers: quadratic, linear, R*."""

SIZES: Final = (1_000, 2_500, 5_000, 10_000, 25_000, 50_000)
"""The paper's Table 1."""

OPTIONS: Final[dict[str, dict[str, str]]] = {
    "look-ahead": {"lookahead": "true"},
    "cells of a grid": {"cells": "true"},
    "straight to the root": {"climb": "straight"},
    "straight to the root, if needed": {"cells": "true", "climb": "needed"},
    "R* split and choice": {"split": "rstar", "choose": "R*"},
    "R* split, the smallest of equals": {"split": "rstar", "choose": "R*-smallest"},
    "weights by events": {"weights": "events"},
}


def joined(settings: dict[str, str], peers: int = PEERS) -> Swarm:
    """A swarm in which everybody stands, after joins that overlap, and the tree has come to rest."""
    boxes = workload(WORKLOAD)
    config = SwarmConfig(
        overlay="rtree",
        schema=boxes.schema,
        seed=1,
        liveness="oracle",
        sampling="oracle",
        exact_boxes=True,
        parameters=settings,
    )
    swarm = Swarm(config)
    interests = boxes.subscriptions(swarm.stream("subscriptions"), peers)
    swarm.start_many([[interest] for interest in interests], JOIN_MS / peers)
    swarm.run(JOIN_MS + 1)
    if not swarm.run_until(swarm.all_active, 300_000, 500) or swarm.converge(300_000) is None:
        raise RuntimeError(f"{peers} peers did not come to rest")
    gc.collect()
    gc.freeze()
    return swarm


def false_positives(swarm: Swarm, at_root: bool) -> float:
    """Participants that receive what they do not want, over participants x events."""
    publisher = None
    if at_root:
        root = next(address for address, tree in trees(swarm).items() if tree.parent is None)
        publisher = next(node for node in swarm.live.values() if node.address.peer == root.peer)
    before = swarm.oracle.receptions["unwanted"]
    for number, each in enumerate(workload(WORKLOAD).events(swarm.stream("events"), EVENTS)):
        swarm.engine.at(swarm.now_ms + 1 + 4 * number, partial(swarm.publish, each, publisher))
    swarm.run(4 * EVENTS + 2_000)
    return (swarm.oracle.receptions["unwanted"] - before) / len(swarm.live) / EVENTS


def average_degree(swarm: Swarm) -> float:
    """Distinct neighbours of an interior participant over all its nodes (specification, section 4)."""
    degrees = []
    for tree in trees(swarm).values():
        if tree.top:
            near = {address for node in tree.nodes for address in node.entries if address != tree.me}
            degrees.append(len(near) + (tree.parent is not None))
    return sum(degrees) / len(degrees)


def run() -> Iterator[Figure]:
    with hardly_any_garbage_collection():
        yield from _tuned()
        yield from _table()
        yield from _sizes()


def _tuned() -> Iterator[Figure]:
    """The default against the paper's parameters, and each improvement by itself."""
    start = process_time()
    swarm = joined({})
    yield Figure(f"rtree: {PEERS:,} joins that overlap, to rest", process_time() - start, "CPU s", "< 280")
    start = process_time()
    tuned_root, tuned = false_positives(swarm, True), false_positives(swarm, False)
    yield Figure(f"rtree: 2 x {EVENTS:,} events", process_time() - start, "CPU s", "< 40")
    height = max(tree.top for tree in trees(swarm).values())
    yield Figure("rtree: height", height, "levels")
    gc.unfreeze()
    swarm = joined(PAPER)
    at_root, anywhere = false_positives(swarm, True), false_positives(swarm, False)
    yield Figure("rtree: paper's parameters, events at the root", 100 * at_root, "% fp", "< 5")
    yield Figure("rtree: paper's parameters, events anywhere", 100 * anywhere, "% fp", "< 5")
    yield Figure("rtree: default, events at the root", 100 * tuned_root, "% fp", "< 5")
    yield Figure("rtree: default, events anywhere", 100 * tuned, "% fp", "< 2")
    yield Figure("rtree: default as a share of paper, at the root", tuned_root / at_root, "x", "<= 0.5")
    yield Figure("rtree: default as a share of paper, anywhere", tuned / anywhere, "x", "<= 0.5")
    for name, option in OPTIONS.items():
        gc.unfreeze()
        swarm = joined({**PAPER, **option})
        ratio = false_positives(swarm, False) / anywhere
        yield Figure(f"rtree: {name} alone, as a share of paper, anywhere", ratio, "x")


def _table() -> Iterator[Figure]:
    """Table 2: how far the average degree is from the paper's."""
    for (least, most), averages in TABLE_2.items():
        for method, average in zip(("quadratic", "linear", "rstar"), averages, strict=True):
            gc.unfreeze()
            choose, slack = ("R*", "<= 12") if method == "rstar" else ("R", "<= 5")
            size = {"children_min": str(least), "children_max": str(most)}
            degree = average_degree(joined({**PAPER, **size, "split": method, "choose": choose}))
            off = 100 * abs(degree / average - 1)
            yield Figure(f"rtree: average degree ({least},{most}) {method}, off the paper's", off, "%", slack)


def _sizes() -> Iterator[Figure]:
    """Figure 7: false positives by size, and the height of the tree."""
    for size in SIZES:
        if size > PEERS and PEERS < 10_000:
            return
        gc.unfreeze()
        swarm = joined(PAPER, size)
        height = max(tree.top for tree in trees(swarm).values())
        paper = false_positives(swarm, True)
        gc.unfreeze()
        tuned = false_positives(joined({}, size), True)
        bound = ceil(log(size, 5))
        yield Figure(f"rtree: {size:,} peers, height, paper's parameters", height, "levels", f"<= {bound}")
        yield Figure(f"rtree: {size:,} peers, paper's parameters, events at the root", 100 * paper, "% fp", "< 5")
        yield Figure(f"rtree: {size:,} peers, default as a share of it", tuned / paper, "x", "<= 0.5")
