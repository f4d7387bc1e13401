"""Where a participant stands in the containment tree: its parent and its children.

**One tree.** The paper's forest and its virtual root are one rooted tree here. Its edges are of four kinds:

    root        both ends are top-level peers: together they are the virtual root (paper, section 3, "sibling" links)
    interest    the parent's interest contains the child's, and they are not equivalent
    equal       they are equivalent: inside an equivalence tree, of limited degree
    idle        the child has no interest: it publishes through its parent and is sent nothing

The root of it all is the *origin*. Interest children hang on the root of an equivalence tree only.

                    origin ──root── T2 ──root── T3            top level: depth 1
                    /    \\           │
             interest   equal     interest                    depth 2 (an equal child: its parent's depth)

**Depth** stands for the metric f_c (paper, section 3): the length of the longest chain of containers. When everybody
hangs below the deepest container there is, the two are the same, by induction from the top.

Who may become a child is `placing.py`.
"""

from typing import Final, TypeAlias
from zlib import crc32

import msgspec

from protocols.model.event import Event
from protocols.model.ids import Address
from protocols.model.interest import NOTHING, Interest, contains, equivalent, is_empty, matches
from protocols.overlay import LinkDown, LinkUp, Outbox
from protocols.semantic.config import SemanticConfig
from protocols.semantic.messages import (
    ANCESTORS_MAX,
    DEPTH_MAX,
    MEMBERS_MAX,
    LinkKind,
    Pulse,
    Rank,
)

ROOT: Final = "root"
INTEREST: Final = "interest"
EQUAL: Final = "equal"
IDLE: Final = "idle"

TREES_MAX: Final = 16
"""Trees whose last pulse is remembered. A guess: so many can be mixed up only while all join at once."""


class Child(msgspec.Struct):
    """A child as its parent knows it. `equals`: equivalents below and with it; `tops`: so for top-level peers;
    `contains`: it has interest children; `beyond`: it serves others that are not within its interest any more."""

    interest: Interest
    kind: LinkKind
    equals: int = 1
    tops: int = 1
    contains: bool = False
    leaving: bool = False
    beyond: bool = False
    known: int = 0
    """The digest of its interest."""
    req_id: int = 0
    """Its request that was granted last."""
    told_ms: int = -1
    """When it was last told to look for another parent."""
    spare: bool = False
    """Idle, on an idle parent: there was no room above."""

    @property
    def is_leaf(self) -> bool:
        """Whether it is a leaf of the virtual root: nobody is behind it but what its interest contains."""
        return self.kind == ROOT and self.tops <= 1

    @property
    def relays(self) -> bool:
        """Whether there are others behind it of whom its interest says nothing."""
        return self.tops > 1 if self.kind == ROOT else self.kind == IDLE and self.beyond

    def may_want(self, event: Event) -> bool:
        """Whether an event is for it, or for somebody whom it still serves."""
        return self.beyond or matches(self.interest, event)


Chain: TypeAlias = dict[Address, tuple[Address | None, Address | None]]
"""Children that pass events on among themselves, each with its neighbours to the left and to the right."""


class Tree:
    __slots__ = (
        "_config",
        "_heard",
        "_out",
        "ancestors",
        "children",
        "equal_root",
        "former",
        "former_kind",
        "interest",
        "leaving",
        "left",
        "me",
        "parent",
        "parent_depth",
        "parent_kind",
        "rank",
        "right",
        "seq",
    )

    def __init__(self, me: Address, config: SemanticConfig, out: Outbox) -> None:
        self.me = me
        self._config = config
        self._out = out
        self.interest: Interest = NOTHING
        self.parent: Address | None = None
        self.parent_kind: LinkKind = ROOT
        self.parent_depth = 0
        self.former: Address | None = None
        """The parent before, kept while there are children that it serves."""
        self.former_kind: LinkKind = ROOT
        self.children: dict[Address, Child] = {}
        self.rank = Rank(0, me.peer, me.slot)
        self.seq = 0
        self._heard: dict[Rank, int] = {}  # the last pulse of each tree that was one's own lately
        self.ancestors: tuple[Address, ...] = ()
        """The parent first."""
        self.equal_root = me
        self.left: Address | None = None
        self.right: Address | None = None
        self.leaving = False

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def is_origin(self) -> bool:
        return self.parent is None

    @property
    def is_top(self) -> bool:
        return self.parent is None or self.parent_kind == ROOT

    @property
    def is_idle(self) -> bool:
        return is_empty(self.interest)

    @property
    def is_equal_root(self) -> bool:
        """Whether it stands for its equivalence tree, be it the only one in there."""
        return self.parent is None or self.parent_kind != EQUAL

    @property
    def container_depth(self) -> int:
        """The depth of the peer that contains this one: 0 for a top-level peer."""
        return 0 if self.is_top else self.parent_depth

    @property
    def depth(self) -> int:
        if self.is_top:
            return 1
        return self.parent_depth if self.parent_kind == EQUAL else min(self.parent_depth + 1, DEPTH_MAX)

    def of_kind(self, kind: LinkKind) -> list[Address]:
        return [address for address, child in self.children.items() if child.kind == kind]

    def fits(self, child: Child) -> bool:
        """Whether a child is where it should be, as far as this participant can tell."""
        if child.kind == IDLE:
            return self.parent is None or not self.is_idle or child.spare
        if child.kind == ROOT:
            return self.is_top
        if child.kind == EQUAL:
            return equivalent(self.interest, child.interest)
        return self.is_equal_root and contains(self.interest, child.interest)

    def misplaced(self) -> list[Address]:
        return [address for address, child in self.children.items() if not self.fits(child)]

    @property
    def equals(self) -> int:
        """Equivalents below, and itself."""
        return min(MEMBERS_MAX, 1 + sum(child.equals for child in self.children.values() if child.kind == EQUAL))

    @property
    def tops(self) -> int:
        """Top-level peers below in the virtual root, and itself."""
        return min(MEMBERS_MAX, 1 + sum(child.tops for child in self.children.values() if child.kind == ROOT))

    @property
    def may_contain(self) -> bool:
        """Whether it may have interest children, by the limit on depth."""
        return not self._config.depth_max or self.depth < self._config.depth_max

    @property
    def has_room(self) -> bool:
        """Whether it may have another child, whatever that is."""
        return len(self.children) < self._config.children_max

    @property
    def has_reserve(self) -> bool:
        """Whether it may have another equal or top-level child. (Leavers are not counted among those that take up a
        place; all together have a limit too.)"""
        config = self._config
        return len(self.children) < config.children_max + config.root_degree + config.equal_degree

    # --- links --------------------------------------------------------------------------------------------------------

    def set_parent(self, to: Address | None, kind: LinkKind = ROOT) -> None:
        """Hang on another parent, or none. The one before is kept as `former` until `release`d."""
        before, before_kind = self.parent, self.parent_kind
        self.parent, self.parent_kind = to, kind
        if to == before:
            if kind != before_kind and to is not None:
                self._out.report(LinkDown(f"{before_kind}-parent", to))
                self._out.report(LinkUp(f"{kind}-parent", to))
            return
        self.left = self.right = None
        if before is not None:
            self._out.report(LinkDown(f"{before_kind}-parent", before))
        if self.former is not None:
            self._out.unwatch(self.former)
        self.former, self.former_kind = before, before_kind
        if to is not None:
            self._out.watch(to)
            self._out.report(LinkUp(f"{kind}-parent", to))
        else:
            self.parent_depth, self.ancestors, self.equal_root = 0, (), self.me

    def release(self) -> Address | None:
        """Let the former parent go; it has to be told."""
        former, self.former = self.former, None
        if former is not None:
            self._out.unwatch(former)
        return former

    def adopt(self, joiner: Address, req_id: int, interest: Interest, kind: LinkKind) -> bool:
        """Grant a request, and have a child. Returns whether anything is new about it."""
        child = self.children.get(joiner)
        spare = kind == IDLE and self.is_idle and self.parent is not None
        if child is None:
            self.children[joiner] = Child(interest, kind, known=digest(interest), req_id=req_id, spare=spare)
            self._out.watch(joiner)
            self._out.report(LinkUp(f"{kind}-child", joiner))
            return True
        changed = child.interest != interest or child.kind != kind or child.leaving
        if child.kind != kind:
            self._out.report(LinkDown(f"{child.kind}-child", joiner))
            self._out.report(LinkUp(f"{kind}-child", joiner))
        child.interest, child.kind, child.known = interest, kind, digest(interest)
        child.req_id, child.leaving, child.told_ms, child.spare = req_id, False, -1, spare
        return changed

    def drop(self, address: Address) -> bool:
        child = self.children.pop(address, None)
        if child is None:
            return False
        self._out.unwatch(address)
        self._out.report(LinkDown(f"{child.kind}-child", address))
        return True

    def stays_above(self, other: Address, kind: LinkKind) -> bool:
        """Two that asked each other have adopted each other: this one as that kind of child. One of them takes it back,
        and both know which: who contains the other stays above it, else the one with the lower address."""
        child = self.children.get(other)
        if child is None:
            return False
        if (child.kind == ROOT) != (kind == ROOT):
            return kind == ROOT
        return self.me < other

    # --- pulses -------------------------------------------------------------------------------------------------------

    def pulse_for(self, address: Address, chain: Chain) -> Pulse:
        """What a child is told."""
        left, right = chain.get(address, (None, None))
        child = self.children[address]
        above = (self.me, *self.ancestors)[:ANCESTORS_MAX]
        equal_root = self.equal_root if child.kind == EQUAL else address
        return Pulse(
            self.rank, self.seq, child.req_id, child.kind, child.known, self.depth, equal_root, above, left, right
        )

    def note(self, pulse: Pulse) -> bool:
        """Returns whether this pulse has not been here before. In a cycle, which there may be for a moment, pulses of
        several trees may go around: each does so once."""
        if pulse.seq <= self._heard.get(pulse.rank, -1):
            return False
        self._heard.pop(pulse.rank, None)
        self._heard[pulse.rank] = pulse.seq
        if len(self._heard) > TREES_MAX:
            del self._heard[next(iter(self._heard))]
        return True

    def hear(self, pulse: Pulse) -> None:
        """Believe what the parent says about where one stands."""
        self.parent_depth = pulse.depth
        self.equal_root = pulse.equal_root
        self.ancestors = pulse.ancestors


def digest(interest: Interest) -> int:
    """An interest in four bytes, the same in every process."""
    return crc32(msgspec.msgpack.encode(interest))
