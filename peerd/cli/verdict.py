"""What a run's summary says: as rows to read, and whether the overlay has kept its promises."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from peerd.sim.summary import Spread, Summary

ABSENT: Final = "n/a"


def broken_promises(summary: "Summary", complete: bool) -> list[str]:
    """The guarantees that were broken. `complete`: that every owed event arrives is one of them."""
    counts = {
        "owed deliveries missing": summary.false_negatives if complete else 0,
        "deliveries that do not match": summary.spurious,
        "deliveries made twice": summary.duplicates,
        "invariants violated": summary.invariant_violations or 0,
    }
    broken = [f"{what}: {count}" for what, count in counts.items() if count]
    return broken if summary.converged_s is not None else [*broken, "not converged in time"]


def rows(summary: "Summary") -> list[tuple[str, str]]:
    """All figures of a summary, each with its name; those that this run did not have are left out."""
    return [row for row in _rows(summary) if row[1] != ABSENT]


def _rows(summary: "Summary") -> list[tuple[str, str]]:
    converged = "no" if summary.converged_s is None else f"after {summary.converged_s:.1f} s"
    return [
        ("overlay", summary.overlay),
        ("parameters", " ".join(f"{key}={value}" for key, value in summary.parameters.items())),
        ("seed", str(summary.seed)),
        ("peers", f"{summary.peers:,}"),
        ("subscriptions", f"{summary.subscriptions:,}"),
        ("events published", f"{summary.events:,}"),
        ("deliveries expected", f"{summary.expected:,}"),
        ("deliveries made", f"{summary.delivered:,}"),
        ("false negatives", f"{summary.false_negatives:,} ({summary.fn_ratio:.3%})"),
        ("at risk", f"{summary.at_risk:,}, of which missing {summary.at_risk_missing:,}"),
        ("spurious", f"{summary.spurious:,}"),
        ("duplicates", f"{summary.duplicates:,}"),
        ("routing false positives", f"{summary.fp_ratio:.3%} of participants x events"),
        ("touched", f"{summary.touched_ratio:.3%} of participants x events"),
        ("hops", _spread(summary.hops)),
        ("latency in ms", _spread(summary.latency_ms)),
        ("messages", f"{summary.messages:,}"),
        ("bytes", f"{summary.bytes:,} ({summary.bytes_per_delivery:,.0f} per delivery)"),
        ("dropped", ", ".join(f"{reason} {count:,}" for reason, count in summary.dropped.items()) or "none"),
        ("invariant violations", _or_absent(summary.invariant_violations)),
        ("converged", converged),
        ("wall time", f"{summary.wall_s:.2f} s ({summary.messages_per_s:,.0f} messages a second)"),
        ("memory at most", f"{summary.peak_rss_mb:,.0f} MB"),
        ("trace sha256", summary.trace_sha256 or ABSENT),
    ]


def _or_absent(count: int | None) -> str:
    return ABSENT if count is None else f"{count:,}"


def _spread(spread: "Spread") -> str:
    return f"mean {spread.mean:.2f}, p50 {spread.p50:g}, p99 {spread.p99:g}, max {spread.max:g}"
