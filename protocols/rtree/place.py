"""Finding the place for a newcomer: up to the root, down to the best node (paper, section 4, "registering").

A `JoinRequest` is passed from child to parent until it is at a root. There

- a tree lower than ours goes down (`Place`), from node to node into the child that it suits best, to the node just
  above its own level, whose host answers `Adopt`. A newcomer is a tree of height 0, a reinserted child one of its own
  height; an orphan or the root of another tree is no different;
- of two trees of equal height the root with the greater address makes a new root above both;
- a taller one is asked to take us in.

A request is never lost for good: who sent it asks again. So it may be dropped wherever it cannot go on, but where
waiting will help (a joiner that does not stand itself yet, a node that is full and about to be split or handed over)
it waits.
"""

from msgspec.structs import replace

from protocols.model.ids import PEER_SLOT, Address
from protocols.overlay import Rejected
from protocols.rtree import search
from protocols.rtree.choose import branch
from protocols.rtree.edges import take_back
from protocols.rtree.messages import HOPS_MAX, LEVELS_MAX, Adopt, JoinRequest, Place
from protocols.rtree.tree import EXPECTED, JOINING, LEAVING, NEW, STANDING, WAITING_MAX, Entry, Node, Tree


def on_join_request(tree: Tree, now_ms: int, sender: Address, message: JoinRequest) -> None:
    if message.who.slot == PEER_SLOT:
        tree.out.report(Rejected(sender, "a place for one that is no participant"))
        return
    if message.who == tree.me or message.hops >= HOPS_MAX:
        return  # it came back to the root that asked: there is one tree, as far as it can be seen
    if tree.state in (NEW, JOINING) or (tree.parent is None and tree.candidate is not None):
        _wait(tree, message)
    elif tree.parent is not None:
        tree.out.send(tree.parent.address, replace(message, hops=message.hops + 1))
    elif tree.successor is not None:
        tree.out.send(tree.successor, replace(message, hops=message.hops + 1))
    else:
        _at_root(tree, now_ms, message)


def on_place(tree: Tree, now_ms: int, sender: Address, message: Place) -> None:
    if message.who.slot == PEER_SLOT:
        tree.out.report(Rejected(sender, "a place for one that is no participant"))
    elif message.who != tree.me and message.hops < HOPS_MAX:
        _descend(tree, now_ms, message)


def _at_root(tree: Tree, now_ms: int, message: JoinRequest) -> None:
    if message.level < tree.top:
        place = Place(message.req_id, message.who, message.level, message.box, message.mask, tree.top, message.hops)
        _descend(tree, now_ms, place)
    elif tree.state != STANDING or tree.operation is not None:
        _wait(tree, message)
    elif message.level == tree.top and (not message.stands or message.who < tree.me):
        if tree.top < LEVELS_MAX:
            _adopt(tree, now_ms, tree.raise_root(), message)
    elif message.stands and tree.search is not None:
        tree.out.send(message.who, search.request(tree, tree.search))


def _descend(tree: Tree, now_ms: int, message: Place) -> None:
    """Go down through own nodes as far as they lead."""
    at = message.at
    while message.level < at <= tree.top:
        if _is_frozen(tree, at):
            _wait(tree, replace(message, at=at), at)
            return
        node = tree.nodes[at - 1]
        if at == message.level + 1:
            _adopt(tree, now_ms, node, message)
            return
        branch = _choose(tree, node, message)
        if branch.address != tree.me:
            tree.out.send(branch.address, replace(message, at=at - 1, hops=message.hops + 1))
            return
        at -= 1
    # the node is not here any more: from the root again
    again = JoinRequest(
        message.req_id, message.who, message.level, message.box, True, message.mask, min(message.hops + 1, HOPS_MAX)
    )
    if tree.parent is not None or tree.candidate is not None:
        on_join_request(tree, now_ms, tree.me, again)


def _is_frozen(tree: Tree, height: int) -> bool:
    """Whether a node is being handed over, or given up, so that nobody can be added to it."""
    operation = tree.operation
    if operation is not None and operation.whole and operation.height <= height:
        return True
    return tree.state != STANDING or tree.taking is not None or (tree.dissolving and height == tree.top)


def _is_full(tree: Tree, node: Node) -> bool:
    """Whether a node has so many children that it must be divided before it takes in another."""
    return node.count() >= 2 * tree.config.children_max


def _choose(tree: Tree, node: Node, message: Place) -> Entry:
    # whoever was merely invited may not host a node at all by now
    able = [entry for entry in node.active() if entry.linked or entry.formers or entry.address == tree.me]
    branches = [entry for entry in able if entry.address != message.who]
    cores = [entry.core for entry in branches]
    hold_leaves = node.height == 2 and message.level == 0
    return branches[branch(tree.config.choose, cores, message.box, tree.measure, hold_leaves)]


def _adopt(tree: Tree, now_ms: int, node: Node, message: JoinRequest | Place) -> None:
    """Here is the place."""
    entry = node.entries.get(message.who)
    until_ms = now_ms + tree.config.patience_ms
    if entry is not None:
        if entry.standing == LEAVING:
            take_back(tree, entry, until_ms)
    elif _is_full(tree, node):
        _wait(tree, message, node.height)
        return
    else:
        node.entries[message.who] = Entry(message.who, message.box, message.box, 0, EXPECTED, until_ms)
        tree.changed = True
    node.mask = message.mask
    tree.out.send(message.who, Adopt(message.req_id, message.level, ()))


def _wait(tree: Tree, message: JoinRequest | Place, height: int = 0) -> None:
    """Keep a request until there is a way; `height`: of the own node that has no room for it, if that is why."""
    if message.who in tree.waiting or len(tree.waiting) < WAITING_MAX:
        tree.waiting[message.who] = message, height


def let_in(tree: Tree, now_ms: int) -> None:
    """What had to wait may have a way now. (Where there is no room yet nobody chooses its branch again: hundreds may
    wait for one node, and every child that leaves it asks.)"""
    tree.reopened = False
    waiting, tree.waiting = tree.waiting, {}
    for who, (message, height) in waiting.items():
        node = tree.node(height)
        if node is not None and (_is_full(tree, node) or _is_frozen(tree, height)):
            tree.waiting[who] = message, height
        elif isinstance(message, Place):
            on_place(tree, now_ms, tree.me, message)
        else:
            on_join_request(tree, now_ms, tree.me, message)
