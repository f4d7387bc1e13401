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
    def __init__(self, directory: str, run: str, overlay: str, schema: Schema) -> None:
        self._segments = Segments(place(directory, run, AUTHOR))
        address = Address(AUTHOR, time_ns() // 1_000_000, PEER_SLOT, "")
        self._scribe = Scribe(run, address, overlay, schema)

    def killed(self, member: Member) -> None:
        fields = {"fault": "crash", "about": member.peer, "detail": {"signal": "SIGKILL", "name": member.name}}
        self._segments.write(self._scribe.record(time_ns() // 1000, PEER_SLOT, "fault", fields))
        self._segments.flush()

    def close(self) -> None:
        self._segments.close()
