"""The oracle: it sees everything and knows what is owed.

An event is *owed* to a subscription that was active before the publication and unchanged, on a living peer, for 10 s
after it. Around a fault (a crash, a partition, a reset), events published from 10 s before it until the structure has
converged again are *at risk*: they are counted apart. The oracle collects what happened during the run and settles all
of it at the end, with the same exact matching that peers use, over all subscriptions at once.

It serves the simulator and, for living peers, the testbed: a peer is anything that has a number, and a time is in
milliseconds from wherever the caller counts.
"""

from functools import partial
from math import inf
from typing import Final, Protocol

import msgspec

from protocols.model.box import Box
from protocols.model.event import Attributes, Event
from protocols.model.filter import Matcher
from protocols.model.ids import PEER_SLOT, EventId
from protocols.model.index import LocalIndex
from protocols.model.xpath.document import document_of
from protocols.overlay import Active, Deliver, Dropped, Joined, Left, Lost, Reception, Rejected, Repaired, Report

GRACE_MS: Final = 10_000
"""How long a subscription must stay unchanged after a publication, and how far a fault reaches back (design)."""


class Numbered(Protocol):
    """A peer, as far as the oracle is concerned."""

    @property
    def index(self) -> int: ...


class Version(msgspec.Struct):
    """One filter of one subscription: when it was added, when active, until when owed, and until when served.

    The two ends differ for an update: the old filter is served until the new one is active.
    """

    node: int
    subscription_id: str
    boxes: tuple[Box, ...]
    matcher: Matcher
    added_ms: float
    pattern: str = ""
    active_ms: float = inf
    ended_ms: float = inf
    served_ms: float = inf


class Publication(msgspec.Struct, frozen=True):
    event: Event
    attributes: Attributes
    at_ms: float
    participants: int


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A delivery to one subscription."""

    at_ms: float
    hops: int


class Verdict(msgspec.Struct):
    """What a run came to, settled at its end."""

    expected: int = 0
    false_negatives: int = 0
    at_risk: int = 0
    at_risk_missing: int = 0
    spurious: int = 0
    missing: list[tuple[EventId, int, str]] = []


class Oracle:
    def __init__(self) -> None:
        self.versions: list[Version] = []
        self.publications: dict[EventId, Publication] = {}
        self.arrivals: dict[EventId, dict[tuple[int, str], Arrival]] = {}
        self.duplicates = 0
        self.receptions: dict[str, int] = dict.fromkeys(("wanted", "unwanted", "duplicate", "touched", "late"), 0)
        """By result; `late`: a replay to a peer that did not stand yet when the event was published."""
        self.dropped: dict[str, int] = {}
        self.rejected = 0
        self.repaired = 0
        self.lost = 0  # how often a peer was declared dead by another that watched it
        self.participants = 0  # how many stand now
        self.not_ready: dict[int, None] = {}
        self.inactive: dict[tuple[int, str], None] = {}
        self.left: dict[int, None] = {}
        self.risky: list[tuple[float, float]] = []  # when events were at risk
        self._current: dict[tuple[int, str], list[Version]] = {}
        self._standing: dict[int, int] = {}
        self._stood_ms: dict[int, float] = {}  # when a peer's first participant stood

    # --- told by the scenario -----------------------------------------------------------------------------------------

    def peer_started(self, node: Numbered) -> None:
        self.not_ready[node.index] = None
        self._standing[node.index] = 0

    def peer_ended(self, now_ms: float, node: Numbered) -> None:
        """Crashed, or told to leave: from now on nothing is owed to it (a leaver still serves its own)."""
        self.not_ready.pop(node.index, None)
        self.participants -= self._standing.pop(node.index, 0)
        for key in [key for key in self._current if key[0] == node.index]:
            self.inactive.pop(key, None)
            for version in self._current.pop(key):
                version.ended_ms = min(version.ended_ms, now_ms)

    def subscribed(
        self, now_ms: float, node: Numbered, id_: str, boxes: tuple[Box, ...], matcher: Matcher, pattern: str = ""
    ) -> None:
        """A subscription was added, or given another filter."""
        key = node.index, id_
        for former in self._current.get(key, ()):
            former.ended_ms = min(former.ended_ms, now_ms)
        version = Version(node.index, id_, boxes, matcher, now_ms, pattern)
        self.versions.append(version)
        self._current.setdefault(key, []).append(version)
        self.inactive[key] = None

    def unsubscribed(self, now_ms: float, node: Numbered, id_: str) -> None:
        self.inactive.pop((node.index, id_), None)
        for version in self._current.pop((node.index, id_)):
            version.ended_ms = min(version.ended_ms, now_ms)
            version.served_ms = min(version.served_ms, now_ms)

    def published(self, now_ms: float, event: Event, attributes: Attributes) -> None:
        self.publications[event.id] = Publication(event, attributes, now_ms, self.participants)

    def fault(self, now_ms: float) -> None:
        """From 10 s before now until `converged`, events are at risk."""
        if self.at_risk:
            return
        self.risky.append((now_ms - GRACE_MS, inf))

    @property
    def at_risk(self) -> bool:
        """Whether there was a fault after which the structure has not converged yet."""
        return bool(self.risky) and self.risky[-1][1] == inf

    def converged(self, now_ms: float) -> None:
        if self.at_risk:
            self.risky[-1] = (self.risky[-1][0], now_ms)

    # --- told by the engine -------------------------------------------------------------------------------------------

    def on_active(self, now_ms: float, node: Numbered, effect: Active) -> None:
        self.activated(now_ms, node, effect.id)

    def activated(self, now_ms: float, node: Numbered, id_: str) -> None:
        """The newest filter of a subscription stands in the overlay."""
        key = node.index, id_
        versions = self._current.get(key)
        if versions:
            *former, newest = versions
            newest.active_ms = min(newest.active_ms, now_ms)
            for version in former:
                version.served_ms = min(version.served_ms, now_ms)
            self._current[key] = [newest]
            self.inactive.pop(key, None)

    def on_deliver(self, now_ms: float, node: Numbered, effect: Deliver) -> None:
        self.delivered(now_ms, node, effect.event.id, effect.subscription_ids, effect.hops)

    def delivered(self, now_ms: float, node: Numbered, event_id: EventId, ids: tuple[str, ...], hops: int) -> None:
        """An event was delivered to these subscriptions."""
        arrivals = self.arrivals.setdefault(event_id, {})
        for id_ in ids:
            if (node.index, id_) in arrivals:
                self.duplicates += 1
            else:
                arrivals[node.index, id_] = Arrival(now_ms, hops)

    def on_reception(self, now_ms: float, node: Numbered, effect: Reception, size: int) -> None:
        result: str = effect.result
        if result != "duplicate" and self._came_later(node, effect.event_id):
            result = "late"
        self.receptions[result] += 1

    def _came_later(self, node: Numbered, event_id: EventId) -> bool:
        publication = self.publications.get(event_id)
        return publication is not None and self._stood_ms.get(node.index, inf) > publication.at_ms

    def on_report(self, now_ms: float, node: Numbered, effect: Report) -> None:
        fact = effect.fact
        if isinstance(fact, Dropped):
            self.dropped[fact.reason] = self.dropped.get(fact.reason, 0) + 1
        elif isinstance(fact, Rejected):
            self.rejected += 1
        elif isinstance(fact, Repaired):
            self.repaired += 1
        elif isinstance(fact, Lost):
            self.lost += 1
        elif isinstance(fact, Joined | Left):
            self.stood(now_ms, node, effect.slot, isinstance(fact, Joined))

    def stood(self, now_ms: float, node: Numbered, slot: int, joined: bool) -> None:
        """The peer itself, or one of its participants, has joined or left."""
        if slot == PEER_SLOT:
            if joined:
                self.not_ready.pop(node.index, None)
            else:
                self.left[node.index] = None
        elif node.index in self._standing:
            self._stood_ms.setdefault(node.index, now_ms)
            self._standing[node.index] += 1 if joined else -1
            self.participants += 1 if joined else -1

    # --- the verdict --------------------------------------------------------------------------------------------------

    def settle(self, before_ms: float = inf) -> Verdict:
        """Compare what arrived with what was owed, for the events published before that time."""
        verdict = Verdict()
        publications = [each for each in self.publications.values() if each.at_ms < before_ms]
        if not publications:
            return verdict
        index = LocalIndex()
        for number, version in enumerate(self.versions):
            index.add(str(number), version.boxes, version.matcher, version.pattern)
        for publication in publications:
            event = publication.event
            numbers = index.match(event.point, publication.attributes, partial(document_of, event.body))
            self._settle_one(publication, [self.versions[int(n)] for n in numbers], verdict)
        return verdict

    def forget(self, before_ms: float) -> None:
        """Forget the events published before that time, and what only they need: for a run without an end.

        Settle them first. Arrivals of events that nobody told of are kept as long as the others.
        """
        for id_ in [id_ for id_, each in self.publications.items() if each.at_ms < before_ms]:
            del self.publications[id_]
            self.arrivals.pop(id_, None)
        for id_ in [
            id_
            for id_, arrivals in self.arrivals.items()
            if id_ not in self.publications and all(arrival.at_ms < before_ms for arrival in arrivals.values())
        ]:
            del self.arrivals[id_]
        self.versions = [each for each in self.versions if min(each.ended_ms, each.served_ms) >= before_ms]
        self.risky = [(start, end) for start, end in self.risky if end >= before_ms]

    def _settle_one(self, publication: Publication, matching: list[Version], verdict: Verdict) -> None:
        id_, at_ms = publication.event.id, publication.at_ms
        arrivals = self.arrivals.get(id_, {})
        risky = any(start <= at_ms <= end for start, end in self.risky)
        for version in matching:
            if version.active_ms >= at_ms or version.ended_ms < at_ms + GRACE_MS:
                continue  # in the same millisecond nobody can say which came first
            missing = (version.node, version.subscription_id) not in arrivals
            if risky:
                verdict.at_risk += 1
                verdict.at_risk_missing += missing
                continue
            verdict.expected += 1
            verdict.false_negatives += missing
            if missing:
                verdict.missing.append((id_, version.node, version.subscription_id))
        served: dict[tuple[int, str], float] = {}
        for version in matching:
            if version.served_ms >= at_ms:  # the first of them that was there: a later one may match as well
                served.setdefault((version.node, version.subscription_id), version.added_ms)
        verdict.spurious += sum(served.get(key, inf) > arrival.at_ms for key, arrival in arrivals.items())
