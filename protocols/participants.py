"""The participants of one peer: overlay objects that come and go as subscriptions do.

`grouping` or `individual` decide what there should be; here it is done. A participant is

    made -> joining -> standing -> dismissed -> gone

It joins through a sibling that stands, and the first one through a contact, or through nobody where the swarm begins. A
peer that stands goes on to do so: of participants that are dismissed, the last that stands is not told before another
one does.

Participants are not stepped here. What they have to be told is queued in `work`, which the peer goes through.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from protocols.grouping import Change
from protocols.model.descriptor import Descriptor, Standing
from protocols.model.ids import Address, in_slot
from protocols.model.schema import Schema
from protocols.overlay import (
    OWN_BOX,
    Input,
    Join,
    Kind,
    Leave,
    Overlay,
    SetBudget,
    Siblings,
    Subscribe,
    Unsubscribe,
    Update,
)

SHOWN_MAX: Final = 4
"""Participants that a peer names in its descriptor: enough to meet any of 16 within a few gossip cycles."""


class Participants:
    __slots__ = (
        "_config",
        "_dismissed",
        "_kind",
        "_me",
        "_rng",
        "_schema",
        "_unjoined",
        "_upload",
        "overlays",
        "standing",
        "work",
    )

    def __init__(self, me: Address, kind: Kind, config: Any, schema: Schema, upload: float | None, rng: Random) -> None:
        """`upload`: what the participants may spend in all, per cycle. `schema`: what the swarm began with."""
        self._me = me
        self._kind = kind
        self._config = config
        self._schema = schema
        self._upload = upload
        self._rng = rng
        self.overlays: dict[int, Overlay] = {}
        self.standing: dict[int, None] = {}
        self._unjoined: dict[int, None] = {}
        self._dismissed: dict[int, bool] = {}  # has to go -> whether it was told
        self.work: deque[tuple[int, Input]] = deque()

    def lasting(self) -> list[int]:
        """Those that stand and stay; if there is none, those that stand and have to go."""
        return [slot for slot in self.standing if slot not in self._dismissed] or list(self.standing)

    def tell_all(self, item: Input) -> None:
        self.work.extend((slot, item) for slot in self.overlays)

    # --- coming and going ---------------------------------------------------------------------------------------------

    def apply(self, changes: Sequence[Change]) -> None:
        """Do what was decided. Those that are made join when they are let (`let_join`)."""
        for change in changes:
            if change.action == "update":
                self.work.append((change.slot, Update(change.id, change.box, "", change.version, change.pattern)))
            elif change.action == "subscribe":
                self.work.append((change.slot, Subscribe(change.id, change.box, "", change.version)))
            elif change.action == "unsubscribe":
                self.work.append((change.slot, Unsubscribe(change.id)))
            elif change.action == "leave":
                self._dismiss(change.slot)
            else:
                self._make(change)
        if changes:
            self._tell_what_they_share()

    def _make(self, change: Change) -> None:
        me = in_slot(self._me, change.slot)
        self.overlays[change.slot] = self._kind.create(me, self._config, self._schema, self._rng)
        self._unjoined[change.slot] = None
        self.work.append((change.slot, Subscribe(OWN_BOX, change.box, "", change.version, change.pattern)))

    def let_join(self, contacts: Sequence[Descriptor], first: bool) -> None:
        """Let those join that have not: through siblings that stand, else through a contact, else, if this is the
        first peer of its swarm, through nobody."""
        if not self._unjoined:
            return
        through = tuple([in_slot(self._me, slot) for slot in self.lasting()] or [d.address for d in contacts])
        if not through and not first:
            return
        for slot in list(self._unjoined):
            del self._unjoined[slot]
            self.work.append((slot, Join(through)))
            if not through:
                return  # the first participant of a swarm; its siblings join through it

    def stands(self, slot: int) -> None:
        self.standing[slot] = None
        if slot not in self._dismissed:
            for other in self._dismissed:
                self._tell_to_leave(other)

    def _dismiss(self, slot: int) -> None:
        self._dismissed[slot] = False
        if slot not in self.standing or self.lasting()[0] not in self._dismissed:
            self._tell_to_leave(slot)

    def _tell_to_leave(self, slot: int) -> None:
        if not self._dismissed.get(slot):
            self._dismissed[slot] = True
            self.work.append((slot, Leave()))

    def leave(self) -> None:
        """All have to go."""
        for slot in self.overlays:
            self._tell_to_leave(slot)

    def gone(self, slot: int) -> None:
        del self.overlays[slot]
        self.standing.pop(slot, None)
        self._unjoined.pop(slot, None)
        self._dismissed.pop(slot, None)
        self._tell_what_they_share()

    def abandon(self) -> None:
        """Whoever has not left by now is left behind."""
        self.overlays.clear()
        self.standing.clear()

    # --- what they have in common -------------------------------------------------------------------------------------

    def _tell_what_they_share(self) -> None:
        self._share_budget()
        if self._kind.knows_siblings:
            addresses = {slot: in_slot(self._me, slot) for slot in self.overlays}
            for slot in addresses:
                others = tuple([address for other, address in addresses.items() if other != slot])
                self.work.appendleft((slot, Siblings(others)))

    def _share_budget(self) -> None:
        """Every participant may upload an equal share of what the peer may, and pays as much of the peer's gossip."""
        if self._upload is not None and self._kind.keeps_budget and self.overlays:
            share = 1 / len(self.overlays)
            budget = SetBudget(share * self._upload, share)
            self.work.extendleft((slot, budget) for slot in self.overlays)

    def shown(self) -> tuple[Standing, ...]:
        """Those that the peer's descriptor names: some of the standing ones, at random."""
        slots = self.lasting()
        if len(slots) > SHOWN_MAX:
            slots = self._rng.sample(slots, SHOWN_MAX)
        shown = []
        for slot in slots:
            descriptor = self.overlays[slot].descriptor()
            shown.append(Standing(slot, descriptor.box, descriptor.version, descriptor.ext))
        return tuple(shown)
