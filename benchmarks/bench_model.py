"""What the model costs: parsing, compiling and evaluating filters, matching boxes, placing events."""

from collections.abc import Callable, Iterator

from benchmarks.figure import Figure, median_s
from protocols.model.box import contains, intersects, match
from protocols.model.event import Attributes
from protocols.model.filter import compiled, evaluate
from protocols.model.lint import compile_filter
from protocols.model.normalise import normalise
from protocols.model.order import attribute_order, key
from protocols.model.parse import LENGTH_MAX, parse
from protocols.model.schema import STOCKS

TYPICAL = (
    "symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69",
    "exchange = 'NYSE' AND symbol LIKE 'AB%' AND 8.30 < price AND price < 8.70",
    "symbol IN ('OTE', 'AAPL', 'IBM') AND NOT (price <= 5 OR high IS NULL)",
    "price > 10 OR low < 2",
)
EVENT: Attributes = {"exchange": "NYSE", "symbol": "OTE", "price": 8.5, "high": 8.9, "low": 8.1}


def cost(what: str, call: Callable[[], object], number: int, target: str = "") -> Figure:
    return Figure(f"model: {what}", median_s(call, number) * 1e6, "us", target)


def run() -> Iterator[Figure]:
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
    yield Figure("model: filters parsed", len(TYPICAL) / median_s(parse_all, 200), "1/s", ">= 2,000")
    yield Figure("model: filters compiled with boxes", len(TYPICAL) / median_s(compile_all, 100), "1/s")
    yield cost("normalise", lambda: normalise(expression, STOCKS), 2_000)
    yield cost("compiled filter", lambda: matcher(EVENT), 50_000)
    yield cost("evaluate", lambda: evaluate(expression, EVENT), 20_000)
    yield cost("box match, 5 attributes", lambda: match(box, point), 50_000, "< 2")
    yield cost("box contains", lambda: contains(box, box), 50_000)
    yield cost("box intersects", lambda: intersects(box, box), 50_000)
    yield cost("sort key", lambda: key(box, order), 20_000)
    yield cost("point of an event", lambda: STOCKS.point(EVENT), 10_000)
    yield cost("validate an event", lambda: STOCKS.validate(EVENT), 10_000)
    yield from hostile()


def hostile() -> Iterator[Figure]:
    """The slowest filters that the limits let through, by the text that is repeated."""
    repeated = {
        "product": ("(symbol <> 'a{n}' OR price = {n}.5)", " AND "),
        "union": ("symbol = 's{n}' AND price = {n} AND low = {n}", " OR "),
        "grid": ("(price < {n} OR low > {n} OR high = {n})", " AND "),
        "not equal": ("price <> {n}", " AND "),
        "list": ("symbol = 's{n}'", " OR "),
    }
    for name, (part, joint) in repeated.items():
        count = (LENGTH_MAX - 1_000) // len(part + joint)
        text = joint.join(part.format(n=n % 1_000) for n in range(count))

        def work(text: str = text) -> None:
            compile_filter(text, STOCKS)

        yield Figure(f"model: hostile filter, {name} of {count:,}", median_s(work, rounds=3) * 1e3, "ms")
