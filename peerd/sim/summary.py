"""The summary of a run: the one JSON object with which `peerd sim --json` and `peerd testbed run --json` end."""

import resource
import sys
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any

import msgspec

from peerd.sim.oracle import Oracle, Verdict
from peerd.sim.swarm import Swarm


class Spread(msgspec.Struct, frozen=True):
    mean: float
    p50: float
    p99: float
    max: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Field by field what outsiders rely on; see the contract's command line section.

    What only the simulator can know is None for living peers.
    """

    overlay: str
    parameters: dict[str, Any]
    seed: int
    peers: int
    subscriptions: int
    events: int
    expected: int
    delivered: int
    false_negatives: int
    at_risk: int
    at_risk_missing: int
    spurious: int
    duplicates: int
    fp_ratio: float
    touched_ratio: float
    fn_ratio: float
    hops: Spread
    latency_ms: Spread
    messages: int
    bytes: int
    bytes_per_delivery: float
    dropped: dict[str, int]
    invariant_violations: int | None
    converged_s: float | None
    wall_s: float
    messages_per_s: float
    peak_rss_mb: float
    trace_sha256: str | None


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """The percentile by nearest rank: an element of the data, the same wherever it is computed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def spread(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    if not ordered:
        return Spread(0.0, 0.0, 0.0, 0.0)
    mean = sum(ordered) / len(ordered)
    return Spread(round(mean, 6), nearest_rank(ordered, 0.5), nearest_rank(ordered, 0.99), ordered[-1])


def peak_rss_mb() -> float:
    """The most memory that this process has used."""
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 9) if whole else 0.0


def figures(oracle: Oracle, verdict: Verdict, messages: int, size: int, wall_s: float) -> dict[str, Any]:
    """The part of a summary that is the same for simulated and for living peers. `size`: the bytes of the messages."""
    arrivals = [
        (arrival, publication.at_ms)
        for id_, publication in oracle.publications.items()
        for arrival in oracle.arrivals.get(id_, {}).values()
    ]
    pairs = sum(publication.participants for publication in oracle.publications.values())
    received = oracle.receptions
    touched = received["wanted"] + received["unwanted"] + received["touched"]
    return {
        "events": len(oracle.publications),
        "expected": verdict.expected,
        "delivered": len(arrivals),
        "false_negatives": verdict.false_negatives,
        "at_risk": verdict.at_risk,
        "at_risk_missing": verdict.at_risk_missing,
        "spurious": verdict.spurious,
        "duplicates": oracle.duplicates,
        "fp_ratio": _ratio(received["unwanted"], pairs),
        "touched_ratio": _ratio(touched, pairs),
        "fn_ratio": _ratio(verdict.false_negatives, verdict.expected),
        "hops": spread(arrival.hops for arrival, _ in arrivals),
        "latency_ms": spread(round(arrival.at_ms - at_ms, 3) for arrival, at_ms in arrivals),
        "messages": messages,
        "bytes": size,
        "bytes_per_delivery": _ratio(size, len(arrivals)),
        "dropped": dict(sorted(oracle.dropped.items())),
        "wall_s": round(wall_s, 3),
        "messages_per_s": round(messages / wall_s, 1) if wall_s else 0.0,
    }


def summarise(
    swarm: Swarm, verdict: Verdict, subscriptions: int, converged_s: float | None, violations: int, wall_s: float
) -> Summary:
    messages = sum(traffic.sent for traffic in swarm.engine.traffic.values())
    size = sum(traffic.sent_bytes for traffic in swarm.engine.traffic.values())
    return Summary(
        overlay=swarm.kind.name,
        parameters=msgspec.to_builtins(swarm.parameters),
        seed=swarm.config.seed,
        peers=len(swarm.live),
        subscriptions=subscriptions,
        invariant_violations=violations,
        converged_s=converged_s,
        peak_rss_mb=peak_rss_mb(),
        trace_sha256=swarm.engine.trace_sha256(),
        **figures(swarm.oracle, verdict, messages, size, wall_s),
    )
