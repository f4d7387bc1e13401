"""What a participant looks after by itself: at the end of every step, and every `check_ms`.

The checks are those of the self-stabilising tree (specification, section 4, after the paper's companion [5]); each
needs local knowledge only, and whatever state they begin with, the tree is legal after some rounds:

- *mbr*: own boxes are computed from the children's at every change, never stored; a child repeats its own every round.
- *parent*: who has none looks for one, for ever; the parent that does not know us says so.
- *children*: who was expected and did not come, or is silent and belongs to another, is dropped.
- *cover*: a child that covers clearly more than we do takes the node over.
- *structure*: more than M children: split, at once. Fewer than m: the *parent* sees it from the count that a child
  tells, and lets one child at a time dissolve: its children are reinserted at their level, and at last itself (paper,
  "canceling a subscription"). The root gives up a node in which it is alone.

Differs from the specification: an underloaded node is never merged whole with a sibling; its children are reinserted
one by one, which costs a few messages more and puts each where it fits best.
"""

from protocols.model.ids import Address
from protocols.overlay import Left
from protocols.rtree import chart, search
from protocols.rtree.choose import largest
from protocols.rtree.edges import (
    drop_child,
    give_up_candidate,
    is_silent,
    lose_candidate,
    lose_parent,
    send_away,
    settle_edges,
    take_back,
    tell,
    unlink,
)
from protocols.rtree.handover import call, conclude, divide, give_up, hand_over, is_free, successors
from protocols.rtree.messages import Claim, Dissolve, Move, NotChild, Release, Released
from protocols.rtree.place import let_in
from protocols.rtree.tree import JOINING, LEAVING, LEAVING_TREE, LEFT, STANDING, Entry, Node, Tree

LEAVE_RETRY_MS = 200
"""How soon a leaver looks again for somebody to take its nodes."""

# --- At the end of every step -----------------------------------------------------------------------------------------


def settle(tree: Tree, now_ms: int) -> None:
    """Do what follows from the step: nobody else changes the structure above a participant's own nodes."""
    if tree.state == LEFT:
        return
    if tree.taking is not None:
        conclude(tree, now_ms)
    if tree.reopened and tree.waiting and tree.state == STANDING:
        let_in(tree, now_ms)
    if tree.changed:
        _collapse(tree)
        _follow(tree, now_ms)
        _split(tree, now_ms)
    settle_edges(tree, now_ms)
    lacks_parent = tree.parent is None and tree.candidate is None
    if lacks_parent and tree.search is None and tree.state in (JOINING, STANDING):
        search.begin(tree, now_ms)
    if tree.state == LEAVING_TREE:
        leave(tree, now_ms)


def _split(tree: Tree, now_ms: int) -> None:
    if tree.state != STANDING or not is_free(tree):
        return
    for node in tree.nodes:
        if _is_overfull(tree, node):
            if tree.changed:
                tree.reshape()
            if divide(tree, now_ms, node):
                return


def _is_overfull(tree: Tree, node: Node) -> bool:
    return node.count() > tree.config.children_max


def _collapse(tree: Tree) -> None:
    """A root that is alone in its highest node gives it up."""
    while tree.nodes and tree.is_root and is_free(tree) and len(tree.nodes[-1].entries) == 1:
        tree.nodes.pop()


def _follow(tree: Tree, now_ms: int) -> None:
    """The last child of a node that is being dissolved has gone: follow it."""
    if not tree.nodes:
        tree.dissolving = False
    if tree.dissolving and len(tree.nodes[-1].entries) == 1:
        tree.dissolving = False
        tree.nodes.pop()
        search.begin(tree, now_ms, stays=True)


# --- Leaving ----------------------------------------------------------------------------------------------------------


def leave(tree: Tree, now_ms: int) -> None:
    """The next step on the way out: hand over what is hosted, then take leave of the parent."""
    if tree.operation is not None or tree.taking is not None or (tree.nodes and tree.candidate is not None):
        return
    if tree.nodes and tree.is_stray:  # whoever took the nodes would have no parent
        if tree.search is None:
            search.begin(tree, now_ms, stays=True)
        return
    for node in tree.nodes:
        able = successors(tree, now_ms, list(node.entries.values()))
        if able:
            best = able[largest([each.core for each in able], tree.measure)]
            # with nodes left below, which nobody could take yet, we are its child until somebody has
            hand_over(tree, now_ms, node.height, best, leaving=node.height == 1)
            return
    if tree.retiring or any(len(node.entries) > 1 for node in tree.nodes):
        tree.out.timer("leave", now_ms + LEAVE_RETRY_MS)
        return
    _take_leave(tree, now_ms)


def _take_leave(tree: Tree, now_ms: int) -> None:
    """Tell those above, and go when they have heard it: then they have also got every event that we sent before."""
    above = {link.address: link.level for link in (tree.parent, tree.candidate) if link is not None}
    if not above and tree.successor is not None:
        above = {tree.successor: 0}
    if not above:
        _leave_now(tree)
        return
    if tree.farewell != tuple(above):
        tree.farewell = tuple(above)
        for address, level in above.items():
            tree.farewells[address] = tree.farewells.get(address, 0) + 1
            tree.out.send(address, Release(level, leaving=True))
        tree.out.timer("leave", now_ms + tree.config.rpc_ms)


def on_released(tree: Tree, now_ms: int, sender: Address, message: Released) -> None:
    if tree.state != LEAVING_TREE:
        return
    still = tree.farewells.pop(sender, 1) - 1
    if still:
        tree.farewells[sender] = still  # it may not have heard what we have sent since
        return
    if tree.parent is not None and tree.parent.address == sender:
        lose_parent(tree)
    if tree.candidate is not None and tree.candidate.address == sender:
        lose_candidate(tree)
    if tree.successor == sender:
        tree.successor = None


def _leave_now(tree: Tree) -> None:
    tree.state = LEFT
    for key in ("chart", "check", "search", "leave"):
        tree.out.cancel(key)
    tree.out.report(Left())


# --- Every round ------------------------------------------------------------------------------------------------------


def check(tree: Tree, now_ms: int) -> None:
    tree.reopened = True
    tree.changed = True
    check_parent(tree, now_ms)
    check_children(tree, now_ms)
    chart.check_chart(tree, now_ms)
    if tree.operation is not None and tree.operation.until_ms <= now_ms:
        give_up(tree, now_ms)
    if tree.state == STANDING:
        if is_free(tree) and not any(_is_overfull(tree, node) for node in tree.nodes):
            # a child that never takes a node would else be offered it at every check, and no node be split meanwhile
            check_cover(tree, now_ms)
        if is_free(tree):
            check_structure(tree, now_ms)


def check_parent(tree: Tree, now_ms: int) -> None:
    """Repeat what the parent must know; give up a candidate that does not answer, or a node that does not dissolve."""
    parent, candidate = tree.parent, tree.candidate
    if parent is not None and not tree.is_stray:
        tell(tree, now_ms, parent)
    if candidate is not None:
        if now_ms - candidate.since_ms < tree.config.patience_ms:
            tell(tree, now_ms, candidate)
        else:
            give_up_candidate(tree)
    if (
        tree.is_stray
        and tree.candidate is None
        and tree.taking is None
        and (tree.search is None or not tree.search.stays)
    ):
        search.begin(tree, now_ms, stays=True)
    if tree.dissolving and all(e.standing != LEAVING for e in tree.nodes[-1].entries.values()):
        tree.dissolving = False  # they did not find a place, and stay


def check_children(tree: Tree, now_ms: int) -> None:
    for node in tree.nodes:
        for entry in list(node.entries.values()):
            if entry.address == tree.me:
                continue
            overdue = entry.until_ms <= now_ms
            if not entry.linked:
                if overdue:
                    drop_child(tree, node.height, entry.address)
                elif tree.taking is None:
                    call(tree, node, entry)
                continue
            if entry.standing == LEAVING and overdue:
                take_back(tree, entry, now_ms + tree.config.patience_ms)
            if entry.asked is not None:
                tree.out.send(entry.address, entry.asked)
            if is_silent(tree, now_ms, entry):
                tree.out.send(entry.address, Claim(node.height - 1))
    for entry in list(tree.retiring.values()):
        if entry.until_ms <= now_ms:
            del tree.retiring[entry.address]
            unlink(tree, entry)
            for level in range(tree.top + 2):
                tree.out.send(entry.address, NotChild(entry.seq, level))


def check_cover(tree: Tree, now_ms: int) -> None:
    """If a child covers clearly more than we do, it should host the node, and all above it."""
    measure, config = tree.measure, tree.config
    if tree.changed:
        tree.reshape()
        tree.changed = True
    for node in reversed(tree.nodes):
        able = [e for e in successors(tree, now_ms, list(node.entries.values())) if not _is_underloaded(tree, node, e)]
        if not able:
            continue
        best = able[largest([entry.core for entry in able], measure)]
        own = measure.volume(node.entries[tree.me].core)
        if measure.volume(best.core) > own * (1.0 + config.hysteresis):
            hand_over(tree, now_ms, node.height, best, leaving=False)
            return


def _is_underloaded(tree: Tree, node: Node, entry: Entry) -> bool:
    return node.height > 1 and entry.count < tree.config.children_min


def check_structure(tree: Tree, now_ms: int) -> None:
    """Let one underloaded child of each node dissolve; if it is our own, let another host the node first."""
    for node in tree.nodes[1:]:
        active = node.active()
        if len(active) < len(node.entries) or len(active) < 2:
            continue  # one at a time, and never the last
        weak = [entry for entry in active if _is_underloaded(tree, node, entry)]
        others = successors(tree, now_ms, weak)
        if others:
            send_away(tree, now_ms, others[0], Dissolve(node.height - 1))
        elif weak and weak[0].address == tree.me and (able := successors(tree, now_ms, active)):
            best = able[largest([entry.core for entry in able], tree.measure)]
            hand_over(tree, now_ms, node.height, best, leaving=False)
            return


def on_dissolve(tree: Tree, now_ms: int, sender: Address, message: Dissolve) -> None:
    parent = tree.parent
    is_ours = parent is not None and (parent.address, parent.level) == (sender, message.level)
    if not is_ours or not message.level == tree.top >= 1 or not is_free(tree) or tree.state != STANDING:
        return
    tree.dissolving = True
    tree.changed = True
    for entry in list(tree.nodes[-1].entries.values()):
        if not entry.linked:
            drop_child(tree, tree.top, entry.address)
        elif entry.address != tree.me:
            send_away(tree, now_ms, entry, Move(tree.top - 1, 0))


def on_move(tree: Tree, now_ms: int, sender: Address, message: Move) -> None:
    parent = tree.parent
    is_ours = parent is not None and (parent.address, parent.level) == (sender, message.level)
    if is_ours and message.level == tree.top and is_free(tree) and tree.search is None and tree.state == STANDING:
        search.begin(tree, now_ms, stays=True, mask=message.mask)
