"""CYCLON: peer sampling by exchanging parts of small views (Voulgaris, Gavidia, van Steen 2005).

Every peer holds `c` descriptors of others. Once per round it *shuffles*: it ages all entries, takes the oldest one, Q,
out of its view, and sends Q its own fresh descriptor together with l-1 random entries. Q answers with l random entries
of its own. Both take in what they received: entries that are held already are not added again, free slots are filled
first, then the entries that were sent away are overwritten. So links are swapped, not copied: the pointer P -> Q turns
into Q -> P, in-degrees gather closely around c, and the graph of views behaves like a random one. A dead Q does not
answer and stays removed, which is how the dead leave the views without any failure detector.

*Joining.* The introducer sends out c random walks of 5 steps. The peer at the end of a walk puts the newcomer into its
view and sends the newcomer the entry that had to go (`CyclonSwap`). After that the newcomer's in-degree is already c,
and nobody else's has changed.

What goes wrong in published implementations, and is tested here: sampling with replacement, and a self-test on merging
that compares descriptors instead of identities.

Differs from the paper:

- An entry that is held is refreshed if the received descriptor is newer (`View.merge`); the paper drops it. The
  descriptors here carry participants, and the news must travel.
- If a slot is still free after the reply was merged, Q, which has just proved to be alive, goes back into it. In the
  paper every view is full; here a swarm of two would lose its only link.
- The answer leaves out the initiator's own descriptor, which it would throw away, and carries the responder's: what
  goes back into the view is Q's own word, not what was held of it.
- The end of a walk that has room gives the newcomer its own descriptor instead of an entry, so that views fill up while
  the swarm is smaller than a view.
- A reply that comes after two more shuffles were begun (`T_rpc` of 2 s) may only fill free slots.

The sender of a message is who the transport says; what it says of itself replaces whatever was held of it, or a forged
descriptor would live for ever: it outranks all that its victim says, and would be made young whenever the victim
answers. A request also says which refutation is held of its receiver, who outbids it (`Liveness.outbid`) if it is not
its own: everybody else believes the forged one.

What a sender says about others is not trusted to make sense. Entries that name the receiver, name one peer twice, or
have absurd ages do no harm (`View`), and longer lists than `ENTRIES_MAX` do not decode.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, TypeAlias

import msgspec

from protocols.model.bounds import ENTRIES_MAX
from protocols.model.descriptor import PeerDescriptor, PeerEntries, Refutation, Samples
from protocols.model.ids import Address, PeerId, of_peer
from protocols.parts.tombstones import Tombstones
from protocols.parts.view import peer_key, peer_view

CACHE: Final = 20
"""c, the size of the view (paper, section 6: 20 to 50; specification, section 1: 20)."""

SHUFFLE_LENGTH: Final = 8
"""l, how many entries are exchanged (paper, section 6; specification, section 1)."""

WALK_TTL: Final = 5
"""Steps of a joining walk (specification, section 1); the paper asks for about the average path length."""

OUTSTANDING_MAX: Final = 2
"""Shuffles that await their replies: T_rpc over the gossip cycle (specification, section 1)."""


class CyclonRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="cyclon-request"):
    """The initiator's own descriptor, then l-1 of its entries. `held`: the refutation that it holds of the receiver."""

    req_id: int
    entries: PeerEntries
    held: Refutation = 0


class CyclonReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="cyclon-reply"):
    """l entries, and the responder's own descriptor."""

    req_id: int
    entries: PeerEntries
    own: PeerDescriptor | None = None


class CyclonWalk(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="cyclon-walk"):
    """A random walk on behalf of a newcomer, with `ttl` steps to go."""

    joiner: PeerDescriptor
    ttl: int


class CyclonSwap(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="cyclon-swap"):
    """For the newcomer: the entry that made room for it."""

    entry: PeerDescriptor


MESSAGES: Final = (CyclonRequest, CyclonReply, CyclonWalk, CyclonSwap)

Walk: TypeAlias = tuple[Address, CyclonWalk | CyclonSwap]


class Cyclon:
    """One peer's share of CYCLON. `own` is always the peer's present descriptor, with age 0."""

    __slots__ = ("_asked", "_req_id", "_rng", "_tombstones", "_view", "shuffle_length")

    def __init__(
        self,
        me: Address,
        rng: Random,
        tombstones: Tombstones | None = None,
        capacity: int = CACHE,
        shuffle_length: int = SHUFFLE_LENGTH,
    ) -> None:
        if not 1 <= shuffle_length <= min(capacity, ENTRIES_MAX):
            raise ValueError(f"shuffle length {shuffle_length} must be 1 to {min(capacity, ENTRIES_MAX)}")
        self.shuffle_length = shuffle_length
        self._rng = rng
        self._tombstones = Tombstones() if tombstones is None else tombstones
        self._view = peer_view(me, capacity)
        self._req_id = 0
        self._asked: dict[int, tuple[PeerDescriptor, list[PeerId]]] = {}  # Q, and what was sent to it

    def __len__(self) -> int:
        return len(self._view)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._view

    @property
    def capacity(self) -> int:
        return self._view.capacity

    @property
    def is_crowded(self) -> bool:
        """Whether the view is nearly full: an entry is out whenever a shuffle awaits its reply."""
        return 4 * len(self._view) >= 3 * self._view.capacity

    @property
    def round(self) -> int:
        return self._view.round

    def peers(self) -> list[PeerDescriptor]:
        return self._view.descriptors()

    def participants(self) -> Samples:
        """The participants that the peers of the view show."""
        return Samples(self._view.aged)

    def take_echo(self) -> PeerDescriptor | None:
        """What others have passed on about this peer itself since the last time, if anything."""
        echo, self._view.echo = self._view.echo, None
        return echo

    def peer_ids(self) -> list[PeerId]:
        return self._view.held()

    def sample(self, count: int) -> list[PeerDescriptor]:
        """That many peers at random, or all."""
        return self._view.take(self._view.sample(count, self._rng))

    def add(self, descriptor: PeerDescriptor) -> bool:
        """A contact that was come by in another way; it needs a free slot. Returns whether it is held now."""
        view = self._view
        if not view.free and descriptor.address.peer not in view:
            return False
        return not self._buried(descriptor) and view.put(descriptor)

    def forget(self, address: Address) -> bool:
        """This life of the peer is over, or out of reach. Returns whether it was in the view."""
        return self._view.forget(address.peer, address.boot)

    # --- Shuffling ---

    def begin(self, own: PeerDescriptor) -> tuple[Address, CyclonRequest] | None:
        """One round. `None`: the view is empty, and only bootstrap or somebody else's request can help."""
        view = self._view
        view.round += 1
        oldest = view.oldest()
        if oldest is None:
            return None
        target = view.remove(oldest)
        assert target is not None
        return self.shuffle_with(own, target)

    def shuffle_with(self, own: PeerDescriptor, target: PeerDescriptor) -> tuple[Address, CyclonRequest]:
        """A shuffle out of turn with a peer that was met elsewhere.

        This is how two halves of a healed partition mix: all their views are full, so that to `add` a peer of the
        other half would do nothing, while to force it in would make hubs of the seeds that everybody probes.
        """
        view, asked = self._view, self._asked
        sent = view.sample(self.shuffle_length - 1, self._rng)
        if target.address.peer in sent:
            sent.remove(target.address.peer)
        if len(asked) >= OUTSTANDING_MAX:
            del asked[next(iter(asked))]
        self._req_id += 1
        asked[self._req_id] = (target, sent)
        return target.address, CyclonRequest(self._req_id, (own, *view.take(sent)), target.refutation)

    def on_request(self, sender: Address, message: CyclonRequest, own: PeerDescriptor | None = None) -> CyclonReply:
        """The other side of a shuffle. The reply goes to the sender."""
        view = self._view
        for entry in message.entries[:1]:
            self._believe(sender, entry)
        sent = view.sample(self.shuffle_length, self._rng)
        if sender.peer in sent:
            sent.remove(sender.peer)
        reply = CyclonReply(message.req_id, tuple(view.take(sent)), own)
        view.merge(self._living(message.entries), sent)
        return reply

    def on_reply(self, sender: Address, message: CyclonReply) -> None:
        view, own = self._view, message.own
        if own is not None:
            self._believe(sender, own)
        asked = self._asked.get(message.req_id)
        if asked is None or asked[0].address.peer != sender.peer:
            view.merge(self._living(message.entries))
            return
        target, sent = self._asked.pop(message.req_id)
        view.merge(self._living(message.entries), sent)
        if view.free and target.address.peer not in view:
            spoken = own is not None and own.address == target.address
            self.add(own if own is not None and spoken else msgspec.structs.replace(target, age=0))

    def _believe(self, sender: Address, own: PeerDescriptor) -> None:
        """A peer speaks for itself: that replaces what is held of this life of it."""
        if own.address == of_peer(sender):
            self._view.correct(own)

    # --- Joining ---

    def introduce(self, own: PeerDescriptor, joiner: PeerDescriptor) -> list[Walk]:
        """Send a newcomer's walks on their way. A peer that stands alone is the end of all of them itself."""
        others = [d.address for d in self._view.descriptors() if d.address.peer != joiner.address.peer]
        if not others:
            return self._end_walk(own, joiner)
        walk, random = CyclonWalk(joiner, WALK_TTL - 1), self._rng.random
        return [(others[int(random() * len(others))], walk) for _ in range(self._view.capacity)]

    def on_walk(self, own: PeerDescriptor, message: CyclonWalk) -> list[Walk]:
        """Pass the walk on, or end it here. A walk that could not be delivered may be handed in again."""
        joiner, peer = message.joiner, peer_key(message.joiner)
        if peer is None or peer == self._view.me:
            return []
        if message.ttl > 0:
            for step in self._view.sample(2, self._rng):
                if step != peer:
                    to = self._view.take((step,))[0].address
                    return [(to, CyclonWalk(joiner, min(message.ttl, WALK_TTL) - 1))]
        return self._end_walk(own, joiner)

    def on_swap(self, message: CyclonSwap) -> None:
        self.add(message.entry)

    def _end_walk(self, own: PeerDescriptor, joiner: PeerDescriptor) -> list[Walk]:
        view = self._view
        peer = peer_key(joiner)
        if peer is None or peer == view.me or self._buried(joiner):
            return []
        gift = own
        if not view.free and peer not in view:
            gift = view.take(view.sample(1, self._rng))[0]
            view.remove(gift.address.peer)
        view.put(joiner)
        return [(joiner.address, CyclonSwap(gift))]

    # --- Tombstones ---

    def _buried(self, descriptor: PeerDescriptor) -> bool:
        return self._tombstones.hold(descriptor.address, descriptor.refutation)

    def _living(self, entries: Sequence[PeerDescriptor]) -> Sequence[PeerDescriptor]:
        """The entries without the dead; with nobody buried, which is the rule, there is nothing to look through."""
        if not self._tombstones.graves:
            return entries
        return [entry for entry in entries if not self._buried(entry)]
