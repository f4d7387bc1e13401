"""How much faster the local index is than a plain loop over all subscriptions, and where the two break even."""

from collections.abc import Callable
from random import Random
from statistics import median
from time import perf_counter

from protocols.model.box import Point
from protocols.model.event import Attributes
from protocols.model.index import LocalIndex
from protocols.model.lint import CompiledFilter, compile_filter
from protocols.model.schema import STOCKS

SEED = 6
SYMBOLS = 400
LOOP_ONLY = 1 << 30

Result = tuple[str, float, str, float | None]
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
    def run() -> None:
        for point, attributes in sample:
            index.match(point, attributes)

    return best_s(run) / len(sample) * 1e6


def best_s(run: Callable[[], None], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return median(times)


def run() -> list[Result]:
    """Name, value, unit, and the target that the value must reach where there is one."""
    rng = Random(SEED)
    filters, sample = subscriptions(10_000, False, rng), events(50, rng)
    results: list[Result] = []
    for count in (32, 48, 64, 128, 1_000):
        results += compared(filters[:count], sample * 10, f"{count} subscriptions", None)
    results += compared(filters, sample, "10000 subscriptions", 40.0)
    results += compared(subscriptions(10_000, True, rng), sample, "10000 broad subscriptions", None)
    results.append(("index: remove and add, 10000 subscriptions", churn_us(filters), "us", None))
    return results


def compared(filters: list[CompiledFilter], sample: list[Event], what: str, target: float | None) -> list[Result]:
    loop, table = index_of(filters, LOOP_ONLY), index_of(filters, 1)
    loop_us, table_us = per_event_us(loop, sample), per_event_us(table, sample)
    matched = sum(len(table.match(point, attributes)) for point, attributes in sample) / len(sample)
    return [
        (f"index: loop, {what} ({matched:.1f} match)", loop_us, "us/event", None),
        (f"index: table, {what}", table_us, "us/event", None),
        (f"index: table against loop, {what}", loop_us / table_us, "x", target),
    ]


def churn_us(filters: list[CompiledFilter]) -> float:
    """One removal and one addition in a full index."""
    index = index_of(filters, 1)

    def run() -> None:
        for number, filter_ in enumerate(filters[:1_000]):
            index.remove(f"s{number}")
            index.add(f"s{number}", filter_.boxes, filter_.matcher)

    return best_s(run) / 1_000 * 1e6
