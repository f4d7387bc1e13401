"""Everything that the filter language can say: the workload of the conformance tests. It belongs to no paper.

Every overlay has to deliver what every filter asks for, so each operator of the language is here, on attributes of each
type, with filters of several boxes, prefixes, quotes inside strings, the empty string, non-ASCII text, attributes that
are absent from the event, prices between two steps of the grid and volumes outside of the domain.

The filters come in rounds: each round has one filter of every form in `FORMS`, in random order, so that any
`len(FORMS)` subscriptions in a row from the start of a round use the whole language.

Half of the events are aimed: drawn inside a box of a random subscription, so that filters that match little are matched
too, and then a random attribute may be spoiled. The others are drawn from the same few values that the filters name.

Unlike in the other families the boxes are those of the compiler. Normalising OR and NOT here a second time would test
nothing that the tests of the language do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import ClassVar, Final

from peerd.sim.workloads.workload import Interest, inside, understood
from protocols.model.event import Attributes
from protocols.model.schema import Schema

SCHEMA: Final = """
[attributes.exchange]
type = "string"
[attributes.symbol]
type = "string"
[attributes.price]
type = "float"
min = 0.0
max = 20.0
precision = 0.01
[attributes.volume]
type = "int"
min = 0
max = 1000
[attributes.halted]
type = "bool"
"""

EXCHANGES: Final = ("NYSE", "NASDAQ", "LSE", "ATHEX")
SYMBOLS: Final = ("OTE", "OTEB", "OT", "ALPHA", "A", "O'K", "50%", "a b", "", "ÖTE")

ABSENT_SHARE: Final = 0.15
"""How often an event lacks an attribute. A guess: often enough for every IS NULL to be met."""


FORMS: Final = (
    "symbol = {symbol}",
    "symbol <> {symbol}",
    "volume != {volume}",
    "price < {price}",
    "price <= {price}",
    "price > {price}",
    "price >= {price} AND volume < {volume}",
    "price = {price} OR volume = {volume}",
    "price BETWEEN {lower_price} AND {upper_price}",
    "volume NOT BETWEEN {lower_volume} AND {upper_volume}",
    "symbol IN ({symbol}, {symbol}, {symbol})",
    "volume NOT IN ({volume}, {volume})",
    "symbol LIKE 'OT%'",
    "symbol NOT LIKE 'A%' AND exchange = {exchange}",
    "symbol LIKE '50!%%' ESCAPE '!'",
    "halted IS NULL AND exchange <> {exchange}",
    "symbol IS NOT NULL AND volume <= {volume}",
    "halted = {halted} AND volume > {volume}",
    "price BETWEEN {lower_price} AND {upper_price} OR exchange = {exchange} AND volume >= {volume}",
    "NOT (exchange = {exchange} AND volume < {volume})",
    "(symbol = {symbol} OR halted = {halted}) AND (price > {price} OR volume IS NULL)",
    '"price" >= {price} and not halted = {halted}',
    "TRUE",
)
"""The forms of filters. What stands in braces is drawn, each occurrence for itself."""


class _Literals:
    """Draws what a form names."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def __getitem__(self, key: str) -> str:
        rng = self._rng
        if key == "exchange":
            return f"'{rng.choice(EXCHANGES)}'"
        if key == "symbol":
            return "'" + rng.choice(SYMBOLS).replace("'", "''") + "'"
        if key == "halted":
            return rng.choice(("TRUE", "FALSE"))
        first, last = {"lower": (0.01, 0.5), "upper": (0.5, 0.99)}.get(key.split("_")[0], (0.01, 0.99))
        share = rng.uniform(first, last)
        return f"{20 * share:.2f}" if key.endswith("price") else str(round(1_000 * share))


@dataclass(frozen=True)
class Mixed:
    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    name: str = "mixed"

    @cached_property
    def schema(self) -> Schema:
        return Schema.from_toml(SCHEMA)

    def subscriptions(self, rng: Random, count: int) -> list[Interest]:
        interests: list[Interest] = []
        while len(interests) < count:
            forms = rng.sample(FORMS, min(len(FORMS), count - len(interests)))
            interests += [self._interest(rng, form) for form in forms]
        return interests

    def events(self, rng: Random, count: int, subscriptions: Sequence[Interest] = ()) -> list[Attributes]:
        return [self._event(rng, subscriptions) for _ in range(count)]

    def update(self, rng: Random, interest: Interest) -> Interest:
        new = interest
        while new.boxes == interest.boxes:
            new = self._interest(rng, rng.choice(FORMS))
        return new

    def _interest(self, rng: Random, form: str) -> Interest:
        text = form.format_map(_Literals(rng))
        return Interest(text, understood(text, self.schema).boxes)

    def _event(self, rng: Random, subscriptions: Sequence[Interest]) -> Attributes:
        if not subscriptions or rng.random() < 0.5:
            return _any(rng)
        event = inside(rng, self.schema, rng.choice(rng.choice(subscriptions).boxes))
        other = _any(rng)
        spoiled = rng.choice(self.schema.attributes).name
        if spoiled in other and rng.random() < 0.3:
            event[spoiled] = other[spoiled]
        return event or other


def _any(rng: Random) -> Attributes:
    event: Attributes = {
        "exchange": rng.choice(EXCHANGES),
        "symbol": rng.choice(SYMBOLS),
        "price": rng.choice((rng.randint(0, 2_000) / 100, rng.randint(0, 20_000) / 1_000)),
        "volume": rng.randint(-50, 1_050),
        "halted": rng.random() < 0.5,
    }
    kept = {name: value for name, value in event.items() if rng.random() >= ABSENT_SHARE}
    return kept or event
