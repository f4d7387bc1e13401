"""XPath interests through graceful change: peers join and leave, patterns come and go, and no document is missing.

What `tests/conformance` asks for boxes, in the other language.
"""

from functools import partial
from typing import Any

import pytest

from peerd.sim.invariants import violations
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import DOCUMENTS
from peerd.sim.workloads.workload import Interest
from tests.conformance.support import DRAIN_MS, seeds

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"profile": "paper"},
    "chains": {"profile": "paper", "chain_above": 2},
    "never": {"reorganise": "never", "root_degree": 2},
}


class Readers:
    """A swarm whose peers want documents."""

    def __init__(self, seed: int, name: str, **settings: Any) -> None:
        self._workload = DOCUMENTS[name]
        parameters = {key: str(value) for key, value in settings.items()}
        config = SwarmConfig(overlay="semantic", schema=self._workload.schema, seed=seed, parameters=parameters)
        self.swarm = Swarm(config)
        self._rng = self.swarm.stream("test")
        self._patterns = self.swarm.stream("subscriptions")
        self._documents = self.swarm.stream("events")

    def _interests(self, count: int) -> list[Interest]:
        return self._workload.subscriptions(self._patterns, count)

    def gather(self, peers: int) -> None:
        self.swarm.start_many([self._interests(2) for _ in range(peers)], 50)
        self.swarm.run(50 * peers + 1)
        assert self.swarm.run_until(self.swarm.all_active, 60_000)

    def publish(self, count: int, for_ms: int) -> None:
        for number, document in enumerate(self._workload.documents(self._documents, count)):
            self.swarm.engine.at(
                self.swarm.now_ms + 1 + number * for_ms // count, partial(self.swarm.publish, document)
            )

    def change(self, count: int, for_ms: int) -> None:
        for number in range(count):
            self.swarm.engine.at(self.swarm.now_ms + 1 + number * for_ms // count, self._happen)

    def _happen(self) -> None:
        swarm, rng = self.swarm, self._rng
        node = rng.choice([node for node in swarm.live.values() if node.peer.ready])
        mine = list(swarm.interests[node.index])
        match rng.choice(("join", "leave", "update", "update", "subscribe", "unsubscribe")):
            case "join":
                swarm.start(self._interests(2))
            case "leave" if len(swarm.live) > 8:
                swarm.leave(node)
            case "update" if mine:
                swarm.update(node, rng.choice(mine), self._interests(1)[0])
            case "unsubscribe" if mine:
                swarm.unsubscribe(node, rng.choice(mine))
            case _:
                swarm.subscribe(node, self._interests(1)[0])


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", DOCUMENTS)
@seeds(1, 2)
def test_no_document_is_missing_through_graceful_change(name: str, settings: str, seed: int) -> None:
    readers = Readers(seed, name, **SETTINGS[settings])
    readers.gather(12)
    readers.change(50, 12_000)
    readers.publish(100, 12_000)
    readers.swarm.run(12_000)
    assert readers.swarm.converge(60_000) is not None, violations(readers.swarm)
    readers.publish(20, 1_000)
    readers.swarm.run(DRAIN_MS + 1_000)
    verdict = readers.swarm.oracle.settle()
    assert verdict.missing == []
    assert (verdict.spurious, verdict.at_risk) == (0, 0)
    assert verdict.expected >= 100
