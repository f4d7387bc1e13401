"""News go out at once, but where they never end they go out ever more seldom."""

from itertools import pairwise

import pytest

from protocols.gosskip.pace import AGAIN_MS, HASTE_MAX, Pace
from tests.gosskip.scene import Scene, points


class Clock:
    """The turns of a place at whose level there are news for some time."""

    def __init__(self) -> None:
        scene = Scene(points([1]))
        self._desk = scene.place(scene.nodes[0])._desk
        self._desk.now_ms = 100_000
        self.pace = Pace(self._desk)

    def news(self, level: int, for_ms: int, until_ms: int | None = None) -> list[int]:
        """When they go out, in ms since they began, if there are any until then."""
        begun_ms = self._desk.now_ms
        sent = []
        while self._desk.now_ms < begun_ms + for_ms:
            if until_ms is None or self._desk.now_ms < begun_ms + until_ms:
                self.pace.hasten(level)
            if level in self.pace.take_due(self._desk.now_ms):
                self.pace.sent(self._desk.now_ms, level)
                sent.append(self._desk.now_ms - begun_ms)
            self._desk.now_ms += 100
        return sent


@pytest.mark.parametrize(("level", "calm_ms"), [(0, 1_000), (5, 2_000)])
def test_news_that_never_end_are_in_haste_a_few_times_only(level: int, calm_ms: int) -> None:
    sent = Clock().news(level, 60_000)
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert gaps[: HASTE_MAX - 1] == [500] * (HASTE_MAX - 1)
    assert set(gaps[HASTE_MAX - 1 :]) == {calm_ms}


def test_after_a_while_without_news_they_are_in_haste_again() -> None:
    clock = Clock()
    clock.news(5, 66_000, until_ms=60_000)
    assert clock.news(5, 2_000) == [0, 500, 1_000, 1_500]


def test_for_a_while_after_news_a_level_has_its_turn_more_often() -> None:
    """They may have been lost with their message."""
    clock = Clock()

    def turns(level: int) -> int:
        found = 0
        for _ in range(12):
            clock.pace.ticks += 1
            found += clock.pace.is_turn(level)
        return found

    assert (turns(1), turns(5)) == (6, 2)
    clock.news(5, 100)
    assert (turns(1), turns(5), turns(11)) == (6, 6, 1)
    clock.news(3, AGAIN_MS)
    assert turns(5) == 2


def test_what_has_been_said_at_its_turn_is_no_news() -> None:
    clock = Clock()
    assert clock.news(3, 100) == [0]
    clock.pace.hasten(3)
    assert clock.pace.next_due_ms() is not None
    clock.pace.sent(100_200, 3)
    assert clock.pace.next_due_ms() is None
