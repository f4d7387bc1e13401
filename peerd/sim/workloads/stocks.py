"""Stock quotes: the running example of OPChord (paper 1, section 3, Figures 1 and 2), made into a workload.

An event is a quote: exchange, symbol, price, and the day's high and low, so low <= price <= high. Prices are 0.00 to
20.00 in steps of 0.01, as in Figure 1. A subscription has constraints on one to three attributes, as in Figure 2.

Differs from the paper: it reports no experiment, so there is no workload to repeat. Everything below but the schema and
the shape of the filters is a choice:

- 200 symbols, each listed at one of four exchanges, popular by Zipf's law with alpha = 1 (the skew of paper 3), in
  quotes and in filters alike: what many watch is what is traded much.
- Each symbol has a price of its own around which it moves by up to 10 %, smaller moves being likelier; high and low lie
  up to 5 % from the price. Figure 1 has +4.8 % and -2.1 %. The paper's OTE has rank 0 and costs 8.40, as there.
- A watched price range has its centre within 10 % of the symbol's price and reaches 1 to 5 % of it to either side.
  Figure 2 has 8.31 to 8.69, that is 2.2 %.
- Bounds are inclusive and on the grid: `price BETWEEN 8.31 AND 8.69` for the paper's 8.30 < Price < 8.70.

| share | attributes | filter |
|---|---|---|
| 30 % | 2 | symbol, price range |
| 20 % | 3 | exchange, symbol, price range (Figure 2, first subscription) |
| 10 % | 3 | symbol, one price, low at most (Figure 2, second subscription) |
| 15 % | 1 | symbol |
| 15 % | 2 | symbol, high at least |
| 10 % | 2 | exchange, price range |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Final

from peerd.sim.workloads.workload import Interest, Side, equal_to, interest_in, number_side, product
from peerd.sim.workloads.zipf import zipf
from protocols.model.box import Box
from protocols.model.event import Attributes
from protocols.model.schema import STOCKS, Schema

CENTS_MAX: Final = 2_000
SIZE: Final = CENTS_MAX + 1
EXCHANGES: Final = ("NYSE", "NASDAQ", "LSE", "ATHEX")

KINDS: Final = (
    ("range",) * 6 + ("listed range",) * 4 + ("bargain",) * 2 + ("symbol",) * 3 + ("high",) * 3 + ("market",) * 2
)
"""The kinds of filters in twentieths, as in the table above."""


@dataclass(frozen=True)
class Stocks:
    PARAMETERS: ClassVar[tuple[str, ...]] = ("symbols", "alpha")

    name: str = "stocks"
    symbols: int = 200
    """A guess: some symbols have many subscribers and most have few at 1,000 subscriptions."""
    alpha: float = 1.0
    """The skew of paper 3, section 5."""

    def __post_init__(self) -> None:
        if not 1 <= self.symbols <= 26**3:
            raise ValueError(f"symbols must be 1 to {26**3}, not {self.symbols}")
        if self.alpha < 0.0:
            raise ValueError(f"alpha must be at least 0, not {self.alpha}")

    @property
    def schema(self) -> Schema:
        return STOCKS

    def subscriptions(self, rng: Random, count: int) -> list[Interest]:
        return [interest_in(self.schema, self._box(rng)) for _ in range(count)]

    def events(self, rng: Random, count: int, subscriptions: Sequence[Interest] = ()) -> list[Attributes]:
        popularity = zipf(self.symbols, self.alpha)
        return [quote(rng, popularity.draw(rng)) for _ in range(count)]

    def update(self, rng: Random, interest: Interest) -> Interest:
        """Where there is a price range half the updates move it (section 3.1.2); the others are drawn anew."""
        old = new = interest.boxes[0]
        lo, hi = number_side(self.schema, old, "price")
        length = hi - lo
        while new == old:
            if lo >= 0 and rng.random() < 0.5:
                shifted = _between(rng.randint(lo - length, lo + length), length)
                new = product(self.schema, {"price": shifted}, old)
            else:
                new = self._box(rng)
        return interest_in(self.schema, new)

    def _box(self, rng: Random) -> Box:
        rank = zipf(self.symbols, self.alpha).draw(rng)
        return product(self.schema, _sides(rng, rng.choice(KINDS), rank))


def _sides(rng: Random, kind: str, rank: int) -> dict[str, Side]:
    base = base_cents(rank)
    price = moved(rng, base)
    reach = base * rng.randint(10, 50) // 1_000
    around = _between(price - reach, 2 * reach + 1)
    exchange, symbol = equal_to(exchange_of(rank)), equal_to(symbol_of(rank))
    if kind == "range":
        return {"symbol": symbol, "price": around}
    if kind == "listed range":
        return {"exchange": exchange, "symbol": symbol, "price": around}
    if kind == "bargain":
        return {"symbol": symbol, "price": _between(price, 1), "low": _between(0, max(1, price - reach))}
    if kind == "high":
        return {"symbol": symbol, "high": (min(price + reach, CENTS_MAX), SIZE)}
    if kind == "market":
        return {"exchange": exchange, "price": around}
    return {"symbol": symbol}


def _between(first: int, length: int) -> tuple[int, int]:
    """The range of that many cents from `first` on, moved into the domain."""
    lo = min(max(first, 0), SIZE - length)
    return lo, lo + length


def symbol_of(rank: int) -> str:
    """Three letters, different for every rank below 26**3; rank 0 is the paper's OTE."""
    # 7,919 is a prime that does not divide 26**3, so its multiples visit every code once; 9,962 is OTE in base 26
    number = (9_962 + 7_919 * rank) % 26**3
    return "".join(chr(ord("A") + digit) for digit in (number // 676, number // 26 % 26, number % 26))


def exchange_of(rank: int) -> str:
    return EXCHANGES[rank % len(EXCHANGES)]


def base_cents(rank: int) -> int:
    """The price around which a symbol moves: 1.00 to 19.00, spread evenly over the ranks; 8.40 for rank 0."""
    return 100 + (740 + 1_113 * rank) % 1_801


def moved(rng: Random, base: int) -> int:
    """A price within 10 % of the base, the sum of two uniform moves: small ones are likelier."""
    reach = base // 20
    return min(base + rng.randint(-reach, reach) + rng.randint(-reach, reach), CENTS_MAX)


def quote(rng: Random, rank: int) -> Attributes:
    price = moved(rng, base_cents(rank))
    spread = price // 20
    high = min(price + rng.randint(0, spread), CENTS_MAX)
    low = price - rng.randint(0, spread)
    return {
        "exchange": exchange_of(rank),
        "symbol": symbol_of(rank),
        "price": price / 100,
        "high": high / 100,
        "low": low / 100,
    }
