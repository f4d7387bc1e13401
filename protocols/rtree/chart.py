"""Events that need not climb to the root (`climb=needed`): a chart of where anybody wants anything.

Most events of a sparse workload are wanted by nobody, and a publisher that knew this would not send them. The
specification ("Improvements") lets parents push the boxes of siblings down the path, to be asked before an event
climbs. Measured, that is little: the boxes near the root enclose nearly everything (docs/rtree.md). A grid over the
attributes says far more in fewer bytes: one bit for each of 4,096 cells, set if some subscription touches it.

    up     every host tells its parent the cells of its subtree, as a part of its `Mbr`
    down   the root's cells are the chart; whoever gets a new one keeps it and passes it to its children (`Chart`)

An event whose cell is not set on the chart stays with its publisher. Any other goes straight to the root.

*Why nothing owed is lost.* A cell is known at the root before the subscription is active: `Covered` answers for the
cells as it does for the box (`edges`). From there the chart needs a moment to reach everybody, and an event published
meanwhile may stay where it should not have stayed. So the publisher keeps what it holds back for `replay_ms`, and sends
it when a chart comes that wants it: such an event is late, never lost. And when in doubt, events climb: a participant
that does not know the chart, or has not heard from its parent for `TRUST_ROUNDS` checks, holds nothing back, sends what
it has held, and tells its children that it does not know.

The chart is the same for all, so nothing has to be told anew when somebody moves within the tree. It only errs outward:
boxes cover all cells that they touch, and a child of which only the box is known covers those of its box. It shrinks at
the root's checks, and grows at once, but not oftener than every `SURVEY_MS`: many joins share one chart.

*It heals.* A child's `Mbr` carries a digest of the chart that it has, and a parent with another one sends its own: a
chart that was lost, forged or corrupted lasts until the next check.
"""

from typing import Final
from zlib import crc32

from protocols.model.event import Copy, onward
from protocols.model.ids import Address
from protocols.rtree.grid import Grid
from protocols.rtree.messages import Carry, Chart
from protocols.rtree.tree import STANDING, Tree

SURVEY_MS: Final = 250
"""At most so often does the root send a chart that has grown. A guess: as long as a join takes."""
TRUST_ROUNDS: Final = 2.5
"""Checks without a word from the parent after which the chart is in doubt: one answer may be late. With the default
period that is half of `replay_ms`, so that what was held back can still be sent."""


# --- What everybody does ----------------------------------------------------------------------------------------------


def _grid(tree: Tree) -> Grid | None:
    """On what charts are drawn here, if at all."""
    return tree.grid if tree.config.climb == "needed" else None


def digest(tree: Tree) -> int:
    """The chart that is known here, in four bytes; 0 for none."""
    grid = _grid(tree)
    return 0 if grid is None or tree.chart is None else crc32(grid.encode(tree.chart)) or 1


def on_chart(tree: Tree, now_ms: int, sender: Address, message: Chart) -> None:
    grid = _grid(tree)
    if grid is not None and tree.parent is not None and tree.parent.address == sender:
        tree.heard_ms = now_ms
        learn(tree, now_ms, grid.decode(message.cells))


def learn(tree: Tree, now_ms: int, chart: int | None) -> None:
    """From now on this is the chart; None if it is in doubt."""
    if chart == tree.chart:
        return
    tree.chart = chart
    for node in tree.nodes:
        for entry in node.entries.values():
            if entry.linked:
                tell(tree, entry.address)
    release(tree, now_ms)


def tell(tree: Tree, child: Address) -> None:
    grid = _grid(tree)
    if grid is not None:
        tree.out.send(child, Chart(grid.encode(tree.chart)))


def compare(tree: Tree, child: Address, digest_there: int) -> None:
    """A child has told which chart it has."""
    if digest_there != digest(tree):
        tell(tree, child)


def check_chart(tree: Tree, now_ms: int) -> None:
    """Every round: the root's chart is what its tree wants; for all others it is in doubt if the parent is silent."""
    if _grid(tree) is None:
        return
    if tree.is_root:
        learn(tree, now_ms, tree.shape.cells)
    elif now_ms - tree.heard_ms > TRUST_ROUNDS * tree.config.check_ms:
        learn(tree, now_ms, None)
    kept_ms = now_ms - tree.config.replay_ms
    tree.held = [(at_ms, copy) for at_ms, copy in tree.held if at_ms > kept_ms]


def survey(tree: Tree, now_ms: int) -> None:
    """At the root, when its tree wants more than the chart says: a new one, at once or soon."""
    if _grid(tree) is None or not tree.is_root or (tree.chart is not None and not tree.shape.cells & ~tree.chart):
        return
    due_ms = tree.surveyed_ms + SURVEY_MS
    if now_ms < due_ms:
        tree.out.timer("chart", due_ms)
        return
    tree.surveyed_ms = now_ms
    learn(tree, now_ms, tree.shape.cells)


# --- Events -----------------------------------------------------------------------------------------------------------


def hold_back(tree: Tree, now_ms: int, copy: Copy) -> bool:
    """Whether an event of our own stays here, because nobody wants it as far as it is known."""
    is_inside = tree.parent is not None and tree.state == STANDING
    if not is_inside or len(tree.held) >= tree.config.recent_max or _may_be_wanted(tree, copy):
        return False
    tree.held.append((now_ms, copy))
    return True


def release(tree: Tree, now_ms: int) -> None:
    """Send what was held back and is wanted after all, or may be."""
    held, tree.held = tree.held, []
    for at_ms, copy in held:
        if not _may_be_wanted(tree, copy):
            tree.held.append((at_ms, copy))
        elif tree.parent is not None:
            late = Copy(copy.event, copy.hops, copy.age_ms + now_ms - at_ms)
            tree.out.send(tree.parent.address, Carry(onward(late)))


def _may_be_wanted(tree: Tree, copy: Copy) -> bool:
    grid = _grid(tree)
    return grid is None or tree.chart is None or bool(tree.chart & grid.around(copy.event.point))
