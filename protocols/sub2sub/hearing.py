"""What others say: of themselves, which is believed, and of third parties, which is considered (`ring`).

    RingHello ──> RingReply                a ring link, or somebody on its way to its place
    VicinityRequest ──> VicinityReply      an interest neighbour, or anybody

Each brings the descriptor of whoever speaks, and some others that may be of use to us. Whoever speaks in another one's
name is rejected; what is said of ourselves and is not true is refuted.
"""

from typing import Any, ClassVar

from protocols.model.descriptor import Descriptor
from protocols.model.ids import PEER_SLOT, Address
from protocols.overlay import Message, Outbox, Rejected
from protocols.parts.vicinity import VicinityReply, VicinityRequest
from protocols.sub2sub.gossip import Gossip
from protocols.sub2sub.links import ENTRIES, Links, Sending
from protocols.sub2sub.messages import RingHello, RingReply
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.presence import Presence
from protocols.sub2sub.ring import Ring


class Hearing:
    """`send` charges what it sends. Its owner brings links and claims into line after whatever was learned here."""

    __slots__ = ("_gossip", "_hood", "_links", "_out", "_presence", "_send", "leaving")

    def __init__(
        self, hood: Neighbourhood, links: Links, presence: Presence, gossip: Gossip, send: Sending, out: Outbox
    ) -> None:
        self._hood = hood
        self._links = links
        self._presence = presence
        self._gossip = gossip
        self._send = send
        self._out = out
        self.leaving = False  # whoever greets us is told who is next to it without us

    def on_message(self, now_ms: int, sender: Address, message: Message) -> bool:
        """Returns whether anything may have been learned."""
        own: Descriptor = message.own  # type: ignore[attr-defined] # all four have one
        if not self.speaks_for_itself(sender, own):
            return False
        self._MESSAGES[type(message)](self, now_ms, sender, message)
        return True

    def speaks_for_itself(self, sender: Address, own: Descriptor) -> bool:
        if own.address == sender and sender != self._hood.me and sender.slot != PEER_SLOT:
            return True
        self._out.report(Rejected(sender, "speaks in another participant's name"))
        return False

    def learn(self, now_ms: int, descriptors: tuple[Descriptor, ...]) -> None:
        """Take in what others say, but for what they say of us."""
        for descriptor in descriptors:
            if descriptor.address == self._hood.me:
                self._presence.refute(descriptor)
        self._hood.learn(now_ms, descriptors)

    # --- rings ---

    def _on_ring_hello(self, now_ms: int, sender: Address, message: RingHello) -> None:
        own, hood = message.own, self._hood
        ring = hood.rings.get(message.place)
        if message.leaving:
            if ring is not None:
                self.learn(now_ms, message.entries)
            hood.forget(now_ms, sender)
            hood.claims.disprove(now_ms, sender)  # it will tell the others itself
            return
        if self.leaving and ring is not None:
            entries = ring.best_for(now_ms, own, ENTRIES)
            self._send(sender, RingHello(message.place, hood.own, entries, True))
            return
        self._hear(now_ms, message.place, own, message.entries)
        entries = ()
        if ring is not None:
            self._links.relink(now_ms, ring)
            entries = ring.best_for(now_ms, own, ENTRIES, self._known_beside(ring, own))
            self._links.agreed(now_ms, ring, own)
        self._send(sender, RingReply(message.place, hood.own, entries, own.version))

    def _known_beside(self, ring: Ring, target: Descriptor) -> list[Descriptor]:
        """For a newcomer far from its place also those whom we know otherwise: they may be nearer to it."""
        if (target.address.peer, target.address.slot) in ring.links:
            return []
        return self._hood.alive((*self._hood.interest.neighbours(), *self._hood.samples))

    def _on_ring_reply(self, now_ms: int, sender: Address, message: RingReply) -> None:
        own = message.own
        self._hear(now_ms, message.place, own, message.entries)
        ring = self._hood.rings.get(message.place)
        if ring is not None:
            self._links.relink(now_ms, ring)
            if message.version == self._hood.own.version:
                self._links.agreed(now_ms, ring, own)

    def _hear(self, now_ms: int, place: int, own: Descriptor, entries: tuple[Descriptor, ...]) -> None:
        """A participant of a ring speaks of itself, and of others."""
        self._hood.heard(now_ms, own)
        self._hood.claims.correct(now_ms, place, own)
        self.learn(now_ms, entries)

    # --- interests ---

    def _on_vicinity_request(self, now_ms: int, sender: Address, message: VicinityRequest) -> None:
        self._hood.heard(now_ms, message.own)
        self.learn(now_ms, message.entries)
        self._gossip.on_request(sender, message)

    def _on_vicinity_reply(self, now_ms: int, sender: Address, message: VicinityReply) -> None:
        self._hood.heard(now_ms, message.own)
        self.learn(now_ms, message.entries)
        self._gossip.on_reply(sender, message)

    _MESSAGES: ClassVar[dict[type, Any]] = {
        RingHello: _on_ring_hello,
        RingReply: _on_ring_reply,
        VicinityRequest: _on_vicinity_request,
        VicinityReply: _on_vicinity_reply,
    }
