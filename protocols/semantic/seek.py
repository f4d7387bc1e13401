"""Asking for a parent: one request at a time, to one target after the other.

Whatever makes a participant look for a parent (it joins, its interest has changed, its parent is lost or leaves, it has
found a better one, its tree has to join another) ends in the same request, `Attach`, and the same answer. The purposes
differ in how urgent they are, and in what happens when nobody takes it:

    purpose   when                                            targets, in order                    if all fail
    join      it has no parent yet                            its contacts                         again, for ever
    update    its interest has changed                        its parent, climbing                 again, for ever
    orphan    its parent is gone                              its ancestors, then any contacts     again, for ever
    away      its parent cannot keep it                       whom the parent names, then contacts again, for ever
    keep      its parent has not been heard of                its parent                           nothing
    merge     there is another tree                           somebody in there                    nothing
    move      there is a better parent                        that one                             nothing

A more urgent purpose replaces a less urgent one. An answer to a request that was given up is answered with `Detach`.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from protocols.model.ids import Address
from protocols.model.interest import Interest
from protocols.semantic.messages import Mode

Purpose: TypeAlias = Literal["join", "update", "orphan", "away", "keep", "merge", "move"]
Target: TypeAlias = tuple[Address, Mode]

URGENCY: Final[dict[Purpose, int]] = {"move": 0, "merge": 1, "keep": 2, "away": 3, "orphan": 4, "update": 5, "join": 6}
LASTING: Final = ("join", "update", "orphan", "away")
"""Purposes that are not given up."""
TARGETS_MAX: Final = 16


class Request(msgspec.Struct):
    """The request under way: which target is asked, for which interest, until when; and who is next."""

    req_id: int
    purpose: Purpose
    to: Address
    mode: Mode
    interest: Interest
    until_ms: int
    again: bool
    """Whether the same target is asked once more when time is up."""
    targets: list[Target]


class Seek:
    __slots__ = ("_last_id", "request", "waiting", "waiting_until_ms")

    def __init__(self) -> None:
        self.request: Request | None = None
        self.waiting: Purpose | None = None
        """A lasting purpose that ran out of targets, and tries again at `waiting_until_ms`."""
        self.waiting_until_ms = 0
        self._last_id = 0

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    @property
    def settled_id(self) -> int:
        """The last request that is over: whoever granted it, or one before it, is not waited for."""
        return self._last_id if self.request is None else self.request.req_id - 1

    @property
    def purpose(self) -> Purpose | None:
        """What a parent is sought for now, if at all."""
        return self.request.purpose if self.request is not None else self.waiting

    def may_begin(self, purpose: Purpose) -> bool:
        """Whether nothing more urgent is under way."""
        present = self.purpose
        return present is None or URGENCY[purpose] > URGENCY[present] or (purpose == present and purpose in LASTING)

    def begin(self, now_ms: int, purpose: Purpose, targets: Iterable[Target], interest: Interest, rpc_ms: int) -> bool:
        """Start over with these targets; the first one is to be asked now. False: there is none."""
        self.waiting = None
        queue = list(dict.fromkeys(targets))[:TARGETS_MAX]
        if not queue:
            self.request = None
            return False
        to, mode = queue.pop(0)
        self.request = Request(self.next_id(), purpose, to, mode, interest, now_ms + rpc_ms, True, queue)
        return True

    def is_under_way(self, req_id: int) -> bool:
        return self.request is not None and self.request.req_id == req_id

    def answered(self, req_id: int) -> Request | None:
        """The request that an answer belongs to, which is over; None if it is not the one under way."""
        request = self.request if self.is_under_way(req_id) else None
        if request is not None:
            self.request = None
        return request

    def failed(self, now_ms: int, rpc_ms: int) -> bool:
        """The target refused, is gone, or was silent for too long. True: ask the one that is next now."""
        request = self.request
        if request is None:
            return False
        if not request.targets:
            self.request = None
            if request.purpose in LASTING:
                self.wait(now_ms, request.purpose, rpc_ms)
            return False
        to, mode = request.targets.pop(0)
        self.request = Request(
            self.next_id(), request.purpose, to, mode, request.interest, now_ms + rpc_ms, True, request.targets
        )
        return True

    def overdue(self, now_ms: int, rpc_ms: int) -> bool:
        """Time is up. True: ask (the same one again, or the next)."""
        request = self.request
        if request is None or now_ms < request.until_ms:
            return False
        if request.again:
            request.again, request.until_ms = False, now_ms + rpc_ms
            return True
        return self.failed(now_ms, rpc_ms)

    def wait(self, now_ms: int, purpose: Purpose, for_ms: int) -> None:
        self.waiting, self.waiting_until_ms = purpose, now_ms + for_ms

    def stop(self) -> None:
        self.request = self.waiting = None
