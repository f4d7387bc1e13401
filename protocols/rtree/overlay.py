"""One participant of the distributed R-tree: the state machine's inputs, and who answers them.

The theory stands where it is used: `tree` (what a participant holds), `events` (how events travel, and why none is
lost), `edges` (the edge between child and parent), `search` and `place` (finding a parent), `handover` (nodes that
change their host), `checks` (what is mended, and when), `split`, `choose`, `measure` (pure geometry).

**States.** new -> joining -> standing -> leaving -> left. A joiner stands when its box is known up to the root; the
first participant of a swarm stands at once, as the root.

**Invariants** (`peerd/sim/invariants/rtree`). One root; every leaf at the same depth; m to M children in every node but
the root, which has two or more; parents and children know each other; boxes are tight; the host of a node is its
largest child, within the hysteresis; no participant is its own ancestor.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from protocols.model.box import EMPTY
from protocols.model.descriptor import Descriptor, addresses_of
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import (
    Dropped,
    Effect,
    Input,
    Join,
    Leave,
    Link,
    PeerLost,
    Publish,
    Received,
    Rejected,
    Repaired,
    Sampled,
    Subscribe,
    TimerFired,
    Undelivered,
    Unsubscribe,
    Update,
)
from protocols.rtree import chart, checks, edges, events, handover, place, search
from protocols.rtree.config import RtreeConfig
from protocols.rtree.corruption import scramble
from protocols.rtree.messages import (
    Adopt,
    Carry,
    Chart,
    Charted,
    Claim,
    Covered,
    Dissolve,
    JoinRequest,
    Mbr,
    Move,
    NotChild,
    NotTaken,
    Place,
    Release,
    Released,
    Take,
    Taken,
)
from protocols.rtree.tree import JOINING, LEAVING_TREE, LEFT, NEW, Tree, Waiting


class Rtree:
    __slots__ = ("tree",)

    def __init__(self, me: Address, config: RtreeConfig, schema: Schema, rng: Random) -> None:
        self.tree = Tree(me, config, schema.space, rng)

    # --- interface ----------------------------------------------------------------------------------------------------

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        tree = self.tree
        if type(item) is Received:
            if type(item.message) is Carry:
                events.on_carry(tree, now_ms, item.sender, item.message)
                if tree.state != LEAVING_TREE:  # else nothing changes that needs to settle
                    return tree.out.drain()
                checks.settle(tree, now_ms)
                return tree.out.drain()
            handler = self._MESSAGES.get(type(item.message))
            if handler is None:
                tree.out.report(Rejected(item.sender, f"{type(item.message).__name__} is not for a participant"))
            elif tree.state != LEFT:
                handler(tree, now_ms, item.sender, item.message)
        else:
            self._INPUTS[type(item)](self, now_ms, item)
        checks.settle(tree, now_ms)
        return tree.out.drain()

    def descriptor(self) -> Descriptor:
        return Descriptor(self.tree.me, self.tree.box, self.tree.version)

    def links(self) -> list[Link]:
        tree = self.tree
        found = [Link("parent", link.address) for link in (tree.parent, tree.candidate) if link is not None]
        for node in tree.nodes:
            found += [Link("child", entry.address) for entry in node.entries.values() if entry.linked]
        return found + [Link("child", address) for address in tree.retiring]

    def has_room(self, now_ms: int) -> bool:
        return self.tree.seen.has_room(now_ms)

    def corrupt(self, rng: Random, addresses: Sequence[Address]) -> None:
        """Let the participant forget and mistake what it knows of the tree: a fault, for experiments."""
        scramble(self.tree, rng, addresses)

    # --- joining, leaving, subscriptions ------------------------------------------------------------------------------

    def _join(self, now_ms: int, item: Join) -> None:
        tree = self.tree
        if tree.state != NEW:
            raise ValueError(f"participant {tree.me} joins twice")
        self._next_check(now_ms)
        tree.awaiting[edges.OWN_LEVEL, tree.me] = Waiting()
        if not item.contacts:
            edges.stand(tree)
            return
        tree.state = JOINING
        tree.contacts = list(item.contacts)
        search.begin(tree, now_ms)

    def _leave(self, now_ms: int, item: Leave) -> None:
        tree = self.tree
        if tree.state != LEFT:
            tree.state = LEAVING_TREE
            chart.release(tree, now_ms)
            for root in tree.roots[-1:]:
                events.root_lost(tree, now_ms, root)  # once we have left, nobody could send it again
            tree.root = None
            tree.search = None
            tree.dissolving = False
            tree.waiting.clear()

    def _subscribe(self, now_ms: int, item: Subscribe | Update) -> None:
        tree = self.tree
        tree.box, tree.version = item.box, item.version
        tree.changed = True
        if tree.state != NEW:
            tree.awaiting[edges.OWN_LEVEL, tree.me] = Waiting()

    def _unsubscribe(self, now_ms: int, item: Unsubscribe) -> None:
        self.tree.box, self.tree.version = EMPTY, self.tree.version + 1
        self.tree.changed = True

    def _sampled(self, now_ms: int, item: Sampled) -> None:
        search.learn(self.tree, addresses_of(item.descriptors))

    def _publish(self, now_ms: int, item: Publish) -> None:
        events.publish(self.tree, now_ms, item)

    # --- losses -------------------------------------------------------------------------------------------------------

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        tree, address = self.tree, item.address
        count = sum(len(node.entries) for node in tree.nodes) + len(tree.retiring)
        edges.forget(tree, address)
        if sum(len(node.entries) for node in tree.nodes) + len(tree.retiring) < count:
            tree.out.report(Repaired("child"))
        if tree.operation is not None and tree.operation.successor == address:
            handover.give_up(tree, now_ms)
        if tree.candidate is not None and tree.candidate.address == address:
            edges.lose_candidate(tree)
        if tree.parent is not None and tree.parent.address == address:
            edges.orphaned(tree, now_ms)
        events.root_lost(tree, now_ms, address)
        if tree.successor == address:
            events.successor_lost(tree, now_ms)
        search.lost(tree, now_ms, address)

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        """A broken connection is made anew by sending again; whether the peer is dead is for liveness to say."""
        tree, message = self.tree, item.message
        to_successor = item.to == tree.successor
        known = to_successor or any(link.to == item.to for link in self.links())
        if item.refused:
            self._peer_lost(now_ms, PeerLost(item.to))
        if isinstance(message, Carry):
            if known and not item.refused:
                tree.out.send(item.to, message)
            elif not known and tree.parent is not None and tree.parent.address != item.to:
                tree.out.send(tree.parent.address, message)  # sent straight to one that was the root: let it climb
            elif not to_successor or tree.successor is None:  # else the next one was sent it with all others
                tree.out.report(Dropped(message.copy.event.id, "undelivered", item.to))
            tree.farewell = ()
        elif isinstance(message, JoinRequest | Place):
            if message.who != tree.me:
                self._MESSAGES[type(message)](tree, now_ms, tree.me, message)  # there may be another way now
        elif not item.refused and known:
            tree.out.send(item.to, message)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        tree = self.tree
        if item.key == "check":
            self._next_check(now_ms)
            checks.check(tree, now_ms)
        elif item.key == "search":
            search.continue_(tree, now_ms)
        elif item.key == "leave" and tree.state == LEAVING_TREE:
            tree.farewell = ()  # take leave once more
            tree.farewells.clear()

    def _next_check(self, now_ms: int) -> None:
        tree = self.tree
        tree.out.timer("check", now_ms + int(tree.config.check_ms * tree.rng.uniform(0.9, 1.1)))

    _INPUTS: Final[dict[type, Any]] = {
        Join: _join,
        Leave: _leave,
        Subscribe: _subscribe,
        Update: _subscribe,
        Unsubscribe: _unsubscribe,
        Publish: _publish,
        TimerFired: _timer,
        Undelivered: _undelivered,
        PeerLost: _peer_lost,
        Sampled: _sampled,
    }

    _MESSAGES: Final[dict[type, Any]] = {
        JoinRequest: place.on_join_request,
        Place: place.on_place,
        Adopt: edges.on_adopt,
        Move: checks.on_move,
        Mbr: edges.on_mbr,
        Covered: edges.on_covered,
        Chart: chart.on_chart,
        Charted: chart.on_charted,
        NotChild: edges.on_not_child,
        Claim: edges.on_claim,
        Release: edges.on_release,
        Released: checks.on_released,
        Take: handover.on_take,
        Taken: handover.on_taken,
        NotTaken: handover.on_not_taken,
        Dissolve: checks.on_dissolve,
    }
