"""One participant of the R-tree under the hands of a test."""

from random import Random
from typing import Any

from protocols.model.box import EMPTY, Box, Point
from protocols.model.event import Copy, Event
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import OWN_BOX, Effect, Input, Join, Received, Report, Send, Subscribe
from protocols.rtree.config import RtreeConfig
from protocols.rtree.messages import Adopt, Child, Covered, JoinRequest, Mbr, Take
from protocols.rtree.overlay import Rtree
from protocols.rtree.tree import Tree

SCHEMA = Schema.from_toml("[attributes.x]\ntype = 'int'\nmin = 0\nmax = 99\n")


def address(name: str) -> Address:
    return Address(name, 1, 0, f"{name}:1")


def box(low: int, high: int) -> Box:
    return Box((low,), (high,))


def event(name: str, x: int, ttl_ms: int = 60_000) -> Event:
    return Event(name, Point((x,)), b"", ttl_ms)


def copy(name: str, x: int, hops: int = 1, age_ms: int = 0) -> Copy:
    return Copy(event(name, x), hops, age_ms)


def mbr(
    seq: int,
    low: int,
    high: int,
    level: int = 0,
    count: int = 0,
    inner: tuple[Box, ...] = (),
    sponsor: Address | None = None,
) -> Mbr:
    return Mbr(seq, level, box(low, high), None, count, inner, sponsor, False)


def join_request(name: str, low: int, high: int, level: int = 0, stands: bool = False) -> JoinRequest:
    return JoinRequest(1, address(name), level, box(low, high), stands, 0, 0)


class Player:
    """A participant with the box [10, 20), and what came of its last step."""

    def __init__(self, name: str = "me", low: int = 10, high: int = 20, **config: Any) -> None:
        self.me = address(name)
        settings = {"children_min": 2, "children_max": 4, **config}
        self.overlay = Rtree(self.me, RtreeConfig(**settings), SCHEMA, Random(1))
        self.now_ms = 0
        self.do(Subscribe(OWN_BOX, box(low, high) if high > low else EMPTY))

    @property
    def tree(self) -> Tree:
        return self.overlay.tree

    def do(self, item: Input, at_ms: int | None = None) -> list[Effect]:
        self.now_ms = self.now_ms + 1 if at_ms is None else at_ms
        return self.overlay.handle(self.now_ms, item)

    def hear(self, name: str, message: Any, at_ms: int | None = None) -> list[Effect]:
        return self.do(Received(address(name), 0, message), at_ms)

    def begin(self) -> "Player":
        """Be the root."""
        self.do(Join(()))
        return self

    def below(self, parent: str, level: int = 0) -> "Player":
        """Be a child of that one, which has just said that it covers us."""
        asked = sent(self.do(Join((address(parent),))), JoinRequest)
        self.hear(parent, Adopt(asked[0][1].req_id, 0, ()))
        assert self.tree.candidate is not None
        self.hear(parent, Covered(self.tree.candidate.seq, 0, address(parent), ()))
        assert self.tree.parent is not None
        return self

    def adopt(self, name: str, low: int, high: int) -> list[Effect]:
        """Let that one join below."""
        effects = self.hear(name, join_request(name, low, high))
        return effects + self.hear(name, mbr(1, low, high))

    def children(self, height: int = 1) -> dict[str, str]:
        """The children of a node, and how each of them stands."""
        node = self.tree.node(height)
        return {} if node is None else {entry.address.peer: entry.standing for entry in node.entries.values()}


def host_below(parent: str, **config: Any) -> Player:
    """A host of two children that is itself a child."""
    player = Player(**config).below(parent)
    children = (Child(address("c"), box(10, 15), None, 0, ()), Child(address("d"), box(12, 18), None, 0, ()))
    player.hear(parent, Take(7, 0, (children,), address("root"), whole=False))
    assert player.tree.candidate is not None
    player.hear("root", Covered(player.tree.candidate.seq, 1, address("root"), ()))
    for name, low, high in (("c", 10, 15), ("d", 12, 18)):
        player.hear(name, mbr(1, low, high))
    assert player.children() == {"me": "member", "c": "member", "d": "member"}
    return player


def sent(effects: list[Effect], type_: type | None = None) -> list[tuple[str, Any]]:
    """Who was sent what."""
    pairs = [(to.peer, effect.message) for effect in effects if isinstance(effect, Send) for to in effect.to]
    return [(to, message) for to, message in pairs if type_ is None or isinstance(message, type_)]


def facts(effects: list[Effect]) -> list[Any]:
    return [effect.fact for effect in effects if isinstance(effect, Report)]
