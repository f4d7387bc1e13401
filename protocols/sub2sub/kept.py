"""What a participant received lately: the copies, with the digests by which neighbours compare them.

Times, copies and digests stand in three lists in the order of reception. So what came within some span of time is a
slice, found by bisection, and what is too old goes as a slice: nothing is looked through. A digest is made when
somebody asks for the first time, and then it is kept.
"""

from bisect import bisect_right
from itertools import islice

from protocols.model.event import Copy
from protocols.parts.digests import digest


class Kept:
    """Copies of the last `keep_ms`, at most `capacity`; beyond that the oldest go. Its owner calls `forget` now and
    then."""

    __slots__ = ("_capacity", "_copies", "_digests", "_keep_ms", "_known", "_times")

    def __init__(self, keep_ms: int, capacity: int) -> None:
        self._keep_ms = keep_ms
        self._capacity = capacity
        self._times: list[int] = []
        self._copies: list[Copy] = []
        self._digests: list[int] = []  # of the first so many
        self._known: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._times)

    def add(self, now_ms: int, copy: Copy) -> None:
        """An event was received, for the first time."""
        self._times.append(now_ms)
        self._copies.append(copy)
        if len(self._times) > self._capacity:
            self._drop(self._capacity // 2)

    def forget(self, now_ms: int) -> None:
        """Let go of what is too old."""
        if self._times and self._times[0] <= now_ms - self._keep_ms:
            self._drop(bisect_right(self._times, now_ms - self._keep_ms))

    def _drop(self, count: int) -> None:
        for each in self._digests[:count]:
            self._known.pop(each, None)  # two ids may share a digest
        del self._times[:count], self._copies[:count], self._digests[:count]

    def held(self, now_ms: int, from_ms: int, to_ms: int) -> list[tuple[int, Copy]]:
        """Digest and copy, as it came, of what came `from_ms` ago or earlier, but less than `to_ms` ago; oldest first,
        and without what has outlived its time."""
        self._digest()
        times = self._times
        first, beyond = bisect_right(times, now_ms - to_ms), bisect_right(times, now_ms - from_ms)
        rows = zip(times[first:beyond], self._digests[first:beyond], self._copies[first:beyond])
        return [(each, copy) for at_ms, each, copy in rows if copy.age_ms + now_ms - at_ms < copy.event.ttl_ms]

    def missing(self, digests: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the digests that are not here."""
        self._digest()
        known = self._known
        return tuple([each for each in digests if each not in known])

    def find(self, now_ms: int, digests: tuple[int, ...]) -> list[Copy]:
        """The copies with these digests that are still here, each with the time that it was held."""
        self._digest()
        wanted = set(digests)
        return [
            Copy(copy.event, copy.hops, copy.age_ms + now_ms - at_ms)
            for at_ms, each, copy in zip(self._times, self._digests, self._copies)
            if each in wanted and copy.age_ms + now_ms - at_ms < copy.event.ttl_ms
        ]

    def _digest(self) -> None:
        """Digest what is not digested yet."""
        fresh = [digest(copy.event.id) for copy in islice(self._copies, len(self._digests), None)]
        self._digests += fresh
        self._known.update(dict.fromkeys(fresh))
