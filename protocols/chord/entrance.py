"""Coming in: a newcomer finds its successor through a contact, and a node lets newcomers in.

`Enter` is routed towards the newcomer's place. The node behind whose predecessor it belongs accepts it there and then,
and tells it its neighbours, nodes to route by until it has fingers, and which attributes are indexed. A node that does
not stand itself keeps newcomers waiting, so that a ring has one beginning.
"""

from typing import Final

from protocols.chord.fingers import Fingers
from protocols.chord.ids import Circle
from protocols.chord.messages import SUCCESSORS_MAX, Accepted, Enter
from protocols.chord.ring import Ring
from protocols.model.ids import Address
from protocols.overlay import Outbox, Rejected

CONTACTS_MAX: Final = 64
WAITING_MAX: Final = 1_024
"""Newcomers that wait until this node stands itself."""


class Entrance:
    __slots__ = ("_circle", "_fingers", "_out", "_ring", "_waiting", "closed", "contacts")

    def __init__(self, ring: Ring, fingers: Fingers, circle: Circle, out: Outbox) -> None:
        self._ring = ring
        self._fingers = fingers
        self._circle = circle
        self._out = out
        self._waiting: dict[Address, Enter] = {}
        self.contacts: list[Address] = []
        self.closed = False
        """Whoever leaves lets nobody in; a newcomer asks again."""

    # --- one's own ----------------------------------------------------------------------------------------------------

    def add_contacts(self, addresses: tuple[Address, ...] | list[Address]) -> None:
        known = dict.fromkeys((*self.contacts, *addresses))
        self.contacts = [contact for contact in known if contact != self._ring.me][:CONTACTS_MAX]

    def ask(self) -> None:
        """Ask the next contact the way to our successor."""
        if self.contacts:
            contact = self.contacts.pop(0)
            self.contacts.append(contact)
            self._out.send(contact, Enter(self._ring.me))

    def on_accepted(self, now_ms: int, sender: Address, message: Accepted) -> bool:
        """Whether we are in by this."""
        if self._ring.standing or self._ring.me in message.successors:
            return False
        if not message.successors or message.successors[0] != sender:
            self._out.report(Rejected(sender, "accepted by somebody who is not the successor"))
            return False
        self._fingers.learn(tuple([node for node in message.known if node != self._ring.me]))
        self._ring.enter(now_ms, message.predecessor, message.successors)
        return True

    # --- others' ------------------------------------------------------------------------------------------------------

    def on_enter(self, now_ms: int, sender: Address, message: Enter) -> None:
        newcomer, ring = message.newcomer, self._ring
        if newcomer == ring.me or newcomer.slot < 0:
            self._out.report(Rejected(sender, "not a newcomer"))
        elif not ring.standing:
            if len(self._waiting) < WAITING_MAX:
                self._waiting[newcomer] = message
        elif self.closed:
            return
        elif ring.is_behind(self._circle.node(newcomer)):
            self._accept(now_ms, newcomer)
        else:
            ring.disown(now_ms, newcomer)
            self._fingers.pass_on(self._circle.node(newcomer), message)

    def _accept(self, now_ms: int, newcomer: Address) -> None:
        known = tuple(self._fingers.nodes()[:SUCCESSORS_MAX])
        predecessor, successors = self._ring.accept(now_ms, newcomer)
        self._out.send(newcomer, Accepted(predecessor, successors, known))

    def let_in(self, now_ms: int) -> None:
        """We stand: now for those who have waited for it."""
        waiting, self._waiting = self._waiting, {}
        for message in waiting.values():
            self.on_enter(now_ms, message.newcomer, message)
