"""The edge between a child and its parent: made, kept, and given up only for another one.

    child                                  parent
      | <--- Adopt ---------------------------|   come
      |---- Mbr(seq, box …) ----------------->|   here I am, and this is what my subtree needs
      | <--- Covered(seq) --------------------|   this is known all the way up to the root
      |---- Release ----> former parent           (only now)

*Covered.* A parent answers a child's `Mbr` when its own parent has answered the `Mbr` that contains it, and so on up to
the root, which answers at once. So a child that is covered is reached by every event published anywhere from then on:
that is when a joiner stands, when a changed box is active, and when a child that moves may let its former parent go.
Where nothing changes above, the answer is immediate. (The specification enlarges boxes on the way down instead, by
PLACE; the answer from above is sure, whatever else happens to the tree meanwhile.)

*Two parents.* A child that moves has a `parent` and a `candidate`. Both know its box and pass events to and from it.

*Nobody is dropped for being silent.* A child repeats its `Mbr` at every check, and is told `NotChild` if the parent
does not have it; a parent that has not heard from a child for long says `Claim`, and is told `Release` if the child has
another parent. So an edge that only one side believes in, by a lost message or a corrupted memory, does not last.

*Levels.* An edge joins a participant, at the level of its top, to a host with a node just above that level. Along a
path upward levels only grow, so edges never form a cycle, however many trees merge at once.
"""

from protocols.model.box import contains
from protocols.model.ids import Address
from protocols.overlay import OWN_BOX, Joined, LinkDown, LinkUp, Rejected, Repaired
from protocols.rtree import chart
from protocols.rtree.events import catch_up_child, catch_up_parent
from protocols.rtree.messages import (
    HINTS_MAX,
    MOMENTS,
    NODE_MAX,
    Adopt,
    Claim,
    Covered,
    Dissolve,
    Mbr,
    Move,
    NotChild,
    Release,
    Released,
)
from protocols.rtree.tree import (
    EXPECTED,
    JOINING,
    LEAVING,
    LEAVING_TREE,
    MEMBER,
    STANDING,
    Entry,
    Node,
    Reach,
    Tree,
    Uplink,
    Waiting,
)

OWN_LEVEL = -1
"""In `Tree.awaiting`: this participant's own box, rather than a child."""

SILENT_ROUNDS = 3
"""Rounds without a word from a child before it is asked whether it is ours."""

# --- The child's side -------------------------------------------------------------------------------------------------


def tell(tree: Tree, now_ms: int, link: Uplink) -> None:
    """Tell a parent what the subtree needs: under a new number if that has changed."""
    if link.shape != tree.shape:
        link.shape = tree.shape
        link.seq = tree.new_id()
        link.first = link.first or link.seq
    box, core, count, inner, cells = tree.shape
    other_core = None if core == box else core
    raw = tree.grid.encode(cells) if tree.grid is not None and tree.nodes else b""
    message = Mbr(
        link.seq,
        link.level,
        box,
        other_core,
        count,
        inner,
        link.sponsor,
        link.replaces,
        raw,
        tree.chart.digest,
        now_ms % MOMENTS,
    )
    tree.out.send(link.address, message)


def attach(tree: Tree, now_ms: int, link: Uplink) -> None:
    """Begin to be the child of another parent."""
    give_up_candidate(tree)
    if tree.changed:
        tree.reshape()
    tree.candidate = link
    tree.out.watch(link.address)
    tell(tree, now_ms, link)
    chart.report(tree, link)
    catch_up_parent(tree, now_ms, link.address)


def give_up_candidate(tree: Tree) -> None:
    """We will not be its child after all."""
    if tree.candidate is not None:
        tree.out.send(tree.candidate.address, Release(tree.candidate.level, leaving=False))
        lose_candidate(tree)


def lose_candidate(tree: Tree) -> None:
    """It is gone, or knows that we are not its child."""
    link, tree.candidate = tree.candidate, None
    if link is not None:
        tree.out.unwatch(link.address)


def give_up_parent(tree: Tree) -> None:
    """We are not its child any more."""
    if tree.parent is not None:
        tree.out.send(tree.parent.address, Release(tree.parent.level, leaving=False))
        lose_parent(tree)


def lose_parent(tree: Tree) -> None:
    """It is gone, or knows that we are not its child."""
    link, tree.parent = tree.parent, None
    if link is not None:
        tree.out.unwatch(link.address)
        tree.out.report(LinkDown("parent", link.address))


def on_adopt(tree: Tree, now_ms: int, sender: Address, message: Adopt) -> None:
    parent, candidate, search = tree.parent, tree.candidate, tree.search
    if sender == tree.me:
        tree.out.report(Rejected(sender, "adopted by oneself"))
        return
    asked = search is not None and search.req_id == message.req_id
    if parent is not None and (parent.address, parent.level) == (sender, message.level):
        if asked:
            tree.search = None  # the best place is where we are
        tell(tree, now_ms, parent)
        return
    if candidate is not None and (candidate.address, candidate.level) == (sender, message.level):
        return  # on its way
    taken_over = any(
        link is not None and link.level == message.level and link.address in message.instead_of
        for link in (parent, candidate)
    )
    if taken_over and candidate is not None and candidate.address not in message.instead_of:
        return  # one is as good as the other, and who takes over calls again
    if not taken_over and not (asked and candidate is None and message.level == tree.top):
        tree.out.send(sender, Release(message.level, leaving=False))
        return
    serves = tree.state in (JOINING, STANDING) or (tree.state == LEAVING_TREE and tree.top > 0)
    if message.level != tree.top or tree.taking is not None or not serves:
        return  # not now: who takes over calls again
    tree.search = None
    attach(tree, now_ms, Uplink(sender, message.level, now_ms))


def on_covered(tree: Tree, now_ms: int, sender: Address, message: Covered) -> None:
    link = _uplink(tree, sender, message.level)
    if link is None or not link.first <= message.seq <= link.seq:
        return  # an answer to what was forgotten
    link.acked = max(link.acked, message.seq)
    if message.agreed:
        link.agreed = max(link.agreed, message.seq)
    tree.hints = message.hints
    tree.root = message.root if message.root != tree.me else None
    if link is tree.candidate and link.acked == link.seq:
        _switch(tree, now_ms)
    if link is tree.parent:
        chart.trust(tree, now_ms, message)


def _switch(tree: Tree, now_ms: int) -> None:
    """The candidate knows all that it must: from now on it is the parent."""
    give_up_parent(tree)
    tree.parent, tree.candidate = tree.candidate, None
    assert tree.parent is not None
    tree.parent.sponsor, tree.parent.replaces = None, False
    tree.out.report(LinkUp("parent", tree.parent.address))
    tree.search = None
    chart.moved(tree, now_ms, tree.parent)
    _ask_anew(tree)
    tree.reopened = True
    if tree.state == JOINING:
        stand(tree)


def stand(tree: Tree) -> None:
    tree.state = STANDING
    tree.reopened = True
    tree.out.report(Joined())


def _ask_anew(tree: Tree) -> None:
    """The parent has changed: what children wait for must be known to the new one."""
    for key in tree.awaiting:
        tree.awaiting[key] = Waiting()


def orphaned(tree: Tree, now_ms: int) -> None:
    """The parent is lost: what is below is a tree of its own until it has another."""
    if tree.parent is not None:
        lose_parent(tree)
        tree.dissolving = False
        chart.lost(tree, now_ms)
        _ask_anew(tree)
        tree.out.report(Repaired("parent"))


def on_not_child(tree: Tree, now_ms: int, sender: Address, message: NotChild) -> None:
    link = _uplink(tree, sender, message.level)
    if link is None or message.seq < link.first:
        return
    if link is tree.candidate:
        lose_candidate(tree)
    else:
        orphaned(tree, now_ms)


def on_claim(tree: Tree, now_ms: int, sender: Address, message: Claim) -> None:
    link = _uplink(tree, sender, message.level)
    if link is None:
        tree.out.send(sender, Release(message.level, leaving=False))
    elif link.level == tree.top:
        tell(tree, now_ms, link)


def _uplink(tree: Tree, address: Address, level: int) -> Uplink | None:
    for link in (tree.candidate, tree.parent):
        if link is not None and link.address == address and link.level == level:
            return link
    return None


# --- The parent's side ------------------------------------------------------------------------------------------------


def on_mbr(tree: Tree, now_ms: int, sender: Address, message: Mbr) -> None:
    node = tree.node(message.level + 1)
    entry = None if node is None else node.entries.get(sender)
    if sender == tree.me:
        tree.out.report(Rejected(sender, "a child of oneself"))
        return
    if node is not None and entry is None and _is_sponsored(tree, node, message):
        entry = _take_in(tree, now_ms, node, sender, message)
    if node is None or entry is None:
        if sender not in tree.retiring:  # who is there will be adopted by another soon
            tree.out.send(sender, NotChild(message.seq, message.level))
        return
    if message.seq < entry.seq and not is_silent(tree, now_ms, entry):
        return  # overtaken; later than that it is the number known here that is wrong
    entry.seq = message.seq
    entry.said = message.said
    entry.heard_ms = now_ms
    tree.awaiting[message.level, sender] = Waiting()
    chart.compare(tree, sender, message.chart)
    _renew(tree, now_ms, node, entry, message)


def is_silent(tree: Tree, now_ms: int, entry: Entry) -> bool:
    return now_ms - entry.heard_ms > SILENT_ROUNDS * tree.config.check_ms


def _is_sponsored(tree: Tree, node: Node, message: Mbr) -> bool:
    """Whether a stranger comes to us because one of our children hands a node to it."""
    operation = tree.operation
    frozen = operation is not None and operation.whole and operation.height <= node.height
    return message.sponsor in node.entries and len(node.entries) < NODE_MAX and not frozen


def _take_in(tree: Tree, now_ms: int, node: Node, sender: Address, message: Mbr) -> Entry:
    core = message.box if message.core is None else message.core
    entry = node.entries[sender] = Entry(sender, message.box, core, message.count, EXPECTED, 0)
    node.mask = 0
    if message.replaces and message.sponsor is not None and message.sponsor != tree.me:
        leave_out(tree, node.entries[message.sponsor], now_ms + tree.config.patience_ms)
    return entry


def _renew(tree: Tree, now_ms: int, node: Node, entry: Entry, message: Mbr) -> None:
    """A child has said what it needs."""
    moved = message.level == 0 and entry.standing == MEMBER and message.box != entry.core
    if moved and not contains(node.shape(False).core, message.box):
        # its subscription has changed, and lies elsewhere now (the paper: leave and join)
        send_away(tree, now_ms, entry, Move(0, 0))
    before: Reach = entry.reach if entry.linked else ((), None)
    core = message.box if message.core is None else message.core
    cells = _cells(tree, message)
    shape = (message.box, core, message.count, message.inner, cells)
    if entry.linked and shape == (entry.box, entry.core, entry.count, entry.inner, entry.cells):
        return
    entry.box, entry.core, entry.count, entry.inner, entry.cells = shape
    tree.changed = True
    if not entry.linked:
        entry.linked = True
        entry.formers = ()
        if entry.standing == EXPECTED:
            entry.standing = MEMBER
        tree.out.watch(entry.address)
        tree.out.report(LinkUp("child", entry.address))
    catch_up_child(tree, now_ms, entry, before)


def _cells(tree: Tree, message: Mbr) -> int | None:
    """Where a child's subtree wants anything, if there are charts: as it says, or wherever its box is."""
    if tree.grid is None:
        return None
    told = tree.grid.decode(message.cells)
    return tree.grid.touched(message.box) if told is None else told


def on_release(tree: Tree, now_ms: int, sender: Address, message: Release) -> None:
    drop_child(tree, message.level + 1, sender)
    if sender in tree.retiring:
        unlink(tree, tree.retiring.pop(sender))
    if message.leaving:
        forget(tree, sender)
        tree.out.send(sender, Released())


def forget(tree: Tree, address: Address) -> None:
    """Somebody is gone, whatever it was to us below."""
    for node in tree.nodes:
        drop_child(tree, node.height, address)
    if address in tree.retiring:
        unlink(tree, tree.retiring.pop(address))
    tree.waiting.pop(address, None)


def drop_child(tree: Tree, height: int, address: Address) -> None:
    node = tree.node(height)
    if node is None or address == tree.me:
        return
    entry = node.entries.pop(address, None)
    if entry is not None:
        tree.awaiting.pop((height - 1, address), None)
        unlink(tree, entry)


def unlink(tree: Tree, entry: Entry) -> None:
    tree.changed = tree.reopened = True
    if entry.linked:
        entry.linked = False
        tree.out.unwatch(entry.address)
        tree.out.report(LinkDown("child", entry.address))


def leave_out(tree: Tree, entry: Entry, until_ms: int) -> None:
    """From now on the child does not count: it is about to go."""
    entry.standing = LEAVING
    entry.asked = None
    entry.until_ms = until_ms
    tree.changed = True


def send_away(tree: Tree, now_ms: int, entry: Entry, message: Move | Dissolve) -> None:
    """Tell a child to find itself, or its children, another place. The checks repeat it: the message may be lost, or
    come when the child has its hands full."""
    leave_out(tree, entry, now_ms + tree.config.patience_ms)
    entry.asked = message
    tree.out.send(entry.address, message)


def take_back(tree: Tree, entry: Entry, until_ms: int) -> None:
    """A child that was about to go stays."""
    entry.standing = MEMBER if entry.linked else EXPECTED
    entry.asked = None
    entry.until_ms = until_ms
    tree.changed = True


# --- Both sides -------------------------------------------------------------------------------------------------------


def settle_edges(tree: Tree, now_ms: int) -> None:
    """At the end of a step: tell the parents what has changed, and answer the children that are covered."""
    if tree.changed:
        tree.reshape()
        for link in (tree.parent, tree.candidate):
            if link is not None and link.level == tree.top and link.shape != tree.shape:
                tell(tree, now_ms, link)
    chart.review(tree, now_ms)
    if tree.awaiting:
        _answer(tree, now_ms)


def _answer(tree: Tree, now_ms: int) -> None:
    """Tell whoever waits that the parent knows what it must, and that it is agreed: at once, or one after the other."""
    parent = tree.parent
    if not tree.is_root and (parent is None or tree.is_stray):
        return  # on the way from one parent to another: whoever waits must wait until we have arrived
    for key, waiting in list(tree.awaiting.items()):
        need = None
        if parent is None:
            is_agreed = chart.is_agreed(tree, _cells_of(tree, key))
        else:
            need = parent.seq if waiting.need is None else waiting.need
            if need > parent.acked:
                tree.awaiting[key] = Waiting(need, waiting.is_told)
                continue
            is_agreed = need <= parent.agreed
        if is_agreed:
            del tree.awaiting[key]
        else:
            tree.awaiting[key] = Waiting(need, is_told=True)
        if is_agreed or not waiting.is_told:
            _tell_covered(tree, now_ms, key, is_agreed)


def _cells_of(tree: Tree, key: tuple[int, Address]) -> int | None:
    """Where somebody who waits wants anything."""
    level, address = key
    if level == OWN_LEVEL:
        return None if tree.grid is None else tree.grid.touched(tree.box)
    node = tree.node(level + 1)
    return None if node is None or address not in node.entries else node.entries[address].cells


def _tell_covered(tree: Tree, now_ms: int, key: tuple[int, Address], is_agreed: bool) -> None:
    level, address = key
    if level == OWN_LEVEL:
        if is_agreed:
            tree.active_version = tree.version
            tree.out.active(OWN_BOX, tree.version)
        return
    node = tree.node(level + 1)
    if node is not None and address in node.entries:
        entry = node.entries[address]
        root = tree.me if tree.is_root or tree.root is None else tree.root
        hints, digest = hints_for(tree, address), chart.vouched(tree, now_ms)
        tree.out.send(address, Covered(entry.seq, level, root, hints, is_agreed, digest, entry.said))


def hints_for(tree: Tree, child: Address) -> tuple[Address, ...]:
    """Whom a child should ask if this participant is lost: ancestors, then an heir, on distinct peers."""
    names = [tree.parent.address] if tree.parent is not None else []
    if tree.nodes:
        for entry in tree.nodes[-1].entries.values():
            if entry.linked and entry.standing == MEMBER and entry.address.peer not in (tree.me.peer, child.peer):
                names.append(entry.address)
                break
    found: dict[str, Address] = {}
    for address in (*names, *tree.hints):
        if address.peer not in (tree.me.peer, child.peer):
            found.setdefault(address.peer, address)
    return tuple(found.values())[:HINTS_MAX]
