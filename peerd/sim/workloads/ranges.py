"""Ranges of one attribute: the workload of the bandwidth-aware Sub-2-Sub (paper 4, section V).

"Subscription range [a, b], 0 <= a < b <= 100. The points a, b are randomly chosen, which generated subscriptions of
length from 1 to 100", and events are uniform in [0, 100]. So a and b are two distinct whole numbers, sorted, and both
ends belong to the range: an event hits a range of length L = b - a with probability (L + 1) / 101.

That values are whole follows from the lengths, which the paper counts from 1; that both ends belong to the range is its
notation, and the reading with which the specification's calibration meets the paper's accuracies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import ClassVar, Final

from peerd.sim.workloads.workload import Interest, interest_in
from protocols.model.box import Box
from protocols.model.event import Attributes
from protocols.model.schema import Schema

DOMAIN_MAX: Final = 100
"""From the paper, section V."""


@dataclass(frozen=True)
class Ranges:
    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    name: str = "ranges"

    @cached_property
    def schema(self) -> Schema:
        return Schema.from_toml(f'[attributes.value]\ntype = "int"\nmin = 0\nmax = {DOMAIN_MAX}')

    def subscriptions(self, rng: Random, count: int) -> list[Interest]:
        return [interest_in(self.schema, _range(rng)) for _ in range(count)]

    def events(self, rng: Random, count: int, subscriptions: Sequence[Interest] = ()) -> list[Attributes]:
        return [{"value": rng.randint(0, DOMAIN_MAX)} for _ in range(count)]

    def update(self, rng: Random, interest: Interest) -> Interest:
        old = new = interest.boxes[0]
        while new == old:
            new = _range(rng)
        return interest_in(self.schema, new)


def _range(rng: Random) -> Box:
    a = rng.randint(0, DOMAIN_MAX)
    b = rng.randint(0, DOMAIN_MAX - 1)
    if b >= a:
        b += 1
    return Box((min(a, b),), (max(a, b) + 1,))
