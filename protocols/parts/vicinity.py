"""VICINITY: let the right neighbours find each other (Voulgaris, van Steen 2005; as in PolderCast, 2012).

Where CYCLON keeps links random, VICINITY keeps the best ones. "Best" is an injected function, so the same code serves
interest proximity, rings, or whatever else can be stated as

    select(target, candidates, count) -> the `count` candidates that `target` wants most, best first

Once per round a participant ages its view, takes the oldest entry, Q, out of it and sends Q those of its own view and
of the peer sampling that are best *for Q*. Q answers with the best for the initiator. Both then select their new view
from view, received and sampled descriptors together. Neighbours of neighbours are likely neighbours, which makes it
converge in a few rounds, and the random samples keep it from converging to an island.

If the view is empty, and with probability 0.1 anyway, Q is a random sample: this is what finds a better region when all
neighbours agree on a poor one.

Differs from the paper: a message always carries its sender's own descriptor, beside the g best others. The receiver
cannot select for somebody that it does not know, and Q, which was taken out of the view, comes back with its newest box
if it is still wanted. (An implementation that is often copied sends g-1 entries by mistake.)

`select` must not invent descriptors, and is only ever called with candidates that are distinct participants, not the
target itself, and in an order that does not depend on hashes. It is not called when a message brought no participant
that the view does not hold already, and neither own box nor extension have changed since.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from protocols.model.bounds import ENTRIES_MAX
from protocols.model.box import Box
from protocols.model.descriptor import Descriptor, Extension, newer
from protocols.model.ids import PEER_SLOT, Address
from protocols.parts.tombstones import Tombstones
from protocols.parts.view import ParticipantKey, participant_key, participant_view

VIEW: Final = 20
"""v (specification, section 1)."""

GOSSIP_LENGTH: Final = 10
"""g (specification, section 1)."""

RANDOM_TARGET: Final = 0.1
"""How often to talk to a random sample instead of the oldest neighbour (specification, section 1: decided there)."""

Select: TypeAlias = Callable[[Descriptor, list[Descriptor], int], list[Descriptor]]
Entries: TypeAlias = Annotated[tuple[Descriptor, ...], msgspec.Meta(max_length=ENTRIES_MAX)]


class VicinityRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="vicinity-request"):
    """`layer` tells apart several instances within one overlay (interests, rings)."""

    req_id: int
    own: Descriptor
    entries: Entries
    layer: int = 0


class VicinityReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="vicinity-reply"):
    req_id: int
    own: Descriptor
    entries: Entries
    layer: int = 0


MESSAGES: Final = (VicinityRequest, VicinityReply)


class Vicinity:
    """One participant's share of VICINITY.

    `own` is always the participant's present descriptor, with age 0, and `samples` are participants that peer sampling
    has come across lately.
    """

    __slots__ = ("_layer", "_rng", "_select", "_selected_for", "_tombstones", "_view", "gossip_length")

    def __init__(
        self,
        me: Address,
        select: Select,
        rng: Random,
        tombstones: Tombstones | None = None,
        capacity: int = VIEW,
        gossip_length: int = GOSSIP_LENGTH,
        layer: int = 0,
    ) -> None:
        if not 1 <= gossip_length <= ENTRIES_MAX:
            raise ValueError(f"gossip length {gossip_length} must be 1 to {ENTRIES_MAX}")
        self.gossip_length = gossip_length
        self._layer = layer
        self._select = select
        self._rng = rng
        self._tombstones = Tombstones() if tombstones is None else tombstones
        self._view = participant_view(me, capacity)
        self._selected_for: tuple[Box, Extension] | None = None

    def __len__(self) -> int:
        return len(self._view)

    @property
    def round(self) -> int:
        return self._view.round

    def neighbours(self) -> list[Descriptor]:
        return self._view.descriptors()

    def holds(self, address: Address) -> bool:
        """Whether this life of a participant is in the view."""
        held = self._view.get((address.peer, address.slot))
        return held is not None and held.address == address

    def offer(self, own: Descriptor, candidates: Iterable[Descriptor]) -> None:
        """Consider candidates that came in another way (peer sampling, former links)."""
        view = self._view
        fresh: dict[ParticipantKey, Descriptor] = {}
        self._unite(fresh, candidates)
        meant_for = (own.box, own.ext)
        if meant_for == self._selected_for and all(key in view for key in fresh):
            view.merge(fresh.values())
            return
        known: dict[ParticipantKey, Descriptor] = {}
        self._unite(known, view.descriptors())
        self._unite(known, fresh.values())
        self._selected_for = meant_for
        view.assign(self._select(own, list(known.values()), view.capacity))

    def correct(self, own: Descriptor) -> bool:
        """A participant speaks for itself. Returns whether the view held something else of it, which is replaced."""
        key = participant_key(own)
        held = self._view.get(key) if key is not None and key in self._view else None
        if held is None or replace(held, age=own.age) == own:
            return False
        self._view.correct(own)
        return True

    def forget(self, address: Address) -> bool:
        """This life of the participant is over; slot `PEER_SLOT`: of all participants of that peer."""
        if address.slot != PEER_SLOT:
            return self._view.forget((address.peer, address.slot), address.boot)
        slots = [key for key in self._view.held() if key[0] == address.peer]
        return sum(self._view.forget(key, address.boot) for key in slots) > 0

    # --- Gossip ---

    def begin(
        self, own: Descriptor, samples: Sequence[Descriptor], rounds: int = 1
    ) -> tuple[Address, VicinityRequest] | None:
        """One round, or as many as have passed since the last. `None`: nobody is known at all."""
        view = self._view
        view.round += rounds
        target = self._target(samples)
        if target is None:
            return None
        return target.address, VicinityRequest(view.round, own, self._best_for(target, samples), self._layer)

    def on_request(
        self, own: Descriptor, sender: Address, message: VicinityRequest, samples: Sequence[Descriptor]
    ) -> VicinityReply | None:
        """The reply goes to the sender. `None`: it does not describe itself, and nothing was changed."""
        if not _speaks_for_itself(sender, message.own):
            return None
        reply = VicinityReply(message.req_id, own, self._best_for(message.own, samples), self._layer)
        self.offer(own, (message.own, *message.entries, *samples))
        return reply

    def on_reply(self, own: Descriptor, sender: Address, message: VicinityReply, samples: Sequence[Descriptor]) -> None:
        """A reply to a forgotten request is as good as any other: it is only a list of candidates."""
        if _speaks_for_itself(sender, message.own):
            self.offer(own, (message.own, *message.entries, *samples))

    def _target(self, samples: Sequence[Descriptor]) -> Descriptor | None:
        view, rng = self._view, self._rng
        others = [d for d in samples if participant_key(d) not in (None, view.me)]
        if others and (not len(view) or rng.random() < RANDOM_TARGET):
            chosen = others[int(rng.random() * len(others))]
            view.remove((chosen.address.peer, chosen.address.slot))
            return chosen
        oldest = view.oldest()
        return None if oldest is None else view.remove(oldest)

    def _best_for(self, target: Descriptor, samples: Iterable[Descriptor]) -> tuple[Descriptor, ...]:
        known: dict[ParticipantKey, Descriptor] = {}
        self._unite(known, self._view.descriptors())
        self._unite(known, samples)
        known.pop((target.address.peer, target.address.slot), None)
        return tuple(self._select(target, list(known.values()), self.gossip_length)[: self.gossip_length])

    def _unite(self, known: dict[ParticipantKey, Descriptor], candidates: Iterable[Descriptor]) -> None:
        """Add the candidates that are alive and not me; of two about one participant, keep the newer."""
        me = self._view.me
        hold = self._tombstones.hold if self._tombstones.graves else None
        for candidate in candidates:
            key = participant_key(candidate)
            if key is None or key == me or (hold is not None and hold(candidate.address)):
                continue
            held = known.get(key)
            known[key] = candidate if held is None else newer(candidate, held)


def _speaks_for_itself(sender: Address, own: Descriptor) -> bool:
    """Whether a descriptor names the participant that the transport says has sent it."""
    return own.address.peer == sender.peer and own.address.slot == sender.slot and own.address.slot != PEER_SLOT
