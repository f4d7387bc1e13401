"""No row stands longer than its lease, so that what belongs elsewhere, or to nobody, goes by itself."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerd.sim.invariants.chord.circle import members
from protocols.chord.config import ChordConfig

if TYPE_CHECKING:
    from peerd.sim.swarm import Swarm


def check(swarm: "Swarm") -> Iterator[str]:
    config = swarm.parameters
    assert isinstance(config, ChordConfig)
    late_ms = swarm.now_ms - 2 * config.digest_ms  # what has expired goes with the next comparison of copies
    for member in members(swarm):
        for row, lease_ms in member.chord.storage.rows.all():
            if not late_ms <= lease_ms <= swarm.now_ms + config.lease_ms:
                yield f"peer {member.number} holds row {row.number} of {row.access} without a lease"
