"""What participants of the R-tree say to each other.

A *level* is always that of the child: a leaf has level 0, the participant that hosts a node of height 1 appears at
level 1 in its parent, and so on.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from protocols.model.bounds import Count
from protocols.model.box import Box
from protocols.model.event import Copy
from protocols.model.ids import Address

CHILDREN_MAX: Final = 64
"""M at the most (paper, Table 1: up to 40)."""
NODE_MAX: Final = 4 * CHILDREN_MAX
"""Children that a node can have while it is being divided."""
LEVELS_MAX: Final = 16
"""Levels of a tree: with m = 2, 65,536 peers; with m = 5, more than there are people."""
HINTS_MAX: Final = 4
HOSTS_MAX: Final = 8
"""Hosts through whose hands a node may go before its children have followed one of them. A guess."""
CHART_BYTES: Final = 1 + 512
"""A chart of 4,096 cells, after the number of its axes (`chart`)."""
HOPS_MAX: Final = 64
"""How far a request may travel: four times up and down the tallest tree."""

MOMENTS: Final = 1 << 16
"""A minute: no answer is as old as that."""

Level: TypeAlias = Annotated[int, Meta(ge=0, le=LEVELS_MAX)]
Hops: TypeAlias = Annotated[int, Meta(ge=0, le=HOPS_MAX)]
Mask: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << (LEVELS_MAX + 1)) - 1)]
"""Levels at which this operation has reinserted children already (R*), a bit each."""
Moment: TypeAlias = Annotated[int, Meta(ge=0, le=MOMENTS - 1)]
"""Somebody's clock in ms, modulo `MOMENTS`: what is sent back to it, for it to know how old an answer may be."""
Boxes: TypeAlias = Annotated[tuple[Box, ...], Meta(max_length=NODE_MAX)]
Hints: TypeAlias = Annotated[tuple[Address, ...], Meta(max_length=HINTS_MAX)]
Cells: TypeAlias = Annotated[bytes, Meta(max_length=CHART_BYTES)]
Hosts: TypeAlias = Annotated[tuple[Address, ...], Meta(max_length=HOSTS_MAX)]


class Child(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A child as one host describes it to another. `core` is the box that it will have when those that are about to
    leave it have left; None if that is `box`. `formers`: hosts whose child it may still be, if not the sender's."""

    address: Address
    box: Box
    core: Box | None
    count: Count
    formers: Hosts


Children: TypeAlias = Annotated[tuple[Child, ...], Meta(max_length=NODE_MAX)]


# --- Finding a place --------------------------------------------------------------------------------------------------


class JoinRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="join-request"):
    """`who` looks for a parent for itself and the tree below it; it goes up to the root.

    `stands`: it hosts or is a tree of its own already, and will not be a child of a smaller one."""

    req_id: Count
    who: Address
    level: Level
    box: Box
    stands: bool
    mask: Mask
    hops: Hops


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="place"):
    """The same on its way down, to be placed in or below the receiver's node at height `at`."""

    req_id: Count
    who: Address
    level: Level
    box: Box
    mask: Mask
    at: Level
    hops: Hops


class Adopt(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="adopt"):
    """Be my child: as you have asked by `req_id`, or because I take over from your parent, which is one of these."""

    req_id: Count
    level: Level
    instead_of: Hosts


class Move(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="move"):
    """Parent to child: look for another place, and stay with me until you have it."""

    level: Level
    mask: Mask


# --- The edge between a child and its parent --------------------------------------------------------------------------


class Mbr(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="mbr"):
    """Child to parent: this is what my subtree needs. The first one makes the edge, a repeated one keeps it.

    `inner`: the boxes of my children, if you look ahead. `sponsor`: the child of yours from which I take a node over
    (`replaces`: all of it, so that it will leave you). `cells`: where my subtree wants anything, if there are charts
    and the box does not say it; `chart`: a digest of the chart that I have; `said`: when, by my clock (`chart`)."""

    seq: Count
    level: Level
    box: Box
    core: Box | None
    count: Count
    inner: Boxes
    sponsor: Address | None
    replaces: bool
    cells: Cells = b""
    chart: Count = 0
    said: Moment = 0


class Covered(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="covered"):
    """Parent to child: what you told me by `seq` is known all the way up to the root. `hints`: whom to ask for a place
    should I be lost. `root`: the root as far as I know.

    `agreed`: and by everybody who might hold an event back. `chart`: a digest of the chart that I have, 0 if it is in
    doubt; `said`: as you told me with your last word (`chart`)."""

    seq: Count
    level: Level
    root: Address
    hints: Hints
    agreed: bool = True
    chart: Count = 0
    said: Moment = 0


class Chart(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="chart"):
    """Parent to child: here anybody in the tree wants anything; empty if I do not know. `base`: the digest of the chart
    from which this is the difference; 0 if it is the chart itself."""

    cells: Cells
    base: Count = 0


class Charted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="charted"):
    """Child to parent: I have the chart with this digest, and so has everybody below me."""

    chart: Count


class NotChild(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="not-child"):
    """You are not my child at that level, whatever you told me by `seq`."""

    seq: Count
    level: Level


class Claim(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="claim"):
    """I hold that you are my child at that level; say so, or release me."""

    level: Level


class Release(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="release"):
    """I am not your child at that level (any more). `leaving`: and tell me when you know it, for I want to go."""

    level: Level
    leaving: bool


class Released(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="released"):
    """You may go."""


# --- Nodes that change their host -------------------------------------------------------------------------------------


class Take(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="take"):
    """Host to one of its children: host these nodes, the lowest of which has you as a child.

    A split hands over a part of one node, beside which the sender keeps the rest; a handover (`whole`) the nodes from
    one level up to the sender's top. `parent`: whose child you will be; None makes you the root."""

    op: Count
    level: Level
    nodes: Annotated[tuple[Children, ...], Meta(max_length=LEVELS_MAX)]
    parent: Address | None
    whole: bool


class Taken(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="taken"):
    """I host those nodes, and their children are being adopted."""

    op: Count


class NotTaken(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="not-taken"):
    """I cannot; host them yourself."""

    op: Count


class Dissolve(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="dissolve"):
    """Parent to child: your node has too few children; let them go elsewhere, and follow them."""

    level: Level


# --- Events -----------------------------------------------------------------------------------------------------------


class Carry(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="carry"):
    copy: Copy


MESSAGES: Final = (
    JoinRequest,
    Place,
    Adopt,
    Move,
    Mbr,
    Covered,
    Chart,
    Charted,
    NotChild,
    Claim,
    Release,
    Released,
    Take,
    Taken,
    NotTaken,
    Dissolve,
    Carry,
)
