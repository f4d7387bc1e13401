"""One figure of a benchmark, and the table that all of them are printed in.

Machines differ and are noisy, so a figure that matters is a ratio of two things measured in one run. A target says what
the figure should be: `>= 40`, `< 2` or `53 ± 10`.
"""

import operator
from collections.abc import Callable, Iterable
from itertools import repeat
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class Figure(NamedTuple):
    name: str
    value: float
    unit: str
    target: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        if not self.target:
            return None
        if " ± " in self.target:
            middle, tolerance = map(float, self.target.split(" ± "))
            return abs(self.value - middle) <= tolerance
        sign, bound = self.target.split()
        return _COMPARE[sign](self.value, float(bound.replace(",", "")))


def print_figures(figures: Iterable[Figure]) -> bool:
    """Print a table; whether no target was missed."""
    all_met = True
    for figure in figures:
        verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
        all_met = all_met and figure.met is not False
        print(f"{figure.name:64} {figure.value:14,.3f} {figure.unit:10} {figure.target:12} {verdict}", flush=True)
    return all_met


def median_s(call: Callable[[], object], number: int = 1, rounds: int = 5) -> float:
    """The median time of a call, over rounds of so many calls."""
    return median(_times_s(call, number, rounds))


def best_ns(call: Callable[[], object], number: int = 1, rounds: int = 5) -> float:
    """The time of a call in the best of the rounds: the others were disturbed. For what takes microseconds."""
    return min(_times_s(call, number, rounds)) * 1e9


def _times_s(call: Callable[[], object], number: int, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        start = perf_counter()
        for _ in repeat(None, number):
            call()
        times.append((perf_counter() - start) / number)
    return times
