"""What a paper's experiment is, and what a claim is.

A *point* is one setting of the experiment: so many peers, this workload, these parameters. It is run in two variants,
with the overlay as the paper describes it (profile `paper`) and as we have tuned it; some points concern one of them
only. Figures come from the logs, by Spark (`laboratory.py`). A *claim* is one number or shape that the paper states,
with what came out of both variants. It holds or not for the first; the second stands beside it.

Numbers that the paper printed for its own scale are compared at that scale only: a smaller run says `smaller` instead
of a verdict, unless the claim is about a shape.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from analytics.plots import Plot
from peerd.sim.workloads.ranges import DOMAIN_MAX

Variant: TypeAlias = Literal["paper", "ours"]
Verdict: TypeAlias = Literal["holds", "differs", "smaller", "n/a"]

Figures: TypeAlias = Mapping[str, Any]
"""Of one run: the columns of the report's summary, and `tables`: rows of other tables."""


class Experiment(NamedTuple):
    """One run: a point in one variant."""

    point: str
    variant: Variant
    fields: dict[str, Any]
    """Of `peerd.sim.scenario.Scenario`."""
    special: str = ""
    """How it is run, if not as a scenario: a function of the paper's module."""

    @property
    def run(self) -> str:
        return f"{self.point}-{self.variant}"


class Claim(NamedTuple):
    where: str
    """In the paper."""
    what: str
    printed: str
    paper: str
    """What came out with profile `paper`."""
    ours: str
    """What came out as tuned."""
    tolerance: str
    verdict: Verdict
    note: str = ""


class Results:
    """Figures by point and variant; what was not run reads n/a."""

    def __init__(self, figures: Mapping[str, Figures], scale: float) -> None:
        self._figures = figures
        self.scale = scale

    def has(self, point: str, variant: Variant = "paper") -> bool:
        return f"{point}-{variant}" in self._figures

    def of(self, point: str, variant: Variant = "paper") -> Figures:
        return self._figures[f"{point}-{variant}"]

    def figure(self, point: str, name: str, variant: Variant = "paper") -> float | None:
        return self._figures[f"{point}-{variant}"].get(name) if self.has(point, variant) else None

    def rows(self, point: str, table: str, variant: Variant = "paper") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            self._figures[f"{point}-{variant}"]["tables"][table] if self.has(point, variant) else []
        )
        return found


class Paper(NamedTuple):
    name: str
    title: str
    overlay: str
    tables: frozenset[str]
    """Tables of the report that its claims look at."""
    experiments: Callable[[float], Sequence[Experiment]]
    """By scale: 1 is the paper's own."""
    claims: Callable[[Results], Sequence[Claim]]
    figures: Callable[[Results], Sequence[Plot]]
    special: Mapping[str, Callable[[dict[str, Any]], Any]] = {}
    """Runs that are no scenarios, by name: they get the experiment's fields, return a summary, and write logs."""
    has_large_logs: bool = False
    """Even at a tenth of its size."""


FULL: Final = 0.999


def at_full_scale(scale: float) -> bool:
    return scale >= FULL


def scaled(count: int, scale: float, least: int = 1) -> int:
    return max(least, round(count * scale))


# --- Verdicts ---------------------------------------------------------------------------------------------------------


def shape(holds: bool | None) -> Verdict:
    """A shape holds or not at any scale; None: it was not measured."""
    if holds is None:
        return "n/a"
    return "holds" if holds else "differs"


def number(results: Results, measured: float | None, low: float, high: float) -> Verdict:
    """Whether a number lies within its tolerance, at the paper's own scale."""
    if measured is None:
        return "n/a"
    if not at_full_scale(results.scale):
        return "smaller"
    return "holds" if low <= measured <= high else "differs"


def falls(values: Sequence[float | None], slack: float = 1.05) -> bool | None:
    """Whether a series falls, on the whole: its end is below its beginning, and no step rises by more than the
    slack."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    return known[-1] < known[0] and all(after <= before * slack for before, after in pairwise(known))


def percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2%}"


def plain(value: float | None, digits: int = 2) -> str:
    return "n/a" if value is None else f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"


def range_length(row: Mapping[str, Any]) -> float | None:
    """Of a subscription of the workload `ranges`: from its lower to its upper bound; a bound of the domain is not
    told."""
    regions = json.loads(row["regions"] or "[]")
    terms = regions[0].get("value", {}) if len(regions) == 1 else {}
    if "eq" in terms:
        return 0.0
    return float(terms.get("le", DOMAIN_MAX) - terms.get("ge", 0)) if terms else float(DOMAIN_MAX)
