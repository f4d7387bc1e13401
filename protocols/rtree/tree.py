"""What one participant holds of the tree.

A participant is a leaf (level 0) and may host nodes at heights 1, 2, … up to its *top*, one above the other: it is its
own child in each of them ("recursively its own child", paper, section 4). Above its top it has one parent, unless it is
the root. So the tree of nodes, seen from outside, is a tree of participants: each is the child of one other, at the
level of its top.

    height 2        [ b ]                       b hosts the root, and is its own child in it
                   /     \\
    height 1    [ a ]    [ b ]                  a and b host the nodes above the leaves
               / | \\     /   \\
    leaves    a  c  d   b     e                 as participants: b -> a, e;  a -> c, d

A child in a node is *active* or on its way out:

    EXPECTED  it was told to come, and counts, but has not said that it is ours
    MEMBER    it has said so
    LEAVING   it was told to go, or somebody takes its place: it does not count any more, and nobody is placed below it,
              but events reach it until it says that it has another parent

hence two boxes: `box` encloses all children and is what events are routed by; `core` encloses the active ones and is
what the shape of the tree is decided by.
"""

from random import Random
from typing import Final, Literal, NamedTuple, TypeAlias

from protocols.model.box import EMPTY, Box, Space, enclosing
from protocols.model.event import Copy
from protocols.model.ids import Address
from protocols.overlay import Outbox
from protocols.parts.recent import Recent
from protocols.parts.seen import KEEP_MS, Seen
from protocols.rtree.config import RtreeConfig
from protocols.rtree.grid import Grid
from protocols.rtree.measure import Measure
from protocols.rtree.messages import NODE_MAX, Dissolve, JoinRequest, Move, Place

State: TypeAlias = Literal["new", "joining", "standing", "leaving", "left"]
NEW: Final = "new"
JOINING: Final = "joining"
STANDING: Final = "standing"
LEAVING_TREE: Final = "leaving"
LEFT: Final = "left"

Standing: TypeAlias = Literal["expected", "member", "leaving"]
EXPECTED: Final = "expected"
MEMBER: Final = "member"
LEAVING: Final = "leaving"

WAITING_MAX: Final = 512
"""Requests that wait until this participant stands, or has room. A guess: a whole testbed, twice over."""


class Shape(NamedTuple):
    """What a parent knows of a child's subtree: see `messages.Mbr`."""

    box: Box
    core: Box
    children: int
    inner: tuple[Box, ...]
    cells: int = 0


Reach: TypeAlias = tuple[tuple[Box, ...], int | None]
"""Boxes, and the cells of the grid that are wanted in them; None for all."""


class Entry:
    """A child in a node; the host itself is one, too."""

    __slots__ = (
        "address",
        "asked",
        "box",
        "cells",
        "charted",
        "core",
        "count",
        "formers",
        "heard_ms",
        "inner",
        "linked",
        "said",
        "seq",
        "standing",
        "until_ms",
    )

    def __init__(self, address: Address, box: Box, core: Box, count: int, standing: Standing, until_ms: int) -> None:
        self.address = address
        self.box = box
        self.core = core
        self.count = count
        self.inner: tuple[Box, ...] = ()
        self.cells: int | None = None  # where its subtree wants anything; None: wherever its box is
        self.standing: Standing = standing
        self.until_ms = until_ms  # when EXPECTED is given up, or LEAVING taken back
        self.linked = False  # it has said that it is ours, and is watched
        self.asked: Move | Dissolve | None = None  # LEAVING because it was told to; it may not find another place
        self.formers: tuple[Address, ...] = ()  # the hosts from which it is being taken over, the last one at the end
        self.seq = 0  # of the last word from it
        self.said = 0  # when that was, by its clock
        self.charted = 0  # the chart that everybody below it has
        self.heard_ms = 0

    @property
    def region(self) -> tuple[Box, ...]:
        """Where events for it fall: into one of these boxes."""
        return self.inner or (self.box,)

    @property
    def reach(self) -> Reach:
        """The same, but only where one of these cells is, if they are known."""
        return self.region, self.cells


class Node:
    """A node at some height: its children, those on their way in and out included."""

    __slots__ = ("entries", "height", "mask")

    def __init__(self, height: int) -> None:
        self.height = height
        self.entries: dict[Address, Entry] = {}
        self.mask = 0  # of the operation that brought the last child (R*)

    def active(self) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.standing != LEAVING]

    def count(self) -> int:
        return sum(entry.standing != LEAVING for entry in self.entries.values())

    def shape(self, lookahead: bool, grid: Grid | None = None) -> Shape:
        box = core = EMPTY
        count, cells, inner = 0, 0, []
        for entry in self.entries.values():
            box = enclosing(box, entry.box)
            inner.append(entry.box)
            if grid is not None:
                cells |= grid.touched(entry.box) if entry.cells is None else entry.cells
            if entry.standing != LEAVING:
                core = enclosing(core, entry.core)
                count += 1
        seen = tuple(inner) if lookahead and len(inner) <= NODE_MAX else ()
        return Shape(box, core, count, seen, cells)


class Uplink:
    """The edge to a parent, as the child sees it."""

    __slots__ = (
        "acked",
        "address",
        "agreed",
        "chart",
        "first",
        "level",
        "replaces",
        "seq",
        "shape",
        "since_ms",
        "sponsor",
    )

    def __init__(
        self, address: Address, level: int, now_ms: int, sponsor: Address | None = None, replaces: bool = False
    ) -> None:
        self.address = address
        self.level = level
        self.since_ms = now_ms
        self.sponsor = sponsor
        self.replaces = replaces
        self.first = self.seq = self.acked = 0
        self.agreed = 0  # the last number that nobody would hold an event back from (`chart`)
        self.chart: bytes | None = None  # what a candidate has told of it
        self.shape: Shape | None = None  # as told last


class ChartState:
    """Where anybody wants anything, as far as it is known here: see `chart`."""

    __slots__ = (
        "agreed",
        "cells",
        "digest",
        "doubtful_until_ms",
        "drawn_ms",
        "held",
        "raw",
        "settled",
        "since_ms",
        "trusted_ms",
    )

    def __init__(self) -> None:
        self.raw = b""  # the chart, as it is sent; empty if it is in doubt
        self.cells: int | None = None  # what it says, if that is known
        self.digest = 0  # of it; 0 if it is in doubt
        self.since_ms = 0  # when it came
        self.settled = False  # everybody below has it
        self.trusted_ms: int | None = None  # when we asked a parent that has the same one
        self.agreed: int | None = None  # at the root: the cells that are on everybody's chart
        self.drawn_ms: int | None = None  # at the root: when it last grew
        self.doubtful_until_ms = 0  # a root that was an orphan a moment ago knows nothing of others
        self.held: list[tuple[int, Copy]] = []  # own events that nobody seemed to want, and since when


class Waiting(NamedTuple):
    """Somebody waits for `Covered`: until the parent knows what was told by `need`, None if that is still to be told.
    `is_told`: it has been told that, and waits until it is agreed."""

    need: int | None = None
    is_told: bool = False


class Search:
    """A search for a parent that is under way."""

    __slots__ = ("asked", "mask", "req_id", "stays", "tries", "until_ms")

    def __init__(self, req_id: int, stays: bool, mask: int) -> None:
        self.req_id = req_id
        self.stays = stays  # with its present parent, until it has found another
        self.mask = mask
        self.asked: Address | None = None
        self.tries = 0
        self.until_ms = 0


class Operation:
    """A split or a handover that was begun here: one at a time."""

    __slots__ = ("height", "leaving", "members", "op", "successor", "until_ms", "whole")

    def __init__(self, op: int, height: int, successor: Address, whole: bool, leaving: bool) -> None:
        self.op = op
        self.height = height
        self.successor = successor
        self.whole = whole
        self.leaving = leaving
        self.members: tuple[Address, ...] = ()
        self.until_ms = 0


class Taking:
    """Nodes that are being taken over from `sender`: what to go back to if that fails."""

    __slots__ = ("op", "sender", "top", "whole")

    def __init__(self, op: int, sender: Address, top: int, whole: bool) -> None:
        self.op = op
        self.sender = sender
        self.top = top
        self.whole = whole


class Tree:
    """The state of one participant; the modules beside this one are what it does."""

    __slots__ = (
        "active_version",
        "awaiting",
        "box",
        "candidate",
        "changed",
        "chart",
        "config",
        "contacts",
        "dissolving",
        "farewell",
        "farewells",
        "grid",
        "hints",
        "me",
        "measure",
        "next_id",
        "nodes",
        "operation",
        "out",
        "parent",
        "recent",
        "refusers",
        "reopened",
        "retiring",
        "rng",
        "root",
        "roots",
        "routes",
        "samples",
        "search",
        "seen",
        "shape",
        "space",
        "state",
        "successor",
        "taking",
        "version",
        "waiting",
    )

    def __init__(self, me: Address, config: RtreeConfig, space: Space, rng: Random) -> None:
        self.me = me
        self.config = config
        self.space = space
        self.measure = Measure(space, config.weights == "events")
        self.rng = rng
        self.out = Outbox(me.slot)
        self.state: State = NEW
        self.box: Box = EMPTY
        self.version = 0
        self.active_version: int | None = None
        self.nodes: list[Node] = []
        self.parent: Uplink | None = None
        self.candidate: Uplink | None = None  # the parent that we are about to have
        self.retiring: dict[Address, Entry] = {}  # children of nodes that others host now: still served, until they go
        self.awaiting: dict[tuple[int, Address], Waiting] = {}  # who waits for `Covered`
        self.search: Search | None = None
        self.operation: Operation | None = None
        self.taking: Taking | None = None
        self.dissolving = False
        self.successor: Address | None = None  # who hosts what a leaver has hosted
        self.farewell: tuple[Address, ...] = ()  # whom a leaver has told, since the last event that it has passed on
        self.farewells: dict[Address, int] = {}  # and how many answers are still to come
        self.refusers: dict[Address, int] = {}  # children that refused to take a node -> until when not to ask them
        self.waiting: dict[Address, tuple[JoinRequest | Place, int]] = {}  # and the height of the node that lacks room
        self.reopened = False  # what waits may have a way now
        self.contacts: list[Address] = []
        self.hints: tuple[Address, ...] = ()
        self.root: Address | None = None  # as the parent has told
        self.roots: list[Address] = []  # to whom events went straight of late, the last one at the end
        self.samples: list[Address] = []
        self.grid = Grid(space) if config.cells else None
        self.chart = ChartState()
        self.next_id = 0
        self.shape = Shape(EMPTY, EMPTY, 0, ())
        self.changed = True  # since the shape was last computed
        self.routes: list[tuple[Address, tuple[Box, ...], int | None]] | None = None  # made anew when children change
        self.seen = Seen(KEEP_MS, config.seen_max)
        self.recent = Recent(config.replay_ms, config.recent_max)

    @property
    def top(self) -> int:
        """The height of the highest node here; 0 for a mere leaf."""
        return len(self.nodes)

    @property
    def is_root(self) -> bool:
        return self.parent is None and self.candidate is None and self.state in (STANDING, LEAVING_TREE)

    @property
    def is_stray(self) -> bool:
        """The parent has us as a child in the place of a node that is not here any more: we need another one."""
        return self.parent is not None and self.parent.level != self.top

    def node(self, height: int) -> Node | None:
        """The node at that height, if it is here."""
        return self.nodes[height - 1] if 1 <= height <= len(self.nodes) else None

    def raise_root(self) -> Node:
        """A new root above the present one, with this participant as its only child so far."""
        node = Node(self.top + 1)
        node.entries[self.me] = Entry(self.me, EMPTY, EMPTY, 0, MEMBER, 0)
        self.nodes.append(node)
        self.changed = True
        return node

    def reshape(self) -> None:
        """Compute anew what each own node encloses, from the leaf up."""
        shape = Shape(self.box, self.box, 0, (), 0 if self.grid is None else self.grid.touched(self.box))
        for node in self.nodes:
            own = node.entries[self.me]
            own.box, own.core, own.count, own.inner, own.cells = shape
            shape = node.shape(self.config.lookahead, self.grid)
        self.shape = shape
        self.changed = False
        self.routes = None

    def new_id(self) -> int:
        """For requests, operations and words to parents: it only grows."""
        self.next_id += 1
        return self.next_id
