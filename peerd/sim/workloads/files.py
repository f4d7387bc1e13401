"""Shared files: the workloads of GosSkip (paper 5, section 4).

"Considering peers' interests are represented by their shared files, a filter is constructed so that the filter matches
one shared file by the peer. […] one event represents one file shared by a peer. These events and filters consist of 3
attributes, namely file name, type and size." So a filter is an equality on all three, and filters and events are drawn
from one catalogue. Popular files give equal filters, which stand side by side in GosSkip's list. An event whose file
nobody shares any more matches nothing and is garbage collected on arrival.

Differs from the paper: its "real" trace was crawled from the eDonkey network and is not public in this form. `files`
synthesises it: file popularity there is known to be Zipf-like. `files-uniform` stands for the "synthetic" trace, where
events and subscriptions are "randomly distributed in the corresponding event and subscription space"; the space is the
catalogue, since a random name, type and size would never match anything.

Names do not follow popularity, or the popular files would be neighbours in the sorted list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import ClassVar, Final

from peerd.sim.workloads.workload import Interest, Side, equal_to, interest_in, product
from peerd.sim.workloads.zipf import zipf
from protocols.model.event import Attributes
from protocols.model.schema import Schema

SIZE_MAX: Final = (1 << 32) - 1
"""In bytes. A guess: what a 32-bit size field of the time could state."""

KINDS: Final = (
    # type, smallest and largest size in bytes; guesses, they only have to differ
    ("mp3", 2_000_000, 9_000_000),
    ("avi", 150_000_000, 1_400_000_000),
    ("mpg", 5_000_000, 700_000_000),
    ("zip", 100_000, 300_000_000),
    ("jpg", 20_000, 3_000_000),
    ("pdf", 50_000, 20_000_000),
    ("exe", 200_000, 600_000_000),
    ("txt", 1_000, 900_000),
)
FIRST_WORDS: Final = ("amber", "blue", "cold", "deep", "early", "far", "golden", "hidden", "late", "new", "old")
SECOND_WORDS: Final = ("bridge", "city", "dream", "garden", "harbour", "light", "night", "river", "road", "song", "sun")

SCHEMA: Final = f"""
[attributes.name]
type = "string"
[attributes.type]
type = "string"
[attributes.size]
type = "int"
min = 0
max = {SIZE_MAX}
"""


@dataclass(frozen=True)
class Files:
    PARAMETERS: ClassVar[tuple[str, ...]] = ("files", "alpha")

    name: str
    files: int = 10_000
    """How many different files are shared. A guess: ten for each of the paper's 1,000 filters."""
    alpha: float = 0.8
    """Skew of the popularity. A guess below 1: a peer shares a file once, which flattens the head."""

    def __post_init__(self) -> None:
        if self.files < 2:
            raise ValueError(f"files must be at least 2, not {self.files}")
        if self.alpha < 0.0:
            raise ValueError(f"alpha must be at least 0, not {self.alpha}")

    @cached_property
    def schema(self) -> Schema:
        return Schema.from_toml(SCHEMA)

    def subscriptions(self, rng: Random, count: int) -> list[Interest]:
        popularity = zipf(self.files, self.alpha)
        return [self._interest(popularity.draw(rng)) for _ in range(count)]

    def events(self, rng: Random, count: int, subscriptions: Sequence[Interest] = ()) -> list[Attributes]:
        popularity = zipf(self.files, self.alpha)
        return [file(popularity.draw(rng)) for _ in range(count)]

    def update(self, rng: Random, interest: Interest) -> Interest:
        new = interest
        while new.boxes == interest.boxes:
            new = self._interest(zipf(self.files, self.alpha).draw(rng))
        return new

    def _interest(self, rank: int) -> Interest:
        shared = file(rank)
        size = int(shared["size"])
        sides: dict[str, Side] = {
            "name": equal_to(str(shared["name"])),
            "type": equal_to(str(shared["type"])),
            "size": (size, size + 1),
        }
        return interest_in(self.schema, product(self.schema, sides))


def file(rank: int) -> Attributes:
    """The file of that rank in the catalogue: always the same one, and no other file has its name."""
    # Knuth's multiplicative hash (The Art of Computer Programming, 6.4): spreads neighbouring ranks far apart
    mixed = rank * 2_654_435_761 % (1 << 32)
    kind, smallest, largest = KINDS[mixed % len(KINDS)]
    mixed //= len(KINDS)
    first = FIRST_WORDS[mixed % len(FIRST_WORDS)]
    mixed //= len(FIRST_WORDS)
    second = SECOND_WORDS[mixed % len(SECOND_WORDS)]
    size = smallest + rank * 40_503_001 % (largest - smallest)
    return {"name": f"{first} {second} {rank}.{kind}", "type": kind, "size": size}
