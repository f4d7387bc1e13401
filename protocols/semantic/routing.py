"""How an event travels through the containment tree.

The paper's rule (section 2, Algorithm 1): whoever receives an event for the first time, and is interested in it,
forwards it to all neighbours but the one it came from. Since parents contain their children, a matching event climbs to
the top level and descends wherever it matches. Around that rule:

- *The virtual root relays unconditionally.* Otherwise the first top-level peer that is not interested would cut off all
  behind it. (The paper does not say so, but its claim of no false negatives needs it.)
- *What comes from below climbs unconditionally* to the top level: so anybody may publish anything (section 2 assumes
  that peers publish what they are interested in, "we can easily relax this assumption").
- *A chain of siblings* (section 3, scalability) relieves a parent of many children: it sends an event to one of them at
  random, and siblings pass it on both ways, wanted or not (`along`). An event may end at a sibling that has gone. So
  the two that become neighbours give each other what has come along lately, and what the parent had begun with the one
  who is gone it begins again with another.
- *Children that are about to move away*, because the parent's interest has changed under them, or because they leave,
  are in no chain, and are sent what they want themselves.
- With `peek` a parent tests a child's interest first, and within the virtual root that of a leaf; unless the child says
  that it serves others beyond it. (The paper rules that out by design: a peer knows its own interest only.)

Whoever gets a child replays to it what it has received lately, and a child to its new parent what has come from below.
"""

from random import Random
from sys import intern

from protocols.model.event import Copy, onward
from protocols.model.ids import Address, EventId
from protocols.model.interest import NOTHING, Interest, matches
from protocols.overlay import Dropped, Outbox, Rejected
from protocols.parts.recent import Recent
from protocols.parts.seen import DUPLICATE, FULL, KEEP_MS, NEW, Seen
from protocols.semantic.config import SemanticConfig
from protocols.semantic.documents import fault_of
from protocols.semantic.messages import Routed
from protocols.semantic.tree import EQUAL, IDLE, INTEREST, ROOT, Chain, Child, Tree


class Routing:
    __slots__ = (
        "_along",
        "_begun",
        "_cache",
        "_chained",
        "_config",
        "_going",
        "_out",
        "_recent",
        "_risen",
        "_rng",
        "_seen",
        "_tree",
        "chain",
        "served",
    )

    def __init__(self, tree: Tree, config: SemanticConfig, out: Outbox, rng: Random) -> None:
        self._tree = tree
        self._config = config
        self._out = out
        self._rng = rng
        self._seen = Seen(KEEP_MS, config.seen_max)
        self._chained = Seen(KEEP_MS, config.seen_max)  # what was passed along a chain of siblings
        self._recent = Recent(config.replay_ms, config.recent_max)
        self._risen = Recent(config.replay_ms, config.recent_max)  # of those, what came from below
        self._along = Recent(config.replay_ms, config.recent_max)  # and what came along a chain of siblings
        self._begun: dict[EventId, Address] = {}  # which child was given an event for the chain, of the last ones
        self._going: dict[Address, None] = {}
        self._cache: dict[tuple[Address, bool], tuple[Address, ...]] = {}
        self.chain: Chain = {}
        """The children that pass events on among themselves, and the neighbours of each."""
        self.served: Interest = NOTHING
        """The interest that was active before the present one, as long as that is not."""

    def has_room(self, now_ms: int) -> bool:
        return self._seen.has_room(now_ms)

    def arrange(self, misplaced: list[Address]) -> None:
        """The links have changed: see who stands in a chain, and whom to serve one by one."""
        self._cache.clear()
        contained = self._tree.of_kind(INTEREST)
        going = [a for a in contained if self._tree.children[a].leaving]
        self._going = dict.fromkeys(misplaced + going)
        staying = [a for a in contained if a not in self._going]
        above = self._config.chain_above
        chained = above and len(staying) > above and not self._config.peek
        self.chain = _chain(staying) if chained else {}

    # --- events -------------------------------------------------------------------------------------------------------

    def publish(self, now_ms: int, copy: Copy) -> None:
        if self._seen.admit(now_ms, copy.event.id) is FULL:
            self._out.report(Dropped(copy.event.id, "seen-full"))
            return
        self._pass_on(now_ms, copy, self._tree.me, self._wants(copy), from_below=True)

    def receive(self, now_ms: int, sender: Address, copy: Copy, along: bool) -> None:
        event, out = copy.event, self._out
        if along:
            self._pass_along(now_ms, copy, sender)
        admission = self._seen.admit(now_ms, intern(event.id))  # one string for all peers of a process
        if admission is DUPLICATE:
            out.reception(event.id, sender, copy.hops, "duplicate")
        elif admission is FULL:
            out.report(Dropped(event.id, "seen-full"))
        elif copy.age_ms >= event.ttl_ms:  # `expired`, without the call
            out.report(Dropped(event.id, "expired"))
        else:
            tree = self._tree
            if tree.interest.pattern and (fault := fault_of(event)):
                out.report(Rejected(sender, fault))
            wanted = self._wants(copy)
            out.reception(event.id, sender, copy.hops, "wanted" if wanted else "unwanted")
            # A sibling that has moved below us is a child, though it may still take us for a sibling.
            from_below = sender in tree.children or not (along or sender in (tree.parent, tree.former))
            self._pass_on(now_ms, copy, sender, wanted, from_below)

    def _wants(self, copy: Copy) -> bool:
        event, interest = copy.event, self._tree.interest
        if matches(interest, event):
            return True
        return self.served is not interest and matches(self.served, event)

    def _pass_on(self, now_ms: int, copy: Copy, sender: Address, wanted: bool, from_below: bool) -> None:
        tree = self._tree
        self._recent.add(now_ms, copy)
        if from_below:
            self._risen.add(now_ms, copy)
        if wanted:
            self._out.deliver(copy.event, copy.hops)
            if tree.left or tree.right:
                self._pass_along(now_ms, copy, sender)
            if self.chain:
                self._begin(copy, [address for address in self.chain if address != sender])
        if self._config.peek or self._going:
            to = tuple(self._targets(sender, wanted, from_below, copy))
        else:
            found = self._cache.get((sender, wanted))
            if found is None:
                found = tuple(self._targets(sender, wanted, from_below, copy))
                if sender in tree.children or sender == tree.parent:
                    self._cache[sender, wanted] = found
            to = found
        if to:
            self._out.send_all(to, Routed(onward(copy)))

    def _pass_along(self, now_ms: int, copy: Copy, sender: Address) -> None:
        """Both ways along the chain of siblings, wanted or not, and seen before or not: once. Whoever had the event in
        another way must not cut off those behind it."""
        if self._chained.admit(now_ms, copy.event.id) is NEW:
            self._along.add(now_ms, copy)
            siblings = [each for each in (self._tree.left, self._tree.right) if each is not None and each != sender]
            self._out.send_all(siblings, Routed(onward(copy), along=True))

    def _begin(self, copy: Copy, among: list[Address]) -> None:
        """Give an event to one of the children in the chain, for all of them."""
        if among:
            id_, entry = copy.event.id, self._rng.choice(among)
            self._begun[id_] = entry
            if len(self._begun) > self._config.recent_max:
                del self._begun[next(iter(self._begun))]
            self._out.send(entry, Routed(onward(copy), along=True))

    def _targets(self, sender: Address, wanted: bool, from_below: bool, copy: Copy) -> list[Address]:
        """Everybody that is sent an event, the chain apart."""
        tree = self._tree
        to: dict[Address, None] = {}
        for parent, kind in ((tree.parent, tree.parent_kind), (tree.former, tree.former_kind)):
            if parent is not None and (from_below or kind == ROOT):
                to[parent] = None
        for address, child in tree.children.items():
            if self._is_for(address, child, wanted, copy):
                to[address] = None
        to.pop(sender, None)
        return list(to)

    def _is_for(self, address: Address, child: Child, wanted: bool, copy: Copy) -> bool:
        """Whether a child is sent an event, the chain apart."""
        if child.kind == IDLE:
            return child.beyond
        if child.kind == ROOT:
            return not (self._config.peek and child.is_leaf) or child.may_want(copy.event)
        if address in self._going:
            return child.may_want(copy.event)
        if child.beyond:
            return True  # it was at the top level: those who hang on it may want what we do not
        if not wanted or (child.kind == INTEREST and self.chain):
            return False
        return child.kind == EQUAL or not self._config.peek or matches(child.interest, copy.event)

    def undelivered(self, to: Address, message: Routed, refused: bool) -> None:
        """A broken connection is made anew by sending again; whether the peer is dead is for liveness to say."""
        tree = self._tree
        linked = to in tree.children or to in (tree.parent, tree.former, tree.left, tree.right)
        if linked and not refused:
            self._out.send(to, message)
        else:
            self._out.report(Dropped(message.copy.event.id, "undelivered", to))

    # --- replay -------------------------------------------------------------------------------------------------------

    def replay_to_child(self, now_ms: int, child: Address) -> None:
        known = self._tree.children[child]
        if known.kind == IDLE and not known.beyond:
            return
        for copy in self._lately(self._recent, now_ms):
            if known.kind == ROOT or known.may_want(copy.event):
                self._out.send(child, Routed(onward(copy)))

    def replay_to_parent(self, now_ms: int, parent: Address) -> None:
        for copy in self._lately(self._risen, now_ms):
            self._out.send(parent, Routed(onward(copy)))

    def replay_to_siblings(self, now_ms: int, new: list[Address]) -> None:
        """What has come along the chain may have ended at whoever was there before them."""
        for copy in self._lately(self._along, now_ms):
            self._out.send_all(new, Routed(onward(copy), along=True))

    def replay_to_chain(self, now_ms: int, before: Chain) -> None:
        """The chain was another before: serve those who are served one by one from now on, and begin again what was
        begun with somebody who is gone."""
        for address in before:
            if address not in self.chain and address in self._tree.children:
                self.replay_to_child(now_ms, address)
        for copy in self._lately(self._recent, now_ms):
            entry = self._begun.get(copy.event.id)
            if entry is not None and entry not in self.chain:
                self._begin(copy, list(self.chain))

    def _lately(self, recent: Recent, now_ms: int) -> list[Copy]:
        return recent.all(now_ms, self._config.replay_ms)


def _chain(children: list[Address]) -> Chain:
    return dict(zip(children, zip([None, *children], [*children[1:], None])))
