"""One participant of the similarity graph (paper, section 4).

**Parts.** `Circle` holds the neighbours and says who they should be, by the metric f_s (`proximity.py`); `Spreading`
carries events and samples. VICINITY finds neighbours by proximity, peer sampling shows strangers. This module ties them
together: joining, changing, choosing, leaving.

**States.** new -> joining -> standing -> left. A joiner stands with its first neighbour; its interest is active when
all n + r links are up, or no more can be had.

**Invariants.** Links lead to the living; no more than n + r + `choosers_max`; proximity links are known at both ends.
"""

from random import Random
from typing import Any, Final

from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.model.interest import NOTHING, Interest, is_empty
from protocols.model.schema import Schema
from protocols.overlay import (
    OWN_BOX,
    Effect,
    Input,
    Join,
    Joined,
    Leave,
    Left,
    Link,
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
from protocols.parts.vicinity import Vicinity, VicinityReply, VicinityRequest
from protocols.semantic.circle import PROXIMITY, RANDOM, Circle
from protocols.semantic.config import SemanticConfig
from protocols.semantic.gossip import Choose, Chosen, RecentIds, Samples, Spread, Unchoose, Walk, Want
from protocols.semantic.proximity import extension
from protocols.semantic.spreading import Spreading

NEW: Final = "new"
JOINING: Final = "joining"
STANDING: Final = "standing"
LEFT: Final = "left"

CONTACTS_MAX: Final = 64
"""Participants remembered from peer sampling: three views' worth."""
PATIENCE_ROUNDS: Final = 3
"""Rounds after which an interest is active even if there are fewer links than wanted. A guess."""
REFRESH_ROUNDS: Final = 10
"""Rounds after which neighbours are told again that they are, who refused is asked again, and a random link is
exchanged. A guess."""


class Similarity:
    __slots__ = (
        "_active_version",
        "_config",
        "_contacts",
        "_me",
        "_out",
        "_rng",
        "_rounds",
        "_version",
        "_vicinity",
        "circle",
        "spreading",
        "state",
    )

    def __init__(self, me: Address, config: SemanticConfig, schema: Schema, rng: Random) -> None:
        self._me = me
        self._config = config
        self._rng = rng
        self._out = Outbox(me.slot)
        self.state = NEW
        self._version = 0
        self._active_version = -1
        self._rounds = 0  # since the interest was taken up
        self.circle = Circle(config, schema.space, self._out, rng)
        self._vicinity = Vicinity(me, self.circle.select, rng)
        self._contacts: dict[Address, Descriptor] = {}
        self.spreading = Spreading(me, self.circle, self._known, config, self._out, rng)

    @property
    def interest(self) -> Interest:
        return self.spreading.interest

    def _known(self) -> list[Descriptor]:
        return [*self._vicinity.neighbours(), *self._contacts.values()]

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
        ext = extension(len(self.circle.everybody()), self.spreading.sample.bits, self.interest)
        return Descriptor(self._me, self.interest.box, self._version, 0, ext)

    def links(self) -> list[Link]:
        found = [Link(PROXIMITY, address) for address in self.circle.neighbours()]
        return found + [Link(RANDOM, address) for address in self.circle.random]

    def has_room(self, now_ms: int) -> bool:
        return self.spreading.has_room(now_ms)

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
            self.spreading.want(interest)
            own = self.descriptor()
            self._out.send_all(list(self.circle.chosen), Choose(own))
            self._out.send_all(list(self.circle.choosers), Chosen(own))  # or with `peek` they go on testing the old one

    def _leave(self, now_ms: int, item: Leave) -> None:
        self.state = LEFT
        self.spreading.give_up()
        self._out.send_all(self.circle.neighbours(), Unchoose())
        for address in self.circle.everybody():
            self.circle.forget(address)
        for key in ("gossip", "exchange"):
            self._out.cancel(key)
        self._out.report(Left())

    # --- neighbours ---------------------------------------------------------------------------------------------------

    def _gossip(self, now_ms: int) -> None:
        """One round: choose neighbours, fill up random links, exchange views."""
        self._out.timer("gossip", self._jittered(now_ms, self._config.gossip_ms))
        self._rounds += 1
        if self.state == STANDING:  # before the exchange, which takes one out of the view until it answers
            self._choose_neighbours()
            self._choose_random()
            if self._active_version < self._version and (self.circle.is_complete() or self._rounds >= PATIENCE_ROUNDS):
                self._activate()
        elif self._contacts:
            self._out.send(self._rng.choice(list(self._contacts)), Choose(self.descriptor()))
        begun = self._vicinity.begin(self.descriptor(), list(self._contacts.values()))
        if begun is not None:
            self._out.send(*begun)
            self.spreading.share_samples(begun[0])

    def _choose_neighbours(self) -> None:
        """Those of the view that are closest, from now on."""
        own, chosen = self.descriptor(), self.circle.chosen
        again = self._rounds % REFRESH_ROUNDS == 0
        if again:
            self.circle.refused.clear()
        wanted = {} if is_empty(self.interest) else self.circle.closest(own, self._vicinity.neighbours())
        for address in [each for each in chosen if each not in wanted]:
            self.circle.unchoose(address)
            self._out.send(address, Unchoose())
        for address, descriptor in wanted.items():
            if address not in chosen:
                self.circle.choose(descriptor)
            if again or not chosen[address]:
                self._out.send(address, Choose(own))

    def _choose_random(self) -> None:
        """Who wants nothing has two random links at least: they are its only way out."""
        wanted = self._config.random_links if not is_empty(self.interest) else max(2, self._config.random_links)
        self.circle.fill_random(wanted, self._contacts, self._rounds % REFRESH_ROUNDS == 0)

    def _on_choose(self, now_ms: int, sender: Address, message: Choose) -> None:
        if message.own.address != sender or sender == self._me:
            self._out.report(Rejected(sender, "it does not speak for itself"))
            return
        if self.state != STANDING:
            return  # it asks again
        if sender not in self.circle.choosers:
            if len(self.circle.choosers) >= self._config.choosers_max:
                self._out.send(sender, Unchoose())
                return
            self.circle.be_chosen(message.own)
            self.spreading.replay(now_ms, sender)
        self.circle.hear(message.own)
        self._out.send(sender, Chosen(self.descriptor()))

    def _on_chosen(self, now_ms: int, sender: Address, message: Chosen) -> None:
        if message.own.address != sender:
            self._out.report(Rejected(sender, "it does not speak for itself"))
            return
        if self.state == JOINING:
            self._stand()
        chosen = self.circle.chosen
        if sender in chosen:
            if not chosen[sender]:
                self.spreading.replay(now_ms, sender)
            chosen[sender] = True
            self.circle.hear(message.own)
        else:
            self._vicinity.offer(self.descriptor(), [message.own])
            self._out.send(sender, Unchoose())  # it was a contact only

    def _on_unchoose(self, now_ms: int, sender: Address, message: Unchoose) -> None:
        if self.circle.chosen.get(sender) is False:
            self.circle.refused[sender] = None
        self.circle.drop_chooser(sender)
        self.circle.unchoose(sender)

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        self._contacts.pop(item.address, None)
        self._vicinity.forget(item.address)
        if item.address in self.circle:
            self.circle.forget(item.address)
            self._out.report(Repaired("link"))

    def _sampled(self, now_ms: int, item: Sampled) -> None:
        self._contacts = {d.address: d for d in item.descriptors[:CONTACTS_MAX] if d.address != self._me}
        self.spreading.set_out(now_ms)

    def _on_request(self, now_ms: int, sender: Address, message: VicinityRequest) -> None:
        samples = list(self._contacts.values())
        reply = self._vicinity.on_request(self.descriptor(), sender, message, samples)
        if reply is None:
            self._out.report(Rejected(sender, "it does not describe itself"))
        else:
            self._out.send(sender, reply)

    def _on_reply(self, now_ms: int, sender: Address, message: VicinityReply) -> None:
        self._vicinity.on_reply(self.descriptor(), sender, message, list(self._contacts.values()))

    # --- events -------------------------------------------------------------------------------------------------------

    def _publish(self, now_ms: int, item: Publish) -> None:
        self.spreading.publish(now_ms, item.event)

    def _on_spread(self, now_ms: int, sender: Address, message: Spread) -> None:
        self.spreading.receive(now_ms, sender, message.copy, message.gamma, 0)

    def _on_walk(self, now_ms: int, sender: Address, message: Walk) -> None:
        self.spreading.receive(now_ms, sender, message.copy, self._config.gamma, message.steps)

    def _on_samples(self, now_ms: int, sender: Address, message: Samples) -> None:
        for event in message.events:
            self.spreading.sample.add(event, self.interest)

    def _on_recent_ids(self, now_ms: int, sender: Address, message: RecentIds) -> None:
        if self.state == STANDING:
            self.spreading.ask_for_missing(sender, message.ids)

    def _on_want(self, now_ms: int, sender: Address, message: Want) -> None:
        self.spreading.give(now_ms, sender, message.ids)

    # --- dispatch -----------------------------------------------------------------------------------------------------

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        if isinstance(item.message, Spread | Walk):
            self.spreading.undelivered(item.to, item.message, item.refused)

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.key == "gossip":
            self._gossip(now_ms)
        elif item.key == "exchange":
            self._out.timer("exchange", self._jittered(now_ms, self._config.exchange_ms))
            self.spreading.exchange(now_ms)

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
