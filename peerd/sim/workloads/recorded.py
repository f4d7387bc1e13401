"""A workload that was collected from the logs of a real or simulated run: `recorded:FILE`.

The file is one JSON object with `schema`, `subscriptions` (filters, in the order in which they came) and `events`
(attributes, in the order of time); other keys are ignored. The analytics write it. Whoever asks for more than it has
gets it from the start again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final

import msgspec

from peerd.sim.workloads.workload import Interest, understood
from protocols.model.event import Attributes
from protocols.model.schema import Schema

PREFIX: Final = "recorded:"


class Content(msgspec.Struct, frozen=True):
    schema: dict[str, Any]
    subscriptions: list[str]
    events: list[dict[str, str | bool | int | float]]


@dataclass(frozen=True)
class Recorded:
    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    name: str
    content: Content = field(repr=False)

    @classmethod
    def read(cls, name: str) -> "Recorded":
        """From its name; `ValueError` or `OSError` if there is no such file, or something else in it."""
        path = Path(name.removeprefix(PREFIX))
        try:
            content = msgspec.json.decode(path.read_bytes(), type=Content)
        except msgspec.DecodeError as error:
            raise ValueError(f"{path} is no recorded workload: {error}") from None
        if not content.subscriptions or not content.events:
            raise ValueError(f"{path}: a recorded workload needs subscriptions and events")
        return cls(name, content)

    @cached_property
    def schema(self) -> Schema:
        return Schema.from_dict(self.content.schema)

    def subscriptions(self, rng: Random, count: int) -> list[Interest]:
        return [self._interest(text) for text in islice(cycle(self.content.subscriptions), count)]

    def events(self, rng: Random, count: int, subscriptions: Sequence[Interest] = ()) -> list[Attributes]:
        return [self.schema.validate(event) for event in islice(cycle(self.content.events), count)]

    def update(self, rng: Random, interest: Interest) -> Interest:
        """Another of the filters that were recorded; the same one if there is no other."""
        others = [text for text in self.content.subscriptions if text != interest.filter]
        return self._interest(rng.choice(others)) if others else interest

    def _interest(self, text: str) -> Interest:
        return Interest(text, understood(text, self.schema).boxes)
