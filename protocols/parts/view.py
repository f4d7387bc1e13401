"""A bounded view: descriptors of a few others, each with an age.

Gossip protocols (CYCLON, VICINITY, similarity neighbours) all keep a small table of descriptors, age every entry by
one per round, talk to the oldest, and believe the newer of two descriptors of the same node. This is that table.

*Ageing is free.* An entry stores the round in which its age was 0 (`born = round - age`) beside the descriptor exactly
as it came, and `age` is written into a copy only when a descriptor leaves the view. A round adds one to one counter.

*The merge rule* is that of `protocols.model.descriptor`: the higher (boot, version) wins, then the lower age; on a tie
the one that came last. For peers the version is `refutation`, for participants `version`.

*What may be inside.* A view never holds its owner, never two entries under one key, never more than `capacity`
entries. The key of an entry is computed by an injected function that returns `None` for a descriptor that cannot be
meant seriously; such entries are skipped, and ages outside [0, `AGE_MAX`] count as the nearest bound, so that no remote
peer can make an age overflow on its next hop.

Entries are kept in the order of their arrival: that, and never a hash, decides ties.
"""

from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from random import Random
from typing import Final, Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from protocols.model.descriptor import Descriptor, PeerDescriptor
from protocols.model.ids import PEER_SLOT, Address, PeerId

ParticipantKey: TypeAlias = tuple[PeerId, int]
"""Peer and slot: a later boot of the peer replaces an earlier one instead of standing beside it."""

K = TypeVar("K", bound=Hashable)
D = TypeVar("D", Descriptor, PeerDescriptor)

AGE_MAX: Final = 1 << 20
"""Rounds; twelve days of one a second. A guess: anything beyond the life of an entry will do."""


def peer_key(descriptor: PeerDescriptor) -> PeerId | None:
    address = descriptor.address
    return address.peer or None if address.slot == PEER_SLOT else None


def participant_key(descriptor: Descriptor) -> ParticipantKey | None:
    address = descriptor.address
    return (address.peer, address.slot) if address.slot > PEER_SLOT and address.peer else None


def sample_keys(keys: list[K], count: int, rng: Random) -> list[K]:
    """`count` of the keys (or all) at random, without replacement, by a partial shuffle. Uses up the list."""
    left = len(keys)
    if count > left:
        count = left
    random, result = rng.random, []
    for _ in range(count):
        at = int(random() * left)
        left -= 1
        result.append(keys[at])
        keys[at] = keys[left]
    return result


class View(Generic[K, D]):
    """At most `capacity` descriptors of others. `me` is the key of the owner."""

    __slots__ = ("_born", "_held", "_key", "_version", "capacity", "echo", "me", "round")

    def __init__(self, me: K, capacity: int, key: Callable[[D], K | None], version: Callable[[D], int]) -> None:
        if capacity < 1:
            raise ValueError(f"a view needs a capacity of 1 or more, not {capacity}")
        self.me = me
        self.capacity = capacity
        self.round = 0
        self.echo: D | None = None
        """What others last passed on about the owner itself."""
        self._key: Callable[[D], K | None] = key
        self._version: Callable[[D], int] = version
        self._held: dict[K, D] = {}
        self._born: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: K) -> bool:
        return key in self._held

    @property
    def free(self) -> int:
        """How many entries still find room."""
        return self.capacity - len(self._held)

    def held(self) -> list[K]:
        return list(self._held)

    def get(self, key: K) -> D | None:
        """The descriptor under the key, with its present age."""
        held = self._held.get(key)
        return None if held is None else replace(held, age=self.round - self._born[key])

    def descriptors(self) -> list[D]:
        return self.take(self._held)

    def aged(self) -> list[tuple[D, int]]:
        """All descriptors as they came, each with its present age."""
        return [(held, self.round - born) for held, born in zip(self._held.values(), self._born.values())]

    def take(self, keys: Iterable[K]) -> list[D]:
        """The descriptors under these keys, which must be held, with their present ages."""
        held, born, now = self._held, self._born, self.round
        return [replace(held[key], age=now - born[key]) for key in keys]

    def oldest(self) -> K | None:
        """The entry with the highest age; among equals the one that came first."""
        result, lowest = None, self.round + 1
        for key, born in self._born.items():
            if born < lowest:
                result, lowest = key, born
        return result

    def sample(self, count: int, rng: Random) -> list[K]:
        """The keys of `count` entries at random, without replacement."""
        return sample_keys(list(self._held), count, rng)

    def put(self, descriptor: D) -> bool:
        """Refresh the entry under this key, or add it if there is room. Returns whether it is held now."""
        self.merge((descriptor,))
        return self._key(descriptor) in self._held

    def correct(self, descriptor: D) -> None:
        """What a node says of itself replaces what is held of this life of it, whatever that says. Adds nothing."""
        key = self._key(descriptor)
        held = None if key is None else self._held.get(key)
        if key is not None and held is not None and held.address.boot == descriptor.address.boot:
            self._held[key] = descriptor
            self._born[key] = self.round

    def remove(self, key: K) -> D | None:
        held = self._held.pop(key, None)
        if held is None:
            return None
        return replace(held, age=self.round - self._born.pop(key))

    def merge(self, received: Iterable[D], sacrifice: Iterable[K] = ()) -> None:
        """Take in what another peer sent: refresh what is held, then fill free slots, then overwrite `sacrifice`.

        Entries that find no slot are dropped. Nothing that arrives in this call can be overwritten by it.
        """
        held_all, born_all, me, now, key_of = self._held, self._born, self.me, self.round, self._key
        room = self.capacity - len(held_all)
        expendable = [key for key in sacrifice if key in held_all]
        for descriptor in received:
            key = key_of(descriptor)
            if key is None:
                continue
            if key == me:
                self.echo = descriptor
                continue
            age = descriptor.age
            born = now - (age if 0 <= age <= AGE_MAX else AGE_MAX if age > 0 else 0)
            held = held_all.get(key)
            if held is not None:
                if self._outranks(descriptor, born, held, born_all[key]):
                    held_all[key] = descriptor
                    born_all[key] = born
                continue
            if room > 0:
                room -= 1
            elif expendable:
                victim = expendable.pop()
                del held_all[victim], born_all[victim]
            else:
                continue
            held_all[key] = descriptor
            born_all[key] = born

    def _outranks(self, a: D, a_born: int, b: D, b_born: int) -> bool:
        if a.address.boot != b.address.boot:
            return a.address.boot > b.address.boot
        a_version, b_version = self._version(a), self._version(b)
        return a_version > b_version or (a_version == b_version and a_born >= b_born)

    def assign(self, descriptors: Iterable[D]) -> None:
        """Hold exactly these, as far as the capacity goes."""
        self._held.clear()
        self._born.clear()
        self.merge(descriptors)

    def forget(self, key: K, boot: int) -> bool:
        """Remove the entry unless it is of a later boot. Returns whether it was there."""
        held = self._held.get(key)
        if held is None or held.address.boot > boot:
            return False
        del self._held[key], self._born[key]
        return True


def peer_view(me: Address, capacity: int) -> View[PeerId, PeerDescriptor]:
    """A view of peers for the peer `me`."""
    return View(me.peer, capacity, peer_key, attrgetter("refutation"))


def participant_view(me: Address, capacity: int) -> View[ParticipantKey, Descriptor]:
    """A view of participants for the participant `me`."""
    return View((me.peer, me.slot), capacity, participant_key, attrgetter("version"))
