"""Paper 1: content-based publish/subscribe over Chord (section 5 and the extension with order-preserving hashes).

The paper states costs and reports no experiment. They are measured as messages, hop by hop: a lookup that takes h hops
is h messages of its type. `match` messages are the lookups of an event, one for each of its attributes; `store`
messages store a subscription under the values that it asks for. Lookups that share a piece of their way share its
messages, so what is counted may be less than the paper's sum, and more only by the last hop.

| runs | workload | what is counted |
|---|---|---|
| `lookup` at several N | stock quotes, five attributes each | `match` messages per event and attribute |
| `equal` | shared files: equality on three attributes | `store` messages per subscription and attribute |
| `range`, with either hash | one range of 101 values each | `store` messages per subscription |
"""

from math import log2
from typing import Any, Final

from analytics.plots import Plot
from peerd.cli.papers.frame import (
    Claim,
    Experiment,
    Paper,
    Results,
    Variant,
    at_full_scale,
    falls,
    plain,
    range_length,
    scaled,
    shape,
)

SIZES: Final = (64, 256, 1_024)
ATTRIBUTES: Final = {"stocks": 5, "files": 3}
EXTRA_HOP: Final = 1.0
"""The last hop to the successor counts: simulations of Chord find half the logarithm and 0.8 (specification, section
2)."""


def experiments(scale: float) -> list[Experiment]:
    sizes = SIZES if at_full_scale(scale) else SIZES[:2]
    lookups = {f"lookup{size}": scaled(size, max(scale, 0.5)) for size in sizes}
    found = [
        _one(point, variant, scale, peers=peers, workload="stocks", events=400)
        for point, peers in lookups.items()
        for variant in VARIANTS
    ]
    for variant in VARIANTS:
        found.append(_one("equal", variant, scale, peers=128, workload="files", events=20))
        found.append(_one("range", variant, scale, peers=64, workload="ranges", events=20))
    found.append(
        _one("range-chord", "paper", scale, peers=64, workload="ranges", events=20, settings={"profile": "paper-chord"})
    )
    return found


VARIANTS: Final[tuple[Variant, ...]] = ("paper", "ours")


def _one(point: str, variant: Variant, scale: float, **fields: Any) -> Experiment:
    settings = fields.pop("settings", {"profile": "paper"} if variant == "paper" else {})
    fields["events"] = scaled(fields["events"], scale, 20)
    return Experiment(point, variant, {"overlay": "chord", "settings": settings, **fields})


# --- Claims -----------------------------------------------------------------------------------------------------------


def _sent(results: Results, point: str, message: str, variant: Variant = "paper") -> float | None:
    rows = results.rows(point, "traffic_by_message", variant)
    return float(sum(row["sent"] for row in rows if row["message"] == message)) if rows else None


def _lookup(results: Results, size: int, variant: Variant = "paper") -> float | None:
    sent, events = _sent(results, f"lookup{size}", "match", variant), results.figure(f"lookup{size}", "events", variant)
    return sent / events / ATTRIBUTES["stocks"] if sent is not None and events else None


def _stored(results: Results, point: str, variant: Variant = "paper", attributes: int = 1) -> float | None:
    sent, count = _sent(results, point, "store", variant), results.figure(point, "subscriptions", variant)
    return sent / count / attributes if sent is not None and count else None


def _half_log(results: Results, point: str) -> float | None:
    peers = results.figure(point, "peers")
    return log2(peers) / 2 if peers else None


def claims(results: Results) -> list[Claim]:
    return [*_lookups(results), *_equalities(results), *_ranges(results), *_matching(results)]


def _lookups(results: Results) -> list[Claim]:
    found = []
    for size in SIZES:
        half, hops = _half_log(results, f"lookup{size}"), _lookup(results, size)
        if half is not None and hops is not None:
            fine = hops <= half + EXTRA_HOP
            found.append(
                Claim(
                    "section 5",
                    f"hops of a lookup, {results.figure(f'lookup{size}', 'peers'):g} nodes",
                    f"½ log N = {half:.2f}",
                    plain(hops),
                    plain(_lookup(results, size, "ours")),
                    "at most one more",
                    shape(fine),
                )
            )
    return found


def _equalities(results: Results) -> list[Claim]:
    found = []
    half, hops = _half_log(results, "equal"), _stored(results, "equal", attributes=ATTRIBUTES["files"])
    if half is not None and hops is not None:
        tuned = _stored(results, "equal", "ours", ATTRIBUTES["files"])
        found.append(
            Claim(
                "section 5",
                "hops to store an equality",
                f"½ log N = {half:.2f}",
                plain(hops),
                plain(tuned),
                "at most one more",
                shape(hops <= half + EXTRA_HOP),
            )
        )
    return found


def _ranges(results: Results) -> list[Claim]:
    found = []
    plain_hash, ordered = _stored(results, "range-chord"), _stored(results, "range")
    half, width = _half_log(results, "range"), _width(results)
    if half is not None and width is not None and plain_hash is not None and ordered is not None:
        cost = width * half
        found.append(
            Claim(
                "section 5",
                "hops to store a range, hash of Chord",
                f"r · ½ log N = {cost:.0f}",
                plain(plain_hash, 1),
                "",
                "±35 %",
                shape(abs(plain_hash / cost - 1) <= 0.35),
            )
        )
        found.append(
            Claim(
                "section 6",
                "hops to store a range, order-preserving hash",
                f"r + ½ log N = {width + half:.0f} at most",
                plain(ordered, 1),
                plain(_stored(results, "range", "ours"), 1),
                "at most",
                shape(ordered <= width + half + EXTRA_HOP),
            )
        )
        found.append(
            Claim(
                "section 6",
                "order-preserving hashes store ranges more cheaply",
                f"{cost / (width + half):.1f} times",
                f"{plain_hash / ordered:.1f} times",
                "",
                "cheaper",
                shape(ordered < plain_hash),
            )
        )
    return found


def _matching(results: Results) -> list[Claim]:
    found = []
    missing = sum(results.figure(f"lookup{size}", "false_negatives") or 0 for size in SIZES)
    unwanted = max((results.figure(f"lookup{size}", "spurious") or 0 for size in SIZES), default=0)
    found.append(
        Claim(
            "section 4",
            "every matching subscription is notified, and no other",
            "0 / 0",
            f"{missing:g} / {unwanted:g}",
            "",
            "none",
            shape(missing == 0 and unwanted == 0),
        )
    )
    grows = [_lookup(results, size) for size in SIZES]
    found.append(
        Claim(
            "section 5",
            "hops grow with the logarithm of N, not with N",
            "grows slowly",
            " ".join(plain(each) for each in grows),
            "",
            "less than twice from 64 to 1,024",
            shape(_slowly(grows)),
        )
    )
    return found


def _slowly(values: list[float | None]) -> bool | None:
    known = [value for value in values if value]
    if len(known) < 2:
        return None
    return falls([-value for value in known]) is not False and known[-1] < 2 * known[0]


def _width(results: Results) -> float | None:
    """The mean number of values in a range."""
    known = [range_length(row) for row in results.rows("range", "subscription_list")]
    lengths = [length + 1 for length in known if length is not None]
    return sum(lengths) / len(lengths) if lengths else None


def figures(results: Results) -> list[Plot]:
    def points(variant: Variant) -> list[tuple[float, float]]:
        known = [(results.figure(f"lookup{size}", "peers", variant), _lookup(results, size, variant)) for size in SIZES]
        return [(float(n), hops) for n, hops in known if n is not None and hops is not None]

    half = [(n, log2(n) / 2) for n, _ in points("paper")]
    series = {"½ log N": half, "as the paper": points("paper"), "as tuned": points("ours")}
    return [Plot("Hops of a lookup", "nodes", "hops", series, log_x=True)]


PAPER: Final = Paper(
    "opchord",
    "Content-based publish-subscribe over structured P2P networks (paper 1)",
    "chord",
    frozenset({"traffic_by_message", "subscription_list"}),
    experiments,
    claims,
    figures,
)
