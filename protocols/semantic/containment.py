"""One participant of the containment hierarchy (paper, section 3).

**Structure.** One rooted tree over all participants, whose top is the virtual root: see `tree.py`.

**Parts.** `Tree` holds the links and decides who may be adopted; `Seek` asks for a parent; `Search` finds the best one;
`Routing` carries events; `Handover` lets children go in good order. This module ties them together, and has the pulse.

**Attaching** is make before break. A participant asks (`Attach`), is adopted (`Attached`), and only then tells the
parent before (`Detach`). The new parent replays to it what it has received lately, and it replays to the new parent
what has come from below. If there are children that only the former parent can serve (their place is at the top level,
or the interest has changed under them), that link is kept until they have moved.

**Pulse.** Every `pulse_ms` the origin sends a pulse down the tree, with a number that grows. It tells everybody its
depth, its ancestors and the tree's rank; and it is a proof that one hangs on the origin. Whoever has not had a new
pulse for `patience_ms` is cut off, or in a cycle that two moves at once have made; it looks for another parent.

**Crashes.** Whoever loses its parent is the origin of its own tree from then on, and serves it. It asks its
grandparents to take it, then anybody.

**Two trees** become one: a participant that peer sampling shows to be in a tree with another rank tells its origin, and
the origin with the higher rank (the younger tree) attaches below the other. A request of one that has children climbs
to the origin of the other tree before it is granted: if it meets the one who asks, the two were one tree already.

**States.** new -> joining -> standing -> leaving -> left.

**Invariants.** Parents and children know each other; there is one origin, and all hang on it; a parent's interest
contains that of its interest children; equals hang together, at most `equal_degree` on each; depth is as `tree.py`
says; and therefore whoever is interested in an event receives it.
"""

from random import Random
from typing import Any, Final

from msgspec.structs import replace

from protocols.model.bounds import ID_MAX
from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.interest import NOTHING, Interest, is_empty, is_sound
from protocols.model.schema import Schema
from protocols.overlay import (
    OWN_BOX,
    Effect,
    Input,
    Join,
    Joined,
    Leave,
    Left,
    Link,
    Outbox,
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
from protocols.semantic.config import SemanticConfig
from protocols.semantic.handover import Handover
from protocols.semantic.messages import (
    HOPS_MAX,
    SEQ_MAX,
    Attach,
    Attached,
    Below,
    Crown,
    Detach,
    Foreign,
    Found,
    Leaving,
    Probe,
    Promote,
    Promoted,
    Pulse,
    Rank,
    Refused,
    Reorganise,
    Routed,
)
from protocols.semantic.routing import Routing
from protocols.semantic.search import Search
from protocols.semantic.seek import Purpose, Seek, Target
from protocols.semantic.tree import IDLE, ROOT, Adopt, Pass, Tree, digest, passed

NEW: Final = "new"
JOINING: Final = "joining"
STANDING: Final = "standing"
LEAVING: Final = "leaving"
LEFT: Final = "left"

CONTACTS_MAX: Final = 64
"""Participants remembered from peer sampling: three views' worth."""
ASKED_MAX: Final = 4
"""How many of them are asked for a place in a row."""
WAITING_MAX: Final = 1_000
"""Joiners that wait until this participant stands itself."""
UNSAID: Final = Below(0, 0, False)
"""What nobody says about itself."""
KEEP_PULSES: Final = 3
"""Pulses that may be missing before the parent is asked whether it still is one. A guess."""


class Containment:
    __slots__ = (
        "_config",
        "_contacts",
        "_digest",
        "_handover",
        "_heard_ms",
        "_me",
        "_named_ms",
        "_out",
        "_rng",
        "_said",
        "_search",
        "_version",
        "_waiting",
        "_wish",
        "routing",
        "seek",
        "state",
        "tree",
    )

    def __init__(self, me: Address, config: SemanticConfig, schema: Schema, rng: Random) -> None:
        self._me = me
        self._config = config
        self._rng = rng
        self._out = Outbox(me.slot)
        self.state = NEW
        self._version = 0
        self.tree = Tree(me, config, self._out, rng)
        self.seek = Seek()
        self.routing = Routing(self.tree, config, self._out, rng)
        self._search = Search(self.tree, config, self._out)
        self._handover = Handover(self.tree, config, self._out)
        self._contacts: list[Address] = []
        self._digest = digest(NOTHING)
        self._waiting: dict[Address, Attach] = {}
        self._wish: Address | None = None  # a better parent, to be asked when nothing else is under way
        self._heard_ms = 0  # when the last new pulse came
        self._named_ms = 0  # when another tree was last named to somebody
        self._said = Below(1, 1, False)  # what the parent was told last

    # --- interface ----------------------------------------------------------------------------------------------------

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        if type(item) is Received:
            handler = self._MESSAGES.get(type(item.message))
            if handler is None:
                self._out.report(Rejected(item.sender, f"{type(item.message).__name__} is not for a participant"))
            elif self.state != LEFT:
                handler(self, now_ms, item.sender, item.message)
        else:
            self._INPUTS[type(item)](self, now_ms, item)
        return self._out.drain()

    def descriptor(self) -> Descriptor:
        rank, interest = self.tree.rank, self.tree.interest
        ext = (rank.since_ms, rank.peer.encode(), rank.slot, interest.pattern.encode())
        return Descriptor(self._me, interest.box, self._version, 0, ext if self.state != NEW else ())

    def links(self) -> list[Link]:
        tree = self.tree
        found = [] if tree.parent is None else [Link(f"{tree.parent_kind}-parent", tree.parent)]
        found += [Link(f"{child.kind}-child", address) for address, child in tree.children.items()]
        found += [Link("sibling", sibling) for sibling in (tree.left, tree.right) if sibling is not None]
        return found

    def has_room(self, now_ms: int) -> bool:
        return self.routing.has_room(now_ms)

    # --- joining, interests, leaving ----------------------------------------------------------------------------------

    def _join(self, now_ms: int, item: Join) -> None:
        if self.state != NEW:
            raise ValueError(f"participant {self._me} joins twice")
        self._heard_ms = now_ms
        self._out.timer("pulse", self._jittered(now_ms, self._config.pulse_ms))
        if self._config.repair_ms:
            self._out.timer("repair", now_ms + int(self._config.repair_ms * self._rng.uniform(0.5, 1.5)))
        if not item.contacts:
            self._reign(Rank(now_ms, self._me.peer, self._me.slot))
            self._stand(now_ms)
            self._activate()
            return
        self.state = JOINING
        self._contacts = list(item.contacts)
        self._seek(now_ms, "join", [(contact, "climb") for contact in item.contacts])

    def _stand(self, now_ms: int) -> None:
        self.state = STANDING
        self._out.report(Joined())
        waiting, self._waiting = self._waiting, {}
        for request in waiting.values():
            self._on_attach(now_ms, request.joiner, request)

    def _activate(self) -> None:
        """The present interest stands in the tree."""
        self.routing.served = self.tree.interest
        self._out.active(OWN_BOX, self._version)

    def _subscribe(self, now_ms: int, item: Subscribe | Update) -> None:
        self._change(now_ms, Interest(item.box, item.pattern), item.version)

    def _unsubscribe(self, now_ms: int, item: Unsubscribe) -> None:
        self._change(now_ms, NOTHING, self._version + 1)

    def _change(self, now_ms: int, interest: Interest, version: int) -> None:
        """Differs from the paper, whose peers never change their mind: attach under the new interest, serve both until
        that is done, then let children go that it does not contain."""
        tree = self.tree
        self._version = version
        if interest != tree.interest:
            tree.interest = interest
            self._digest = digest(interest)
            if self.state in (STANDING, LEAVING) and tree.parent is not None:
                self._seek(now_ms, "update", [(tree.parent, "here"), *self._anybody()])
            self._arrange(now_ms)
        if self.state in (STANDING, LEAVING) and tree.parent is None:
            self._activate()
            self._look_around(now_ms, newcomer=True)
        elif self.routing.served == interest and self.seek.purpose not in ("join", "update"):
            self._activate()

    def _leave(self, now_ms: int, item: Leave) -> None:
        if self.state in (NEW, JOINING):
            self._leave_now()
            return
        self.state = LEAVING
        self.tree.leaving = True
        if self.seek.purpose in ("move", "merge"):
            self.seek.stop()
        self._tell_parent()
        self._handover.leave(now_ms)
        self._hand_over(now_ms)

    def _leave_now(self) -> None:
        self.state = LEFT
        tree = self.tree
        gone = [tree.parent, tree.release(), *tree.children]
        farewell = Detach(self.seek.next_id())
        self._out.send_all([address for address in gone if address is not None], farewell)
        tree.set_parent(None)
        tree.release()
        for address in list(tree.children):
            tree.drop(address)
        for request in self._waiting.values():
            self._out.send(request.joiner, Refused(request.req_id))
        for key in ("pulse", "repair", "seek", "probe", "hand"):
            self._out.cancel(key)
        self._out.report(Left())

    # --- asking for a parent ------------------------------------------------------------------------------------------

    def _seek(self, now_ms: int, purpose: Purpose, targets: list[Target]) -> None:
        if not self.seek.may_begin(purpose):
            return
        targets = [target for target in targets if target[0] != self._me]
        if self.seek.begin(now_ms, purpose, targets, self.tree.interest, self._config.rpc_ms):
            self._ask()
        elif purpose in ("join", "update", "orphan", "away"):
            self.seek.wait(now_ms, purpose, self._config.rpc_ms)
        self._out.timer("seek", now_ms + self._config.rpc_ms)

    def _ask(self) -> None:
        request, tree = self.seek.request, self.tree
        assert request is not None
        rank = tree.rank if any(child.kind != IDLE for child in tree.children.values()) else None
        message = Attach(self._me, request.req_id, request.interest, request.mode, rank, tree.parent)
        self._out.send(request.to, message)

    def _anybody(self) -> list[Target]:
        count = min(ASKED_MAX, len(self._contacts))
        return [(contact, "climb") for contact in self._rng.sample(self._contacts, count)]

    def _seek_again(self, now_ms: int) -> None:
        """The timer: an answer is overdue, or it is time to try again."""
        seek, rpc_ms = self.seek, self._config.rpc_ms
        if seek.request is not None:
            if seek.overdue(now_ms, rpc_ms):
                self._ask()
            elif seek.purpose is None:
                self._idle(now_ms)
        elif seek.waiting is not None and now_ms >= seek.waiting_until_ms:
            targets = self._anybody()
            if seek.waiting == "update" and self.tree.parent is not None:
                targets.insert(0, (self.tree.parent, "here"))
            self._seek(now_ms, seek.waiting, targets)
        if seek.purpose is not None:
            self._out.timer("seek", now_ms + rpc_ms)

    def _failed(self, now_ms: int) -> None:
        """The target of the request under way will not do."""
        if self.seek.failed(now_ms, self._config.rpc_ms):
            self._ask()
            self._out.timer("seek", now_ms + self._config.rpc_ms)
        elif self.seek.waiting is None:
            self._idle(now_ms)

    def _idle(self, now_ms: int) -> None:
        """Nothing is sought: time for what was put off."""
        wish, self._wish = self._wish, None
        if wish is not None:
            self._move(now_ms, wish)
        elif self._search.is_newcomer and self._search.until_ms is None:
            self._search.announce()

    def _on_attach(self, now_ms: int, sender: Address, message: Attach) -> None:
        if not self._is_sound(sender, message.joiner, message.interest):
            return
        if message.joiner == self._me:
            if self.seek.request is not None and self.seek.request.req_id == message.req_id:
                self._failed(now_ms)  # it has come around: whom we asked hangs below us
            return
        if self.state in (NEW, JOINING):
            if len(self._waiting) < WAITING_MAX and message.rank is None:
                self._waiting[message.joiner] = message
            else:
                self._out.send(message.joiner, Refused(message.req_id))
            return
        if message.mode == "slot" and sender == self.tree.parent:
            self._said = UNSAID  # it counts on us to take the joiner, and has to know what came of it
        decision = self.tree.decide(message)
        if isinstance(decision, Pass):
            self.tree.expect(decision)
            self._out.send(decision.to, passed(message, decision.mode))
        elif isinstance(decision, Adopt):
            self._adopt(now_ms, message, decision)
        else:
            self._out.send(message.joiner, Refused(message.req_id))
            if decision.foreign:
                self._join_tree(now_ms, message.joiner)
        self._tell_parent()

    def _is_sound(self, sender: Address, about: Address, interest: Interest) -> bool:
        """Whether what a message says about a participant can be true; if not, that is reported."""
        if about.slot <= PEER_SLOT or not about.peer:
            self._out.report(Rejected(sender, "only a participant can be in the tree"))
        elif not is_sound(interest):
            self._out.report(Rejected(sender, "its interest is no XPath pattern that we know"))
        else:
            return True
        return False

    def _adopt(self, now_ms: int, message: Attach, decision: Adopt) -> None:
        is_news = self.tree.adopt(message.joiner, message.req_id, message.interest, decision.kind)
        if is_news:
            self._arrange(now_ms)
        self._out.send(
            message.joiner, Attached(message.req_id, self.tree.pulse_for(message.joiner, self.routing.chain))
        )
        if is_news:
            self.routing.replay_to_child(now_ms, message.joiner)

    def _on_attached(self, now_ms: int, sender: Address, message: Attached) -> None:
        request = self.seek.answered(message.req_id)
        crowned = self._handover.crowned(message.req_id)
        if request is None and not crowned:
            if sender not in (self.tree.parent, self.tree.former):
                self._out.send(sender, Detach(message.req_id))  # the answer came too late
            return
        if sender in self.tree.children:
            self.tree.drop(sender)
        self._take_parent(now_ms, sender, message.pulse)
        if self.state == JOINING:
            self._stand(now_ms)
        if request is not None and request.interest != self.tree.interest:
            self._seek(now_ms, "update", [(sender, "here")])
            return
        if self.routing.served != self.tree.interest or (request is not None and request.purpose in ("join", "update")):
            self._activate()
            self._look_around(now_ms, newcomer=True)
        elif request is not None and request.purpose in ("orphan", "away") and self._config.repair == "rejoin":
            self._look_around(now_ms, newcomer=False)
        if self._handover.promoted_for is not None and request is not None and request.purpose == "away":
            self._out.send(self._handover.promoted_for, Promoted())
            self._handover.promoted_for = None
        self._idle(now_ms)

    def _take_parent(self, now_ms: int, parent: Address, pulse: Pulse) -> None:
        tree = self.tree
        before, merged = tree.parent, tree.rank.since_ms > pulse.rank.since_ms
        if parent != before and tree.former not in (None, parent):
            self._out.send(tree.former, Detach(self.seek.settled_id))
        tree.set_parent(parent, pulse.kind)
        if parent != before:
            self._heard_ms = now_ms
            self._said = Below(1, 1, False)
            self.routing.replay_to_parent(now_ms, parent)
        tree.rank, tree.seq = pulse.rank, pulse.seq
        tree.hear(pulse)
        self._hear_siblings(now_ms, pulse)
        self._arrange(now_ms)
        self._tell_parent()
        if parent != before:
            self._beat()
        if merged and self.state == STANDING and before is None and tree.is_top:
            self._look_around(now_ms, newcomer=False)

    def _on_refused(self, now_ms: int, sender: Address, message: Refused) -> None:
        if self.seek.request is not None and self.seek.request.req_id == message.req_id:
            self._failed(now_ms)
        elif self._handover.crowned(message.req_id):
            self._hand_over(now_ms)

    def _on_detach(self, now_ms: int, sender: Address, message: Detach) -> None:
        tree = self.tree
        child = tree.children.get(sender)
        if child is not None and message.req_id >= child.req_id:
            tree.drop(sender)
            self._handover.lost(sender)
            self._arrange(now_ms)
            self._tell_parent()
            if self.seek.purpose is None:
                self._idle(now_ms)
        if sender == tree.former:
            tree.release()
            self._arrange(now_ms)
        elif sender == tree.parent:
            self._orphaned(now_ms)

    def _orphaned(self, now_ms: int) -> None:
        """The parent is gone. Whoever hangs on us still does: be their origin until somebody takes us."""
        tree = self.tree
        grandparents = [(address, "here") for address in tree.ancestors[1:]]
        former, former_kind = tree.former, tree.former_kind
        if former is not None:
            tree.set_parent(former, former_kind)
            tree.release()
        else:
            tree.set_parent(None)
            tree.release()
            self._reign(Rank(now_ms, self._me.peer, self._me.slot))
        self._heard_ms = now_ms
        self._arrange(now_ms)
        self._beat()
        targets: list[Target] = [(address, "here") for address, _ in grandparents]
        if tree.parent is not None:
            self._seek(now_ms, "update", [(tree.parent, "here"), *self._anybody()])
        elif self.seek.purpose in ("join", "update"):
            self._failed(now_ms)
        else:
            self._seek(now_ms, "orphan", targets + self._anybody())
        self._out.report(Repaired("parent"))

    # --- a better place -----------------------------------------------------------------------------------------------

    def _look_around(self, now_ms: int, newcomer: bool) -> None:
        """Probe for a better parent."""
        if self.state != STANDING or self.tree.is_idle:
            return
        share = self._config.reorganise_share
        policy = self._config.reorganise
        reorganises = newcomer and (policy == "always" or (policy == "periodic" and self._rng.random() < share))
        self._search.probe(now_ms, reorganises)
        self._out.timer("probe", now_ms + self._config.probe_ms)

    def _probe_over(self, now_ms: int) -> None:
        if self._search.until_ms is None:
            return
        better = self._search.end()
        if self.state != STANDING:
            return
        if better is not None:
            self._move(now_ms, better)
        if self.seek.purpose is None:
            self._idle(now_ms)

    def _move(self, now_ms: int, to: Address) -> None:
        """Hang below a better parent, when nothing else is under way. An origin gives the crown away before."""
        tree = self.tree
        if self.state != STANDING or (to == tree.parent and tree.parent_kind != ROOT):
            return
        if self.seek.purpose is not None or self._handover.is_busy:
            self._wish = to
        elif tree.is_origin and tree.of_kind(ROOT):
            self._wish = to
            self._handover.crown(now_ms, self.seek.next_id(), to, climb=to not in tree.children)
        elif to in tree.children:
            if tree.children[to].kind == ROOT and tree.parent is not None:
                self._wish = to
                self._out.send(to, Leaving(tree.parent))  # it has to be beside us first
        else:
            self._seek(now_ms, "move", [(to, "below")])

    def _on_probe(self, now_ms: int, sender: Address, message: Probe) -> None:
        if self._is_sound(sender, message.joiner, message.interest):
            self._search.on_probe(now_ms, sender, message)

    def _on_found(self, now_ms: int, sender: Address, message: Found) -> None:
        self._search.on_found(sender, message)

    def _on_reorganise(self, now_ms: int, sender: Address, message: Reorganise) -> None:
        if not self._is_sound(sender, message.newcomer, message.interest):
            return
        if self._search.on_reorganise(now_ms, sender, message):
            self._move(now_ms, message.newcomer)

    # --- letting children go ------------------------------------------------------------------------------------------

    def _hand_over(self, now_ms: int) -> None:
        if self._handover.step(now_ms, self.seek):
            self._out.timer("hand", now_ms + self._config.rpc_ms // 2)
        elif self.state == LEAVING:
            self._leave_now()

    def _on_leaving(self, now_ms: int, sender: Address, message: Leaving) -> None:
        if sender == self.tree.parent and message.to != self._me:
            self._seek(now_ms, "away", [(message.to, "here"), *self._anybody()])

    def _on_promote(self, now_ms: int, sender: Address, message: Promote) -> None:
        if self._handover.on_promote(message, sender):
            self._seek(now_ms, "away", [(message.parent, "here")])

    def _on_promoted(self, now_ms: int, sender: Address, message: Promoted) -> None:
        self._handover.heir = sender
        self._hand_over(now_ms)

    def _on_crown(self, now_ms: int, sender: Address, message: Crown) -> None:
        tree = self.tree
        if not self._is_sound(sender, message.root, message.interest):
            return
        if message.rank != tree.rank or message.root == self._me or self.state not in (STANDING, LEAVING):
            return
        if message.climb and not tree.is_top and tree.parent is not None and message.hops < HOPS_MAX:
            self._out.send(tree.parent, replace(message, hops=message.hops + 1))
            return
        if tree.is_origin or self.state == LEAVING:
            self._out.send(message.root, Refused(message.req_id))
            return
        tree.drop(message.root)
        tree.set_parent(None)
        former = tree.release()
        if former not in (None, message.root):
            self._out.send(former, Detach(self.seek.settled_id))
        changing = self.routing.served != tree.interest
        self.seek.stop()
        self._reign(Rank(tree.rank.since_ms, self._me.peer, self._me.slot))
        tree.adopt(message.root, message.req_id, message.interest, IDLE if is_empty(message.interest) else ROOT)
        self._arrange(now_ms)
        self._out.send(message.root, Attached(message.req_id, tree.pulse_for(message.root, self.routing.chain)))
        self.routing.replay_to_child(now_ms, message.root)
        if changing:
            self._activate()
        self._beat()

    def _on_below(self, now_ms: int, sender: Address, message: Below) -> None:
        child = self.tree.children.get(sender)
        if child is not None:
            was_leaf = child.is_leaf
            child.equals, child.tops, child.leaving = message.equals, max(1, message.tops), message.leaving
            if was_leaf and not child.is_leaf:
                self.routing.replay_to_child(now_ms, sender)  # somebody is behind it who was active before we knew
            self._tell_parent()

    def _tell_parent(self) -> None:
        """Tell the parent what it knows about its child, if that has changed."""
        tree = self.tree
        news = Below(tree.equals, tree.tops, tree.leaving)
        if tree.parent is not None and news != self._said:
            self._said = news
            self._out.send(tree.parent, news)

    def _arrange(self, now_ms: int) -> None:
        """The links, or the interest, have changed: see which children have to go, and how events go now."""
        chain = self.routing.chain
        misplaced = self.tree.misplaced()
        self.routing.arrange(misplaced)
        if self.routing.chain != chain:
            self._link_siblings(chain)
        if self.state in (STANDING, LEAVING):
            self._hand_over(now_ms)

    # --- the pulse ----------------------------------------------------------------------------------------------------

    def _pulse(self, now_ms: int) -> None:
        """The timer: send a pulse, or see whether one has come."""
        self._out.timer("pulse", self._jittered(now_ms, self._config.pulse_ms))
        tree = self.tree
        if self.state not in (STANDING, LEAVING):
            return
        self._handover.crown_overdue(now_ms)
        if tree.is_origin:
            tree.seq = min(tree.seq + 1, SEQ_MAX)
            self._beat()
            self._abdicate_if_idle(now_ms)
            return
        silent_ms = now_ms - self._heard_ms
        if silent_ms > self._config.patience_ms * self._rng.uniform(0.75, 1.0):
            parent = tree.parent
            assert parent is not None
            self._out.send(parent, Detach(self.seek.settled_id))
            self._orphaned(now_ms)
        elif silent_ms > KEEP_PULSES * self._config.pulse_ms and tree.parent is not None:
            self._seek(now_ms, "keep", [(tree.parent, "here")])

    def _reign(self, rank: Rank) -> None:
        """Be the origin of a tree with that name; its pulses are counted anew."""
        self.tree.rank, self.tree.seq = rank, 0

    def _abdicate_if_idle(self, now_ms: int) -> None:
        """An origin without an interest has nothing to do up there, as soon as there is somebody else."""
        if not self.tree.is_idle or self.state != STANDING or self._handover.is_busy:
            return
        heirs = [a for a in self.tree.of_kind(ROOT) if not self.tree.children[a].leaving]
        if heirs:
            self._handover.crown(now_ms, self.seek.next_id(), heirs[0], climb=False)

    def _beat(self) -> None:
        """Pass the pulse on to the children."""
        for address in self.tree.children:
            self._out.send(address, self.tree.pulse_for(address, self.routing.chain))

    def _on_pulse(self, now_ms: int, sender: Address, message: Pulse) -> None:
        tree = self.tree
        if sender not in (tree.parent, tree.former):
            request = self.seek.request
            if request is None or request.req_id != message.req_id:  # or the answer is still on its way
                self._out.send(sender, Detach(message.req_id))
            return
        is_new = message.rank != tree.rank or message.seq > tree.seq
        if sender == tree.parent:
            if message.kind != tree.parent_kind or message.known != self._digest:
                self._seek(now_ms, "keep", [(sender, "here")])  # it is mistaken about us
            tree.hear(message)
            self._hear_siblings(now_ms, message)
        if is_new:
            merged = message.rank.since_ms < tree.rank.since_ms
            tree.rank, tree.seq = message.rank, message.seq
            self._heard_ms = now_ms
            self._beat()
            if merged and tree.is_top:
                self._out.timer("repair", now_ms + self._rng.randrange(1, 5_000))

    def _link_siblings(self, before: list[Address]) -> None:
        """Tell the children whose neighbours in the chain are others now."""
        former = _neighbours(before)
        for address, now in _neighbours(self.routing.chain).items():
            if former.get(address) != now and address in self.tree.children:
                self._out.send(address, self.tree.pulse_for(address, self.routing.chain))
        for address in before:
            if address not in self.routing.chain and address in self.tree.children:
                self._out.send(address, self.tree.pulse_for(address, self.routing.chain))

    def _hear_siblings(self, now_ms: int, pulse: Pulse) -> None:
        tree = self.tree
        known = (tree.left, tree.right)
        tree.left, tree.right = pulse.left, pulse.right
        for sibling in (pulse.left, pulse.right):
            if sibling is not None and sibling not in known:
                self.routing.replay_to_sibling(now_ms, sibling)

    # --- other trees --------------------------------------------------------------------------------------------------

    def _sampled(self, now_ms: int, item: Sampled) -> None:
        others = [d for d in item.descriptors if d.address != self._me]
        self._contacts = [d.address for d in others][:CONTACTS_MAX]
        if self.state != STANDING or now_ms < self._named_ms + self._config.pulse_ms:
            return
        for descriptor in others:
            rank = _rank_of(descriptor)
            if rank is None or rank == self.tree.rank:
                continue
            self._named_ms = now_ms
            if rank > self.tree.rank:
                self._out.send(descriptor.address, Foreign(self._me))
            else:
                self._on_foreign(now_ms, self._me, Foreign(descriptor.address))
            return

    def _on_foreign(self, now_ms: int, sender: Address, message: Foreign) -> None:
        if self.state != STANDING or message.contact == self._me:
            return
        if self.tree.parent is None:
            self._join_tree(now_ms, message.contact)
        elif message.hops < HOPS_MAX and sender != self.tree.parent:
            self._out.send(self.tree.parent, Foreign(message.contact, message.hops + 1))

    def _join_tree(self, now_ms: int, contact: Address) -> None:
        """The origin of a tree asks to be taken into an older one."""
        if self.seek.purpose == "orphan" and self.seek.request is None:
            self._seek(now_ms, "orphan", [(contact, "climb")])
        else:
            self._seek(now_ms, "merge", [(contact, "climb")])

    # --- dispatch -----------------------------------------------------------------------------------------------------

    def _publish(self, now_ms: int, item: Publish) -> None:
        self.routing.publish(now_ms, Copy(item.event))

    def _on_routed(self, now_ms: int, sender: Address, message: Routed) -> None:
        self.routing.receive(now_ms, sender, message.copy)

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        lost, tree = item.address, self.tree
        self._contacts = [contact for contact in self._contacts if contact != lost]
        self._waiting.pop(lost, None)
        if self._handover.lost(lost):
            self._hand_over(now_ms)
        if self._wish == lost:
            self._wish = None
        if self.state == LEFT:
            return
        if tree.drop(lost):
            self._arrange(now_ms)
            self._tell_parent()
        if tree.former == lost:
            tree.release()
            self._arrange(now_ms)
        if tree.parent == lost:
            self._orphaned(now_ms)
        if self.seek.request is not None and self.seek.request.to == lost:
            self._failed(now_ms)

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        message = item.message
        if isinstance(message, Routed):
            self.routing.undelivered(item.to, message, item.refused)
        elif isinstance(message, Attach):
            if message.joiner != self._me:
                self._out.send(message.joiner, Refused(message.req_id))
            elif self.seek.request is not None and self.seek.request.req_id == message.req_id:
                self._failed(now_ms)

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.key == "pulse":
            self._pulse(now_ms)
        elif item.key == "seek":
            self._seek_again(now_ms)
        elif item.key == "probe":
            self._probe_over(now_ms)
        elif item.key == "hand":
            self._hand_over(now_ms)
        elif item.key == "repair":
            self._out.timer("repair", now_ms + int((self._config.repair_ms or 60_000) * self._rng.uniform(0.5, 1.5)))
            self._look_around(now_ms, newcomer=False)

    def _jittered(self, now_ms: int, period_ms: int) -> int:
        return now_ms + int(period_ms * self._rng.uniform(0.9, 1.1))

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
        Attach: _on_attach,
        Attached: _on_attached,
        Refused: _on_refused,
        Detach: _on_detach,
        Pulse: _on_pulse,
        Below: _on_below,
        Probe: _on_probe,
        Found: _on_found,
        Reorganise: _on_reorganise,
        Leaving: _on_leaving,
        Promote: _on_promote,
        Promoted: _on_promoted,
        Crown: _on_crown,
        Foreign: _on_foreign,
        Routed: _on_routed,
    }


def _neighbours(chain: list[Address]) -> dict[Address, tuple[Address | None, Address | None]]:
    ends: list[Address | None] = [None]
    return dict(zip(chain, zip(ends + list(chain), [*chain[1:], None])))


def _rank_of(descriptor: Descriptor) -> Rank | None:
    """The tree that a participant says it is in."""
    match descriptor.ext:
        case (int(since_ms), bytes(peer), int(slot), *_) if since_ms >= 0 and len(peer) <= ID_MAX:
            return Rank(since_ms, peer.decode("ascii", "replace"), slot)
    return None
