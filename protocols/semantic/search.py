"""Finding the right place: probes, and the reorganisation that a newcomer causes.

**Probe** (paper, section 3, join). The interest is sent through the whole virtual root and, from each top-level peer
that contains it, down the branches that do: pruning the others is right because every ancestor of a container contains
it too. A peer that contains the interest, and none of whose children does, answers the prober directly; so does the
root of an equivalence tree with that interest. After `probe_ms` the prober takes the best answer: an equivalent peer,
else the deepest container, then the one with the fewest children.

Differs from the paper: a newcomer does not wait for the outcome. It hangs on the first container, or as a top-level
peer, and moves when it knows better; no event is lost on the way, and joins do not get longer with the tree.

**Reorganise** (section 3). The newcomer's interest is sent the same way, down all branches that it intersects. Whoever
is contained in it, and hangs on somebody less deep, moves below the newcomer with all its descendants. Parents know
their children's interests, and which of them contain nobody: those hear of it only if they should move. Equivalence
trees that meet merge under the root with the lower address.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from protocols.model.ids import Address
from protocols.model.interest import Interest, contains, equivalent, intersects
from protocols.overlay import Outbox
from protocols.parts.seen import NEW, Seen
from protocols.semantic.config import SemanticConfig
from protocols.semantic.messages import HOPS_MAX, Found, Probe, Reorganise
from protocols.semantic.tree import INTEREST, ROOT, Child, Tree

FLOOD_MS: Final = 2_000
"""How long probes are told apart. Only a cycle, which the pulses end, sends one around twice."""
ANSWERS_MAX: Final = 256


class Answer(msgspec.Struct, frozen=True, gc=False):
    address: Address
    depth: int
    children: int
    equal: bool


class Search:
    __slots__ = (
        "_answers",
        "_config",
        "_floods",
        "_is_newcomer",
        "_out",
        "_req_id",
        "_tree",
        "reorganises",
        "until_ms",
    )

    def __init__(self, tree: Tree, config: SemanticConfig, out: Outbox) -> None:
        self._tree = tree
        self._config = config
        self._out = out
        self._floods = Seen(FLOOD_MS, config.floods_max)
        self._answers: list[Answer] = []
        self._req_id = 0
        self.until_ms: int | None = None
        """When the probe under way is over."""
        self._is_newcomer = False
        self.reorganises = False
        """Its interest is new here, and others may have to move."""

    # --- probing ------------------------------------------------------------------------------------------------------

    def probe(self, now_ms: int, newcomer: bool, reorganises: bool) -> None:
        """Ask for containers. One probe at a time: the later one replaces the earlier."""
        self._req_id += 1
        self._answers.clear()
        pending = self.until_ms is not None
        self._is_newcomer = newcomer or (pending and self._is_newcomer)
        self.reorganises = reorganises or (pending and self.reorganises)
        self.until_ms = now_ms + self._config.probe_ms
        tree = self._tree
        to = self._around(tree.me, lambda child: contains(child.interest, tree.interest))
        self._out.send_all(to, Probe(tree.me, self._req_id, tree.interest))

    def on_probe(self, now_ms: int, sender: Address, message: Probe) -> None:
        tree = self._tree
        if message.hops >= HOPS_MAX or message.joiner == tree.me:
            return
        if self._floods.admit(now_ms, ("probe", message.joiner, message.req_id)) is not NEW:
            return
        to = self._around(sender, lambda child: contains(child.interest, message.interest))
        if not tree.is_idle and contains(tree.interest, message.interest):
            deeper = self._deeper(message)
            to += [address for address in deeper if address != sender]
            equal = equivalent(tree.interest, message.interest)
            if (
                tree.is_equal_root
                and not tree.leaving
                and (equal or (tree.may_contain and tree.has_room and not deeper))
            ):
                found = Found(message.req_id, tree.depth, len(tree.children), equal)
                self._out.send(message.joiner, found)
        onward = Probe(message.joiner, message.req_id, message.interest, message.hops + 1)
        self._out.send_all(list(dict.fromkeys(to)), onward)

    def _deeper(self, message: Probe) -> list[Address]:
        """The children that contain the interest too. With a limit on depth those that may not have children
        themselves matter only if they are equivalent."""
        last = self._tree.depth + 1 == self._config.depth_max
        fits = equivalent if last else contains
        return [
            address
            for address, child in self._tree.children.items()
            if child.kind == INTEREST and address != message.joiner and fits(child.interest, message.interest)
        ]

    def on_found(self, sender: Address, message: Found) -> None:
        if message.req_id == self._req_id and self.until_ms is not None and len(self._answers) < ANSWERS_MAX:
            self._answers.append(Answer(sender, message.depth, message.children, message.equal))

    def end(self) -> Address | None:
        """The probe is over: the parent that would be better than the present one."""
        self.until_ms = None
        tree = self._tree
        answers, self._answers = self._answers, []
        equals = [each.address for each in answers if each.equal]
        if not tree.is_equal_root:
            return None  # already with its equals
        if equals:
            lowest = min(equals)
            if lowest < tree.me or not tree.children:
                return lowest
            self._out.send(lowest, self._invitation())  # it is the one to move
        return self._deepest([each for each in answers if not each.equal])

    def _deepest(self, containers: list[Answer]) -> Address | None:
        """The deepest container, and of several the one with the fewest children (paper, section 3, network
        description), if it is better than the present one."""
        if not containers:
            return None
        tree = self._tree
        best = min(containers, key=lambda each: (-each.depth, each.children, each.address))
        too_deep = 0 < self._config.depth_max < tree.depth
        if best.depth > tree.container_depth or too_deep:
            return best.address
        if best.depth == tree.container_depth and self._is_newcomer:  # once: or all would move whenever one has moved
            present = [each.children for each in containers if each.address == tree.parent]
            if present and best.children < present[0] - 1:
                return best.address
        return None

    # --- reorganisation -----------------------------------------------------------------------------------------------

    def announce(self) -> None:
        """Tell those who are contained in this interest that there is a better parent for them."""
        self.reorganises = False
        tree = self._tree
        if not tree.is_idle and tree.is_equal_root and tree.may_contain:
            to = self._around(tree.me, lambda child: _concerns(child, tree.interest))
            self._out.send_all(to, self._invitation())

    def _invitation(self) -> Reorganise:
        self._req_id += 1
        return Reorganise(self._tree.me, self._req_id, self._tree.interest, self._tree.depth)

    def on_reorganise(self, now_ms: int, sender: Address, message: Reorganise) -> bool:
        """Pass it on. Returns whether the newcomer is a better parent for this participant."""
        tree = self._tree
        if message.hops >= HOPS_MAX or message.newcomer == tree.me:
            return False
        if self._floods.admit(now_ms, ("reorganise", message.newcomer, message.req_id)) is not NEW:
            return False
        to = self._around(sender, lambda child: _concerns(child, message.interest))
        within = not tree.is_idle and contains(message.interest, tree.interest)
        if not within:
            # below one that is contained nobody gains anything that it would not gain itself
            to += [
                address
                for address, child in tree.children.items()
                if child.kind == INTEREST and address != sender and _concerns(child, message.interest)
            ]
        onward = Reorganise(message.newcomer, message.req_id, message.interest, message.depth, message.hops + 1)
        self._out.send_all([address for address in dict.fromkeys(to) if address != message.newcomer], onward)
        if not within or not tree.is_equal_root or (message.newcomer == tree.parent and not tree.is_top):
            return False
        if contains(tree.interest, message.interest):
            return message.newcomer < tree.me
        return tree.container_depth < message.depth

    def _around(self, sender: Address, concerns: Callable[[Child], bool]) -> list[Address]:
        """Where to pass a flood on to that came from there: up, and through the virtual root, of whose leaves only
        those are asked whom it concerns."""
        tree = self._tree
        from_above = sender in (tree.parent, tree.former)
        to = [
            parent
            for parent, kind in ((tree.parent, tree.parent_kind), (tree.former, tree.former_kind))
            if parent is not None and (kind == ROOT or not from_above)
        ]
        to += [a for a, child in tree.children.items() if child.kind == ROOT and (not child.is_leaf or concerns(child))]
        return [address for address in to if address != sender]


def _concerns(child: Child, newcomer: Interest) -> bool:
    """Whether a newcomer may be a better parent for a child, or for somebody that the child contains."""
    if child.contains:
        return intersects(child.interest, newcomer)
    return contains(newcomer, child.interest)
