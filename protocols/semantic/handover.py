"""Letting children go in good order: a leaver's, those of a peer that has moved, and the crown.

- *Misplaced children.* A peer that is no longer top-level, no longer the root of its equivalence tree, or whose
  interest has changed, tells the children that do not fit where to attach (`Leaving`). It serves them until they have.
- *Leaving* (paper, section 3). The children attach to their grandparent. Within an equivalence tree a leaf below the
  leaver is promoted to its place first, and takes its children.
- *The crown.* An origin that leaves, or moves below somebody, makes another one the origin first, below which it then
  hangs itself: so the tree always has one.

Whoever does not go in time is told that it has no parent here any more, and finds one by itself.
"""

from typing import Final

from protocols.model.ids import Address
from protocols.overlay import Outbox
from protocols.semantic.config import SemanticConfig
from protocols.semantic.messages import HOPS_MAX, Crown, Detach, Dismiss, Leaving, Promote
from protocols.semantic.seek import Seek
from protocols.semantic.tree import EQUAL, IDLE, INTEREST, ROOT, Tree

HAND_OVER_MS: Final = 8_000
"""Patience with children that have to go: less than a peer has with its participants, 10 s."""


class Handover:
    __slots__ = ("_config", "_crown", "_out", "_promotion_until_ms", "_since_ms", "_tree", "heir", "promoted_for")

    def __init__(self, tree: Tree, config: SemanticConfig, out: Outbox) -> None:
        self._tree = tree
        self._config = config
        self._out = out
        self._since_ms: int | None = None  # since when children are asked to go
        self._promotion_until_ms = 0
        self._crown: tuple[int, Address, int] | None = None  # request, whom, until when to wait
        self.heir: Address | None = None
        """The leaf that was promoted to a leaver's place."""
        self.promoted_for: Address | None = None
        """The leaver whose place this participant is about to take."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody has to go, or the crown is being passed on: not the time to move."""
        return self._crown is not None or self._since_ms is not None

    # --- leaving ------------------------------------------------------------------------------------------------------

    def leave(self, now_ms: int) -> None:
        """Begin: promote a leaf, if this participant has equals below it."""
        tree = self._tree
        equals = {a: c for a, c in tree.children.items() if c.kind == EQUAL and not c.leaving}
        if equals and tree.parent is not None:
            most = max(equals, key=lambda a: (equals[a].equals, a))
            self._promotion_until_ms = now_ms + self._config.rpc_ms
            self._out.send(most, Promote(tree.me, tree.parent))

    def on_promote(self, message: Promote, sender: Address) -> bool:
        """Pass it down to a leaf. Returns whether this is the leaf, which has to take the place."""
        tree = self._tree
        if sender != tree.parent or tree.leaving or message.hops >= HOPS_MAX:
            return False
        equals = {a: c for a, c in tree.children.items() if c.kind == EQUAL and not c.leaving}
        if equals:
            most = max(equals, key=lambda a: (equals[a].equals, a))
            self._out.send(most, Promote(message.leaver, message.parent, message.hops + 1))
            return False
        self.promoted_for = message.leaver
        return True

    def step(self, now_ms: int, seek: Seek) -> bool:
        """Tell the children that have to go, and see whether they have. False: nobody has to, any more."""
        tree = self._tree
        going = list(tree.children) if tree.leaving else tree.misplaced()
        if not going:
            self._since_ms = None
            former = tree.release()
            if former is not None:
                self._out.send(former, Detach(seek.settled_id))
            return False
        if self._since_ms is None:
            self._since_ms = now_ms
        if now_ms - self._since_ms > HAND_OVER_MS:
            for address in going:
                self._out.send(address, Dismiss())
                tree.drop(address)
            return self.step(now_ms, seek)
        if tree.leaving and tree.parent is None:
            self._crown_somebody(now_ms, seek)
        elif not tree.leaving or self.heir is not None or now_ms >= self._promotion_until_ms:
            for address in going:
                self._tell(now_ms, address)
        return True

    def _tell(self, now_ms: int, address: Address) -> None:
        tree = self._tree
        child = tree.children[address]
        if child.told_ms >= 0 and now_ms - child.told_ms < self._config.rpc_ms:
            return
        to = self.heir if tree.leaving and self.heir is not None else self._elsewhere()
        if to is not None and to != address:
            child.told_ms = now_ms
            self._out.send(address, Leaving(to))

    def _elsewhere(self) -> Address | None:
        """Where misplaced children, or a leaver's, should ask. At the top level this is here: as what they are now."""
        tree = self._tree
        if tree.is_top and not tree.leaving:
            return tree.me
        return tree.former or tree.parent

    # --- the crown ----------------------------------------------------------------------------------------------------

    def _crown_somebody(self, now_ms: int, seek: Seek) -> None:
        """The origin leaves. If all its children leave too, it waits: they hand their own children over to it."""
        if self._crown is not None and now_ms < self._crown[2]:
            return
        tree = self._tree
        for kind in (EQUAL, ROOT, INTEREST, IDLE):
            staying = [a for a, c in tree.children.items() if c.kind == kind and not c.leaving]
            if staying:
                self.crown(now_ms, seek.next_id(), staying[0], climb=False)
                return

    def crown(self, now_ms: int, req_id: int, to: Address, climb: bool) -> None:
        """Ask somebody, or with `climb` the top-level peer above, to be the origin instead."""
        tree = self._tree
        self._crown = req_id, to, now_ms + 2 * self._config.rpc_ms
        self._out.send(to, Crown(tree.me, req_id, tree.interest, tree.rank, climb))

    def crowned(self, req_id: int) -> bool:
        """Whether this is the answer to the crown that was passed on, which is over with it."""
        if self._crown is None or self._crown[0] != req_id:
            return False
        self._crown = None
        return True

    def crown_overdue(self, now_ms: int) -> None:
        if self._crown is not None and now_ms >= self._crown[2]:
            self._crown = None

    def lost(self, address: Address) -> bool:
        """Somebody is gone. Returns whether anything depended on it."""
        if self.heir == address:
            self.heir = None
        elif self._crown is not None and self._crown[1] == address:
            self._crown = None
        elif self.promoted_for == address:
            self.promoted_for = None
        else:
            return False
        return self._tree.leaving
