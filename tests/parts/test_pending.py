from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from protocols.parts.pending import Pending


def test_retries_twice_then_fails() -> None:
    pending: Pending[str] = Pending()
    assert pending.open(0, "q") == 1
    assert pending.due(1_999) == ([], [])
    assert pending.due(2_000) == ([(1, "q")], [])
    assert pending.due(2_000) == ([], [])
    assert pending.due(4_000) == ([(1, "q")], [])
    assert pending.next_ms == 6_000
    assert pending.due(6_000) == ([], [(1, "q")])
    assert len(pending) == 0
    assert pending.close(1) is None


def test_a_reply_settles_once() -> None:
    pending: Pending[str] = Pending()
    req_id = pending.open(0, "q")
    assert req_id is not None
    assert pending.get(req_id) == "q"
    assert pending.close(req_id) == "q"
    assert pending.close(req_id) is None
    assert pending.close(99) is None
    assert pending.get(99) is None
    assert pending.due(10_000) == ([], [])


class PendingMachine(RuleBasedStateMachine):
    """Against a twin that keeps (deadline, timeout, retries left, value) and looks at all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: Pending[int] = Pending(timeout_ms=100, retries=1, capacity=4)
        self.twin: dict[int, tuple[int, int, int, int]] = {}
        self.now_ms = 0
        self.opened = 0

    @rule(timeout_ms=st.sampled_from([None, 30, 300]), retries=st.sampled_from([None, 0, 2]))
    def open(self, timeout_ms: int | None, retries: int | None) -> None:
        req_id = self.pending.open(self.now_ms, self.opened * 10, timeout_ms, retries)
        if len(self.twin) == 4:
            assert req_id is None
            return
        assert req_id is not None
        assert req_id not in self.twin
        wait_ms = 100 if timeout_ms is None else timeout_ms
        self.twin[req_id] = (self.now_ms + wait_ms, wait_ms, 1 if retries is None else retries, self.opened * 10)
        self.opened += 1

    @rule(offset=st.integers(0, 6))
    def close(self, offset: int) -> None:
        req_id = self.pending.last_id - offset
        known = self.twin.pop(req_id, None)
        assert self.pending.close(req_id) == (None if known is None else known[3])

    @rule(pause_ms=st.integers(0, 150))
    def wait(self, pause_ms: int) -> None:
        self.now_ms += pause_ms

    @precondition(lambda self: self.pending.next_ms is not None)
    @rule()
    def wait_for_the_next(self) -> None:
        assert self.pending.next_ms is not None
        self.now_ms = max(self.now_ms, self.pending.next_ms)

    @rule()
    def due(self) -> None:
        again, failed = [], []
        for req_id, (deadline_ms, wait_ms, left, value) in list(self.twin.items()):
            if deadline_ms > self.now_ms:
                continue
            if left:
                again.append((req_id, value))
                self.twin[req_id] = (self.now_ms + wait_ms, wait_ms, left - 1, value)
            else:
                failed.append((req_id, value))
                del self.twin[req_id]
        assert self.pending.due(self.now_ms) == (again, failed)

    @invariant()
    def is_woken_in_time(self) -> None:
        assert len(self.pending) == len(self.twin)
        deadlines_ms = [request[0] for request in self.twin.values()]
        if deadlines_ms:
            assert self.pending.next_ms is not None
            assert self.pending.next_ms <= min(deadlines_ms)
        else:
            assert self.pending.next_ms is None


TestPending = PendingMachine.TestCase
TestPending.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
