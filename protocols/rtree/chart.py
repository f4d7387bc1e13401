"""Events that need not climb to the root (`climb=needed`): a chart of where anybody wants anything.

Most events of a sparse workload are wanted by nobody, and a publisher that knew this would not send them. The
specification ("Improvements") lets parents push the boxes of siblings down the path, to be asked before an event
climbs. Measured, that is little: the boxes near the root enclose nearly everything (docs/rtree.md). A grid over the
attributes says far more in fewer bytes: one bit for each of 4,096 cells, set if some subscription touches it.

    up     every host tells its parent the cells of its subtree, as a part of its `Mbr`
    down   the root's cells are the chart; whoever gets a new one keeps it and passes it to its children (`Chart`)
    up     who has it, and whose children all have it, says so (`Charted`)

An event whose cell is not set on the chart stays with its publisher. Any other goes straight to the root.

*Nobody holds back what is owed.* A box is active only when its cells are *agreed*: on the chart of everybody who might
hold an event back. The root knows that when all its children have said `Charted`, and only then draws the next chart;
`Covered` brings it down to whoever waits for it. The edge itself does not wait, only `Active` does.

Whose chart a participant goes by is clear at any time: its parent's, and the parent does not say `Charted` without it.
That holds while the tree changes:

- who moves goes by its old parent's chart until it has moved, and then by both until the new one has spoken: cells that
  are set on either are wanted;
- who has taken over a node says nothing before its children have come, or are given up; a host whose children are with
  another by now (`retiring`) still hands charts to them and waits for them; a root that hands itself over agrees to
  nothing more;
- who has lost its parent knows nothing, nor does its tree, and holds nothing back until it has another, or has been a
  root for `patience_ms`.

*Who is silent holds up nobody for long.* A participant goes by its chart for `TRUST_ROUNDS` checks after it last asked
a parent that then answered that it has the same one (`said` comes back to whoever said it, so that it does not matter
how long an answer was under way). A parent with a newer chart does not answer so. So a child at level 0 that does not
say `Charted` has no right to hold anything back after that time, and one at level 1 nobody below it after twice that
time, and so on; then it is not waited for any more.

*And what was held back is kept* for `replay_ms`, like any event (`events`), and sent when a chart comes that wants it,
or none is known any more: whatever a subtree is not known for while it moves, it is late, not lost.

The chart is the same for all, so nothing has to be told anew when somebody moves within the tree. It only errs outward:
boxes cover all cells that they touch, and a child of which only the box is known covers those of its box. It shrinks at
the root's checks, when nothing moves there, and grows at once, but not oftener than every `SURVEY_MS`: many joins share
one chart.

A chart that has changed a little is told by the difference to whoever is known to have the last one: some dozen bytes
instead of half a kilobyte.

*It heals.* A child's `Mbr` carries a digest of the chart that it has, and a parent with another one sends its own; a
parent that waits for a child tells it again every round. A message that was lost, a chart that was forged or corrupted
lasts until the next check.
"""

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from protocols.model.event import Copy, onward
from protocols.model.ids import Address
from protocols.rtree.grid import Grid, apply, difference
from protocols.rtree.messages import MOMENTS, Carry, Chart, Charted, Covered
from protocols.rtree.tree import STANDING, Entry, Tree, Uplink

SURVEY_MS: Final = 250
"""At most so often does the root send a chart that has grown. A guess: as long as a join takes."""
TRUST_ROUNDS: Final = 2.5
"""Checks without a word from the parent after which the chart is in doubt: one answer may be late. With the default
period that is half of `replay_ms`, so that what was held back can still be sent."""
DOUBT: Final = b""
"""Instead of a chart: nobody knows."""
ALL: Final = -1
"""Every cell: nobody holds anything back."""


def _grid(tree: Tree) -> Grid | None:
    """On what charts are drawn here, if at all."""
    return tree.grid if tree.config.climb == "needed" else None


def _trust_ms(tree: Tree) -> float:
    return TRUST_ROUNDS * tree.config.check_ms


def _is_trusted(tree: Tree, now_ms: int) -> bool:
    at_ms = tree.chart.trusted_ms
    return tree.is_root or (at_ms is not None and 0 <= now_ms - at_ms <= _trust_ms(tree))


# --- Knowing a chart --------------------------------------------------------------------------------------------------


def on_chart(tree: Tree, now_ms: int, sender: Address, message: Chart) -> None:
    if _grid(tree) is None:
        return
    raw = _whole(tree, message)
    link = tree.parent or tree.candidate
    if link is not None and link.address == sender:
        if raw is not None:
            learn(tree, now_ms, raw)
        report(tree, link)  # if it was new, we are not settled; if it made no sense, the parent sees what we have
    elif tree.candidate is not None and tree.candidate.address == sender:
        tree.candidate.chart = DOUBT if raw is None else raw


def _whole(tree: Tree, message: Chart) -> bytes | None:
    """The chart that is meant; None if it is told by its difference from one that we do not have."""
    if not message.base:
        return message.cells
    return apply(tree.chart.raw, message.cells) if message.base == tree.chart.digest else None


def learn(tree: Tree, now_ms: int, raw: bytes) -> None:
    """From now on this is the chart; empty if it is in doubt. One of another grid is passed on, and has no say here."""
    known = tree.chart
    if raw == known.raw:
        return
    former, known.raw = known.raw, raw
    base = known.digest
    _read(tree)
    known.settled = False
    known.since_ms = now_ms
    if known.agreed is not None and known.cells is not None:
        known.agreed &= known.cells
    _spread(tree, former, base)
    release(tree, now_ms)


def _spread(tree: Tree, former: bytes, base: int) -> None:
    """Tell the children: by the difference, if that is shorter, those that are known to have the former chart."""
    linked = [entry for _, entry in _children(tree) if entry.linked]
    change = difference(former, tree.chart.raw) if former and tree.chart.raw else b""
    if change and len(change) < len(tree.chart.raw):
        know = dict.fromkeys(entry.address for entry in linked if entry.charted == base)
        tree.out.send_all(list(know), Chart(change, base))
        linked = [entry for entry in linked if entry.charted != base]
    tell(tree, [entry.address for entry in linked])


def _read(tree: Tree) -> None:
    known, grid = tree.chart, _grid(tree)
    known.cells = None if grid is None else grid.decode(known.raw)
    known.digest = (crc32(known.raw) or 1) if known.raw else 0


def _children(tree: Tree) -> Iterator[tuple[int, Entry]]:
    """Everybody who goes by our chart, or soon will, and the height of the node that it is a child in."""
    for node in tree.nodes:
        for entry in node.entries.values():
            if entry.address != tree.me:
                yield node.height, entry
    for entry in tree.retiring.values():
        yield tree.top + 1, entry


def tell(tree: Tree, children: list[Address]) -> None:
    if children and _grid(tree) is not None:
        tree.out.send_all(list(dict.fromkeys(children)), Chart(tree.chart.raw))


def compare(tree: Tree, child: Address, digest_there: int) -> None:
    """A child has told which chart it has."""
    if digest_there != tree.chart.digest:
        tell(tree, [child])


def vouched(tree: Tree, now_ms: int) -> int:
    """The chart that children may go by."""
    return tree.chart.digest if _is_trusted(tree, now_ms) else 0


def trust(tree: Tree, now_ms: int, message: Covered) -> None:
    """The parent has said which chart it has."""
    known = tree.chart
    if known.digest and message.chart == known.digest:
        said_ms = now_ms - (now_ms - message.said) % MOMENTS
        known.trusted_ms = said_ms if known.trusted_ms is None else max(known.trusted_ms, said_ms)


def moved(tree: Tree, now_ms: int, link: Uplink) -> None:
    """The candidate is the parent now: go by its chart, too, if it has told one, until it tells it again."""
    known, grid = tree.chart, _grid(tree)
    if grid is not None and known.cells is not None and link.chart is not None:
        told = grid.decode(link.chart)
        learn(tree, now_ms, DOUBT if told is None else grid.encode(known.cells | told))
    report(tree, link)


def lost(tree: Tree, now_ms: int) -> None:
    """There is no parent any more: nobody knows what others want, for as long as it may take to find one."""
    if _grid(tree) is not None:
        tree.chart.doubtful_until_ms = now_ms + tree.config.patience_ms
        tree.chart.trusted_ms = None
        learn(tree, now_ms, DOUBT)


# --- Agreeing on it ---------------------------------------------------------------------------------------------------


def report(tree: Tree, link: Uplink) -> None:
    """Tell a parent which chart everybody here has, if it is one."""
    if tree.chart.settled and _grid(tree) is not None:
        tree.out.send(link.address, Charted(tree.chart.digest))


def on_charted(tree: Tree, now_ms: int, sender: Address, message: Charted) -> None:
    for _, entry in _children(tree):
        if entry.address == sender:
            entry.charted = message.chart
            if entry.linked:
                compare(tree, sender, message.chart)


def review(tree: Tree, now_ms: int) -> None:
    """At the end of a step: see whether everybody here has the chart, and at the root, whether it is still right."""
    known, is_root = tree.chart, tree.is_root
    if _grid(tree) is None:
        return
    if not is_root:
        known.agreed = None
    elif known.agreed is None:  # the crown is new
        known.agreed, known.settled = 0, False
    while True:
        if is_root:
            _draw(tree, now_ms)
        if known.settled or not _have_all(tree, now_ms):
            return
        known.settled = True
        if not is_root:
            for link in (tree.parent, tree.candidate):
                if link is not None:
                    report(tree, link)
            return
        known.agreed = ALL if known.cells is None else known.cells


def _have_all(tree: Tree, now_ms: int) -> bool:
    """Whether everybody below has our chart, or no right to go by another one."""
    if _is_handing_over(tree):
        return False
    age_ms, trust_ms = now_ms - tree.chart.since_ms, _trust_ms(tree)
    for height, entry in _children(tree):
        if not entry.linked:
            if entry.formers:
                return False
        elif entry.charted != tree.chart.digest and age_ms <= height * trust_ms:
            return False
    return True


def _is_handing_over(tree: Tree) -> bool:
    """Whether this is a root that may not be one by now."""
    return tree.is_root and tree.operation is not None and tree.operation.whole


def is_agreed(tree: Tree, cells: int | None) -> bool:
    """At the root: whether nobody would hold back what falls into these cells."""
    agreed = tree.chart.agreed
    return _grid(tree) is None or cells is None or (agreed is not None and not cells & ~agreed)


def _draw(tree: Tree, now_ms: int) -> None:
    """A new chart, at once or soon, when the tree wants more than the present one says; one at a time."""
    known, cells, grid = tree.chart, tree.shape.cells, _grid(tree)
    assert grid is not None
    if now_ms < known.doubtful_until_ms or (known.cells is not None and not cells & ~known.cells):
        return
    due_ms = None if known.drawn_ms is None else known.drawn_ms + SURVEY_MS
    if due_ms is not None and now_ms < due_ms:
        tree.out.timer("chart", due_ms)
    elif known.settled or known.cells is None:
        known.drawn_ms = now_ms
        learn(tree, now_ms, grid.encode(cells | (known.cells or 0)))


def check_chart(tree: Tree, now_ms: int) -> None:
    """Every round: forget what nobody wants any more, or what is in doubt, and tell again whom we wait for."""
    known, grid = tree.chart, _grid(tree)
    if grid is None:
        return
    _read(tree)  # whatever memory made of it
    known.since_ms, known.drawn_ms = min(known.since_ms, now_ms), min(known.drawn_ms or now_ms, now_ms)
    known.doubtful_until_ms = min(known.doubtful_until_ms, now_ms + tree.config.patience_ms)
    if tree.is_root:
        if known.cells is not None and known.settled and _have_all(tree, now_ms):
            learn(tree, now_ms, grid.encode(tree.shape.cells))
    elif not _is_trusted(tree, now_ms):
        learn(tree, now_ms, DOUBT)
    if not known.settled:
        waited_for = [entry for _, entry in _children(tree) if entry.linked and entry.charted != known.digest]
        tell(tree, [entry.address for entry in waited_for])
    kept_ms = now_ms - tree.config.replay_ms
    known.held = [(at_ms, copy) for at_ms, copy in known.held if at_ms > kept_ms]


# --- Events -----------------------------------------------------------------------------------------------------------


def hold_back(tree: Tree, now_ms: int, copy: Copy) -> bool:
    """Whether an event of our own stays here, because nobody wants it as far as it is known."""
    if len(tree.chart.held) >= tree.config.recent_max or not _stays(tree, now_ms, copy):
        return False
    tree.chart.held.append((now_ms, copy))
    return True


def release(tree: Tree, now_ms: int) -> None:
    """Send what was held back and is wanted after all, or may be."""
    held, tree.chart.held = tree.chart.held, []
    for at_ms, copy in held:
        if _stays(tree, now_ms, copy):
            tree.chart.held.append((at_ms, copy))
        elif tree.parent is not None:
            late = Copy(copy.event, copy.hops, copy.age_ms + now_ms - at_ms)
            tree.out.send(tree.parent.address, Carry(onward(late)))


def _stays(tree: Tree, now_ms: int, copy: Copy) -> bool:
    grid, cells = _grid(tree), tree.chart.cells
    if grid is None or cells is None or tree.parent is None or tree.state != STANDING:
        return False
    return not cells & grid.around(copy.event.point) and _is_trusted(tree, now_ms)
