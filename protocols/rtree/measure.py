"""How large a box is, to the tree: volumes, joint volumes and overlaps without making boxes.

Choosing a branch and splitting a node ask for the volume of "these two together" hundreds of times and throw the box
away; so the pairwise questions are answered from the sides alone. For numbers that is 1 µs against 2.5 with a box in
between.

*Weights.* Volume stands for the probability that an event falls into a box, which is right if events are uniform. A
`Measure` that was told where events fall (`observe`) takes the share of events per attribute instead of the share of
the domain: the side of a box is then the mass of its interval in a histogram of `BINS` bins, each of which begins with
one event in advance, so that nothing that can match ever has volume zero. Attributes are taken as independent, and
strings keep their plain side. It is the improvement `weights` of the configuration; the paper has none.
"""

from typing import Final

from protocols.model.box import TEXT_SIZE, Box, Point, Space, code, enclosing, intersection, is_empty, last_code

BINS: Final = 32
"""Bins of a histogram. A guess: a box of a tenth of the domain still covers three."""
FORGET_AT: Final = 4096
"""Events in a histogram before all counts are halved: old habits of publishers fade. A guess."""


class Measure:
    __slots__ = ("_events", "_histograms", "_marks", "_sizes", "_space", "_steps")

    def __init__(self, space: Space, weighted: bool = False) -> None:
        self._space = space
        self._sizes = space.number_sizes
        self._steps = tuple(1.0 / (size + 1) for size in space.number_sizes)
        self._histograms: list[list[int]] = [[1] * BINS for _ in space.number_sizes] if weighted else []
        self._marks: list[list[float]] = []  # cumulated shares, made anew when asked for after an event
        self._events = 0

    def observe(self, point: Point) -> None:
        """An event fell there. Without weights that changes nothing."""
        if not self._histograms:
            return
        self._marks = []
        for histogram, size, value in zip(self._histograms, self._sizes, point.numbers):
            histogram[min(max(value, 0) * BINS // size, BINS - 1)] += 1
        self._events += 1
        if self._events >= FORGET_AT:
            self._events //= 2
            self._histograms = [[count // 2 or 1 for count in histogram] for histogram in self._histograms]

    def volume(self, box: Box) -> float:
        if self._histograms:
            return self._mass(box)
        return self._space.volume(box)

    def joint(self, a: Box, b: Box) -> float:
        """The volume of the smallest box that contains both."""
        if a.lo_text or b.lo_text or self._histograms or is_empty(a) or is_empty(b):
            return self.volume(enclosing(a, b))
        result = 1.0
        for a_lo, b_lo, a_hi, b_hi, step in zip(a.lo, b.lo, a.hi, b.hi, self._steps):
            result *= ((a_hi if a_hi > b_hi else b_hi) - (a_lo if a_lo < b_lo else b_lo)) * step
        return result

    def overlap(self, a: Box, b: Box) -> float:
        """The volume that both share."""
        if a.lo_text or b.lo_text or self._histograms or is_empty(a) or is_empty(b) or len(a.lo) != len(b.lo):
            return self.volume(intersection(a, b))
        result = 1.0
        for a_lo, b_lo, a_hi, b_hi, step in zip(a.lo, b.lo, a.hi, b.hi, self._steps):
            side = (a_hi if a_hi < b_hi else b_hi) - (a_lo if a_lo > b_lo else b_lo)
            if side <= 0:
                return 0.0
            result *= side * step
        return result

    def margin(self, box: Box) -> float:
        """The sum of the sides."""
        return self._space.margin(box)

    def extents(self, box: Box) -> list[tuple[float, float]]:
        """From where to where the box reaches in each attribute, as shares of it; an empty box lies below all."""
        count, texts = len(self._sizes), self._space.text_count
        if is_empty(box):
            return [(-1.0, -1.0)] * (count + texts)
        found = [(lo * step, hi * step) for lo, hi, step in zip(box.lo, box.hi, self._steps)]
        found += [(-self._steps[at], 1.0) for at in range(len(found), count)]
        step = 1.0 / (TEXT_SIZE + 1)
        text = [(code(lo) * step, last_code(hi) * step) for lo, hi in zip(box.lo_text[:texts], box.hi_text)]
        text += [(0.0, 1.0)] * (texts - len(text))
        return found + text

    def _mass(self, box: Box) -> float:
        """The volume with each number's side weighted by the events that fell there."""
        if is_empty(box):
            return 0.0
        if not self._marks:
            self._marks = [_cumulated(histogram) for histogram in self._histograms]
        result = 1.0
        for lo, hi, marks, size in zip(box.lo, box.hi, self._marks, self._sizes):
            result *= _share(marks, hi, size) - _share(marks, lo, size)
        if box.lo_text:
            for side in self._space.sides(box)[len(self._sizes) :]:
                result *= side
        return result


def _cumulated(histogram: list[int]) -> list[float]:
    """The share of all events below each bin; absent is one more event, below all of them."""
    total = sum(histogram) + 1
    below, marks = 1, []
    for count in histogram:
        marks.append(below / total)
        below += count
    marks.append(1.0)
    return marks


def _share(marks: list[float], coordinate: int, size: int) -> float:
    """The share of events below a coordinate, linear within a bin."""
    if coordinate < 0:
        return 0.0
    place = coordinate * BINS / size
    at = int(place)
    if at >= BINS:
        return 1.0
    return marks[at] + (marks[at + 1] - marks[at]) * (place - at)
