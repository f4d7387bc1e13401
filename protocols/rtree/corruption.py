"""What a participant's memory may look like after anything at all: to show that the tree heals from it.

The paper's companion [5] claims self-stabilisation: from *any* state the checks lead back to a legal tree. `scramble`
makes such a state. Nothing is spared but what the participant was told from outside (its subscription) and what it
remembers of events; what it knows of the tree is cut, doubled, exchanged or made up, with real addresses of other
participants in the wrong places, which is worse than noise. The simulator's fault `corrupt` uses it.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from protocols.model.box import EMPTY, Box
from protocols.model.ids import Address
from protocols.rtree.grid import CELLS_MAX
from protocols.rtree.tree import EXPECTED, LEAVING, MEMBER, Entry, Shape, Tree, Uplink


def scramble(tree: Tree, rng: Random, addresses: Sequence[Address]) -> None:
    """Corrupt what a participant knows of the tree, in half of the ways that there are."""
    others = [address for address in addresses if address != tree.me]
    for wreck in rng.sample(_WRECKS, len(_WRECKS) // 2):
        wreck(tree, rng, others)
    tree.changed = True


def _parent(tree: Tree, rng: Random, others: list[Address]) -> None:
    """Another parent, or none, at any level."""
    tree.parent = Uplink(rng.choice(others), rng.randrange(4), 0) if others and rng.random() < 0.7 else None


def _numbers(tree: Tree, rng: Random, others: list[Address]) -> None:
    """What was told and acknowledged."""
    for link in (tree.parent, tree.candidate):
        if link is not None:
            link.seq, link.acked = rng.randrange(10), rng.randrange(100)
            link.shape = Shape(EMPTY, EMPTY, 7, ())


def _boxes(tree: Tree, rng: Random, others: list[Address]) -> None:
    """The boxes of the children, exchanged and made up."""
    for node in tree.nodes:
        for entry in node.entries.values():
            made_up = tuple(rng.randrange(1000) for _ in tree.space.number_sizes)
            entry.box = entry.core = rng.choice((EMPTY, tree.box, Box(made_up, tuple(v + 50 for v in made_up))))
            entry.inner, entry.count = (), rng.randrange(20)


def _children(tree: Tree, rng: Random, others: list[Address]) -> None:
    """Children forgotten, and others that never were."""
    for node in tree.nodes:
        for address in list(node.entries):
            if address != tree.me and rng.random() < 0.3:
                del node.entries[address]
        for address in rng.sample(others, min(3, len(others))):
            entry = Entry(address, tree.box, tree.box, 0, rng.choice((EXPECTED, MEMBER, LEAVING)), 0)
            entry.linked = rng.random() < 0.5
            node.entries[address] = entry


def _levels(tree: Tree, rng: Random, others: list[Address]) -> None:
    """A node lost, or one that never was."""
    if tree.nodes and rng.random() < 0.5:
        del tree.nodes[rng.randrange(len(tree.nodes)) :]
    else:
        tree.raise_root()


def _flags(tree: Tree, rng: Random, others: list[Address]) -> None:
    """In the middle of something that nobody has begun."""
    tree.dissolving = bool(tree.nodes) and rng.random() < 0.5
    tree.operation = tree.taking = tree.search = None
    tree.awaiting.clear()
    if others:
        tree.candidate = Uplink(rng.choice(others), tree.top, 0)


def _names(tree: Tree, rng: Random, others: list[Address]) -> None:
    """Whom to ask, and who the root is."""
    tree.hints = tuple(rng.sample(others, min(2, len(others))))
    tree.root = rng.choice(others) if others else None


def _chart(tree: Tree, rng: Random, others: list[Address]) -> None:
    """Where anybody wants anything."""
    known = tree.chart
    known.raw = rng.choice((b"", b"\x04", known.raw[::-1]))
    known.cells = rng.choice((None, 0, rng.getrandbits(CELLS_MAX)))
    known.trusted_ms = known.since_ms = known.drawn_ms = known.doubtful_until_ms = rng.getrandbits(62)
    known.digest = rng.choice((known.digest, 0, rng.getrandbits(32)))
    known.settled = rng.random() < 0.5
    known.agreed = rng.choice((None, 0, rng.getrandbits(CELLS_MAX)))
    for node in tree.nodes:
        for entry in node.entries.values():
            entry.cells = rng.choice((None, 0, rng.getrandbits(CELLS_MAX)))
            entry.charted = rng.choice((known.digest, 0, rng.getrandbits(32)))


_WRECKS: Final[tuple[Callable[[Tree, Random, list[Address]], None], ...]] = (
    _parent,
    _numbers,
    _boxes,
    _children,
    _levels,
    _flags,
    _names,
    _chart,
)
