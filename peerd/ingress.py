"""What stands before a peer's own publishers: how fast they may go, and what they have sent already.

Only here is anybody pushed back: from hop to hop it would deadlock on a cycle (design). A token bucket lets bursts pass
and holds the mean; whoever finds it empty is told when to come again.

A publisher that has lost the answer to its request sends the event again under the same id, and must get that answer
then. Ids are remembered for `REMEMBER_MS`, in two generations, so that forgetting costs nothing: when the younger one
is full or has reached that age, it becomes the older one, and what was the older one is gone.
"""

from typing import Final

REMEMBER_MS: Final = 120_000
"""How long a publisher's own id is remembered (contract)."""
IDS_MAX: Final = 100_000
"""Ids remembered at the most, about 25 MB. Our choice: beyond 800 new ones a second they are forgotten early."""


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


class RecentIds:
    """The answers to what was published under an id of the publisher's own."""

    __slots__ = ("_each_max", "_older", "_since_ms", "_younger")

    def __init__(self, ids_max: int = IDS_MAX) -> None:
        self._each_max = max(1, ids_max // 2)
        self._younger: dict[str, tuple[int, str]] = {}
        self._older: dict[str, tuple[int, str]] = {}
        self._since_ms = 0

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def answer(self, now_ms: int, id_: str) -> str | None:
        """What was answered when this id was new, if that was not too long ago."""
        found = self._younger.get(id_) or self._older.get(id_)
        return found[1] if found is not None and now_ms - found[0] < REMEMBER_MS else None

    def remember(self, now_ms: int, id_: str, answer: str) -> None:
        if len(self._younger) >= self._each_max or now_ms - self._since_ms >= REMEMBER_MS:
            self._older, self._younger = self._younger, {}
            self._since_ms = now_ms
        self._younger[id_] = now_ms, answer

    def forget_old(self, now_ms: int) -> None:
        """Free the memory of those that nobody adds to any more."""
        if now_ms - self._since_ms >= 2 * REMEMBER_MS and len(self):
            self._older, self._younger = {}, {}
