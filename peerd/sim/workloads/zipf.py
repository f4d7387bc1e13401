"""Zipf's law: the r-th most popular of n things is drawn with a probability proportional to 1 / r**alpha.

Sampled by inverting the distribution: one uniform number, then a binary search in the cumulative weights, which are
computed once. alpha = 0 is the uniform distribution.
"""

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from random import Random


class Zipf:
    """Draws ranks 0 (most popular) to count - 1."""

    __slots__ = ("_cumulative", "_total")

    def __init__(self, count: int, alpha: float) -> None:
        if count < 1 or alpha < 0.0:
            raise ValueError(f"a Zipf distribution needs count >= 1 and alpha >= 0, not {count} and {alpha}")
        weights = (1.0 / float(rank) ** alpha for rank in range(1, count + 1))
        self._cumulative: list[float] = list(accumulate(weights))
        self._total = self._cumulative[-1]

    def draw(self, rng: Random) -> int:
        # random() < 1, but the product may round up to the total itself
        rank = bisect_right(self._cumulative, rng.random() * self._total)
        return min(rank, len(self._cumulative) - 1)

    def share(self, rank: int) -> float:
        """The probability of a rank."""
        below = self._cumulative[rank - 1] if rank else 0.0
        return (self._cumulative[rank] - below) / self._total


@lru_cache(maxsize=32)
def zipf(count: int, alpha: float) -> Zipf:
    """The distribution, computed once per pair of parameters."""
    return Zipf(count, alpha)
