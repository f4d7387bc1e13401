"""When gossip of a level goes out: at its turn, every l + 1 periods (paper, Figure 2), and soon where there are news.

*Soon* is at once, but no more often than every `eager_ms`. While a list grows there are news at all levels at any time,
since whoever joins is one more place on every link across it, and before all have heard of one there is the next. So
news that follow each other are in haste `HASTE_MAX` times; from then on they wait for `CALM_FACTOR` times as long, but
no longer than a period of the level, until there have been none for twice that.

A message may be lost, and its news with it; at a high level the next turn is far. So for a while after news a level has
its turn at every other period.
"""

from typing import Final

from protocols.gosskip.desk import Desk

HASTE_MAX: Final = 24
"""So many news in a row are in haste. A guess: twice what it takes to mend the links after a change."""
CALM_FACTOR: Final = 4
"""So many times as long they wait then. Measured, docs/gosskip.md."""

AGAIN_MS: Final = 30_000
"""For so long after news there are more turns. Measured with 200 peers and 5 % loss (one seed): all links were right
3 s after all places were active, and 80 s after that without these turns."""
AGAIN_TICKS: Final = 2
"""At every other period. A guess."""


class Pace:
    """The turns of one place."""

    __slots__ = ("_desk", "_due", "_news", "_sent_ms", "ticks")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._due: dict[int, int] = {}  # level -> when its news go out
        self._news: dict[int, tuple[int, int]] = {}  # level -> how many there were in a row, and the last ones when
        self._sent_ms: dict[int, int] = {}
        self.ticks = desk.rng.randrange(64)  # periods; not all places have their turns at the same time

    def is_turn(self, level: int) -> bool:
        every = level + 1
        if every > AGAIN_TICKS and level in self._news and self._desk.now_ms < self._news[level][1] + AGAIN_MS:
            every = AGAIN_TICKS
        return self.ticks % every == 0

    def hasten(self, level: int) -> None:
        """There are news at a level."""
        eager_ms, now_ms = self._desk.config.eager_ms, self._desk.now_ms
        if not eager_ms or level in self._due:
            return
        self._desk.changed = True
        calm_ms = max(eager_ms, min(CALM_FACTOR * eager_ms, (level + 1) * self._desk.config.t_ms))
        count, last_ms = self._news.get(level, (0, now_ms))
        count = count + 1 if now_ms - last_ms < 2 * calm_ms else 1
        wait_ms = eager_ms if count <= HASTE_MAX else calm_ms
        self._due[level] = max(now_ms, self._sent_ms.get(level, 0) + wait_ms)
        self._news[level] = count, self._due[level]

    def sent(self, now_ms: int, level: int) -> None:
        self._sent_ms[level] = now_ms
        self._due.pop(level, None)

    def next_due_ms(self) -> int | None:
        return min(self._due.values(), default=None)

    def take_due(self, now_ms: int) -> list[int]:
        """The levels whose news go out now."""
        due = [level for level, at_ms in self._due.items() if at_ms <= now_ms]
        for level in due:
            del self._due[level]
        return due
