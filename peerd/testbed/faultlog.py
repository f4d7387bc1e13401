"""What the testbed did to its peers, as log records beside those of the peers: `DIR/run=R/peer=testbed/`."""

from time import time_ns
from typing import Final

from peerd.segments import Segments, place
from peerd.testbed.bed import Member
from peerd.trace import Scribe
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import Schema

AUTHOR: Final = "testbed"


class FaultLog:
    def __init__(self, directory: str, run: str, overlay: str, schema: Schema, author: str = AUTHOR) -> None:
        self._segments = Segments(place(directory, run, author))
        address = Address(author, time_ns() // 1_000_000, PEER_SLOT, "")
        self._scribe = Scribe(run, address, overlay, schema)

    def killed(self, member: Member) -> None:
        self.fault("crash", member.peer, {"signal": "SIGKILL", "name": member.name})

    def fault(self, fault: str, about: str, detail: dict[str, str]) -> None:
        fields = {"fault": fault, "about": about, "detail": detail}
        self._segments.write(self._scribe.record(time_ns() // 1000, PEER_SLOT, "fault", fields))
        self._segments.flush()

    def converged(self, seconds: float) -> None:
        self._control("run.converged", seconds)

    def ended(self) -> None:
        """The run is over: that peers leave from now on means nothing."""
        self._control("run.end", 0.0)

    def _control(self, fact: str, value: float) -> None:
        self._segments.write(self._scribe.control(time_ns() // 1000, fact, value, {}))
        self._segments.flush()

    def close(self) -> None:
        self._segments.close()
