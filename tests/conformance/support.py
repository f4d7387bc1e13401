"""A stage for conformance tests: a swarm, a workload, and what every overlay owes.

Nothing here knows an overlay. What differs between them is read from their `Kind`: how fast they converge, and whether
they promise that every owed event arrives (`complete`).
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import pytest

from peerd import registry
from peerd.sim.engine import Node
from peerd.sim.invariants import violations
from peerd.sim.network import NetworkConfig
from peerd.sim.oracle import GRACE_MS, Oracle, Verdict, Version
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import Interest, workload
from peerd.sim.workloads.workload import inside
from protocols.model.event import Attributes
from protocols.model.ids import EventId
from protocols.peer import PeerConfig

JOIN_LIMIT_MS: Final = 60_000
DRAIN_MS: Final = GRACE_MS + 1_000


def choices(name: str, first: Any, *others: Any, ids: Sequence[str] | None = None) -> pytest.MarkDecorator:
    """Parametrises a test: the first value is run whenever the test is, the others with the slow tests."""
    cases = [pytest.param(first), *(pytest.param(other, marks=pytest.mark.slow) for other in others)]
    return pytest.mark.parametrize(name, cases, ids=ids)


def seeds(*each: int) -> pytest.MarkDecorator:
    return choices("seed", *each)


def sizes(small: Sequence[tuple[int, int]], large: Sequence[int] = ()) -> pytest.MarkDecorator:
    """Parametrises a test with `peers` and `seed`: these pairs, and 200 peers with each of the further seeds.

    The first pair is run whenever the test is, the other pairs with the slow tests.
    """
    cases: list[Any] = []
    for number, (peers, seed) in enumerate(small):
        marks = [pytest.mark.slow] if number else []
        cases.append(pytest.param(peers, seed, id=f"{peers}-peers-seed-{seed}", marks=marks))
    cases += [pytest.param(200, seed, id=f"200-peers-seed-{seed}", marks=pytest.mark.large) for seed in large]
    return pytest.mark.parametrize(("peers", "seed"), cases)


class Stage:
    """A swarm of one overlay under one workload; `rng` draws what the test itself decides."""

    def __init__(
        self,
        overlay: str,
        seed: int,
        workload_name: str = "mixed",
        network: NetworkConfig | None = None,
        peer: PeerConfig | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.workload = workload(workload_name)
        self.kind = registry.kind(overlay)
        self.swarm = Swarm(
            SwarmConfig(
                overlay=overlay,
                schema=self.workload.schema,
                seed=seed,
                network=network or NetworkConfig(),
                peer=peer or PeerConfig(),
                parameters=settings or {},
            )
        )
        self.complete = self.kind.complete(self.swarm.parameters)
        self.seed = seed
        self.rng = self.swarm.stream("test")
        self._interests: list[Interest] = []
        self._waiting: list[Interest] = []
        self._interest_rng = self.swarm.stream("subscriptions")
        self._event_rng = self.swarm.stream("events")

    def interest(self) -> Interest:
        """The next interest of the workload."""
        if not self._waiting:
            # by the round: the mixed workload uses its whole language once in each
            self._waiting = self.workload.subscriptions(self._interest_rng, 23)
            self._interests += self._waiting
        return self._waiting.pop(0)

    def interests(self, count: int) -> list[Interest]:
        return [self.interest() for _ in range(count)]

    def updated(self, interest: Interest) -> Interest:
        """What the same subscriber might want next."""
        return self.workload.update(self._interest_rng, interest)

    def events(self, count: int) -> list[Attributes]:
        """Events of the workload, every other one aimed at an interest: those of the papers seldom hit anything."""
        rng, schema = self._event_rng, self.workload.schema
        events = self.workload.events(rng, count, self._interests)
        if self._interests:
            events[::2] = [inside(rng, schema, rng.choice(rng.choice(self._interests).boxes)) for _ in events[::2]]
        return events

    # --- peers --------------------------------------------------------------------------------------------------------

    def gather(self, peers: int, each: int = 1, every_ms: float = 50.0) -> None:
        """Start that many peers with `each` subscriptions, and wait until the swarm has converged."""
        self.swarm.start_many([self.interests(each) for _ in range(peers)], every_ms)
        self.swarm.run(int(peers * every_ms) + 1)
        self.all_stand()
        self.converge()

    def all_stand(self) -> None:
        stood = self.swarm.run_until(self.swarm.all_active, JOIN_LIMIT_MS)
        assert stood, self._told("peers that do not stand", list(self.swarm.oracle.not_ready))

    def living(self) -> list[Node]:
        return list(self.swarm.live.values())

    def some(self, share: float) -> list[Node]:
        """That share of the living peers, drawn at random."""
        living = self.living()
        return self.rng.sample(living, round(share * len(living)))

    def linked_pairs(self) -> list[tuple[Node, Node]]:
        """The pairs of living peers that a link of the overlay joins, each once."""
        by_peer = {node.address.peer: node for node in self.living()}
        pairs: dict[tuple[int, int], tuple[Node, Node]] = {}
        for node in self.living():
            for overlay in node.peer.participants.values():
                for link in overlay.links():
                    other = by_peer.get(link.to.peer)
                    if other is not None and other is not node:
                        pairs[min(node.index, other.index), max(node.index, other.index)] = (node, other)
        return list(pairs.values())

    # --- events and time ----------------------------------------------------------------------------------------------

    def publish(self, count: int, for_ms: int, through: Sequence[Node] = ()) -> None:
        """Publish that many events, spread over the coming `for_ms`, through any peer or through these in turn."""
        for number, attributes in enumerate(self.events(count)):
            node = through[number % len(through)] if through else None
            at_ms = self.swarm.now_ms + 1 + number * for_ms // count
            self.swarm.engine.at(at_ms, partial(self.swarm.publish, attributes, node))

    def run(self, for_ms: int) -> None:
        self.swarm.run(for_ms)

    def converge(self) -> float:
        """Wait until the swarm has converged, which must happen within the bound that the overlay states."""
        limit_s = self.kind.converges_within_s
        taken_s = self.swarm.converge(limit_s * 1000)
        assert taken_s is not None, self._told(f"not converged within {limit_s} s", violations(self.swarm))
        return taken_s

    # --- the guarantees -----------------------------------------------------------------------------------------------

    def finish(self, least_expected: int = 1) -> Verdict:
        """Let everything arrive that will, and check what every overlay owes, whatever has happened.

        `least_expected`: so many owed deliveries there must have been, or the test has shown nothing.
        """
        self.run(DRAIN_MS)
        verdict = self.swarm.oracle.settle()
        assert verdict.spurious == 0, self._told("spurious deliveries", verdict.spurious)
        assert self.swarm.oracle.duplicates == 0, self._told("double deliveries", self.swarm.oracle.duplicates)
        assert verdict.expected >= least_expected, self._told("owed too little to show anything", verdict.expected)
        if self.complete:
            assert not verdict.missing, self._told("owed and missing", verdict.missing)
        return verdict

    def _told(self, what: str, detail: object) -> str:
        return f"overlay {self.kind.name}, seed {self.seed}, at {self.swarm.now_ms} ms: {what}: {detail}"


def gaps(oracle: Oracle) -> list[tuple[EventId, int, str]]:
    """Events that fell into a subscription before, during and after its updates and were not delivered.

    Stricter than `owed`, which asks for 10 s without an update: the contract says that an update leaves no gap.
    """
    histories: dict[tuple[int, str], list[Version]] = {}
    for version in oracle.versions:
        histories.setdefault((version.node, version.subscription_id), []).append(version)
    missing: list[tuple[EventId, int, str]] = []
    for id_, publication in oracle.publications.items():
        at_ms, end_ms = publication.at_ms, publication.at_ms + GRACE_MS
        if any(start <= at_ms <= end for start, end in oracle.risky):
            continue
        for key, versions in histories.items():
            if versions[0].active_ms >= at_ms or versions[-1].ended_ms < end_ms:
                continue
            current = [v for v in versions if v.added_ms <= end_ms and v.served_ms >= at_ms]
            if all(_wants(v, publication.attributes) for v in current) and key not in oracle.arrivals.get(id_, {}):
                missing.append((id_, *key))
    return missing


def _wants(version: Version, attributes: Attributes) -> bool:
    return version.matcher(attributes)


def cut_off(nodes: Iterable[Node]) -> dict[int, int]:
    """The sides of a partition in which these are on one and all others on the other."""
    return {node.index: 1 for node in nodes}
