"""Nodes that change their host: splits, promotions and departures are one operation.

A host hands nodes to one of its children, the *successor*, in three situations:

- *split*: a node has more than M children. It keeps one group and hands the other to the largest child in it;
- *promotion* (paper, "dynamic reorganization"): a child covers more than the host does one level below. The node and
  all own nodes above it go to that child: what was the largest there stays the largest, under its new host;
- *departure*: a host that leaves hands all its nodes to its largest child.

    host                   successor                  its parent-to-be             children of the nodes
     |---- Take ------------->|---- Mbr (sponsored) ------>|
     |                        | <--- Covered --------------|
     | <--- Taken ------------|---- Adopt ---------------------------------------------->|
     | <------------------------------------- Mbr, Covered, then Release ---------------|

Until its children have released it, the host serves them as before: `LEAVING` in a node that it keeps a part of,
`retiring` where it has no node any more. So nothing depends on how long it takes, nor on its coming to an end: a child
that is never adopted is claimed or turned away by the checks, and finds a place like any orphan.

One operation at a time is under way from a host, and one to a successor; a successor that is busy, or leaves itself,
says `NotTaken`, and the host tries another.
"""

from collections.abc import Sequence
from math import ceil

from protocols.model.box import Box, enclosing, enclosing_all
from protocols.model.ids import Address
from protocols.overlay import Control, Rejected
from protocols.rtree.choose import branch, largest
from protocols.rtree.config import RtreeConfig
from protocols.rtree.edges import attach, give_up_parent, leave_out, send_away, take_back, unlink
from protocols.rtree.measure import Measure
from protocols.rtree.messages import HOSTS_MAX, LEVELS_MAX, Adopt, Child, Move, NotTaken, Take, Taken
from protocols.rtree.split import METHODS, Group, farthest
from protocols.rtree.tree import (
    EXPECTED,
    LEAVING,
    MEMBER,
    STANDING,
    Entry,
    Node,
    Operation,
    Taking,
    Tree,
    Uplink,
)

REFUSED_MS = 1_000
"""How long a child that could not take a node is not asked again. A guess: two operations' time."""

# --- The host's side --------------------------------------------------------------------------------------------------


def is_free(tree: Tree) -> bool:
    """Whether this host may begin something."""
    return tree.operation is None and tree.taking is None and tree.candidate is None and not tree.dissolving


def successors(tree: Tree, now_ms: int, entries: Sequence[Entry]) -> list[Entry]:
    """The children that could take a node."""
    return [
        entry
        for entry in entries
        if entry.standing == MEMBER and entry.address != tree.me and tree.refusers.get(entry.address, 0) <= now_ms
    ]


def divide(tree: Tree, now_ms: int, node: Node) -> bool:
    """A node has too many children: let some move (R*), or split it. False if nobody could take the other half yet."""
    if tree.config.split == "rstar" and _reinsert(tree, now_ms, node):
        return True
    entries = node.active()
    boxes = [entry.core for entry in entries]
    group = one_of_two(tree.config, boxes, tree.measure, leaves=node.height == 1)
    one = [entries[at] for at in group]
    other = [entry for at, entry in enumerate(entries) if at not in group]
    mine, theirs = (one, other) if any(entry.address == tree.me for entry in one) else (other, one)
    able = successors(tree, now_ms, theirs)
    if not able:
        return False
    host = able[largest([entry.core for entry in able], tree.measure)]
    above: Address
    if node.height < tree.top:
        above = tree.me
    elif tree.parent is not None:
        above = tree.parent.address
    elif tree.top < LEVELS_MAX:
        tree.raise_root()
        above = tree.me
    else:
        return False
    for entry in theirs:
        leave_out(tree, entry, now_ms + tree.config.patience_ms)
    operation = Operation(tree.new_id(), node.height, host.address, whole=False, leaving=False)
    operation.members = tuple(entry.address for entry in theirs)
    tree.operation = operation
    tree.out.report(Control("split", len(mine) + len(theirs), {"height": str(node.height)}))
    _offer(tree, now_ms, operation, (_described(theirs, host.address),), above)
    return True


def one_of_two(config: RtreeConfig, boxes: Sequence[Box], measure: Measure, leaves: bool) -> Group:
    """One group of a node's children: the first M + 1 are split, as in the paper. Whoever has come since, before there
    was time, takes its branch like a newcomer, so that the tree depends little on how fast peers join. (All of 2 M cut
    into m and the rest would leave one minimal node after the other behind, and cut in half, nodes that are too full.)
    """
    many = config.children_max + 1
    group = METHODS[config.split](boxes[:many], config.children_min, measure)
    other = [at for at in range(min(many, len(boxes))) if at not in group]
    halves = [enclosing_all(boxes[at] for at in half) for half in (group, other)]
    for at in range(many, len(boxes)):
        chosen = branch(config.choose, halves, boxes[at], measure, hold_leaves=leaves)
        halves[chosen] = enclosing(halves[chosen], boxes[at])
        if chosen == 0:
            group.append(at)
    return group


def _reinsert(tree: Tree, now_ms: int, node: Node) -> bool:
    """R*'s overflow treatment: once per level and operation, let the farthest children find a better place."""
    level = node.height - 1
    is_root_node = node.height == tree.top and tree.parent is None
    count = ceil(tree.config.reinsert_share * tree.config.children_max)
    if is_root_node or node.mask >> level & 1 or not count:
        return False
    entries = node.active()
    far = [entries[at] for at in farthest([entry.core for entry in entries], count, tree.measure)]
    movers = [entry for entry in far if entry.standing == MEMBER and entry.address != tree.me]
    if len(entries) - len(movers) > tree.config.children_max:
        return False
    mask = node.mask | 1 << level
    for entry in movers:
        send_away(tree, now_ms, entry, Move(level, mask))
    node.mask = mask
    return True


def hand_over(tree: Tree, now_ms: int, height: int, successor: Entry, leaving: bool) -> None:
    """Hand the own nodes from `height` up to a child of the lowest of them."""
    operation = Operation(tree.new_id(), height, successor.address, whole=True, leaving=leaving)
    nodes = []
    for node in tree.nodes[height - 1 :]:
        stay = [entry for entry in node.entries.values() if entry.standing != LEAVING or entry.asked is not None]
        entries = [entry for entry in stay if entry.address != tree.me]
        nodes.append(_described(entries, successor.address))
    if not leaving:
        own = tree.nodes[height - 1].entries[tree.me]
        nodes[0] = (*nodes[0], *_described([own], successor.address))
    tree.operation = operation
    what = "departure" if leaving else "promotion"
    tree.out.report(Control(what, height, {"successor": str(successor.address)}))
    _offer(tree, now_ms, operation, tuple(nodes), None if tree.parent is None else tree.parent.address)


def _described(entries: Sequence[Entry], besides: Address) -> tuple[Child, ...]:
    return tuple(
        Child(entry.address, entry.box, None if entry.core == entry.box else entry.core, entry.count, entry.formers)
        for entry in entries
        if entry.address != besides
    )


def _offer(
    tree: Tree, now_ms: int, operation: Operation, nodes: tuple[tuple[Child, ...], ...], above: Address | None
) -> None:
    operation.until_ms = now_ms + tree.config.patience_ms
    take = Take(operation.op, operation.height - 1, nodes, above, operation.whole)
    tree.out.send(operation.successor, take)


def on_taken(tree: Tree, now_ms: int, sender: Address, message: Taken) -> None:
    operation = tree.operation
    if operation is None or operation.op != message.op or operation.successor != sender:
        return
    tree.operation = None
    tree.reopened = True
    if operation.whole:
        _retire(tree, now_ms, operation)


def _retire(tree: Tree, now_ms: int, operation: Operation) -> None:
    """Another hosts our nodes now: serve their children until they have moved, and become its child ourselves."""
    for node in tree.nodes[operation.height - 1 :]:
        for entry in node.entries.values():
            if entry.linked and entry.address != tree.me:
                entry.until_ms = now_ms + tree.config.rpc_ms
                former = tree.retiring.get(entry.address)
                if former is not None:
                    unlink(tree, former)
                tree.retiring[entry.address] = entry
    del tree.nodes[operation.height - 1 :]
    level = operation.height - 1
    tree.awaiting = {key: need for key, need in tree.awaiting.items() if key[0] < level}
    tree.changed = True
    if operation.leaving:
        tree.successor = operation.successor
    else:
        tree.search = None
        attach(tree, now_ms, Uplink(operation.successor, tree.top, now_ms))


def on_not_taken(tree: Tree, now_ms: int, sender: Address, message: NotTaken) -> None:
    operation = tree.operation
    if operation is not None and operation.op == message.op and operation.successor == sender:
        give_up(tree, now_ms)


def give_up(tree: Tree, now_ms: int) -> None:
    """The operation does not come to pass: all stays as it was."""
    operation, tree.operation = tree.operation, None
    if operation is None:
        return
    tree.reopened = True
    tree.refusers = {address: until for address, until in tree.refusers.items() if until > now_ms}
    tree.refusers[operation.successor] = now_ms + REFUSED_MS
    node = tree.node(operation.height)
    if node is not None and not operation.whole:
        for address in operation.members:
            if address in node.entries:
                take_back(tree, node.entries[address], now_ms + tree.config.patience_ms)


# --- The successor's side ---------------------------------------------------------------------------------------------


def on_take(tree: Tree, now_ms: int, sender: Address, message: Take) -> None:
    parent = tree.parent
    if tree.taking is not None and (tree.taking.sender, tree.taking.op) == (sender, message.op):
        return  # the offer was repeated
    fits = (
        parent is not None
        and (parent.address, parent.level) == (sender, message.level)
        and message.level == tree.top
        and 1 <= len(message.nodes) <= LEVELS_MAX - tree.top
        and message.parent != tree.me
    )
    if not fits or tree.state != STANDING or not is_free(tree):
        tree.out.send(sender, NotTaken(message.op))
        if not fits:
            tree.out.report(Rejected(sender, "offers nodes to one that is not its child"))
        return
    tree.search = None
    tree.taking = Taking(message.op, sender, tree.top, message.whole)
    for children in message.nodes:
        node = tree.raise_root()
        for child in children:
            if child.address != tree.me:
                core = child.box if child.core is None else child.core
                until_ms = now_ms + tree.config.patience_ms
                entry = Entry(child.address, child.box, core, child.count, EXPECTED, until_ms)
                entry.formers = (*child.formers, sender)[-HOSTS_MAX:]
                node.entries[child.address] = entry
    if message.parent is not None:
        attach(tree, now_ms, Uplink(message.parent, tree.top, now_ms, sponsor=sender, replaces=message.whole))
        return
    give_up_parent(tree)  # the root takes its place at once


def conclude(tree: Tree, now_ms: int) -> None:
    """See whether what was offered to us has come to pass: we are a child of the parent-to-be, or have failed."""
    taking = tree.taking
    if taking is None or tree.candidate is not None:
        return
    if tree.is_stray:
        del tree.nodes[taking.top :]
        tree.changed = True
        tree.out.send(taking.sender, NotTaken(taking.op))
        tree.taking = None
        return
    tree.taking = None
    tree.reopened = True
    tree.out.send(taking.sender, Taken(taking.op))
    for node in tree.nodes[taking.top :]:
        for entry in node.entries.values():
            call(tree, node, entry)


def call(tree: Tree, node: Node, entry: Entry) -> None:
    """Tell a child that we have its node now."""
    if entry.standing == EXPECTED and entry.formers and entry.address != entry.formers[-1]:
        tree.out.send(entry.address, Adopt(0, node.height - 1, entry.formers))
