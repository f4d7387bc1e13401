"""Storing along the ring: how a row finds all nodes that its values fall onto.

A row with one key is routed to it. A range of ordered values falls onto an arc, whose nodes follow each other (paper,
section 4.1). Three ways from the first of them to the others (`range_store`):

- *walk*, the paper's: each node passes the row on to its successor, until the key of the last value. It takes
  r + 1/2 log2 N hops.
- *jump*: each node passes it on towards the next value that is not its own. Where values are dense that is the
  successor too; where they are sparse (the "small domain problem", paper, section 4.3), nodes between two values are
  skipped along the fingers.
- *multicast*: each node splits what is left between the nodes that it knows there, each of which sees to the part up to
  the next (as in the broadcast of El-Ansary et al. 2003): a message per node as with walk, but log2 N after each other.

Each node on the way that has a value of the row answers the access node by itself (`storage`), and that one sees which
arcs are covered. What a lost message or a newcomer left out is simply stored again from there.
"""

from functools import partial

from protocols.chord.config import ChordConfig
from protocols.chord.fingers import Fingers, one_hop_on
from protocols.chord.keys import Keys, Values
from protocols.chord.lookup import Answer, Lookups
from protocols.chord.messages import HOPS_MAX, Store
from protocols.chord.ring import Ring
from protocols.chord.storage import Storage
from protocols.model.ids import Address
from protocols.overlay import Outbox, Rejected


class Ranges:
    __slots__ = ("_circle", "_config", "_fingers", "_keys", "_lookups", "_out", "_ring", "_storage")

    def __init__(
        self,
        ring: Ring,
        fingers: Fingers,
        lookups: Lookups,
        storage: Storage,
        keys: Keys,
        config: ChordConfig,
        out: Outbox,
    ) -> None:
        self._ring = ring
        self._fingers = fingers
        self._lookups = lookups
        self._storage = storage
        self._keys = keys
        self._circle = keys.circle
        self._config = config
        self._out = out

    def begin(self, now_ms: int, message: Store) -> None:
        """Send a row of our own on its way."""
        values = self._keys.values(message.row.list, message.row.box, message.row.access)
        assert values is not None
        key = values.key(message.first, self._keys.rotations[message.rotation])
        if self._config.lookup == "iterative":
            self._lookups.begin(now_ms, key, partial(self._begin_at, message))
        else:
            self.on_store(now_ms, self._ring.me, message)

    def _begin_at(self, message: Store, now_ms: int, answer: Answer) -> None:
        """A lookup has found the first node; if it has not, the row is sent again anyway."""
        if answer.owner == self._ring.me:
            self.on_store(now_ms, answer.owner, message)
        elif answer.owner is not None:
            self._out.send(answer.owner, one_hop_on(message))

    def on_store(self, now_ms: int, sender: Address, message: Store) -> None:
        row, ring = message.row, self._ring
        values = self._keys.values(row.list, row.box, row.access)
        if (
            values is None
            or message.rotation >= len(self._keys.rotations)
            or not message.first <= message.last <= values.greatest  # or it would go around and around the ring
        ):
            self._out.report(Rejected(sender, "a row that cannot be stored"))
            return
        if not ring.standing or message.hops >= HOPS_MAX:
            return
        rotation = self._keys.rotations[message.rotation]
        key = values.key(message.first, rotation)
        mine = ring.answers_for(key)
        passed = self._circle.within(key, self._circle.node(sender), ring.id)  # its node stands before us
        if ring.low is None or (not mine and (passed or not message.direct)):
            self._pass_on(self._fingers.next_hop(key), message, message.first)
            return
        if row.removed or values.touches(ring.low, ring.id, self._keys.rotations):
            if not self._storage.store(now_ms, row, message.hops):
                return
        elif mine and not self._storage.outdate(now_ms, row, message.hops):
            return
        first = values.beyond(message.first, ring.id, rotation) if mine else message.first
        if first is not None and first <= message.last and not ring.alone:
            self._go_on(values, message, first, rotation)

    def _go_on(self, values: Values, message: Store, first: int, rotation: int) -> None:
        """There are values beyond this node."""
        if self._config.range_store == "walk":
            self._pass_on(self._ring.head, message, first, direct=True)
        elif self._config.range_store == "jump":
            self._pass_on(self._fingers.next_hop(values.key(first, rotation)), message, first)
        else:
            self._multicast(values, message, first, rotation)

    def _multicast(self, values: Values, message: Store, first: int, rotation: int) -> None:
        ring, circle = self._ring, self._circle
        head = ring.head
        assert head is not None
        until = circle.decode(message.until) if message.until else None
        if until is not None and not circle.between(circle.node(head), ring.id, until):
            return  # whoever stands there sees to the rest; if nobody does it is stored again
        nodes = self._fingers.between(ring.id, values.key(message.last, rotation))
        if until is not None:
            nodes = [n for n in nodes if circle.between(circle.node(n), ring.id, until)]
        nodes = [head, *[n for n in nodes if n != head]]
        ends = [circle.encode(circle.node(node)) for node in nodes[1:]] + [message.until]
        reach = circle.distance(ring.id, values.key(first, rotation))
        for number, (node, end) in enumerate(zip(nodes, ends)):
            begins: int | None = first
            if number and circle.distance(ring.id, circle.node(node)) >= reach:
                begins = values.beyond(first, circle.node(node), rotation)
            begins = message.last if begins is None else min(begins, message.last)
            self._pass_on(node, message, begins, direct=True, until=end)

    def _pass_on(
        self, to: Address | None, message: Store, first: int, direct: bool = False, until: bytes = b""
    ) -> None:
        if to is not None:
            hops = message.hops + 1
            self._out.send(to, Store(message.row, first, message.last, message.rotation, direct, until, hops))
