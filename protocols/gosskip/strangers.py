"""Participants elsewhere that one participant knows of: through them it joins, and finds another half of the list.

*Contacts* are those through whom to ask for a place, each in turn, those of peer sampling among them.

*Seeking.* Now and then a participant has one of its places looked for from where a stranger stands. If it is not found
there, there is another half of the list (`chain`). While it has neighbours on both sides, and they stay the same, it
seeks ever more seldom.
"""

from collections.abc import Callable, Sequence
from typing import Final

from protocols.gosskip.chain import STANDING
from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import Seek
from protocols.gosskip.order import Spot
from protocols.gosskip.place import Place
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address

CONTACTS_MAX: Final = 64
"""Participants remembered from contacts and peer sampling: three views' worth."""
SEEK_FACTOR_MAX: Final = 4
"""So many times as seldom a place is sought whose neighbours stay the same. A guess: the whole swarm seeks, and one
that finds another half is enough."""


class Strangers:
    __slots__ = ("_contacts", "_desk", "_neighbours", "_sampled", "_seek_factor", "_seek_ms")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._contacts: list[Address] = []
        self._neighbours: list[tuple[int, Spot | None, Spot | None]] = []  # when a place was sought last
        self._seek_factor = 1
        self._seek_ms = 0
        self._sampled: list[Descriptor] = []

    def meet(self, contacts: tuple[Address, ...]) -> None:
        self._contacts = list(contacts)[:CONTACTS_MAX]

    def sample(self, descriptors: Sequence[Descriptor]) -> None:
        self._sampled = list(descriptors[:CONTACTS_MAX])

    def forget(self, contact: Address) -> None:
        self._contacts = [each for each in self._contacts if each != contact]

    def lost(self, is_gone: Callable[[Spot], bool]) -> None:
        self._sampled = [d for d in self._sampled if not is_gone(self._desk.dictionary.spot(d))]

    def next_contact(self) -> Address | None:
        """Through whom to ask for a place now."""
        if self._sampled and (not self._contacts or self._desk.rng.random() < 0.5):
            # not always through the same ones: they may stand beyond a gap that only this place closes
            self._contacts.insert(0, self._desk.rng.choice(self._sampled).address)
            del self._contacts[CONTACTS_MAX:]
        if not self._contacts:
            return None
        contact = self._contacts.pop(0)
        self._contacts.append(contact)
        return contact

    def seek(self, now_ms: int, places: dict[int, Place]) -> None:
        """Have one of these places looked for from elsewhere, if it is time to."""
        if now_ms < self._seek_ms:
            return
        neighbours = [(version, place.chain.left, place.chain.right) for version, place in places.items()]
        is_calm = neighbours == self._neighbours and all(left and right for _, left, right in neighbours)
        self._seek_factor = min(2 * self._seek_factor, SEEK_FACTOR_MAX) if is_calm else 1
        self._neighbours = neighbours
        self._seek_ms = self._desk.jittered(now_ms, self._seek_factor * self._desk.config.seek_ms)
        others = [d for d in self._sampled if d.address != self._desk.me]
        standing = [place for place in places.values() if place.state == STANDING]
        if others and standing:
            stranger = self._desk.rng.choice(others)
            place = self._desk.rng.choice(standing)
            self._desk.send(stranger.address, Seek(stranger.version, place.spot.descriptor))
