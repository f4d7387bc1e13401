"""The dead, remembered for a while so that gossip cannot bring them back.

Descriptors of a dead peer keep circulating until they have aged out of every view. A peer that has learned of a death
therefore refuses them for 30 s (specification, section 1). What a tombstone names is one life, (peer, boot), at one
`refutation`: a restarted peer has a higher boot, one that was buried alive raises its refutation, and either beats the
tombstone, as in SWIM (Das, Gupta, Motivala 2002) a higher incarnation beats a rumour.

The table is bounded; at capacity the oldest tombstone is given up early, which costs no more than a few useless
attempts to reach a dead peer.
"""

from typing import Final

from protocols.model.ids import Address, PeerId

TOMBSTONE_MS: Final = 30_000
"""30 s (specification, section 1)."""

CAPACITY: Final = 1_024
"""A guess: more deaths in 30 s leave views that are mostly wrong anyway."""


class Grave:
    """`knocked`: something was heard from within, and the buried peer should be given a chance to refute."""

    __slots__ = ("address", "knocked", "refutation", "until_ms")

    def __init__(self, address: Address, refutation: int, until_ms: int) -> None:
        self.address = address
        self.refutation = refutation
        self.until_ms = until_ms
        self.knocked = False


class Tombstones:
    """`graves` is for looking at: a caller that has nobody to check against can skip the check."""

    __slots__ = ("capacity", "graves", "keep_ms")

    def __init__(self, keep_ms: int = TOMBSTONE_MS, capacity: int = CAPACITY) -> None:
        self.keep_ms = keep_ms
        self.capacity = capacity
        self.graves: dict[PeerId, Grave] = {}

    def __len__(self) -> int:
        return len(self.graves)

    def bury(self, now_ms: int, address: Address, refutation: int = 0) -> None:
        """The life `address` names ended. A tombstone of a later life, or a better informed one, stays."""
        grave = self.graves.get(address.peer)
        if grave is not None:
            if (grave.address.boot, grave.refutation) > (address.boot, refutation):
                return
            del self.graves[address.peer]
        elif len(self.graves) >= self.capacity:
            del self.graves[next(iter(self.graves))]
        self.graves[address.peer] = Grave(address, refutation, now_ms + self.keep_ms)

    def hold(self, address: Address, refutation: int = 0) -> bool:
        """Whether this life, at this refutation or a lower one, is buried here."""
        grave = self.graves.get(address.peer)
        return grave is not None and (address.boot, refutation) <= (grave.address.boot, grave.refutation)

    def heard(self, address: Address, refutation: int = -1) -> None:
        """The peer itself spoke. With a proof that it lives it is dug up; without one its grave is marked.

        A message without proof may have been on its way when the peer died. A later life leaves the grave of the
        earlier one alone: that one stays dead.
        """
        grave = self.graves.get(address.peer)
        if grave is None or grave.address.boot != address.boot:
            return
        if refutation > grave.refutation:
            del self.graves[address.peer]
        else:
            grave.knocked = True

    def expire(self, now_ms: int) -> None:
        for peer in [peer for peer, grave in self.graves.items() if grave.until_ms <= now_ms]:
            del self.graves[peer]

    def knocking(self) -> list[Grave]:
        """The buried that were heard since the last call."""
        result = [grave for grave in self.graves.values() if grave.knocked]
        for grave in result:
            grave.knocked = False
        return result
