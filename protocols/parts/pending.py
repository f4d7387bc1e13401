"""Requests that wait for their replies: deadlines, retries, and the end of patience.

Every request carries a `req_id`, and every handler tolerates duplicates and replies to forgotten requests
(specification, section 1). `open` names a request, `close` settles it and hands back what was kept for it, once; a
second reply, or one after the last deadline, finds nothing and is ignored by the caller.

A request that is not settled in time is due: `due` renews it up to `retries` times and says so (`again`: send the same
message with the same id), then gives it up (`failed`).

The table holds at most `capacity` requests, because remote peers can cause requests to be made. When it is full,
`open` answers `None`, and the caller treats that like a failed request.
"""

from typing import Final, Generic, TypeVar

V = TypeVar("V")

T_RPC_MS: Final = 2_000
"""2 s (specification, section 1)."""

RETRIES: Final = 2
"""Specification, section 1."""

CAPACITY: Final = 1_024
"""A guess: far beyond what one participant asks at a time."""


class _Request(Generic[V]):
    __slots__ = ("deadline_ms", "left", "timeout_ms", "value")

    def __init__(self, value: V, deadline_ms: int, timeout_ms: int, left: int) -> None:
        self.value = value
        self.deadline_ms = deadline_ms
        self.timeout_ms = timeout_ms
        self.left = left


class Pending(Generic[V]):
    __slots__ = ("_requests", "capacity", "last_id", "next_ms", "retries", "timeout_ms")

    def __init__(self, timeout_ms: int = T_RPC_MS, retries: int = RETRIES, capacity: int = CAPACITY) -> None:
        self.timeout_ms = timeout_ms
        self.retries = retries
        self.capacity = capacity
        self.last_id = 0
        self.next_ms: int | None = None
        """When to call `due` next: never after the next deadline, but perhaps before it, if that was settled."""
        self._requests: dict[int, _Request[V]] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def open(self, now_ms: int, value: V, timeout_ms: int | None = None, retries: int | None = None) -> int | None:
        """Name a request and keep `value` for its end. `None`: the table is full, nothing was kept."""
        if len(self._requests) >= self.capacity:
            return None
        timeout_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = now_ms + timeout_ms
        self.last_id += 1
        left = self.retries if retries is None else retries
        self._requests[self.last_id] = _Request(value, deadline_ms, timeout_ms, left)
        if self.next_ms is None or deadline_ms < self.next_ms:
            self.next_ms = deadline_ms
        return self.last_id

    def get(self, req_id: int) -> V | None:
        """What was kept for a request that stays open."""
        request = self._requests.get(req_id)
        return None if request is None else request.value

    def items(self) -> list[tuple[int, V]]:
        """The open requests, in the order of opening."""
        return [(req_id, request.value) for req_id, request in self._requests.items()]

    def close(self, req_id: int) -> V | None:
        """Settle a request. `None`: it is unknown, settled already, or given up."""
        request = self._requests.pop(req_id, None)
        if not self._requests:
            self.next_ms = None
        return None if request is None else request.value

    def due(self, now_ms: int) -> tuple[list[tuple[int, V]], list[tuple[int, V]]]:
        """(again, failed): the overdue requests to send once more, and those to give up; in the order of opening."""
        again: list[tuple[int, V]] = []
        failed: list[tuple[int, V]] = []
        if self.next_ms is None or now_ms < self.next_ms:
            return again, failed
        for req_id, request in self._requests.items():
            if request.deadline_ms > now_ms:
                continue
            if request.left > 0:
                request.left -= 1
                request.deadline_ms = now_ms + request.timeout_ms
                again.append((req_id, request.value))
            else:
                failed.append((req_id, request.value))
        for req_id, _ in failed:
            del self._requests[req_id]
        self.next_ms = min((request.deadline_ms for request in self._requests.values()), default=None)
        return again, failed
