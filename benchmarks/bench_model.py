"""What the model costs: parsing, compiling and evaluating filters, matching boxes, placing events."""

from collections.abc import Callable
from statistics import median
from time import perf_counter

from protocols.model.box import contains, intersects, match
from protocols.model.event import Attributes
from protocols.model.filter import compiled, evaluate
from protocols.model.lint import compile_filter
from protocols.model.normalise import normalise
from protocols.model.order import attribute_order, key
from protocols.model.parse import LENGTH_MAX, parse
from protocols.model.schema import STOCKS

Result = tuple[str, float, str, float | None]

TYPICAL = (
    "symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69",
    "exchange = 'NYSE' AND symbol LIKE 'AB%' AND 8.30 < price AND price < 8.70",
    "symbol IN ('OTE', 'AAPL', 'IBM') AND NOT (price <= 5 OR high IS NULL)",
    "price > 10 OR low < 2",
)
EVENT: Attributes = {"exchange": "NYSE", "symbol": "OTE", "price": 8.5, "high": 8.9, "low": 8.1}


def each_us(run: Callable[[], object], number: int, rounds: int = 5) -> float:
    """The median time of one call."""
    times = []
    for _ in range(rounds):
        start = perf_counter()
        for _ in range(number):
            run()
        times.append(perf_counter() - start)
    return median(times) / number * 1e6


def run() -> list[Result]:
    """Name, value, unit, and the target that the value must reach where there is one."""
    parse(TYPICAL[0], STOCKS)  # imports lark and builds its tables

    def parse_all() -> None:
        for text in TYPICAL:
            parse(text, STOCKS)

    def compile_all() -> None:
        for text in TYPICAL:
            compile_filter(text, STOCKS)

    filter_ = compile_filter(TYPICAL[0], STOCKS)
    box, point = filter_.boxes[0], STOCKS.point(EVENT)
    matcher, expression = compiled(filter_.expression), filter_.expression
    order = attribute_order(STOCKS)
    results: list[Result] = [
        ("model: filters parsed", len(TYPICAL) * 1e6 / each_us(parse_all, 200), "1/s", 2_000.0),
        ("model: filters compiled with boxes", len(TYPICAL) * 1e6 / each_us(compile_all, 100), "1/s", None),
        ("model: normalise", each_us(lambda: normalise(expression, STOCKS), 2_000), "us", None),
        ("model: compiled filter", each_us(lambda: matcher(EVENT), 50_000), "us", None),
        ("model: evaluate", each_us(lambda: evaluate(expression, EVENT), 20_000), "us", None),
        ("model: box match, 5 attributes", each_us(lambda: match(box, point), 50_000), "us", None),
        ("model: box contains", each_us(lambda: contains(box, box), 50_000), "us", None),
        ("model: box intersects", each_us(lambda: intersects(box, box), 50_000), "us", None),
        ("model: sort key", each_us(lambda: key(box, order), 20_000), "us", None),
        ("model: point of an event", each_us(lambda: STOCKS.point(EVENT), 10_000), "us", None),
        ("model: validate an event", each_us(lambda: STOCKS.validate(EVENT), 10_000), "us", None),
    ]
    return results + hostile()


def hostile() -> list[Result]:
    """The slowest filters that the limits let through, by the text that is repeated."""
    repeated = {
        "product": ("(symbol <> 'a{n}' OR price = {n}.5)", " AND "),
        "union": ("symbol = 's{n}' AND price = {n} AND low = {n}", " OR "),
        "grid": ("(price < {n} OR low > {n} OR high = {n})", " AND "),
        "not equal": ("price <> {n}", " AND "),
        "list": ("symbol = 's{n}'", " OR "),
    }
    results: list[Result] = []
    for name, (part, joint) in repeated.items():
        count = (LENGTH_MAX - 1_000) // len(part + joint)
        text = joint.join(part.format(n=n % 1_000) for n in range(count))

        def work(text: str = text) -> None:
            compile_filter(text, STOCKS)

        results.append((f"model: hostile filter, {name} of {count}", each_us(work, 1, 3) / 1e3, "ms", None))
    return results
