"""What was received lately, in eight bytes an event.

Participants compare what they have received by exchanging digests of event ids. The digests stand in two arrays, with
the times of their reception in the order of reception: what came within some span of time is a slice, found by
bisection, and nothing else is touched. (Looking through the events themselves cost a seventh of a simulated flood.)

A digest costs as much as all else that a relay does to remember an event, and is needed once in a while. So ids are
noted as they come, and digested when somebody asks for them; in a flood most are forgotten before that. What is too old
goes when somebody asks, too: participants ask every few seconds.
"""

from array import array
from bisect import bisect_right
from functools import lru_cache
from hashlib import blake2b

from protocols.model.ids import EventId


@lru_cache(maxsize=1 << 14)
def digest(id_: EventId) -> int:
    """An event id in eight bytes, the same in every process."""
    return int.from_bytes(blake2b(id_.encode(), digest_size=8).digest(), "big")


class Digests:
    """Digests of the last `keep_ms`, at most `capacity`; beyond that the oldest are forgotten."""

    __slots__ = ("_capacity", "_digests", "_fresh", "_keep_ms", "_known", "_times")

    def __init__(self, keep_ms: int, capacity: int) -> None:
        self._keep_ms = keep_ms
        self._capacity = capacity
        self._times = array("Q")
        self._digests = array("Q")
        self._fresh: list[EventId] = []  # received after those, not digested yet
        self._known: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._times)

    def add(self, now_ms: int, id_: EventId) -> None:
        """An event was received, for the first time."""
        self._times.append(now_ms)
        self._fresh.append(id_)
        if len(self._times) > self._capacity:
            self._forget(len(self._times) // 2)

    def missing(self, digests: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the digests that are not here."""
        self._digest(len(self._times))
        known = self._known
        return tuple([each for each in digests if each not in known])

    def received(self, now_ms: int, within_ms: int, before_ms: int) -> tuple[int, ...]:
        """What came less than `within_ms` ago, but `before_ms` ago or earlier."""
        self._forget(bisect_right(self._times, now_ms - self._keep_ms))
        first = bisect_right(self._times, now_ms - within_ms)
        beyond = bisect_right(self._times, now_ms - before_ms)
        self._digest(beyond)
        return tuple(self._digests[first:beyond])

    def _digest(self, count: int) -> None:
        """Digest what is not digested yet of the first so many."""
        late = max(0, count - len(self._digests))
        digests = [digest(id_) for id_ in self._fresh[:late]]
        del self._fresh[:late]
        self._digests.extend(digests)
        self._known.update(dict.fromkeys(digests))

    def _forget(self, count: int) -> None:
        digested = len(self._digests)
        for each in self._digests[:count]:
            self._known.pop(each, None)  # two ids may share a digest
        del self._times[:count], self._digests[:count], self._fresh[: max(0, count - digested)]
