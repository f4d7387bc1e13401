"""How an event travels through the similarity graph (paper, sections 2 and 4).

Algorithm 1: whoever receives an event for the first time, and wants it, forwards it over all proximity links, and over
each random link with probability rho. With indulgence gamma, a copy may pass that many participants who do not want it.

A publisher hands its event also to some that it knows to want it (or one at random, from whom it walks on): it need not
want it itself, and its own community may have no way out. Whoever knows nobody at the moment, since the only one who
was known has left, keeps it until there is somebody.

**False negatives** are part of the design: a community that no link leads into misses an event. `exchange_ms` turns on
a repair: neighbours tell each other the ids of what they have received lately, and ask for what they lack.
`peek` tests a neighbour's interest before sending; since whoever does not want an event does not forward it either,
that saves copies and loses nothing.
"""

from collections.abc import Callable, Iterable
from random import Random
from sys import intern
from typing import Final, NamedTuple

from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy, Event, expired, onward
from protocols.model.ids import Address, EventId
from protocols.model.interest import NOTHING, Interest, matches
from protocols.overlay import Dropped, Outbox, Rejected, Repaired
from protocols.parts.recent import Recent
from protocols.parts.seen import DUPLICATE, FULL, KEEP_MS, Seen
from protocols.semantic.circle import Circle
from protocols.semantic.config import SemanticConfig
from protocols.semantic.documents import fault_of
from protocols.semantic.gossip import IDS_MAX, SHARED_MAX, WALK_MAX, RecentIds, Samples, Spread, Walk, Want
from protocols.semantic.proximity import Sample, parts_of

ENTRIES_MAX: Final = 3
"""Whom a publisher hands an event to beside its neighbours. A guess: one of them may be in a corner."""


STRANDED_MAX: Final = 64
"""Events that are kept until there is somebody to give them to. A guess."""


class Stranded(NamedTuple):
    """An event that knew no way on: since when, how far it may still walk, and who had it."""

    since_ms: int
    copy: Copy
    steps: int
    reached: list[Address]


class Spreading:
    __slots__ = (
        "_circle",
        "_config",
        "_known",
        "_me",
        "_out",
        "_recent",
        "_rng",
        "_seen",
        "_stranded",
        "interest",
        "sample",
    )

    def __init__(
        self,
        me: Address,
        circle: Circle,
        known: Callable[[], Iterable[Descriptor]],
        config: SemanticConfig,
        out: Outbox,
        rng: Random,
    ) -> None:
        self._me = me
        self._circle = circle
        self._known = known  # participants that were heard of, neighbours or not: ways in for what is published here
        self._config = config
        self._out = out
        self._rng = rng
        self._seen = Seen(KEEP_MS, config.seen_max)
        self._recent = Recent(max(config.replay_ms, 2 * config.exchange_ms), config.recent_max)
        self._stranded: list[Stranded] = []
        self.interest: Interest = NOTHING
        self.sample = Sample(config.sample_one_in, config.sample_max)

    def has_room(self, now_ms: int) -> bool:
        return self._seen.has_room(now_ms)

    def want(self, interest: Interest) -> None:
        """The interest has changed."""
        self.interest = interest
        self.sample.measure(interest)

    # --- events -------------------------------------------------------------------------------------------------------

    def publish(self, now_ms: int, event: Event) -> None:
        if self._seen.admit(now_ms, event.id) is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
            return
        self._take(now_ms, Copy(event), self._me, matches(self.interest, event), self._config.gamma, WALK_MAX)

    def receive(self, now_ms: int, sender: Address, copy: Copy, gamma: int, steps: int) -> None:
        """`steps`: how far it may still walk if nobody has wanted it yet."""
        wanted = self._admit(now_ms, sender, copy)
        if wanted is not None:
            self._take(now_ms, copy, sender, wanted, gamma, steps)

    def _admit(self, now_ms: int, sender: Address, copy: Copy) -> bool | None:
        """Whether an event that has come is wanted; None if it goes no further."""
        event = copy.event
        admission = self._seen.admit(now_ms, intern(event.id))  # one string for all peers of a process
        if admission is DUPLICATE:
            self._out.reception(event.id, sender, copy.hops, "duplicate")
        elif admission is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
        elif copy.age_ms >= event.ttl_ms:  # `expired`, without the call
            self._out.report(Dropped(event.id, "expired"))
        else:
            if self.interest.pattern and (fault := fault_of(event)):
                self._out.report(Rejected(sender, fault))
            wanted = matches(self.interest, event)
            self._out.reception(event.id, sender, copy.hops, "wanted" if wanted else "unwanted")
            return wanted
        return None

    def _take(self, now_ms: int, copy: Copy, sender: Address, wanted: bool, gamma: int, steps: int) -> None:
        """Deliver it and forward it, if it is wanted here; else let it walk on, or be indulgent."""
        event = copy.event
        self.sample.add(event, self.interest)
        if wanted:
            self._recent.add(now_ms, copy)
            self._out.deliver(event, copy.hops)
            targets = self._targets(event, sender)
            self._out.send_all(targets, Spread(onward(copy), gamma))
            if sender == self._me and not self._enter(copy, steps, targets) and not targets:
                self._strand(Stranded(now_ms, copy, steps, []))
        elif steps:
            if not self._enter(copy, steps, [sender]):
                self._strand(Stranded(now_ms, copy, steps, [sender]))
        elif gamma:
            self._out.send_all(self._targets(event, sender), Spread(onward(copy), gamma - 1))

    def _targets(self, event: Event, sender: Address) -> list[Address]:
        """All neighbours by proximity, and of those at random each with probability rho."""
        circle, rho, random = self._circle, self._config.rho, self._rng.random
        lucky = {address: True for address in circle.random if rho >= 1.0 or random() < rho}
        found = circle.chosen | dict.fromkeys(circle.choosers, True) | lucky
        found.pop(sender, None)
        if not self._config.peek:
            return list(found)
        return [address for address in found if matches(circle.interest_of(address), event)]

    def _enter(self, copy: Copy, steps: int, reached: list[Address]) -> bool:
        """Find a way in for an event: through some that are known to want it, else through anybody; but not through
        those whom it has reached already, who may all be of one community. False: there is nobody."""
        known = {each.address: parts_of(each)[2] for each in self._known()} | self._circle.interests()
        for address in reached:
            known.pop(address, None)
        wanting = [address for address, interest in known.items() if matches(interest, copy.event)]
        if len(wanting) > ENTRIES_MAX:
            wanting = self._rng.sample(wanting, ENTRIES_MAX)
        elif not wanting and known:
            wanting = [self._rng.choice(list(known))]
        self._out.send_all(wanting, Walk(onward(copy), steps - 1))
        return bool(wanting)

    def _strand(self, event: Stranded) -> None:
        if len(self._stranded) < STRANDED_MAX:
            self._stranded.append(event)
        else:
            self._out.report(Dropped(event.copy.event.id, "no-neighbour"))

    def set_out(self, now_ms: int) -> None:
        """There may be somebody by now: try again with what has found nobody."""
        stranded, self._stranded = self._stranded, []
        for each in stranded:
            held_ms = now_ms - each.since_ms
            if expired(each.copy, held_ms):
                self._out.report(Dropped(each.copy.event.id, "no-neighbour"))
            elif not self._enter(
                Copy(each.copy.event, each.copy.hops, each.copy.age_ms + held_ms), each.steps, each.reached
            ):
                self._stranded.append(each)

    def give_up(self) -> None:
        """Nobody will come any more."""
        for each in self._stranded:
            self._out.report(Dropped(each.copy.event.id, "no-neighbour"))
        self._stranded.clear()

    def undelivered(self, to: Address, message: Spread | Walk, refused: bool) -> None:
        """A broken connection is made anew by sending again; whether the peer is dead is for liveness to say."""
        if to in self._circle and not refused:
            self._out.send(to, message)
        else:
            self._out.report(Dropped(message.copy.event.id, "undelivered", to))

    def replay(self, now_ms: int, to: Address) -> None:
        """What has come lately, to a new neighbour."""
        interest = self._circle.interest_of(to)
        for copy in self._recent.all(now_ms, self._config.replay_ms):
            if matches(interest, copy.event):
                self._out.send(to, Spread(onward(copy), 0))

    # --- samples ------------------------------------------------------------------------------------------------------

    def share_samples(self, to: Address) -> None:
        """Samples travel with gossip: measuring on them must not depend on who forwards what to whom."""
        events = list(self.sample.events())
        if events:
            shared = self._rng.sample(events, min(SHARED_MAX, len(events)))
            self._out.send(to, Samples(tuple(shared)))

    # --- repair -------------------------------------------------------------------------------------------------------

    def exchange(self, now_ms: int) -> None:
        """Tell a neighbour what we have received lately, as far as it may want it."""
        circle = self._circle.everybody()
        if not circle:
            return
        to = self._rng.choice(circle)
        interest = self._circle.interest_of(to)
        lately = [c for c in self._recent.all(now_ms) if matches(interest, c.event)]
        ids: list[EventId] = [copy.event.id for copy in lately]
        if ids:
            self._out.send(to, RecentIds(tuple(self._rng.sample(ids, min(IDS_MAX, len(ids))))))

    def ask_for_missing(self, sender: Address, ids: tuple[EventId, ...]) -> None:
        missing = tuple(id_ for id_ in ids if id_ not in self._seen)
        if missing:
            self._out.send(sender, Want(missing))

    def give(self, now_ms: int, to: Address, ids: tuple[EventId, ...]) -> None:
        for id_ in ids:
            copy = self._recent.get(now_ms, id_)
            if copy is not None:
                self._out.send(to, Spread(onward(copy), 0))
                self._out.report(Repaired("event"))
