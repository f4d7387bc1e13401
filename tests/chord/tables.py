"""Rows under the hands of a test, and a node that stores them."""

from typing import Literal

from protocols.chord.messages import Row, Store, Transfer
from tests.chord.nodes import BITS, Node, at, box

OFFSET = Node(0).chord.circle.hash("x")
"""Where the values of x begin: with 256 of them on a circle of 256, value v has the key OFFSET + v."""


def value(place: int) -> int:
    """The value whose key is that place."""
    return (place - OFFSET) % (1 << BITS)


def row(place: int, number: int = 1, version: int = 1, access: int = 250, removed: bool = False) -> Row:
    """A row with the one key `place`."""
    return Row(at(access), number, 1, 0, version, box(value(place), value(place) + 1), removed)


def store(place: int, number: int = 1, version: int = 1) -> Store:
    return Store(row(place, number, version), value(place), value(place))


def standing(**config: int) -> Node:
    """Node 100, which answers for (10, 100]."""
    node = Node(100, replicas=config.pop("replicas", 0), **config)
    node.stand(10, 150, 200)
    return node


def transfer(
    token: int,
    part: int,
    purpose: Literal["handoff", "bequest", "copy"],
    low: int,
    high: int,
    *rows: Row,
    last: bool = True,
    left_ms: int = 60_000,
) -> Transfer:
    """A part of the arc (low, high], whose rows live on for `left_ms`."""
    key = Node(0).key
    return Transfer(token, part, purpose, key(low), key(high), rows, (left_ms,) * len(rows), last)
