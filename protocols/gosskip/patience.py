"""When to say something again that was not answered: each time twice as long after.

On machines that are slow, or busy, answers are late, not lost. Whoever says everything again at a constant pace then
says most of it in vain, keeps the others from answering, and has them answer each time.
"""


class Patience:
    __slots__ = ("_due_ms", "_longest_ms", "_wait_ms")

    def __init__(self, first_ms: int, longest_ms: int) -> None:
        self._wait_ms = first_ms
        self._longest_ms = longest_ms
        self._due_ms = 0

    def is_over(self, now_ms: int) -> bool:
        return now_ms >= self._due_ms

    def begin(self, now_ms: int) -> None:
        """It is said now."""
        self._due_ms = now_ms + self._wait_ms
        self._wait_ms = min(2 * self._wait_ms, self._longest_ms)

    def end(self) -> None:
        """There is somebody else to say it to."""
        self._due_ms = 0
