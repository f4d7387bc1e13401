"""Routing: fingers, remembered owners, and the next hop towards a key.

Finger i of a node is the successor of its identifier + 2^i. Those up to the first successor are that one, so about
log2 N differ (Stoica et al. 2001, section 4.3). One of them is seen to at a time; all that lie before its finger's
place are settled by the same answer. Those that the successor list reaches are read from it. For the others the node
that was found last is asked itself whether it still is the one, which takes one message instead of a lookup; if it is
not, it passes the question on like any other. While a whole round changes nothing, the next ones are taken slowly.

A message for a key goes to the known node that is nearest before the key: half of the distance is covered by each hop,
so 1/2 log2 N hops are needed on average, and one more from the node before the key to its owner. Besides fingers the
successors are known. Correctness rests on the successors alone.

An answer names the arc that its sender answers for. The node that asked remembers it (`Locations`) and sends its next
question about a key on that arc there straight away. Only who begins a question uses what it remembers: a node that
passes one on follows the ring, so that two outdated memories cannot send a message to and fro.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Any

import msgspec

from protocols.chord.ids import Circle
from protocols.chord.messages import HOPS_MAX
from protocols.chord.ring import Ring
from protocols.model.ids import Address
from protocols.overlay import LinkDown, LinkUp, Outbox


class Fingers:
    __slots__ = (
        "_calm",
        "_changed",
        "_circle",
        "_epoch",
        "_nodes",
        "_out",
        "_places",
        "_ring",
        "_round_epoch",
        "_turn",
        "around",
        "known",
        "table",
    )

    def __init__(self, ring: Ring, circle: Circle, out: Outbox) -> None:
        self._ring = ring
        self._circle = circle
        self._out = out
        self.table: dict[int, Address] = {}
        """Finger number -> node, for those beyond the first successor."""
        self.around: list[Address] = []
        """Whom not to send what is passed on, if there is another way."""
        self.known: dict[Address, None] = {}  # others to route by until the fingers are found
        self._turn = 0
        self._calm = False  # the last round has changed nothing
        self._changed = True  # this one has
        self._round_epoch = -1  # of the ring, when this round began
        self._epoch = -1
        self._places: list[int] = []  # distances of the nodes to route by, in order
        self._nodes: list[Address] = []

    def first(self) -> int:
        """The first finger beyond the first successor."""
        head = self._ring.head
        if head is None:
            return self._circle.bits
        return self._circle.distance(self._ring.id, self._circle.node(head)).bit_length()

    def start(self, number: int) -> int:
        return (self._ring.id + (1 << number)) & self._circle.mask

    @property
    def settled(self) -> bool:
        """Whether a whole round has changed nothing, and nothing has changed since."""
        return self._calm and not self._changed and self._round_epoch == self._ring.epoch

    def next_to_fix(self) -> int | None:
        """The number of the finger whose turn it is, of those that the successor list does not reach."""
        first, bits = self.first(), self._circle.bits
        for number in [n for n in self.table if n < first]:
            self._drop(number)
        if not first <= self._turn < bits:
            self._begin_round(first)
        while self._turn < bits:
            listed = self._ring.listed(self.start(self._turn))
            if listed is None:
                return self._turn
            self.fixed(self._turn, *listed)
        return None

    def _begin_round(self, first: int) -> None:
        self._calm = not self._changed and self._round_epoch == self._ring.epoch
        self._changed = False
        self._round_epoch = self._ring.epoch
        self._turn = first

    def fixed(self, number: int, node: Address, low: int) -> None:
        """A finger was found; `low` is where its arc begins. All fingers whose places it answers for are it."""
        circle = self._circle
        if number < self.first() or node == self._ring.me:
            self._turn = number + 1
            if node == self._ring.me:
                self._drop(number)
            return
        while number < circle.bits and circle.within(self.start(number), low, circle.node(node)):
            if self.table.get(number) != node:
                self._drop(number)
                if node not in self.table.values():
                    self._out.report(LinkUp("finger", node))
                self.table[number] = node
                self._changed = True
                self._epoch = -1
            number += 1
        self._turn = number
        if self.known and number >= circle.bits:
            self.known = {}
            self._epoch = -1

    def skip(self) -> None:
        """The finger whose turn it is was not found."""
        self._turn += 1

    def learn(self, nodes: tuple[Address, ...]) -> None:
        """Route by these until there are fingers."""
        self.known = dict.fromkeys(nodes)
        self._epoch = -1

    def lost(self, address: Address) -> None:
        for number in [n for n, node in self.table.items() if node == address]:
            self._drop(number)
        if self.known.pop(address, self) is None:
            self._epoch = -1

    def doubt(self, address: Address) -> None:
        """Somebody has not answered, or another behind it has not, or a message was lost.

        If it is a finger it stays: its turn comes, and if it is gone then who answers in its place is found.
        """
        if self.known.pop(address, self) is None:
            self._epoch = -1

    def nodes(self) -> list[Address]:
        return list(dict.fromkeys(self.table.values()))

    def _drop(self, number: int) -> None:
        node = self.table.pop(number, None)
        if node is not None:
            self._changed = True
            self._epoch = -1
            if node not in self.table.values():
                self._out.report(LinkDown("finger", node))

    # --- routing ------------------------------------------------------------------------------------------------------

    def next_hop(self, key: int, silent: Sequence[Address] = ()) -> Address | None:
        """Whom to pass on to what is for this key, if possible none of the silent ones; None if there is nobody."""
        ring, circle = self._ring, self._circle
        head = ring.head
        if head is None:
            return None
        far = circle.distance(ring.id, key) or circle.size
        if far <= circle.distance(ring.id, circle.node(head)):
            return head  # the owner
        if (
            ring.predecessor is not None
            and ring.low is None
            and circle.within(key, circle.node(ring.predecessor), ring.id)
        ):
            return head  # it still answers for what will be ours, or did until we left
        if self._epoch != ring.epoch:
            self._collect()
        best = bisect_left(self._places, far) - 1
        silent = silent or self.around
        return next((node for node in self._nodes[best::-1] if node not in silent), self._nodes[best])

    def pass_on(self, key: int, message: Any) -> None:
        """Send a routed message one hop further."""
        to = self.next_hop(key)
        if to is not None and message.hops < HOPS_MAX:
            self._out.send(to, one_hop_on(message))

    def between(self, lo: int, hi: int) -> list[Address]:
        """The nodes to route by on the arc (lo, hi], in order; `lo` is this node's own place or after it."""
        if self._epoch != self._ring.epoch:
            self._collect()
        first = self._circle.distance(self._ring.id, lo)
        last = self._circle.distance(self._ring.id, hi)
        return self._nodes[bisect_right(self._places, first) : bisect_right(self._places, last)]

    def _collect(self) -> None:
        ring, circle = self._ring, self._circle
        nodes = {circle.distance(ring.id, circle.node(node)): node for node in (*self.known, *self.table.values())}
        nodes |= {circle.distance(ring.id, circle.node(node)): node for node in ring.successors}
        nodes.pop(0, None)
        self._places = sorted(nodes)
        self._nodes = [nodes[place] for place in self._places]
        self._epoch = ring.epoch


def one_hop_on(message: Any) -> Any:
    """The same message after one more hop."""
    return msgspec.structs.replace(message, hops=message.hops + 1)


class Locations:
    """Which node answers for which arc, as last heard."""

    __slots__ = ("_arcs", "_capacity", "_circle", "_ends", "_owners")

    def __init__(self, circle: Circle, capacity: int) -> None:
        self._circle = circle
        self._capacity = capacity
        self._arcs: dict[Address, int] = {}  # owner -> where its arc begins
        self._ends: list[int] = []
        self._owners: dict[int, Address] = {}

    def __len__(self) -> int:
        return len(self._arcs)

    def learn(self, owner: Address, low: int) -> None:
        if not self._capacity:
            return
        if owner not in self._arcs:
            end = self._circle.node(owner)
            if end in self._owners:
                self.forget(self._owners[end])
            if len(self._arcs) >= self._capacity:
                self.forget(next(iter(self._arcs)))
            self._owners[end] = owner
            insort(self._ends, end)
        self._arcs[owner] = low

    def forget(self, owner: Address) -> None:
        if self._arcs.pop(owner, None) is not None:
            end = self._circle.node(owner)
            del self._owners[end]
            del self._ends[bisect_left(self._ends, end)]

    def owner(self, key: int) -> Address | None:
        """Who answered for this key when it was last heard of."""
        if not self._ends:
            return None
        place = bisect_left(self._ends, key)
        owner = self._owners[self._ends[place if place < len(self._ends) else 0]]
        return owner if self._circle.within(key, self._arcs[owner], self._circle.node(owner)) else None
