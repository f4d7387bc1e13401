"""Paper 2: semantic overlays (section 5, Figures 3 and 4).

Peers with random XPath interests join one after the other, 1,000 random documents enter at the root. The false
positives ratio is over all peers, the false negatives ratio over the peers that are interested.

Liveness and sampling are left to the oracle. `ours` is the tree with its default settings, and the graph with profile
`tuned-similarity`.

What a tree pattern matches cannot be said in boxes, so Spark cannot judge it: false positives come from the receptions
in the logs, false negatives from the simulator's own oracle. The paper names neither its document types nor its
generator; `docs/workloads.md` says what stands for them.
"""

from itertools import pairwise
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
    scaled,
    shape,
)

SIZES: Final = (500, 2_500, 5_000, 20_000)
JOINS: Final = ("always", "periodic", "never")
WORKLOAD: Final = "xml-news"
DOCUMENTS: Final = 1_000
RHOS: Final = ("1", "0.5")


def experiments(scale: float) -> list[Experiment]:
    whole = at_full_scale(scale)
    sizes = SIZES if whole else (500, 2_500)
    found = []
    for size in sizes:
        found.append(_one(f"tree{size}", "paper", scale, size, profile="paper"))
        found.append(_one(f"tree{size}", "ours", scale, size))
    found += [_one(f"join-{join}", "paper", scale, 2_500, profile="paper", reorganise=join) for join in JOINS[1:]]
    elsewhere = _one("elsewhere", "paper", scale, 2_500, profile="paper")
    found.append(elsewhere._replace(fields={**elsewhere.fields, "publisher": "any"}))
    for size in sizes[1:] if whole else sizes:
        for rho in RHOS:
            found.append(_one(f"graph{size}-rho{rho}", "paper", scale, size, profile="paper-similarity", rho=rho))
        found.append(_one(f"graph{size}", "ours", scale, size, profile="tuned-similarity"))
    return found


def _one(point: str, variant: Variant, scale: float, size: int, **settings: str) -> Experiment:
    fields: dict[str, Any] = {
        "overlay": "semantic",
        "workload": WORKLOAD,
        "peers": scaled(size, scale, 50),
        "events": scaled(DOCUMENTS, scale, 100),
        "publisher": "root",
        "liveness": "oracle",
        "sampling": "oracle",
        "settings": settings,
    }
    return Experiment(point, variant, fields)


# --- Claims -----------------------------------------------------------------------------------------------------------


def _missed(results: Results, point: str, variant: Variant = "paper") -> float | None:
    """By the oracle: owed deliveries that never came, those at risk among them."""
    return results.of(point, variant)["simulator"]["fn_ratio"] if results.has(point, variant) else None


def _points(results: Results, prefix: str, suffix: str = "", variant: Variant = "paper") -> list[str]:
    return [name for size in SIZES if results.has(name := f"{prefix}{size}{suffix}", variant)]


def claims(results: Results) -> list[Claim]:
    trees = _points(results, "tree")
    return [*_tree(results, trees), *_joins(results), *_interest(results, trees), *_similarity(results)]


def _tree(results: Results, trees: list[str]) -> list[Claim]:
    ratios = [results.figure(point, "fp_ratio") for point in trees]
    tuned = [results.figure(point, "fp_ratio", "ours") for point in trees]
    missed = [_missed(results, point) for point in trees]
    return [
        Claim(
            "Figure 3",
            "containment tree: false positives, largest network",
            "< 10 % in most cases",
            percent(ratios[-1] if ratios else None),
            percent(tuned[-1] if tuned else None),
            "as printed",
            number(results, ratios[-1] if ratios else None, 0.0, 0.10),
        ),
        Claim(
            "Figure 3",
            "they fall with the size of the network",
            "falls",
            _series(ratios),
            _series(tuned),
            "no step rises by 5 %",
            shape(falls(ratios)),
        ),
        Claim(
            "section 3",
            "containment tree: false negatives",
            "none",
            _series(missed),
            _series([_missed(results, point, "ours") for point in trees]),
            "none",
            shape(all(not value for value in missed) if missed else None),
        ),
    ]


def _joins(results: Results) -> list[Claim]:
    """What the ways to join, and to enter a document, come to."""
    joins = [results.figure("tree2500" if join == "always" else f"join-{join}", "fp_ratio") for join in JOINS]
    entered = [results.figure("tree2500", "fp_ratio"), results.figure("elsewhere", "fp_ratio")]
    gap = _gap(joins)
    return [
        Claim(
            "Figure 3",
            "joins that reorganise more are better, by little",
            "always <= periodic <= never",
            _series(joins),
            "",
            "order, 10 % slack",
            shape(_in_order(joins)),
        ),
        Claim(
            "section 5",
            "the differences between them are very small",
            "very small",
            percent(gap),
            "",
            "never - always at most 5 points",
            shape(None if gap is None else gap <= 0.05),
        ),
        Claim(
            "section 5",
            "false positives do not depend on where documents enter",
            "not affected",
            _series(entered),
            "",
            "at most 2 points",
            shape(_close(entered, 0.02)),
        ),
    ]


def _interest(results: Results, trees: list[str]) -> list[Claim]:
    """Whether the workload is the paper's."""
    share = _uninterested(results, trees[-1:])
    shares = [_uninterested(results, [point]) for point in trees]
    return [
        Claim(
            "section 5",
            "peers that are not interested",
            "75 %",
            percent(share),
            "",
            "70 to 80 %",
            shape(None if share is None else 0.70 <= share <= 0.80),
        ),
        Claim(
            "section 5",
            "that does not depend on how many there are",
            "independent",
            _series(shares),
            "",
            "at most 5 points",
            shape(_close(shares, 0.05)),
        ),
    ]


def _similarity(results: Results) -> list[Claim]:
    found = []
    tuned = _points(results, "graph", variant="ours")
    tuned_fp = results.figure(tuned[-1], "fp_ratio", "ours") if tuned else None
    tuned_fn = _missed(results, tuned[-1], "ours") if tuned else None
    for rho, printed, low, high, missing in (
        ("1", "around 25 %", 0.20, 0.31, 0.05),
        ("0.5", "14 % at 20,000", 0.10, 0.18, 0.06),
    ):
        points = _points(results, "graph", f"-rho{rho}")
        if not points:
            continue
        last = points[-1]
        ratio, lost = results.figure(last, "fp_ratio"), _missed(results, last)
        found.append(
            Claim(
                "Figure 4",
                f"similarity graph, rho = {rho}: false positives",
                printed,
                percent(ratio),
                percent(tuned_fp),
                f"{low:.0%} to {high:.0%}",
                number(results, ratio, low, high),
            )
        )
        found.append(
            Claim(
                "Figure 4",
                f"similarity graph, rho = {rho}: false negatives",
                "< 5 %" if rho == "1" else "5 % at 20,000",
                percent(lost),
                percent(tuned_fn),
                f"at most {missing:.0%}",
                number(results, lost, 0.0, missing),
            )
        )
        for name, values, ours in (
            ("positives", [results.figure(each, "fp_ratio") for each in points], _ratios(results, tuned)),
            ("negatives", [_missed(results, each) for each in points], [_missed(results, e, "ours") for e in tuned]),
        ):
            found.append(
                Claim(
                    "Figure 4",
                    f"similarity graph, rho = {rho}: false {name} fall with size",
                    "falls",
                    _series(values),
                    _series(ours),
                    "no step rises by 5 %",
                    shape(falls(values)),
                )
            )
    return [*found, *_rho(results)]


def _ratios(results: Results, points: list[str]) -> list[float | None]:
    return [results.figure(point, "fp_ratio", "ours") for point in points]


def _rho(results: Results) -> list[Claim]:
    """What a lower rho does."""
    last = [points[-1] for rho in RHOS if (points := _points(results, "graph", f"-rho{rho}"))]
    ratios = [results.figure(point, "fp_ratio") for point in last]
    missed = [_missed(results, point) for point in last]
    return [
        Claim(
            "section 4",
            "a lower rho gives fewer false positives",
            "falls",
            _series(ratios),
            "",
            "order",
            shape(falls(ratios)),
        ),
        Claim(
            "section 4",
            "and more false negatives",
            "rises",
            _series(missed),
            "",
            "order",
            shape(falls(missed[::-1])),
        ),
    ]


def _uninterested(results: Results, points: list[str]) -> float | None:
    """One minus the deliveries of an event over the peers, in the containment tree, where everybody interested gets
    it."""
    if not points:
        return None
    row = results.of(points[0])
    return 1 - row["delivered"] / (row["events"] * row["peers"]) if row["events"] and row["peers"] else None


def _gap(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) - min(known) if len(known) > 1 else None


def _close(values: list[float | None], most: float) -> bool | None:
    gap = _gap(values)
    return None if gap is None else gap <= most


def _in_order(values: list[float | None], slack: float = 1.1) -> bool | None:
    known = [value for value in values if value is not None]
    if len(known) < len(JOINS):
        return None
    return all(first <= second * slack for first, second in pairwise(known))


def _series(values: list[float | None]) -> str:
    return " ".join(percent(value) for value in values)


def figures(results: Results) -> list[Plot]:
    def points(prefix: str, suffix: str = "", variant: Variant = "paper") -> list[tuple[float, float]]:
        found = [
            (results.figure(point, "peers", variant), results.figure(point, "fp_ratio", variant))
            for point in _points(results, prefix, suffix)
        ]
        return [(float(n), 100 * ratio) for n, ratio in found if n is not None and ratio is not None]

    tree = {"as the paper": points("tree"), "as tuned": points("tree", "", "ours")}
    graph = {f"rho = {rho}": points("graph", f"-rho{rho}") for rho in RHOS}
    return [
        Plot("Figure 3: containment tree", "peers", "false positives, %", tree),
        Plot("Figure 4: similarity graph", "peers", "false positives, %", graph),
    ]


PAPER: Final = Paper(
    "semantic",
    "Semantic peer-to-peer overlays for publish/subscribe networks (paper 2)",
    "semantic",
    frozenset({"accuracy"}),
    experiments,
    claims,
    figures,
    has_large_logs=True,
)
