"""Boxes in d dimensions: the workloads of the distributed R-tree (paper 3, section 5: text and Table 1).

A subscription is a range per dimension, "between 0 and 1,000"; since "a range may represent a single value" the values
are whole numbers. Each range has an origin and a size. Skew is "Zipf with alpha = 1" and "applied to the origin of
subscriptions only: their size is always chosen according to a uniform distribution". Events are uniform points.

Containment is made, not hoped for. X:Y means that the first X % of the population are drawn as above, and each of the
remaining Y % is a uniform random subscription inside a random one of "the current set", earlier containees included.
*Uniform* is taken by the word: of all the boxes inside the chosen one each is equally likely. A half-open range is a
pair of distinct edges, so per dimension two distinct edges are drawn.

The paper generates containers first and names no shuffle, so interests come in the order in which they were generated;
`shuffled` tries the other order, to which R-trees are sensitive, as the paper says itself.

What the paper leaves open, and what was chosen:

- The largest size. `size_max` = 400 comes from the specification's calibration on the remark that a containment tree of
  10,000 subscriptions (Zipf-25:75) would have about 2,000 children at its root. Those are the plain subscriptions that
  no other contains, out of 2,500: 1,887 here (six seeds, standard deviation 37), 1,943 in the specification.
- What happens at the edge of the domain. `sizes="clipped"` draws U(0, size_max) and cuts at 1,000. `sizes="fitting"`
  draws U(0, 1000 - origin), which needs no cut; then `size_max` is not used. No choice meets all that the paper reports
  (root children, the fall of false positives with d, uniform better than Zipf), so experiments report both.
- Which origins are popular. The rank is the value: origin 0 is the most popular one, in every dimension.
- `grid` = 1 step per unit, see above. With `grid=100` sizes are nearly continuous (steps of 0.01) and fewer boxes
  contain each other by a tie: 1,919 of 2,500 are maximal. Origins of the Zipf workloads stay whole numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import ClassVar, Final, Literal

from peerd.sim.workloads.workload import Interest, interest_in
from peerd.sim.workloads.zipf import zipf
from protocols.model.box import Box
from protocols.model.event import Attributes
from protocols.model.schema import Schema

DOMAIN_MAX: Final = 1_000
"""From the paper, section 5: "range values between 0 and 1,000"."""


@dataclass(frozen=True)
class Boxes:
    PARAMETERS: ClassVar[tuple[str, ...]] = ("dimensions", "size_max", "sizes", "alpha", "grid", "shuffled")

    name: str
    origins: Literal["uniform", "zipf"]
    plain_percent: int = 100
    """X of X:Y; 100 makes no containment on purpose."""
    dimensions: int = 4
    """From the paper, Table 1."""
    size_max: int = 400
    """From the specification's calibration, see above."""
    sizes: Literal["clipped", "fitting"] = "clipped"
    alpha: float = 1.0
    """From the paper, section 5."""
    grid: Literal[1, 10, 100] = 1
    shuffled: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.dimensions <= 32:
            raise ValueError(f"dimensions must be 1 to 32, not {self.dimensions}")
        if not 1 <= self.size_max <= DOMAIN_MAX:
            raise ValueError(f"size_max must be 1 to {DOMAIN_MAX}, not {self.size_max}")
        if self.sizes not in ("clipped", "fitting"):
            raise ValueError(f"sizes must be clipped or fitting, not {self.sizes!r}")
        if self.alpha < 0.0:
            raise ValueError(f"alpha must be at least 0, not {self.alpha}")
        if self.grid not in (1, 10, 100):
            raise ValueError(f"grid must be 1, 10 or 100 steps per unit, not {self.grid}")

    @cached_property
    def schema(self) -> Schema:
        kind = 'type = "int"' if self.grid == 1 else f'type = "float"\nprecision = {1 / self.grid}'
        bounds = "min = 0\nmax = 1000" if self.grid == 1 else "min = 0.0\nmax = 1000.0"
        # two digits, so that the order of the names is the order of the dimensions
        names = [f"x{number:02}" for number in range(1, self.dimensions + 1)]
        return Schema.from_toml("\n".join(f"[attributes.{name}]\n{kind}\n{bounds}" for name in names))

    def subscriptions(self, rng: Random, count: int) -> list[Interest]:
        plain = min(count, max(1, round(count * self.plain_percent / 100)))
        boxes = [self._plain(rng) for _ in range(plain)]
        for _ in range(count - plain):
            boxes.append(box_inside(rng, boxes[rng.randrange(len(boxes))]))
        if self.shuffled:
            rng.shuffle(boxes)
        return [interest_in(self.schema, box) for box in boxes]

    def events(self, rng: Random, count: int, subscriptions: Sequence[Interest] = ()) -> list[Attributes]:
        grids = [(name, self.schema.grid(name)) for name in self.schema.names]
        return [{name: grid.value(rng.randrange(grid.size)) for name, grid in grids} for _ in range(count)]

    def update(self, rng: Random, interest: Interest) -> Interest:
        """A smaller box inside, a larger one around, or one drawn anew: the cases that a tree treats differently."""
        old = interest.boxes[0]
        new = old
        while new == old:
            draw = rng.choice((box_inside, self._around, self._anew))
            new = draw(rng, old)
        return interest_in(self.schema, new)

    def _plain(self, rng: Random) -> Box:
        lo, hi = [], []
        for _ in range(self.dimensions):
            first = self._origin(rng)
            last = first + self._size(rng, first)
            lo.append(first)
            hi.append(min(last, DOMAIN_MAX * self.grid) + 1)
        return Box(tuple(lo), tuple(hi))

    def _origin(self, rng: Random) -> int:
        if self.origins == "zipf":
            return zipf(DOMAIN_MAX + 1, self.alpha).draw(rng) * self.grid
        return rng.randrange(DOMAIN_MAX * self.grid + 1)

    def _size(self, rng: Random, origin: int) -> int:
        if self.sizes == "fitting":
            return rng.randint(0, DOMAIN_MAX * self.grid - origin)
        return rng.randint(0, self.size_max * self.grid)

    def _around(self, rng: Random, box: Box) -> Box:
        """Each side grows by up to its own length at either end."""
        top = DOMAIN_MAX * self.grid + 1
        lo = tuple(max(0, a - rng.randint(0, b - a)) for a, b in zip(box.lo, box.hi, strict=True))
        hi = tuple(min(top, b + rng.randint(0, b - a)) for a, b in zip(box.lo, box.hi, strict=True))
        return Box(lo, hi)

    def _anew(self, rng: Random, box: Box) -> Box:
        return self._plain(rng)


def box_inside(rng: Random, outer: Box) -> Box:
    """One of the boxes inside `outer`, each equally likely: per dimension two distinct edges, in order."""
    lo, hi = [], []
    for first, last in zip(outer.lo, outer.hi, strict=True):
        a = rng.randint(first, last)
        b = rng.randint(first, last - 1)
        if b >= a:
            b += 1
        lo.append(min(a, b))
        hi.append(max(a, b))
    return Box(tuple(lo), tuple(hi))
