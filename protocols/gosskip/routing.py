"""Which link brings a message closer to its key.

*Monotone* (paper, section 3.4; the specification's reading): the farthest link that does not pass the key; when every
link to the left would pass it, the nearest one, whose right neighbour stands beyond the key: that one is the home. Hops
only ever approach the key, so a message ends.

*Overshoot*: between the last link before the key and the first one beyond it, the one that seems to end closer. With
perfect links the two are k^l and k^(l+1) places away; where the key lies between them is guessed from their values
(`share`). The guess costs a few comparisons and needs no knowledge that a place has not; a wrong one costs a hop, never
an event. So that a message ends, only its first hops may pass the key.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from protocols.gosskip.order import Key, Spot

OVERSHOOT_HOPS: Final = 12
"""So many hops of a message may pass its key. A guess: more than a lookup among 10,000 takes, less than a loop."""
OVERSHOOT_FROM: Final = 0.55
"""The share of the way from the nearer link to the farther one from which on the farther one is taken. Measured with
perfect lists of 1,000 places: anything from 0.5 to 0.65 does equally well."""
EVENT_KEY: Final = 3
"""How many parts the key of an event has."""
WORD: Final = 8
"""Characters of a string that a guess looks at."""


class Table:
    """The links of one place, by key."""

    __slots__ = ("_left_keys", "_lefts", "_me", "_right_keys", "_rights")

    def __init__(self, me: Spot) -> None:
        self._me = me
        self.assign(())

    def assign(self, links: Iterable[Spot]) -> None:
        """Know exactly these links from now on."""
        me = self._me.key
        self._lefts: list[Spot] = []
        self._rights: list[Spot] = []
        former = me
        for spot in sorted(links, key=_key_of):
            if spot.key != me and spot.key != former:  # the same place may be linked at two levels
                (self._lefts if spot.key < me else self._rights).append(spot)
            former = spot.key
        self._left_keys = [spot.key for spot in self._lefts]
        self._right_keys = [spot.key for spot in self._rights]

    @property
    def rights(self) -> list[Spot]:
        """Nearest first."""
        return self._rights

    def leftmost(self) -> Spot | None:
        return self._lefts[0] if self._lefts else None

    def next_hop(self, key: Key, overshoot: bool = False) -> Spot | None:
        """Where to send a message for that key. None: it ends here (or left of the head, if the key is below ours)."""
        if key >= self._me.key:
            at = bisect_right(self._right_keys, key)
            near = self._rights[at - 1] if at else None
            if overshoot and near is not None and at < len(self._rights):
                far = self._rights[at]
                if share(near.key, key, far.key) > OVERSHOOT_FROM:
                    return far
            return near
        start = key[:2] if len(key) == EVENT_KEY else key  # who stands just where an event falls is not passed
        at = bisect_right(self._left_keys, start)
        if at == len(self._lefts):
            return self._lefts[-1] if at else None
        near = self._lefts[at]
        if overshoot and at:
            far = self._lefts[at - 1]
            if share(near.key, key, far.key) > OVERSHOOT_FROM:
                return far
        return near

    def before(self, spot: Spot) -> Spot | None:
        """Where to look for the place before `spot`, which may be linked here already, but does not stand yet."""
        table = Table(self._me)
        table.assign([link for link in (*self._lefts, *self._rights) if link.id != spot.id])
        return table.next_hop(spot.key)


def _key_of(spot: Spot) -> Key:
    return spot.key


def share(near: Key, key: Key, far: Key) -> float:
    """How far a key lies on the way from `near` to `far`, 0 to 1, judged by the first values in which these differ."""
    if near[0] != far[0]:
        return 0.0  # the ends stand in different lists: nothing can be said
    for a, b, c in zip(near[1], key[1], far[1]):
        if a != c:
            if isinstance(a, int):
                return float(abs(b - a) / abs(c - a))
            return _text_share(a, b, c)
    return 0.0


def _text_share(a: str, b: str, c: str) -> float:
    common = 0
    for x, y in zip(a, c):
        if x != y:
            break
        common += 1
    low, at, high = (_number(text[common : common + WORD]) for text in (a, b, c))
    return abs(at - low) / abs(high - low) if high != low else 0.0


def _number(word: str) -> int:
    """A number that grows with the word. Letters beyond the byte range count as the last byte."""
    result = 0
    for letter in word.ljust(WORD, "\0"):
        result = result * 256 + min(ord(letter), 255)
    return result
