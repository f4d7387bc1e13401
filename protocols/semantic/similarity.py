"""One participant of the similarity graph (paper, section 4).

**Structure.** Every participant has the n neighbours whose interests are closest to its own, by the metric f_s
(`proximity.py`), and r neighbours at random. VICINITY finds the former, peer sampling shows the latter. Proximity links
are used both ways: whom I choose learns it (`Choose`) and forwards to me too; random links by their owner only.
(The paper leaves the direction open; of the four readings this one comes closest to its figures.)

**Routing.** Algorithm 1: whoever receives an event for the first time, and wants it, forwards it over all proximity
links, and over each random link with probability rho. With indulgence gamma, a copy may pass that many participants who
do not want it. A publisher hands its event to some that it knows to want it (or one at random, from whom it walks on):
it need not want it itself, and its own community may have no way out.

**False negatives** are part of the design: a community that no link leads into misses an event. `exchange_ms` turns on
a repair: neighbours tell each other the ids of what they have received lately, and ask for what they lack.
`peek` tests a neighbour's interest before sending; since whoever does not want an event does not forward it either,
that saves copies and loses nothing.

**States.** new -> joining -> standing -> left. A joiner stands with its first neighbour; its interest is active when
all n + r links are up, or no more can be had.

**Invariants.** Links lead to the living; no more than n + r + `choosers_max`; proximity links are known at both ends.
"""

from random import Random
from sys import intern
from typing import Any, Final

from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy, Event, onward
from protocols.model.ids import Address, EventId
from protocols.model.interest import NOTHING, Interest, is_empty, matches
from protocols.model.schema import Schema
from protocols.overlay import (
    OWN_BOX,
    Dropped,
    Effect,
    Input,
    Join,
    Joined,
    Leave,
    Left,
    Link,
    LinkDown,
    LinkUp,
    Outbox,
    PeerLost,
    Publish,
    Received,
    Rejected,
    Repaired,
    Sampled,
    Subscribe,
    TimerFired,
    Undelivered,
    Unsubscribe,
    Update,
)
from protocols.parts.recent import Recent
from protocols.parts.seen import DUPLICATE, FULL, KEEP_MS, Seen
from protocols.parts.vicinity import Vicinity, VicinityReply, VicinityRequest
from protocols.semantic.config import SemanticConfig
from protocols.semantic.documents import fault_of
from protocols.semantic.gossip import (
    IDS_MAX,
    SHARED_MAX,
    WALK_MAX,
    Choose,
    Chosen,
    RecentIds,
    Samples,
    Spread,
    Unchoose,
    Walk,
    Want,
)
from protocols.semantic.proximity import Sample, extension, parts_of, proximity

NEW: Final = "new"
JOINING: Final = "joining"
STANDING: Final = "standing"
LEFT: Final = "left"

CONTACTS_MAX: Final = 64
"""Participants remembered from peer sampling: three views' worth."""
PATIENCE_ROUNDS: Final = 3
"""Rounds after which an interest is active even if there are fewer links than wanted. A guess."""
ENTRIES_MAX: Final = 3
"""Whom a publisher hands an event to beside its neighbours. A guess: one of them may be in a corner."""
REFRESH_ROUNDS: Final = 10
"""Rounds after which neighbours are told again that they are, and random links are exchanged. A guess."""


class Similarity:
    __slots__ = (
        "_active_version",
        "_config",
        "_contacts",
        "_interests",
        "_me",
        "_out",
        "_random",
        "_recent",
        "_rng",
        "_rounds",
        "_sample",
        "_seen",
        "_space",
        "_version",
        "_vicinity",
        "choosers",
        "chosen",
        "interest",
        "state",
    )

    def __init__(self, me: Address, config: SemanticConfig, schema: Schema, rng: Random) -> None:
        self._me = me
        self._config = config
        self._rng = rng
        self._space = schema.space
        self._out = Outbox(me.slot)
        self.state = NEW
        self.interest: Interest = NOTHING
        self._version = 0
        self._active_version = -1
        self._rounds = 0  # since the interest was taken up
        self._sample = Sample(config.sample_one_in, config.sample_max)
        self._vicinity = Vicinity(me, self._select, rng)
        self.chosen: dict[Address, bool] = {}
        """The n neighbours by proximity, and whether they have agreed."""
        self.choosers: dict[Address, None] = {}
        """Those that chose this one."""
        self._random: dict[Address, None] = {}
        self._interests: dict[Address, Interest] = {}  # of all of them, as they last said
        self._contacts: dict[Address, Descriptor] = {}
        self._seen = Seen(KEEP_MS, config.seen_max)
        self._recent = Recent(max(config.replay_ms, 2 * config.exchange_ms), config.recent_max)

    # --- interface ----------------------------------------------------------------------------------------------------

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        if type(item) is Received:
            handler = self._MESSAGES.get(type(item.message))
            if handler is None:
                self._out.report(Rejected(item.sender, f"{type(item.message).__name__} is not for a participant"))
            elif self.state != LEFT:
                handler(self, now_ms, item.sender, item.message)
        else:
            self._INPUTS[type(item)](self, now_ms, item)
        return self._out.drain()

    def descriptor(self) -> Descriptor:
        connections = len(self._neighbours()) + len(self._random)
        ext = extension(connections, self._sample.bits, self.interest)
        return Descriptor(self._me, self.interest.box, self._version, 0, ext)

    def links(self) -> list[Link]:
        found = [Link("proximity", address) for address in self._neighbours()]
        return found + [Link("random", address) for address in self._random]

    def has_room(self, now_ms: int) -> bool:
        return self._seen.has_room(now_ms)

    # --- joining, interests, leaving ----------------------------------------------------------------------------------

    def _join(self, now_ms: int, item: Join) -> None:
        if self.state != NEW:
            raise ValueError(f"participant {self._me} joins twice")
        self.state = JOINING
        self._out.timer("gossip", now_ms + self._rng.randrange(1, self._config.gossip_ms + 1))
        if self._config.exchange_ms:
            self._out.timer("exchange", self._jittered(now_ms, self._config.exchange_ms))
        if not item.contacts:
            self._stand()
            self._activate()
            return
        for contact in item.contacts:
            self._contacts[contact] = Descriptor(contact, NOTHING.box)
            self._out.send(contact, Choose(self.descriptor()))

    def _stand(self) -> None:
        self.state = STANDING
        self._out.report(Joined())

    def _activate(self) -> None:
        self._active_version = self._version
        self._out.active(OWN_BOX, self._version)

    def _subscribe(self, now_ms: int, item: Subscribe | Update) -> None:
        self._change(Interest(item.box, item.pattern), item.version)

    def _unsubscribe(self, now_ms: int, item: Unsubscribe) -> None:
        self._change(NOTHING, self._version + 1)

    def _change(self, interest: Interest, version: int) -> None:
        self._version, self._rounds = version, 0
        if interest != self.interest:
            self.interest = interest
            self._sample.measure(interest)
            self._out.send_all(list(self.chosen), Choose(self.descriptor()))

    def _leave(self, now_ms: int, item: Leave) -> None:
        self.state = LEFT
        self._out.send_all(self._neighbours(), Unchoose())
        for address in [*self._neighbours(), *self._random]:
            self._forget(address)
        for key in ("gossip", "exchange"):
            self._out.cancel(key)
        self._out.report(Left())

    # --- neighbours ---------------------------------------------------------------------------------------------------

    def _neighbours(self) -> list[Address]:
        return list(self.chosen | dict.fromkeys(self.choosers, True))

    def _select(self, target: Descriptor, candidates: list[Descriptor], count: int) -> list[Descriptor]:
        """The closest to the target; in case of equality those with fewer connections (paper, section 4)."""
        ranked = [(-proximity(self._space, target, each), parts_of(each)[0], each.address, each) for each in candidates]
        ranked.sort(key=lambda entry: entry[:3])
        return [each for _, _, _, each in ranked[:count]]

    def _gossip(self, now_ms: int) -> None:
        """One round: choose neighbours, fill up random links, exchange views."""
        self._out.timer("gossip", self._jittered(now_ms, self._config.gossip_ms))
        self._rounds += 1
        if self.state == STANDING:  # before the exchange, which takes one out of the view until it answers
            self._choose_neighbours()
            self._choose_random()
            wanted = self._config.neighbours + self._config.random_links
            linked = len(self.chosen) + len(self._random) >= wanted and all(self.chosen.values())
            if self._active_version < self._version and (linked or self._rounds >= PATIENCE_ROUNDS):
                self._activate()
        elif self._contacts:
            self._out.send(self._rng.choice(list(self._contacts)), Choose(self.descriptor()))
        begun = self._vicinity.begin(self.descriptor(), list(self._contacts.values()))
        if begun is not None:
            self._out.send(*begun)
            self._share(begun[0])

    def _choose_neighbours(self) -> None:
        """Those of the view that are closest, from now on."""
        own = self.descriptor()
        count = 0 if is_empty(self.interest) else self._config.neighbours
        best = self._select(own, self._vicinity.neighbours(), count)
        wanted = {each.address: each for each in best if proximity(self._space, own, each) > 0.0}
        for address in [each for each in self.chosen if each not in wanted]:
            self._unlink(address)
            self._out.send(address, Unchoose())
        again = self._rounds % REFRESH_ROUNDS == 0
        for address, descriptor in wanted.items():
            if address not in self.chosen:
                self.choose(descriptor)
            if again or not self.chosen[address]:
                self._out.send(address, Choose(own))

    def _choose_random(self) -> None:
        """Keep r links to anybody; now and then one is exchanged, so that communities do not close."""
        wanted = self._config.random_links if not is_empty(self.interest) else max(2, self._config.random_links)
        if self._random and self._rounds % REFRESH_ROUNDS == 0:
            self._drop_random(next(iter(self._random)))
        strangers = [a for a in self._contacts if a not in self._random and a not in self.chosen]
        for address in self._rng.sample(strangers, min(len(strangers), max(0, wanted - len(self._random)))):
            self.link_at_random(self._contacts[address])

    def choose(self, descriptor: Descriptor) -> None:
        """Have somebody as a neighbour; it has to be told."""
        self._link(descriptor.address, descriptor)
        self.chosen[descriptor.address] = False

    def be_chosen(self, descriptor: Descriptor) -> None:
        self._link(descriptor.address, descriptor)
        self.choosers[descriptor.address] = None

    def link_at_random(self, descriptor: Descriptor) -> None:
        self._link(descriptor.address, descriptor, "random")
        self._random[descriptor.address] = None

    def _link(self, address: Address, descriptor: Descriptor, kind: str = "proximity") -> None:
        self._out.watch(address)
        self._out.report(LinkUp(kind, address))
        self._interests[address] = parts_of(descriptor)[2]

    def _unlink(self, address: Address) -> None:
        """Not chosen any more."""
        if self.chosen.pop(address, None) is not None:
            self._dropped(address, "proximity")

    def _drop_random(self, address: Address) -> None:
        if address in self._random:
            del self._random[address]
            self._dropped(address, "random")

    def _drop_chooser(self, address: Address) -> None:
        if address in self.choosers:
            del self.choosers[address]
            self._dropped(address, "proximity")

    def _dropped(self, address: Address, kind: str) -> None:
        self._out.unwatch(address)
        self._out.report(LinkDown(kind, address))
        if address not in self.chosen and address not in self.choosers and address not in self._random:
            self._interests.pop(address, None)

    def _forget(self, address: Address) -> None:
        self._unlink(address)
        self._drop_random(address)
        self._drop_chooser(address)

    def _on_choose(self, now_ms: int, sender: Address, message: Choose) -> None:
        if message.own.address != sender or sender == self._me:
            self._out.report(Rejected(sender, "it does not speak for itself"))
            return
        if self.state != STANDING:
            return  # it asks again
        if sender not in self.choosers:
            if len(self.choosers) >= self._config.choosers_max:
                self._out.send(sender, Unchoose())
                return
            self.be_chosen(message.own)
            self._replay(now_ms, sender)
        self._interests[sender] = parts_of(message.own)[2]
        self._out.send(sender, Chosen(self.descriptor()))

    def _on_chosen(self, now_ms: int, sender: Address, message: Chosen) -> None:
        if message.own.address != sender:
            self._out.report(Rejected(sender, "it does not speak for itself"))
            return
        if self.state == JOINING:
            self._stand()
        if sender in self.chosen:
            if not self.chosen[sender]:
                self._replay(now_ms, sender)
            self.chosen[sender] = True
            self._interests[sender] = parts_of(message.own)[2]
        else:
            self._vicinity.offer(self.descriptor(), [message.own])
            self._out.send(sender, Unchoose())  # it was a contact only

    def _on_unchoose(self, now_ms: int, sender: Address, message: Unchoose) -> None:
        self._drop_chooser(sender)
        self._unlink(sender)

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        self._contacts.pop(item.address, None)
        self._vicinity.forget(item.address)
        if item.address in self._interests:
            self._forget(item.address)
            self._out.report(Repaired("link"))

    def _sampled(self, now_ms: int, item: Sampled) -> None:
        self._contacts = {d.address: d for d in item.descriptors[:CONTACTS_MAX] if d.address != self._me}

    def _on_request(self, now_ms: int, sender: Address, message: VicinityRequest) -> None:
        samples = list(self._contacts.values())
        reply = self._vicinity.on_request(self.descriptor(), sender, message, samples)
        if reply is None:
            self._out.report(Rejected(sender, "it does not describe itself"))
        else:
            self._out.send(sender, reply)

    def _on_reply(self, now_ms: int, sender: Address, message: VicinityReply) -> None:
        self._vicinity.on_reply(self.descriptor(), sender, message, list(self._contacts.values()))

    # --- samples ------------------------------------------------------------------------------------------------------

    def _share(self, to: Address) -> None:
        """Samples travel with gossip: measuring on them must not depend on who forwards what to whom."""
        events = list(self._sample.events())
        if events:
            shared = self._rng.sample(events, min(SHARED_MAX, len(events)))
            self._out.send(to, Samples(tuple(shared)))

    def _on_samples(self, now_ms: int, sender: Address, message: Samples) -> None:
        for event in message.events:
            self._sample.add(event, self.interest)

    # --- events -------------------------------------------------------------------------------------------------------

    def _publish(self, now_ms: int, item: Publish) -> None:
        event = item.event
        if self._seen.admit(now_ms, event.id) is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
            return
        self._take(now_ms, Copy(event), self._me, matches(self.interest, event), self._config.gamma, WALK_MAX)

    def _on_spread(self, now_ms: int, sender: Address, message: Spread) -> None:
        wanted = self._admit(now_ms, sender, message.copy)
        if wanted is not None:
            self._take(now_ms, message.copy, sender, wanted, message.gamma, 0)

    def _on_walk(self, now_ms: int, sender: Address, message: Walk) -> None:
        wanted = self._admit(now_ms, sender, message.copy)
        if wanted is not None:
            self._take(now_ms, message.copy, sender, wanted, self._config.gamma, message.steps)

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
        self._sample.add(event, self.interest)
        if wanted:
            self._recent.add(now_ms, copy)
            self._out.deliver(event, copy.hops)
            self._out.send_all(self._targets(event, sender), Spread(onward(copy), gamma))
            if sender == self._me:
                self._enter(copy, steps)
        elif steps:
            self._enter(copy, steps, sender)
        elif gamma:
            self._out.send_all(self._targets(event, sender), Spread(onward(copy), gamma - 1))

    def _targets(self, event: Event, sender: Address) -> list[Address]:
        """All neighbours by proximity, and of those at random each with probability rho."""
        rho, random = self._config.rho, self._rng.random
        lucky = {address: True for address in self._random if rho >= 1.0 or random() < rho}
        found = self.chosen | dict.fromkeys(self.choosers, True) | lucky
        found.pop(sender, None)
        if not self._config.peek:
            return list(found)
        return [address for address in found if matches(self._interests.get(address, NOTHING), event)]

    def _enter(self, copy: Copy, steps: int, sender: Address | None = None) -> None:
        """Find a way in for an event: through some that are known to want it, else through anybody."""
        known = {d.address: parts_of(d)[2] for d in (*self._vicinity.neighbours(), *self._contacts.values())}
        known |= self._interests
        if sender is not None:
            known.pop(sender, None)
        wanting = [address for address, interest in known.items() if matches(interest, copy.event)]
        if len(wanting) > ENTRIES_MAX:
            wanting = self._rng.sample(wanting, ENTRIES_MAX)
        elif not wanting and known:
            wanting = [self._rng.choice(list(known))]
        self._out.send_all(wanting, Walk(onward(copy), steps - 1))
        if not wanting and sender is not None:
            self._out.report(Dropped(copy.event.id, "no-neighbour"))

    def _replay(self, now_ms: int, to: Address) -> None:
        for copy in self._recent.all(now_ms, self._config.replay_ms):
            if matches(self._interests.get(to, NOTHING), copy.event):
                self._out.send(to, Spread(onward(copy), 0))

    # --- repair -------------------------------------------------------------------------------------------------------

    def _exchange(self, now_ms: int) -> None:
        """Tell a neighbour what we have received lately, as far as it may want it."""
        self._out.timer("exchange", self._jittered(now_ms, self._config.exchange_ms))
        circle = [*self._neighbours(), *self._random]
        if not circle:
            return
        to = self._rng.choice(circle)
        interest = self._interests.get(to, NOTHING)
        lately = [c for c in self._recent.all(now_ms) if matches(interest, c.event)]
        ids: list[EventId] = [copy.event.id for copy in lately]
        if ids:
            self._out.send(to, RecentIds(tuple(self._rng.sample(ids, min(IDS_MAX, len(ids))))))

    def _on_recent_ids(self, now_ms: int, sender: Address, message: RecentIds) -> None:
        missing = tuple(id_ for id_ in message.ids if id_ not in self._seen)
        if missing and self.state == STANDING:
            self._out.send(sender, Want(missing))

    def _on_want(self, now_ms: int, sender: Address, message: Want) -> None:
        for id_ in message.ids:
            copy = self._recent.get(now_ms, id_)
            if copy is not None:
                self._out.send(sender, Spread(onward(copy), 0))
                self._out.report(Repaired("event"))

    # --- dispatch -----------------------------------------------------------------------------------------------------

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        """A broken connection is made anew by sending again; whether the peer is dead is for liveness to say."""
        message = item.message
        if isinstance(message, Spread | Walk):
            if item.to in self._interests and not item.refused:
                self._out.send(item.to, message)
            else:
                self._out.report(Dropped(message.copy.event.id, "undelivered", item.to))

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.key == "gossip":
            self._gossip(now_ms)
        elif item.key == "exchange":
            self._exchange(now_ms)

    def _jittered(self, now_ms: int, period_ms: int) -> int:
        return now_ms + int(period_ms * self._rng.uniform(0.9, 1.1))

    _INPUTS: Final[dict[type, Any]] = {
        Join: _join,
        Leave: _leave,
        Subscribe: _subscribe,
        Update: _subscribe,
        Unsubscribe: _unsubscribe,
        Publish: _publish,
        TimerFired: _timer,
        Undelivered: _undelivered,
        PeerLost: _peer_lost,
        Sampled: _sampled,
    }

    _MESSAGES: Final[dict[type, Any]] = {
        Choose: _on_choose,
        Chosen: _on_chosen,
        Unchoose: _on_unchoose,
        Spread: _on_spread,
        Walk: _on_walk,
        Samples: _on_samples,
        RecentIds: _on_recent_ids,
        Want: _on_want,
        VicinityRequest: _on_request,
        VicinityReply: _on_reply,
    }
