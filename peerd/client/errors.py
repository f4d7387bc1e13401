"""What does not work out.

ClientError
├── Unreachable     nobody answers at that address
├── Refused         the peer said no: `problem` says why
│   └── PushedBack  not now: try again in `retry_after` seconds
└── Gap             `lost` deliveries are gone for this reader (None: nobody knows how many)
"""

import msgspec

from peerd.documents import Problem


class ClientError(Exception):
    """Something did not work out."""


class Unreachable(ClientError):
    """Nobody answers at that address."""


class Refused(ClientError):
    """The peer said no. `accepted` counts the events of a batch that were taken before."""

    def __init__(self, problem: Problem, accepted: int = 0) -> None:
        super().__init__(problem.detail or problem.title)
        self.problem = problem
        self.accepted = accepted

    @property
    def status(self) -> int:
        return self.problem.status


class PushedBack(Refused):
    """Not now. Try again in `retry_after` seconds."""

    @property
    def retry_after(self) -> float:
        return self.problem.retry_after or 1.0


class Gap(ClientError):
    """Deliveries are gone for this reader: `lost` of them, or nobody knows how many."""

    def __init__(self, lost: int | None) -> None:
        super().__init__(f"{'an unknown number of' if lost is None else lost} deliveries are lost")
        self.lost = lost


def refusal(status: int, raw: bytes) -> Refused:
    """What an answer that is a problem says; also when it comes from somebody who knows no problems."""
    try:
        problem = msgspec.json.decode(raw, type=Problem)
    except (ValueError, RecursionError):
        problem = Problem("about:blank", f"HTTP {status}", status, raw[:200].decode("utf-8", "replace"))
    return PushedBack(problem) if status in (429, 503) else Refused(problem)
