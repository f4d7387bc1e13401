"""What stands before a peer's own publishers: how fast they may go, and what they have sent already.

Only here is anybody pushed back: from hop to hop it would deadlock on a cycle (design). A token bucket lets bursts pass
and holds the mean; whoever finds it empty is told when to come again.

A publisher that has lost the answer to its request sends the event again under the same id, and must get that answer
then. So ids are remembered for `REMEMBER_MS`, and none is forgotten early: when the table is full, whoever brings a new
id is pushed back until the oldest ones have had their time. They go in spans of `SPAN_MS`, each a dict that is dropped
whole; that costs one look into each span for every new id, and up to a span more memory than the time alone would.

Of an id only a digest is kept, so a long one costs no more than a short one; of the answer, which is an event id of
this peer's, only its sequence number.
"""

from collections import deque
from hashlib import blake2b
from typing import Final

REMEMBER_MS: Final = 120_000
"""How long a publisher's own id is remembered (contract)."""
SPAN_MS: Final = 10_000
"""Ids that came within so long of each other go together. Our choice: a twelfth of the time that they are kept."""
IDS_MAX: Final = 660_000
"""Ids remembered at the most: a burst of 10,000 and 5,000 a second from then on, for a span more than their time.
Measured: 136 bytes each at that rate, 90 MB when full, and next to nothing when nobody brings ids."""
_DIGEST_BYTES: Final = 15
"""The longest digest that fits 48 bytes as an object: two of 660,000 ids agree once in 10^24 tables."""


class TokenBucket:
    """`rate` a second in the mean, `burst` at once."""

    __slots__ = ("_at_ms", "_burst", "_level", "_rate_ms")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate_ms = rate / 1000
        self._burst = burst
        self._level = burst
        self._at_ms = 0

    def take(self, now_ms: int, count: float = 1.0) -> float:
        """0 if there was enough; else nothing is taken, and it says in how many seconds there will be."""
        level = self._level
        if now_ms > self._at_ms:
            level = min(self._burst, level + (now_ms - self._at_ms) * self._rate_ms)
            self._at_ms = now_ms
        if level < count:
            self._level = level
            return (count - level) / self._rate_ms / 1000
        self._level = level - count
        return 0.0


class PublishedIds:
    """What was published under ids of the publishers' own: the sequence number of the event for each."""

    __slots__ = ("_count", "_ids_max", "_spans")

    def __init__(self, ids_max: int = IDS_MAX) -> None:
        self._ids_max = ids_max
        self._count = 0
        self._spans: deque[tuple[int, dict[bytes, int]]] = deque()  # each with the time of its first id

    def __len__(self) -> int:
        return self._count

    def answer(self, now_ms: int, id_: str) -> int | None:
        """What was published when this id was new, if that was not too long ago."""
        digest = _digest(id_)
        for since_ms, ids in reversed(self._spans):  # an id may be in two: the later one counts
            found = ids.get(digest)
            if found is not None:
                sequence, after_ms = divmod(found, SPAN_MS)
                return sequence if now_ms - since_ms - after_ms < REMEMBER_MS else None
        return None

    def room_in_s(self, now_ms: int) -> float:
        """0 if there is room for another id; else in how many seconds there will be."""
        self.forget_old(now_ms)
        if self._count < self._ids_max:
            return 0.0
        return (self._spans[0][0] + SPAN_MS + REMEMBER_MS - now_ms) / 1000

    def remember(self, now_ms: int, id_: str, sequence: int) -> None:
        """Keep the answer for an id that has none. Ask for room first: this takes it all the same."""
        if not self._spans or now_ms - self._spans[-1][0] >= SPAN_MS:
            self._spans.append((now_ms, {}))
        since_ms, ids = self._spans[-1]
        ids[_digest(id_)] = sequence * SPAN_MS + now_ms - since_ms
        self._count += 1

    def forget_old(self, now_ms: int) -> None:
        """Free the memory of those that have had their time."""
        while self._spans and now_ms - self._spans[0][0] >= SPAN_MS + REMEMBER_MS:
            self._count -= len(self._spans.popleft()[1])


def _digest(id_: str) -> bytes:
    return blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
