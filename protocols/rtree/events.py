"""How events travel: over every edge of the tree, down only into the boxes that hold them.

The paper, section 4: a peer passes an event to each child whose MBR contains it, and to its parent, "unless the message
was received by that child" (or from the parent). Said of edges, that is one rule for both ends:

    whoever gets an event for the first time passes it over all its edges but the one that it came by, down an edge only
    if the event falls into the child's box.

While the tree is at rest this is the paper's rule. While it changes, it also does the right thing with an event that
comes from where it should not come from any more: a former parent, a child that has moved.

An edge that comes into being, or whose box grows, is *caught up*: the parent replays over it the events of the last
seconds that fall into the box (or into its new part), the child those that it has. So at any time every event of the
last seconds has been passed over every edge that it belongs on, whatever the order in which event and change came by.
All that the rest of the protocol has to see to is that a participant never lacks an edge: it gives up a parent only
after it has another one (`edges`).
"""

from sys import intern
from typing import Final, TypeAlias

from protocols.model.box import Box, Point, match
from protocols.model.event import Copy, onward
from protocols.model.ids import Address
from protocols.overlay import Dropped, Publish
from protocols.parts.seen import DUPLICATE, FULL
from protocols.rtree.chart import hold_back
from protocols.rtree.messages import Carry
from protocols.rtree.tree import Entry, Reach, Tree

Route: TypeAlias = tuple[Address, tuple[Box, ...], int | None]
"""An edge downward: the boxes and the cells of what belongs on it."""
ROOTS_MAX: Final = 4
"""Former roots that are remembered: with the replay of so many changes of the root nothing is lost. A guess."""


def publish(tree: Tree, now_ms: int, item: Publish) -> None:
    event = item.event
    if tree.seen.admit(now_ms, event.id) is FULL:
        tree.out.report(Dropped(event.id, "seen-full"))
        return
    _pass_on(tree, now_ms, Copy(event), tree.me, match(tree.box, event.point))


def _upward(tree: Tree, sender: Address) -> list[Address]:
    """Whom to send to above: our parents, or for an event of our own, straight to the root."""
    straight = tree.config.climb != "parents"
    if straight and sender == tree.me and tree.root is not None and tree.parent is not None:
        if tree.root not in tree.roots[-1:]:
            tree.roots = [*tree.roots[1 - ROOTS_MAX :], tree.root]
        return [tree.root]
    links = [link.address for link in (tree.parent, tree.candidate) if link is not None]
    if not links and tree.successor is not None:
        return [tree.successor]  # a root that leaves: others may not know yet
    return links


def on_carry(tree: Tree, now_ms: int, sender: Address, message: Carry) -> None:
    copy = message.copy
    event = copy.event
    admission = tree.seen.admit(now_ms, intern(event.id))  # one string for all peers of a process
    if admission is DUPLICATE:
        tree.out.reception(event.id, sender, copy.hops, "duplicate")
    elif admission is FULL:
        tree.out.report(Dropped(event.id, "seen-full"))
    elif copy.age_ms >= event.ttl_ms:  # `expired`, without the call
        tree.out.report(Dropped(event.id, "expired"))
    else:
        wanted = match(tree.box, event.point)
        tree.out.reception(event.id, sender, copy.hops, "wanted" if wanted else "unwanted")
        _pass_on(tree, now_ms, copy, sender, wanted)


def _pass_on(tree: Tree, now_ms: int, copy: Copy, sender: Address, wanted: bool) -> None:
    """Keep it, deliver it if it is ours, send it over the edges that it belongs on."""
    tree.recent.add(now_ms, copy)
    tree.measure.observe(copy.event.point)
    if wanted:
        tree.out.deliver(copy.event, copy.hops)
    routes = tree.routes
    if routes is None:
        routes = tree.routes = _routes(tree)
    to = _below(tree, routes, copy.event.point, sender)
    climbs = sender != tree.me or not hold_back(tree, now_ms, copy)
    for address in _upward(tree, sender) if climbs else ():
        if address != sender and address not in to:
            to.append(address)
    if to:
        tree.out.send_all(to, Carry(onward(copy)))
        tree.farewell = ()  # who leaves takes leave once more: this must have been heard, too


def _below(tree: Tree, routes: list[Route], point: Point, sender: Address) -> list[Address]:
    """The children whose reach holds the point, but for the sender. (`match` written out: every hop pays for it.)"""
    to: list[Address] = []
    numbers, text = point.numbers, point.text
    around = 0 if tree.grid is None else tree.grid.around(point)
    for address, region, cells in routes:
        for box in region:
            for lo, value, hi in zip(box.lo, numbers, box.hi):
                if not lo <= value < hi:
                    break
            else:
                for lo_text, each, hi_text in zip(box.lo_text, text, box.hi_text):
                    if not lo_text <= each < hi_text:
                        break
                else:
                    if address != sender and (cells is None or cells & around):
                        to.append(address)
                    break
    return to


def _routes(tree: Tree) -> list[Route]:
    """Every edge downward, with where its events fall. (Who is there twice, at two levels, wants both.)"""
    found: dict[Address, Reach] = {}
    groups = [node.entries.values() for node in tree.nodes] + [tree.retiring.values()]
    for entries in groups:
        for entry in entries:
            if entry.linked:
                region, cells = found.get(entry.address, ((), 0))
                both = None if cells is None or entry.cells is None else cells | entry.cells
                found[entry.address] = region + entry.region, both
    return [(address, region, cells) for address, (region, cells) in found.items()]


def root_lost(tree: Tree, now_ms: int, address: Address) -> None:
    """Somebody to whom events went straight is gone, and perhaps the last of them with it: let them climb instead."""
    if address in tree.roots:
        tree.roots.remove(address)
        for link in (tree.parent, tree.candidate):
            if link is not None:
                catch_up_parent(tree, now_ms, link.address)
    if tree.root == address:
        tree.root = None


def successor_lost(tree: Tree, now_ms: int) -> None:
    """Who has our nodes has passed them on and left: anybody in the tree will do to bring events into it."""
    tree.successor = tree.samples[tree.rng.randrange(len(tree.samples))] if tree.samples else None
    if tree.successor is not None:
        catch_up_parent(tree, now_ms, tree.successor)


# --- Catching up ------------------------------------------------------------------------------------------------------


def catch_up_child(tree: Tree, now_ms: int, entry: Entry, before: Reach) -> None:
    """Send a child what is within its reach now and was not before."""
    if not len(tree.recent):
        return
    for copy in tree.recent.falling_into(now_ms, entry.box):
        point = copy.event.point
        if _holds(tree, entry.reach, point) and not _holds(tree, before, point):
            tree.out.send(entry.address, Carry(onward(copy)))


def catch_up_parent(tree: Tree, now_ms: int, parent: Address) -> None:
    """Send a parent what we have: it may come from below, where the parent has not been heard yet."""
    if len(tree.recent):
        for copy in tree.recent.falling_into(now_ms, tree.space.unbounded):
            tree.out.send(parent, Carry(onward(copy)))
        tree.farewell = ()


def _holds(tree: Tree, reach: Reach, point: Point) -> bool:
    region, cells = reach
    if cells is not None and tree.grid is not None and not cells & tree.grid.around(point):
        return False
    return any(match(box, point) for box in region)
