"""Dividing the children of a node that has too many: the three methods of the paper, section 3.2.

Each takes boxes and returns the positions of those that form one group; the rest form the other. Both groups get at
least `least` boxes. Nothing here knows peers: an R-tree in one memory would use the same functions, and the tests have
one.

- *linear* (Guttman 1984, section 3.5.3): the two seeds lie farthest apart, by the separation normalised to the width of
  all, in the attribute where that is largest; the others follow in their order, each into the group that it enlarges
  less. Differs from the paper: its wording of linear repeats that of quadratic, so Guttman's own seeds are taken.
- *quadratic* (Guttman 1984, section 3.5.2): the two seeds would waste the most volume together; then always the box for
  which the groups differ most.
- *rstar* (Beckmann, Kriegel, Schneider, Seeger 1990, section 4.2): cut the sorted boxes along the attribute with the
  smallest sum of margins, where the two groups overlap least, then where they are smallest.

Boxes of volume zero (the empty box) waste nothing wherever they go; ties go to the smaller group, then to the first.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from protocols.model.box import EMPTY, Box, enclosing, is_empty
from protocols.rtree.measure import Measure

Method: TypeAlias = Literal["linear", "quadratic", "rstar"]
Group: TypeAlias = list[int]


def linear(boxes: Sequence[Box], least: int, measure: Measure) -> Group:
    first, second = _farthest(boxes, measure)
    rest = [at for at in range(len(boxes)) if at not in (first, second)]
    return _distribute(boxes, least, measure, first, second, rest, in_order=True)


def quadratic(boxes: Sequence[Box], least: int, measure: Measure) -> Group:
    first, second = _most_wasteful(boxes, measure)
    rest = [at for at in range(len(boxes)) if at not in (first, second)]
    return _distribute(boxes, least, measure, first, second, rest, in_order=False)


def rstar(boxes: Sequence[Box], least: int, measure: Measure) -> Group:
    extents = [measure.extents(box) for box in boxes]
    best_sum, best_orders = float("inf"), [list(range(len(boxes)))]
    for axis in range(len(extents[0])):
        orders = _orders(extents, axis)
        margins = sum(_margins(boxes, order, least, measure) for order in orders)
        if margins < best_sum:
            best_sum, best_orders = margins, orders
    best_key, best_group = (float("inf"), float("inf")), best_orders[0][:least]
    for order in best_orders:
        below, above = _cumulated(boxes, order)
        for count in range(least, len(boxes) - least + 1):
            one, other = below[count - 1], above[count]
            key = measure.overlap(one, other), measure.volume(one) + measure.volume(other)
            if key < best_key:
                best_key, best_group = key, order[:count]
    return best_group


METHODS: Final[dict[str, Callable[[Sequence[Box], int, Measure], Group]]] = {
    "linear": linear,
    "quadratic": quadratic,
    "rstar": rstar,
}


def farthest(boxes: Sequence[Box], count: int, measure: Measure) -> Group:
    """The boxes whose centres lie farthest from the centre of all: those that R* reinserts, the nearest of them first
    ("close reinsert", Beckmann et al. 1990, section 4.3)."""
    around = EMPTY
    for box in boxes:
        around = enclosing(around, box)
    centre = [lo + hi for lo, hi in measure.extents(around)]

    def distance(at: int) -> float:
        if is_empty(boxes[at]):
            return 0.0
        return sum((lo + hi - middle) ** 2 for (lo, hi), middle in zip(measure.extents(boxes[at]), centre))

    ordered = sorted(range(len(boxes)), key=distance)
    return ordered[len(boxes) - count :]


# --- Seeds ------------------------------------------------------------------------------------------------------------


def _farthest(boxes: Sequence[Box], measure: Measure) -> tuple[int, int]:
    """The pair with the greatest normalised separation along any one attribute."""
    filled = [at for at in range(len(boxes)) if not is_empty(boxes[at])]
    if len(filled) < 2:
        return 0, 1
    extents = [measure.extents(box) for box in boxes]
    best, pair = -float("inf"), (filled[0], filled[1])
    for axis in range(len(extents[0])):
        high_low = max(filled, key=lambda at: extents[at][axis][0])
        low_high = min((at for at in filled if at != high_low), key=lambda at: extents[at][axis][1])
        width = max(extents[at][axis][1] for at in filled) - min(extents[at][axis][0] for at in filled)
        apart = extents[high_low][axis][0] - extents[low_high][axis][1]
        if width > 0.0 and apart / width > best:
            best, pair = apart / width, (low_high, high_low)
    return pair


def _most_wasteful(boxes: Sequence[Box], measure: Measure) -> tuple[int, int]:
    """The pair whose common box has the most volume that is in neither."""
    volumes = [measure.volume(box) for box in boxes]
    best, pair = -float("inf"), (0, 1)
    for one in range(len(boxes)):
        for other in range(one + 1, len(boxes)):
            waste = measure.joint(boxes[one], boxes[other]) - volumes[one] - volumes[other]
            if waste > best:
                best, pair = waste, (one, other)
    return pair


# --- Distribution -----------------------------------------------------------------------------------------------------


class _Half:
    """One of the two groups while it grows."""

    __slots__ = ("box", "members", "volume")

    def __init__(self, at: int, box: Box, measure: Measure) -> None:
        self.members = [at]
        self.box = box
        self.volume = measure.volume(box)

    def take(self, at: int, box: Box, measure: Measure) -> None:
        self.members.append(at)
        self.box = enclosing(self.box, box)
        self.volume = measure.volume(self.box)


def _distribute(
    boxes: Sequence[Box], least: int, measure: Measure, first: int, second: int, rest: list[int], in_order: bool
) -> Group:
    """Give each of the rest to the half that it enlarges less; `in_order`, or the most decided one first."""
    one, other = _Half(first, boxes[first], measure), _Half(second, boxes[second], measure)
    growth = {at: _growth(boxes[at], one, other, measure) for at in rest}
    while rest:
        if len(one.members) + len(rest) <= least:  # it needs all that are left
            return one.members + rest
        if len(other.members) + len(rest) <= least:
            return one.members
        at = rest[0] if in_order else max(rest, key=lambda at: abs(growth[at][0] - growth[at][1]))
        rest.remove(at)
        by_one, by_other = growth[at]
        key_one = (by_one, one.volume, len(one.members))
        key_other = (by_other, other.volume, len(other.members))
        chosen = one if key_one <= key_other else other
        before = chosen.box
        chosen.take(at, boxes[at], measure)
        if chosen.box != before:
            for left in rest:
                growth[left] = _growth(boxes[left], one, other, measure)
    return one.members


def _growth(box: Box, one: _Half, other: _Half, measure: Measure) -> tuple[float, float]:
    return measure.joint(one.box, box) - one.volume, measure.joint(other.box, box) - other.volume


# --- R* ---------------------------------------------------------------------------------------------------------------


def _orders(extents: list[list[tuple[float, float]]], axis: int) -> list[Group]:
    """The boxes by their lower and by their upper ends along an attribute."""
    positions = range(len(extents))
    return [
        sorted(positions, key=lambda at: extents[at][axis]),
        sorted(positions, key=lambda at: extents[at][axis][::-1]),
    ]


def _cumulated(boxes: Sequence[Box], order: Group) -> tuple[list[Box], list[Box]]:
    """What the first so many enclose, and what those from there on enclose."""
    below, above = [], []
    around = EMPTY
    for at in order:
        around = enclosing(around, boxes[at])
        below.append(around)
    around = EMPTY
    for at in reversed(order):
        around = enclosing(around, boxes[at])
        above.append(around)
    return below, above[::-1]


def _margins(boxes: Sequence[Box], order: Group, least: int, measure: Measure) -> float:
    below, above = _cumulated(boxes, order)
    counts = range(least, len(boxes) - least + 1)
    return sum(measure.margin(below[count - 1]) + measure.margin(above[count]) for count in counts)
