"""When gossip of a level goes out: at its turn, every l + 1 periods (paper, Figure 2), and soon where there are news.

*Soon* is at once, but no more often than every `eager_ms`: while a list grows, news come with every message.
"""

from protocols.gosskip.desk import Desk


class Pace:
    """The turns of one place."""

    __slots__ = ("_desk", "_due", "_sent_ms", "ticks")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._due: dict[int, int] = {}  # level -> when its news go out
        self._sent_ms: dict[int, int] = {}
        self.ticks = desk.rng.randrange(64)  # periods; not all places have their turns at the same time

    def is_turn(self, level: int) -> bool:
        return self.ticks % (level + 1) == 0

    def hasten(self, level: int) -> None:
        """There are news at a level."""
        eager_ms = self._desk.config.eager_ms
        if eager_ms:
            self._desk.changed = True
            self._due[level] = self._sent_ms.get(level, -eager_ms) + eager_ms

    def sent(self, now_ms: int, level: int) -> None:
        self._sent_ms[level] = now_ms

    def next_due_ms(self) -> int | None:
        return min(self._due.values(), default=None)

    def take_due(self, now_ms: int) -> list[int]:
        """The levels whose news go out now."""
        due = [level for level, at_ms in self._due.items() if at_ms <= now_ms]
        for level in due:
            del self._due[level]
        return due
