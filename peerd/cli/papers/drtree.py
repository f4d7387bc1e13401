"""Paper 3: distributed R-trees (section 5, Table 1, Figures 7 to 12, Table 2).

Every experiment varies one parameter of Table 1 and leaves the others at the values in brackets: 10,000 subscriptions,
Zipf-25:75, four dimensions, (5, 10), quadratic split. 2,500 uniform events enter at the root. The false positives ratio
is the share of participants that receive an event which they do not want.

The largest size of a subscription is not stated; `peerd/sim/workloads/boxes.py` says what was chosen and what that
cannot reproduce. Degrees of Table 2 are those of interior peers: different neighbours over all occurrences, parent
included.
"""

import json
from collections.abc import Sequence
from random import Random
from statistics import fmean, pvariance
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
    number,
    percent,
    plain,
    scaled,
    shape,
)
from peerd.sim.workloads import workload
from protocols.model.box import Box, contains

SIZES: Final = (1_000, 2_500, 5_000, 10_000, 25_000, 50_000)
METHODS: Final = ("quadratic", "linear", "rstar")
DISTRIBUTIONS: Final = ("uniform", "uniform-25:75", "uniform-10:90", "zipf", "zipf-25:75", "zipf-10:90")
DIMENSIONS: Final = (2, 4, 6, 8, 10, 12)
DEGREES: Final = ((2, 5), (5, 10), (10, 20), (15, 30), (20, 40))
TABLE_2: Final = {
    "quadratic": ((20, 4.59, 5.09), (29, 7.99, 10.98), (51, 14.92, 25.40), (51, 21.91, 35.70), (68, 28.02, 55.38)),
    "linear": ((19, 4.61, 5.08), (28, 7.93, 10.66), (37, 14.82, 23.15), (50, 21.69, 33.52), (60, 28.39, 54.02)),
    "rstar": ((25, 3.91, 8.47), (30, 7.49, 16.27), (42, 15.05, 32.87), (57, 22.28, 56.29), (77, 30.00, 81.10)),
}
"""Maximum, average and variance of the degree, by method and (m, M)."""
DEFAULT: Final = "n10000"
EQUAL_HITS: Final = {2: 80, 4: 400, 6: 684}
"""Dimensions, and the largest size of a subscription such that its mean, to that power, is 0.0016. Nearly as many would
be hit, but containees shrink in every dimension: at 400 peers 0.08, 0.05 and 0.02 % were. Fewer hits alone make false
positives fewer, so a rise says all the more, and a fall nothing."""


def experiments(scale: float) -> list[Experiment]:
    whole = at_full_scale(scale)
    sizes = SIZES if whole else (1_000, 2_500, 10_000)
    found = [each for size in sizes for each in _both(f"n{size}", scale, peers=size)]
    for method in METHODS[1:]:
        choose = "R*" if method == "rstar" else "R"
        found.append(_one(f"split-{method}", scale, settings={"split": method, "choose": choose}))
    names = [name for name in (DISTRIBUTIONS if whole else ("uniform", "zipf", "zipf-10:90")) if name != "zipf-25:75"]
    found += [_one(f"dist-{name.replace(':', '-')}", scale, workload=name) for name in names]
    numbers = [number for number in (DIMENSIONS if whole else (2, 8)) if number != 4]
    found += [_one(f"d{number}", scale, workload_settings={"dimensions": number}) for number in numbers]
    found += [
        _one(f"equal-d{d}", scale, workload_settings={"dimensions": d, "size_max": size})
        for d, size in EQUAL_HITS.items()
        if d != 4
    ]
    for low, high in DEGREES if whole else ((2, 5), (10, 20), (20, 40)):
        for method in METHODS if whole else METHODS[:1]:
            if (low, high, method) != (5, 10, "quadratic"):
                degree = {"children_min": str(low), "children_max": str(high), "split": method}
                degree["choose"] = "R*" if method == "rstar" else "R"
                found.append(_one(f"m{high}-{method}", scale, settings=degree))
    return found


def _fields(scale: float, **fields: Any) -> dict[str, Any]:
    chosen = {"peers": 10_000, "workload": "zipf-25:75", **fields}
    peers = scaled(chosen["peers"], scale, 50)
    base = {"overlay": "rtree", "events": scaled(2_500, scale, 100), "publisher": "root", "rate": 50.0}
    return {**base, **chosen, "peers": peers, "liveness": "oracle", "sampling": "oracle"}


PROFILES: Final[dict[str, dict[str, str]]] = {
    "paper": {"profile": "paper"},
    "ours": {"children_min": "5", "children_max": "10"},
}
"""With the same (m, M), so that what is compared is the rest."""


def _one(point: str, scale: float, variant: Variant = "paper", **fields: Any) -> Experiment:
    profile = PROFILES[variant]
    return Experiment(
        point, variant, _fields(scale, **{**fields, "settings": {**profile, **fields.get("settings", {})}})
    )


def _both(point: str, scale: float, **fields: Any) -> tuple[Experiment, Experiment]:
    return _one(point, scale, **fields), _one(point, scale, "ours", **fields)


# --- Claims -----------------------------------------------------------------------------------------------------------


def claims(results: Results) -> list[Claim]:
    sizes = [size for size in SIZES if results.has(f"n{size}")]
    ratios = [results.figure(f"n{size}", "fp_ratio") for size in sizes]
    ours = [results.figure(f"n{size}", "fp_ratio", "ours") for size in sizes]
    worst, worst_ours = _most(ratios), _most(ours)
    split = {method: results.figure(f"split-{method}", "fp_ratio") for method in METHODS[1:]}
    split["quadratic"] = results.figure(DEFAULT, "fp_ratio")
    missing = sum(results.figure(f"n{size}", "false_negatives") or 0 for size in sizes)
    missing_ours = sum(results.figure(f"n{size}", "false_negatives", "ours") or 0 for size in sizes)
    return [
        Claim(
            "Figure 7",
            "false positives, worst size",
            "< 5 %",
            percent(worst),
            percent(worst_ours),
            "as printed",
            shape(None if worst is None else worst < 0.05),
        ),
        Claim(
            "Figure 7",
            "they fall slightly with the number of subscriptions",
            "falls",
            _series(ratios),
            _series(ours),
            "no step rises by 5 %",
            shape(falls(ratios)),
        ),
        Claim(
            "section 4",
            "false negatives",
            "none",
            plain(missing, 0),
            plain(missing_ours, 0),
            "none",
            shape(missing == 0 if sizes else None),
        ),
        Claim(
            "Figure 7",
            "R* best, linear worst",
            "R* < quadratic < linear",
            " ".join(f"{m} {percent(split[m])}" for m in METHODS),
            percent(results.figure(DEFAULT, "fp_ratio", "ours")),
            "order",
            shape(_in_order(split["rstar"], split["quadratic"], split["linear"])),
        ),
        *_distributions(results),
        *_dimensions(results),
        *_degrees(results),
        *_containment(results),
    ]


def _distributions(results: Results) -> list[Claim]:
    def ratio(name: str) -> float | None:
        return results.figure(DEFAULT if name == "zipf-25:75" else f"dist-{name.replace(':', '-')}", "fp_ratio")

    zipf = [ratio(name) for name in ("zipf", "zipf-25:75", "zipf-10:90")]
    contained = [ratio(name) for name in ("uniform", "uniform-25:75", "uniform-10:90")]
    uniform = contained[0]
    better = None if uniform is None or zipf[0] is None else uniform < zipf[0]
    return [
        Claim(
            "Figure 8",
            "more containment, fewer false positives",
            "falls",
            _series(zipf),
            "",
            "no step rises by 5 %",
            shape(falls(zipf)),
        ),
        Claim(
            "Figure 8",
            "more containment, fewer false positives, uniform",
            "falls",
            _series(contained),
            "",
            "no step rises by 5 %",
            shape(falls(contained)),
        ),
        Claim(
            "Figure 8",
            "uniform slightly better than Zipf",
            "uniform < zipf",
            f"{percent(uniform)} against {percent(zipf[0])}",
            "",
            "order",
            shape(better),
            "depends on the sizes of subscriptions, which are not stated",
        ),
    ]


def _dimensions(results: Results) -> list[Claim]:
    ratios = [results.figure(DEFAULT if d == 4 else f"d{d}", "fp_ratio") for d in DIMENSIONS]
    known = [ratio for ratio in ratios if ratio is not None]
    return [
        Claim(
            "Figure 9",
            "they fall with the number of dimensions",
            "falls",
            _series(known),
            "",
            "no step rises by 5 %",
            shape(falls(known)),
        ),
        *_hits(results),
    ]


def _hits(results: Results) -> list[Claim]:
    """Figures 10 and 11: fewer are interested with more dimensions; among equals accuracy gets worse, not better."""
    hits = [_hit_ratio(results, DEFAULT if d == 4 else f"d{d}") for d in DIMENSIONS]
    equal = [results.figure(DEFAULT if d == 4 else f"equal-d{d}", "fp_ratio") for d in EQUAL_HITS]
    rises = None if None in equal else falls(equal[::-1])
    worst = _most([*equal, results.figure("split-linear", "fp_ratio")])
    return [
        Claim(
            "Figure 10",
            "fewer nodes are interested with more dimensions",
            "falls",
            _series([hit for hit in hits if hit is not None]),
            "",
            "no step rises by 5 %",
            shape(falls(hits)),
        ),
        Claim(
            "Figure 11",
            "at an equal hit ratio they rise with the dimensions",
            "rises",
            _series(equal),
            "",
            "no step falls by 5 %",
            shape(rises),
            "2, 4 and 6 dimensions, mean sizes to that power alike; hits still fall",
        ),
        Claim(
            "Figure 11",
            "false positives, worst dimension at an equal hit ratio, and linear",
            "< 10 %",
            percent(worst),
            "",
            "as printed",
            shape(None if worst is None else worst < 0.1),
        ),
    ]


def _hit_ratio(results: Results, point: str) -> float | None:
    """The share of participants that want an event."""
    expected, peers, events = (results.figure(point, name) for name in ("expected", "peers", "events"))
    return expected / (peers * events) if expected is not None and peers and events else None


def _degrees(results: Results) -> list[Claim]:
    found = []
    for method in METHODS:
        ratios = [results.figure(_degree_point(high, method), "fp_ratio") for _, high in DEGREES]
        known = [ratio for ratio in ratios if ratio is not None]
        found.append(
            Claim(
                "Figure 12",
                f"they fall with the degree, {method}",
                "falls",
                _series(known),
                "",
                "no step rises by 5 %",
                shape(falls(known)),
            )
        )
    small, middle, large = (results.figure(_degree_point(high, "quadratic"), "fp_ratio") for high in (5, 20, 40))
    if small is not None and middle is not None and large is not None:
        found.append(
            Claim(
                "Figure 12",
                "M = 20 is a good compromise",
                "M = 20",
                f"5 to 20 gains {percent(small - middle)}, 20 to 40 another {percent(middle - large)}",
                "",
                "the second is less than half the first",
                shape(middle - large < (small - middle) / 2),
            )
        )
    for method, rows in TABLE_2.items():
        for (low, high), (most, average, variance) in zip(DEGREES, rows, strict=True):
            measured = interior_degrees(results, _degree_point(high, method))
            if not measured:
                continue
            slack = 0.12 if method == "rstar" else 0.05
            mean = fmean(measured)
            text = f"{max(measured)} / {mean:.2f} / {pvariance(measured):.2f}"
            verdict = number(results, mean, average * (1 - slack), average * (1 + slack))
            printed = f"{most} / {average:.2f} / {variance:.2f}"
            ours = interior_degrees(results, DEFAULT, "ours") if (high, method) == (10, "quadratic") else []
            tuned = f"{max(ours)} / {fmean(ours):.2f} / {pvariance(ours):.2f}" if ours else ""
            found.append(
                Claim(
                    "Table 2",
                    f"degree max/avg/var, {method} ({low},{high})",
                    printed,
                    text,
                    tuned,
                    f"avg ±{slack:.0%}",
                    verdict,
                )
            )
    return found


def _containment(results: Results) -> list[Claim]:
    """Section 5: how many children the virtual root of a containment tree would have, by the workload alone."""
    if not results.has(DEFAULT):
        return []
    boxes = workload("zipf-25:75")
    count = scaled(10_000, results.scale)
    bases = [interest.boxes[0] for interest in boxes.subscriptions(Random(1), count)[: count // 4]]
    maximal: list[Box] = []
    for box in sorted(bases, key=boxes.schema.space.volume, reverse=True):
        if not any(contains(larger, box) for larger in maximal):
            maximal.append(box)
    found = len(maximal)
    verdict = number(results, found, 1_800, 2_200)
    what = "children of the root of a containment tree"
    return [Claim("section 5", what, "about 2,000", plain(found, 0), "", "±10 %", verdict)]


def _degree_point(high: int, method: str) -> str:
    if high == 10:
        return DEFAULT if method == "quadratic" else f"split-{method}"
    return f"m{high}-{method}"


def interior_degrees(results: Results, point: str, variant: Variant = "paper") -> list[int]:
    """Degrees of the peers that have children."""
    rows = results.rows(point, "degree_by_peer", variant)
    return [row["degree"] for row in rows if json.loads(row["kinds"]).get("child")]


def _most(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _in_order(*values: float | None) -> bool | None:
    known = [value for value in values if value is not None]
    return None if len(known) < len(values) else known == sorted(known)


def _series(values: Sequence[float | None]) -> str:
    return " ".join(percent(value) for value in values)


def figures(results: Results) -> list[Plot]:
    def points(variant: Variant) -> list[tuple[float, float]]:
        sizes = [size for size in SIZES if results.has(f"n{size}", variant)]
        return [
            (size * results.scale, 100 * (results.figure(f"n{size}", "fp_ratio", variant) or 0.0)) for size in sizes
        ]

    degrees = [(float(high), results.figure(_degree_point(high, "quadratic"), "fp_ratio")) for _, high in DEGREES]
    dimensions = [(float(d), results.figure(DEFAULT if d == 4 else f"d{d}", "fp_ratio")) for d in DIMENSIONS]
    series = {"as the paper": points("paper"), "as tuned": points("ours")}
    return [
        Plot("Figure 7: false positives by size", "subscriptions", "false positives, %", series, log_x=True),
        Plot(
            "Figure 9: false positives by dimensions",
            "dimensions",
            "false positives, %",
            {"quadratic": _percents(dimensions)},
        ),
        Plot("Figure 12: false positives by degree", "M", "false positives, %", {"quadratic": _percents(degrees)}),
    ]


def _percents(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float]]:
    return [(x, 100 * y) for x, y in points if y is not None]


PAPER: Final = Paper(
    "drtree",
    "Content-based publish/subscribe using distributed R-trees (paper 3)",
    "rtree",
    frozenset({"degree_by_peer"}),
    experiments,
    claims,
    figures,
)
