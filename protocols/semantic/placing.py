"""Who may become a child of a participant: adopted, passed on, or refused.

A request is adopted, passed on (up to a container or the top level, down an equivalence tree or the virtual root), or
refused. That is decided from where the participant stands, and changes nothing.

A joiner that has children itself, and climbs from somebody whose place it does not know, has to be confirmed by the
origin: on the way there its request meets itself if we are below it, and of two trees only the younger may join the
other. So no cycle is made by those who seek.

**No room.** Whoever has `children_max` children takes in equals and top-level peers only. A joiner that is contained in
it then goes up, `over` all containers that have no room either, and becomes a top-level peer if none has; the idle, if
there is nobody else, hang on the idle (`Child.spare`). So there is a place for everybody.
"""

from random import Random
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from protocols.model.ids import Address
from protocols.model.interest import contains, equivalent, is_empty
from protocols.semantic.config import SemanticConfig
from protocols.semantic.messages import HOPS_MAX, Attach, LinkKind, Mode
from protocols.semantic.tree import EQUAL, IDLE, INTEREST, ROOT, Tree


class Adopt(NamedTuple):
    kind: LinkKind


class Pass(NamedTuple):
    to: Address
    mode: Mode
    over: bool = False


class Refuse(NamedTuple):
    foreign: bool = False
    """The joiner is the origin of a tree that ours has to join."""


Decision: TypeAlias = Adopt | Pass | Refuse


class Placing:
    __slots__ = ("_config", "_rng", "_tree")

    def __init__(self, tree: Tree, config: SemanticConfig, rng: Random) -> None:
        self._tree = tree
        self._config = config
        self._rng = rng

    def decide(self, request: Attach) -> Decision:
        """What to do with a request."""
        tree = self._tree
        joiner, mode = request.joiner, request.mode
        if joiner in (tree.parent, tree.former) or joiner in tree.ancestors or request.hops >= HOPS_MAX:
            return Refuse()
        if tree.leaving and tree.parent is not None:
            return Pass(tree.parent, "here" if mode == "slot" else mode)
        if is_empty(request.interest):
            return self._decide_idle(request)
        if mode == "climb" and request.rank is not None:
            if tree.parent is not None:
                return Pass(tree.parent, "climb")
            if tree.rank > request.rank:
                return Refuse(foreign=True)
        if not tree.is_idle and equivalent(tree.interest, request.interest):
            return self._decide_equal(request)
        if not tree.is_idle and contains(tree.interest, request.interest):
            return self._decide_contained(request)
        if mode == "below":
            return Refuse()
        if tree.parent is not None and not tree.is_top:
            return Pass(tree.parent, "climb")
        return self._decide_top_level(request)

    def _decide_idle(self, request: Attach) -> Decision:
        tree = self._tree
        child = tree.children.get(request.joiner)
        stays = request.mode == "slot" or (child is not None and child.spare)
        if tree.is_idle and tree.parent is not None and not stays:
            return Pass(tree.parent, request.mode)
        if tree.has_room or child is not None:
            return Adopt(IDLE)
        others = {a: c.kind for a, c in tree.children.items() if a != request.avoid and not c.leaving}
        wanting = [a for a, kind in others.items() if kind != IDLE]
        if wanting:
            return Pass(self._rng.choice(wanting), "here")
        return Pass(self._rng.choice(list(others)), "slot") if others else Refuse()

    def _decide_equal(self, request: Attach) -> Decision:
        """Into the equivalence tree: the first free place from its root down."""
        tree = self._tree
        if not tree.is_equal_root and request.mode != "slot" and tree.parent is not None:
            return Pass(tree.parent, request.mode)
        others = self._staying(EQUAL, request.joiner)
        is_free = len(others) < self._config.equal_degree or _is_last(request)
        if is_free and (tree.has_reserve or request.joiner in tree.children):
            return Adopt(EQUAL)
        if not others:
            return Refuse()
        least = [a for a in others if a != request.avoid] or others
        return Pass(min(least, key=lambda a: (tree.children[a].equals, a)), "slot")

    def _decide_contained(self, request: Attach) -> Decision:
        """Below an interest child that contains it too and is not too deep, else here."""
        tree = self._tree
        if (not tree.is_equal_root or not tree.may_contain) and tree.parent is not None:
            return Pass(tree.parent, request.mode)
        deepest = tree.depth + 1 == self._config.depth_max
        deeper = None if deepest else self._container(request, INTEREST)
        if deeper is not None:
            return Pass(deeper, "here")
        if tree.has_room or request.joiner in tree.children:
            return Adopt(INTEREST)
        if request.mode == "below":
            return Refuse()
        if tree.parent is not None and not tree.is_top:
            return Pass(tree.parent, "climb", over=True)
        return self._decide_top_level(replace(request, over=True))

    def _decide_top_level(self, request: Attach) -> Decision:
        """Into the virtual root: the first free place from the origin down, so that few have to relay."""
        tree = self._tree
        container = self._container(request, ROOT)
        if container is not None:
            return Pass(container, "here")
        child = tree.children.get(request.joiner)
        if child is not None and child.kind == ROOT and not tree.leaving:
            return Adopt(ROOT)
        if tree.parent is not None and request.mode != "slot":
            return Pass(tree.parent, "climb", request.over)
        others = self._staying(ROOT, request.joiner)
        if (len(others) < self._config.root_degree or _is_last(request)) and tree.has_reserve:
            return Adopt(ROOT)
        relay = self._relay([a for a in others if a != request.avoid] or others)
        return Pass(relay, "slot", request.over) if relay is not None else Refuse()

    def _staying(self, kind: LinkKind, joiner: Address) -> list[Address]:
        """The children of that kind, beside the joiner, that take up a place. A leaver does not: it would pass whoever
        is sent to it back here."""
        children = self._tree.children
        return [a for a, c in children.items() if c.kind == kind and a != joiner and not c.leaving]

    def _relay(self, among: list[Address]) -> Address | None:
        """The child that should take a top-level peer in: one that relays anyway and has room; else a leaf, which
        relays from now on; else the one with the fewest below it. (Whoever relays gets everything, wanted or not.)"""
        tops = {address: self._tree.children[address].tops for address in among}
        roomy = {a: count for a, count in tops.items() if 1 < count <= self._config.root_degree}
        if roomy:
            return max(roomy, key=lambda a: (roomy[a], a))
        fewest = min(tops.values(), default=0)
        return self._rng.choice([a for a in among if tops[a] == fewest]) if among else None

    def expect(self, decision: Pass) -> bool:
        """A child is passed a joiner: many may come before it says how many it has now. Returns whether it relays from
        now on, and did not before."""
        child = self._tree.children.get(decision.to)
        if child is None or decision.mode != "slot":
            return False
        if child.kind == EQUAL:
            child.equals += 1
        elif child.kind == ROOT:
            child.tops += 1
            return child.tops == 2
        return False

    def _container(self, request: Attach, kind: LinkKind) -> Address | None:
        """A child of that kind that contains the joiner, and will stay."""
        if request.over:
            return None
        for address, child in self._tree.children.items():
            if child.kind != kind or child.leaving or child.told_ms >= 0:
                continue
            if address not in (request.joiner, request.avoid) and contains(child.interest, request.interest):
                return address
        return None


def _is_last(request: Attach) -> bool:
    """Whether it may be passed on no further, so that a limit on degree must not stand in its way."""
    return request.hops + 1 >= HOPS_MAX


def passed(request: Attach, decision: Pass) -> Attach:
    over = request.over or decision.over
    return replace(request, mode=decision.mode, hops=request.hops + 1, over=over)
