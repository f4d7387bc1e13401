"""The queue of buckets against a slow twin: one sorted list."""

from hypothesis import given
from hypothesis import strategies as st

from peerd.sim.timeline import Entry, Timeline


class SlowTimeline:
    """All entries in one list, in the order of their time and, within a moment, of their arrival."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._entries: list[tuple[int, int, Entry]] = []
        self._count = 0

    def put(self, at_ms: int, entry: Entry) -> None:
        self._count += 1
        self._entries.append((max(at_ms, self.now_ms + 1), self._count, entry))
        self._entries.sort(key=lambda each: each[:2])

    def take(self, until_ms: int) -> list[Entry] | None:
        if not self._entries or self._entries[0][0] > until_ms:
            self.now_ms = max(self.now_ms, until_ms)
            return None
        self.now_ms = self._entries[0][0]
        taken = [entry for at_ms, _, entry in self._entries if at_ms == self.now_ms]
        self._entries = [each for each in self._entries if each[0] != self.now_ms]
        return taken

    def __len__(self) -> int:
        return len(self._entries)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(-5, 60)),
        st.tuples(st.just("take"), st.integers(0, 30)),
    ),
    max_size=60,
)


@given(steps)
def test_against_the_slow_twin(script: list[tuple[str, int]]) -> None:
    fast, slow = Timeline(), SlowTimeline()
    for number, (step, value) in enumerate(script):
        if step == "put":
            at_ms = fast.now_ms + value - 5
            fast.put(at_ms, (number,))
            slow.put(at_ms, (number,))
        else:
            until_ms = fast.now_ms + value
            assert fast.take(until_ms) == slow.take(until_ms)
        assert fast.now_ms == slow.now_ms
        assert len(fast) == len(slow)


def test_what_is_put_while_a_moment_is_handled_comes_after_it() -> None:
    timeline = Timeline()
    timeline.put(10, ("first",))
    assert timeline.take(100) == [("first",)]
    timeline.put(10, ("now",))
    timeline.put(3, ("past",))
    assert timeline.take(100) == [("now",), ("past",)]
    assert timeline.now_ms == 11


def test_time_never_runs_backwards() -> None:
    timeline = Timeline()
    assert timeline.take(50) is None
    assert timeline.take(20) is None
    assert timeline.now_ms == 50


def test_what_is_withdrawn_comes_no_more() -> None:
    timeline = Timeline()
    for number, at_ms in enumerate((30, 10, 20, 10, 30)):
        timeline.put(at_ms, (number,))
    assert timeline.withdraw(lambda entry: entry[0] in (0, 2, 3)) == [(3,), (2,), (0,)]
    taken = []
    while (entries := timeline.take(100)) is not None:
        taken += entries
    assert taken == [(1,), (4,)]
