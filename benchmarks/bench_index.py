"""How much faster the local index is than a plain loop over all subscriptions, and where the two break even."""

from collections.abc import Iterator
from random import Random

from benchmarks.figure import Figure, median_s
from protocols.model.box import Point
from protocols.model.event import Attributes
from protocols.model.index import LocalIndex
from protocols.model.lint import CompiledFilter, compile_filter
from protocols.model.schema import STOCKS

SEED = 6
SYMBOLS = 400
LOOP_ONLY = 1 << 30

Event = tuple[Point, Attributes]


def subscriptions(count: int, broad: bool, rng: Random) -> list[CompiledFilter]:
    """Stock quotes: each names a symbol and a range of prices. Broad: half of them a bound in the symbol's place."""
    result = []
    for number in range(count):
        low = rng.randrange(0, 1900) / 100
        span = f"price BETWEEN {low} AND {low + rng.randrange(1, 100) / 100:.2f}"
        bound = f"high > {rng.randrange(0, 1500) / 100}"
        other = bound if broad and number % 2 else f"symbol = 'S{rng.randrange(SYMBOLS)}'"
        result.append(compile_filter(f"{other} AND {span}", STOCKS))
    return result


def events(count: int, rng: Random) -> list[Event]:
    result = []
    for _ in range(count):
        price = rng.randrange(0, 2001) / 100
        attributes: Attributes = {"symbol": f"S{rng.randrange(SYMBOLS)}", "price": price, "high": price, "low": price}
        result.append((STOCKS.point(attributes), attributes))
    return result


def index_of(filters: list[CompiledFilter], vector_from: int) -> LocalIndex:
    index = LocalIndex(vector_from)
    for number, filter_ in enumerate(filters):
        index.add(f"s{number}", filter_.boxes, filter_.matcher)
    return index


def per_event_us(index: LocalIndex, sample: list[Event]) -> float:
    def match_all() -> None:
        for point, attributes in sample:
            index.match(point, attributes)

    return median_s(match_all) / len(sample) * 1e6


def run() -> Iterator[Figure]:
    rng = Random(SEED)
    filters, sample = subscriptions(10_000, False, rng), events(50, rng)
    for count in (32, 48, 64, 128, 1_000):
        yield from compared(filters[:count], sample * 10, f"{count:,} subscriptions")
    yield from compared(filters, sample, "10,000 subscriptions", ">= 40")
    yield from compared(subscriptions(10_000, True, rng), sample, "10,000 broad subscriptions")
    yield Figure("index: remove and add, 10,000 subscriptions", churn_us(filters), "us")


def compared(filters: list[CompiledFilter], sample: list[Event], what: str, target: str = "") -> Iterator[Figure]:
    loop, table = index_of(filters, LOOP_ONLY), index_of(filters, 1)
    loop_us, table_us = per_event_us(loop, sample), per_event_us(table, sample)
    matched = sum(len(table.match(point, attributes)) for point, attributes in sample) / len(sample)
    yield Figure(f"index: loop, {what} ({matched:.1f} match)", loop_us, "us/event")
    yield Figure(f"index: table, {what}", table_us, "us/event")
    yield Figure(f"index: table against loop, {what}", loop_us / table_us, "x", target)


def churn_us(filters: list[CompiledFilter]) -> float:
    """One removal and one addition in a full index."""
    index = index_of(filters, 1)

    def churn() -> None:
        for number, filter_ in enumerate(filters[:1_000]):
            index.remove(f"s{number}")
            index.add(f"s{number}", filter_.boxes, filter_.matcher)

    return median_s(churn) / 1_000 * 1e6
