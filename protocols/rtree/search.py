"""Looking for a parent.

One search serves everybody who lacks a parent or wants a better one, with the tree below it, whatever its height:

- a newcomer (a tree of height 0) asks its contacts;
- an orphan, whose parent was lost, asks the hints that the parent has left it (ancestors, an heir), then samples;
- a root asks samples, for ever: where there is one tree, its question comes back to it; where there are two, after a
  partition or two beginnings, the roots find each other and the lesser becomes a child of the greater (`place`);
- a child that was told to move, or whose box has changed, asks its own parent and stays there until it has arrived.

The question (`JoinRequest`) climbs to the root of whoever was asked and comes down to where it is answered by `Adopt`;
no answer within `rpc_ms` means to ask the next one.
"""

from itertools import islice
from typing import Final

from protocols.model.ids import Address
from protocols.parts.pending import RETRIES
from protocols.rtree import chart
from protocols.rtree.edges import give_up_parent
from protocols.rtree.messages import JoinRequest
from protocols.rtree.tree import JOINING, STANDING, Search, Tree

SAMPLES_MAX: Final = 64
"""Participants remembered from peer sampling: three views' worth."""


def begin(tree: Tree, now_ms: int, stays: bool = False, mask: int = 0) -> None:
    tree.search = Search(tree.new_id(), stays, mask)
    ask(tree, now_ms)


def ask(tree: Tree, now_ms: int) -> None:
    """Ask the next one."""
    search = tree.search
    if search is None or not (tree.state in (JOINING, STANDING) or tree.is_stray):
        return
    to = tree.parent.address if search.stays and tree.parent is not None else _next(tree, search.tries)
    search.asked = to
    search.tries += 1
    search.until_ms = now_ms + tree.config.rpc_ms
    tree.out.timer("search", search.until_ms)
    if to is not None:
        tree.out.send(to, request(tree, search))


def request(tree: Tree, search: Search) -> JoinRequest:
    if tree.changed:
        tree.reshape()
    return JoinRequest(search.req_id, tree.me, tree.top, tree.shape.core, tree.state == STANDING, search.mask, 0)


def _next(tree: Tree, tries: int) -> Address | None:
    """Whom to ask: first those who should know, each once; then anybody."""
    named = tree.contacts if tree.state == JOINING else list(tree.hints)
    if tries < len(named):
        return named[tries]
    anybody = tree.samples or (tree.contacts if tree.state == JOINING else [])
    return anybody[tree.rng.randrange(len(anybody))] if anybody else None


def continue_(tree: Tree, now_ms: int) -> None:
    """Time is up for the last question."""
    search = tree.search
    if search is None or now_ms < search.until_ms:
        return
    if search.stays and (tree.parent is None or search.tries > RETRIES):
        tree.search = None
        if tree.is_stray:
            give_up_parent(tree)
            chart.lost(tree, now_ms)
        return
    ask(tree, now_ms)


def lost(tree: Tree, now_ms: int, address: Address) -> None:
    """Somebody is gone: do not ask it, and wait for no answer from it."""
    tree.hints = tuple(hint for hint in tree.hints if hint != address)
    tree.contacts = [contact for contact in tree.contacts if contact != address]
    tree.samples = [sample for sample in tree.samples if sample != address]
    if tree.search is not None and tree.search.asked == address:
        ask(tree, now_ms)


def learn(tree: Tree, addresses: list[Address]) -> None:
    """Peer sampling has come across these."""
    others = (address for address in addresses if address.peer != tree.me.peer)
    tree.samples = list(islice(others, SAMPLES_MAX))
