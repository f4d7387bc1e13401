"""How accurate the semantic overlay is, on XML documents and tree patterns (paper 2, section 5, Figures 3 and 4).

*Containment*: a simulated swarm with the real protocol, liveness and sampling left to the oracle, joins overlapping;
documents are published anywhere. As the paper counts, the false positives ratio is over all peers. Beside it stands
the tree that the paper's algorithm makes of the same interests when peers join one after the other and know everything:
it shows how far the three ways to join are apart with this workload.

*Similarity*: the participants are the real ones, and so is routing; who is linked to whom is what VICINITY converges
to, computed (the n nearest by f_s on a sample of 1,000 documents, ties by fewest connections; r at random). False
negatives are over the peers that are interested. Where populations are small one differs from the next by a point, so
the figure is the mean over several (the paper takes 1,000).

`python -m benchmarks semantic` runs what takes a few minutes; `python -m benchmarks.bench_semantic 20000` the paper's
largest population.
"""

import sys
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from statistics import fmean

import numpy as np

from benchmarks.figure import Figure, print_figures
from peerd import registry
from peerd.sim.scenario import Scenario
from peerd.sim.scenario import run as run_scenario
from peerd.sim.summary import Summary
from peerd.sim.swarm import ORACLE_SAMPLE
from peerd.sim.workloads import DOCUMENTS
from protocols.model.event import Body, Event, encode_body
from protocols.model.ids import Address, event_id
from protocols.model.interest import Interest, contains, matches, matches_document
from protocols.model.xpath.document import read
from protocols.overlay import Publish, Received, Reception, Sampled, Send, Subscribe
from protocols.semantic.circle import most_alike
from protocols.semantic.config import SemanticConfig
from protocols.semantic.similarity import STANDING, Similarity

SEED = 1
SAMPLE = 1_000
POPULATIONS = 6
"""Drawn for one figure of the graph, as long as they have not many more peers in all than one of the largest."""
NEWS = DOCUMENTS["xml-news"]


# --- Containment ------------------------------------------------------------------------------------------------------


def containment(peers: int, events: int, **settings: str) -> Summary:
    return run_scenario(
        Scenario(
            overlay="semantic",
            workload="xml-news",
            peers=peers,
            events=events,
            seed=SEED,
            liveness="oracle",
            sampling="oracle",
            settings={"profile": "paper", "repair_ms": "0", **settings},
        )
    )


SHARES = {"always": 1.0, "periodic": 0.1, "never": 0.0}
"""Of the joins, how many reorganise."""


class Sequential:
    """The tree after sequential joins with perfect knowledge (paper, section 3), without its equivalence trees: within
    those nobody receives what it does not want."""

    def __init__(self, peers: int, documents: int, share: float) -> None:
        self._peers = peers
        self._documents = documents
        interests = NEWS.subscriptions(Random(f"{SEED}/subscriptions"), peers)  # those of the simulated swarm
        self._patterns = list(dict.fromkeys(interest.pattern for interest in interests))
        self._parent: dict[str, str | None] = {}
        rng = Random(SEED)
        for pattern in self._patterns:
            self._join(pattern, reorganise=rng.random() < share)

    def _join(self, new: str, reorganise: bool) -> None:
        mine = Interest(NEWS.schema.space.unbounded, new)
        others = {each: Interest(mine.box, each) for each in self._parent}
        above = [each for each, interest in others.items() if contains(interest, mine)]
        self._parent[new] = max(above, key=self._depth, default=None)
        if reorganise:
            below = [each for each, interest in others.items() if contains(mine, interest) and each not in above]
            depth = self._depth(new)
            for each in below:
                if self._depth(self._parent[each]) < depth:
                    self._parent[each] = new

    def _depth(self, pattern: str | None) -> int:
        return 0 if pattern is None else 1 + self._depth(self._parent[pattern])

    def false_positives(self) -> float:
        """In percent of all peers: those that do not want a document, while their parent does, or at the top level."""
        unwanted = 0
        for document in NEWS.documents(Random(f"{SEED}/events"), self._documents):
            read_ = read(document.xml.encode())
            wanted = {each: matches_document(each, read_) for each in self._patterns}
            wanted_above = {each: parent is None or wanted[parent] for each, parent in self._parent.items()}
            unwanted += sum(wanted_above[each] and not wanted[each] for each in self._patterns)
        return 100 * unwanted / (self._documents * self._peers)


def containment_figures(peers: int = 2_500, events: int = 100) -> Iterator[Figure]:
    ratios = {}
    for policy, share in SHARES.items():
        summary = containment(peers, events, reorganise=policy)
        ratios[policy] = summary.fp_ratio
        yield Figure(f"containment, {peers} peers, {policy}: false positives", 100 * summary.fp_ratio, "%", "< 10")
        yield Figure(f"containment, {peers} peers, {policy}: false negatives", summary.false_negatives, "", "<= 0")
        yield Figure(f"containment, {peers} peers, {policy}: violated", summary.invariant_violations or 0, "", "<= 0")
        best = Sequential(peers, events, share).false_positives()
        yield Figure(f"containment, {peers} peers, {policy}: sequential joins", best, "%")
    yield Figure("containment: always against periodic", ratios["always"] / ratios["periodic"], "x", "<= 1")
    yield Figure("containment: periodic against never", ratios["periodic"] / ratios["never"], "x", "<= 1")
    few = containment(peers // 5, events)
    yield Figure(f"containment, {peers // 5} peers: false positives", 100 * few.fp_ratio, "%")
    yield Figure("containment: five times the peers", ratios["always"] / few.fp_ratio, "x", "< 1")
    peeking = containment(peers, events, peek="true")
    yield Figure(f"containment, {peers} peers, peek: false positives", 100 * peeking.fp_ratio, "%", "< 1")
    yield Figure(f"containment, {peers} peers, peek: false negatives", peeking.false_negatives, "", "<= 0")


# --- Similarity -------------------------------------------------------------------------------------------------------


class Graph:
    """Participants of the similarity graph, linked as by an oracle."""

    def __init__(self, peers: int, config: SemanticConfig, seed: int) -> None:
        self._seed = seed
        self._rng = Random(seed)
        self._published = 0
        interests = NEWS.subscriptions(self._rng, peers)
        self._addresses = [Address(f"{number:032x}", 1, 0, f"peer-{number}:1") for number in range(peers)]
        self.participants = [Similarity(each, config, NEWS.schema, self._rng) for each in self._addresses]
        self._by_address = dict(zip(self._addresses, self.participants))
        for participant, interest in zip(self.participants, interests):
            participant.handle(0, Subscribe("box", interest.boxes[0], "", 0, interest.pattern))
            participant.state = STANDING
        self._link(config)
        for participant in self.participants:
            sampled = self._rng.sample(self.participants, ORACLE_SAMPLE)
            participant.handle(0, Sampled(tuple(each.descriptor() for each in sampled)))

    def _link(self, config: SemanticConfig) -> None:
        patterns = [participant.interest.pattern for participant in self.participants]
        distinct = tuple(dict.fromkeys(patterns))
        closest = _closest(distinct, self._seed)
        members: dict[int, list[int]] = {}
        number_of = {pattern: number for number, pattern in enumerate(distinct)}
        for index, pattern in enumerate(patterns):
            members.setdefault(number_of[pattern], []).append(index)
        degree = [0] * len(patterns)
        for index in self._rng.sample(range(len(patterns)), len(patterns)):
            for other in _nearest(index, config, closest[number_of[patterns[index]]], members, degree):
                if self._join(index, other):
                    degree[index] += 1
                    degree[other] += 1
            for other in self._rng.sample(range(len(patterns)), config.random_links):
                if other != index:
                    self.participants[index].circle.link_at_random(self.participants[other].descriptor())

    def _join(self, index: int, other: int) -> bool:
        one, two = self.participants[index], self.participants[other]
        if two.descriptor().address in one.circle.chosen:
            return False
        one.circle.choose(two.descriptor())
        two.circle.be_chosen(one.descriptor())
        return True

    def _event(self) -> Event:
        self._published += 1
        return _event(self._rng, self._published)

    def route(self, documents: int) -> tuple[float, float]:
        """False positives over all peers and false negatives over the interested, in percent."""
        unwanted = missed = interested = 0
        for _ in range(documents):
            event = self._event()
            wanting = [p for p in self.participants if matches(p.interest, event)]
            interested += len(wanting)
            results = self._spread(event)
            unwanted += results["unwanted"]
            missed += len(wanting) - results["wanted"]
        return 100 * unwanted / (documents * len(self.participants)), 100 * missed / max(1, interested)

    def _spread(self, event: Event) -> dict[str, int]:
        publisher = self._rng.choice(self.participants)
        results = {"wanted": int(matches(publisher.interest, event)), "unwanted": 0, "duplicate": 0}
        address = publisher.descriptor().address
        queue = deque([(address, effect) for effect in publisher.handle(0, Publish(event))])
        while queue:
            origin, effect = queue.popleft()
            if isinstance(effect, Reception):
                results[effect.result] += 1
            elif isinstance(effect, Send):
                for to in effect.to:
                    receiver = self._by_address[to]
                    received = Received(origin, 0, effect.message)
                    queue.extend((to, each) for each in receiver.handle(0, received))
        return results


def _event(rng: Random, number: int) -> Event:
    [document] = NEWS.documents(rng, 1)
    body = encode_body(Body(document.attributes, 0, document.xml, "application/xml"))
    return Event(event_id("0" * 32, 1, number), NEWS.schema.point(document.attributes), body)


@lru_cache(maxsize=POPULATIONS)
def _closest(distinct: tuple[str, ...], seed: int) -> list[list[int]]:
    """For each pattern the closest ones by falling f_s, measured on a sample of documents."""
    rng = Random(seed + 1)
    sample = [_event(rng, number) for number in range(SAMPLE)]
    interests = [Interest(NEWS.schema.space.unbounded, each) for each in distinct]
    marks = np.array([[matches(each, event) for each in interests] for event in sample], np.float32).T
    counts = np.maximum(marks.sum(axis=1), 1)
    both = marks @ marks.T
    nearness = (both / counts[:, None] + both / counts[None, :]) / 2
    return [list(map(int, row)) for row in np.argsort(-nearness, axis=1, kind="stable")[:, :64]]


def _nearest(
    index: int, config: SemanticConfig, order: list[int], members: dict[int, list[int]], degree: list[int]
) -> list[int]:
    """The n closest peers, not too many of them alike; in case of equality those with fewer connections."""
    n = config.neighbours
    chosen: list[int] = []
    for pattern in order:
        equals = [each for each in members[pattern] if each != index]
        equals.sort(key=lambda each: degree[each])
        most = most_alike(config, n, len(equals) < len(members[pattern]))
        chosen += equals[: min(most, n - len(chosen))]
        if len(chosen) >= n:
            break
    return chosen


def similarity(peers: int, documents: int, settings: dict[str, str], populations: int = 1) -> tuple[float, float]:
    """False positives and false negatives in percent, on average over so many populations."""
    config = registry.parameters("semantic", {"organisation": "similarity", **settings})
    assert isinstance(config, SemanticConfig)
    graphs = (Graph(peers, config, SEED + number) for number in range(populations))
    false_positives, false_negatives = zip(*(graph.route(documents) for graph in graphs))
    return fmean(false_positives), fmean(false_negatives)


GRAPHS = {
    "rho = 1": ({"peek": "false"}, "< 30", "< 5"),
    "rho = 0.5": ({"peek": "false", "rho": "0.5"}, "<= 15", "<= 5"),
    "rho = 1, the paper's rule": ({"profile": "paper-similarity", "rho": "1"}, "", ""),
    "rho = 0.5, the paper's rule": ({"profile": "paper-similarity"}, "", ""),
    "tuned": ({"profile": "tuned-similarity"}, "<= 7.5", "<= 2.5"),
}
"""Settings of the graph, and the most that its false positives and negatives may be, in percent."""


def similarity_figures(sizes: tuple[int, ...] = (500, 1_000, 2_500, 5_000), documents: int = 60) -> Iterator[Figure]:
    for peers in sizes:
        populations = max(1, min(POPULATIONS, 6_000 // peers))
        found = {}
        for name, (settings, most_positives, most_negatives) in GRAPHS.items():
            found[name] = similarity(peers, documents, settings, populations)
            positives, negatives = found[name]
            yield Figure(f"similarity, {peers} peers, {name}: false positives", positives, "%", most_positives)
            yield Figure(f"similarity, {peers} peers, {name}: false negatives", negatives, "%", most_negatives)
        for number, kind in enumerate(("positives", "negatives")):
            ratio = found["tuned"][number] / found["rho = 0.5, the paper's rule"][number]
            yield Figure(f"similarity, {peers} peers, tuned against the paper: false {kind}", ratio, "x", "<= 0.5")


def run() -> Iterator[Figure]:
    yield from containment_figures()
    yield from similarity_figures()


if __name__ == "__main__":
    sizes = tuple(map(int, sys.argv[1:]))
    sys.exit(0 if print_figures(similarity_figures(sizes) if sizes else run()) else 1)
