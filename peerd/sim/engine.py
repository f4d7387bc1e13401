"""The simulator's engine: many peers, one virtual clock, seeded links.

Every message goes through the wire codec: encoded once per `Send`, decoded for each receiver, so that no two peers
share an object and the bytes that are counted are the real ones. Nothing here knows an overlay.

An entry of the timeline is one of

    (source, sender, to, data, target)    a message on its way to the node `target`
    (None, slot, key, at_ms, node)        a timer
    (None, None, call)                    something that the scenario does at that time

The trace is a hash over all of it, in order: two runs with the same trace did the same.
"""

from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Final, Protocol

from peerd.driver import actions, perform
from peerd.sim.network import GIVE_UP_MS, LinkDelays, NetworkConfig, pair_hash
from peerd.sim.timeline import Entry, Timeline
from peerd.wire import Codec
from protocols.model.ids import PEER_SLOT, Address, in_slot
from protocols.overlay import (
    Active,
    CancelTimer,
    Deliver,
    Message,
    Received,
    Reception,
    Report,
    Send,
    SetTimer,
    TimerFired,
    Undelivered,
)
from protocols.peer import Peer, PeerInput

TRACE_CHUNK: Final = 1 << 20
FRAME_OVERHEAD: Final = Codec.frame_size(0, 0, 0)
"""What the frame adds to a message, for slots below 128."""


class Node:
    """One life of a simulated peer, and what the simulated machine remembers of it."""

    __slots__ = (
        "address",
        "addresses",
        "alive",
        "asleep_until_ms",
        "backlog",
        "boot",
        "index",
        "mark",
        "open",
        "peer",
        "side",
        "silent",
        "timers",
    )

    def __init__(self, index: int, address: Address, peer: Peer) -> None:
        self.index = index
        self.mark = b">%d" % index  # in the trace: it receives what follows
        self.address = address
        self.boot = address.boot
        self.peer = peer
        self.addresses: dict[int, Address] = {PEER_SLOT: address}
        self.timers: dict[tuple[int, str], int] = {}
        self.alive = True
        self.open = True  # alive and not stalled
        self.silent = False  # dead without a trace: the host is gone, nobody even refuses
        self.asleep_until_ms = 0
        self.side = 0
        self.backlog: list[Entry] = []


class Observer(Protocol):
    """Who watches a run: the oracle, and the writer of records."""

    def on_active(self, now_ms: int, node: Node, effect: Active) -> None: ...
    def on_deliver(self, now_ms: int, node: Node, effect: Deliver) -> None: ...
    def on_reception(self, now_ms: int, node: Node, effect: Reception, size: int) -> None: ...
    def on_report(self, now_ms: int, node: Node, effect: Report) -> None: ...


class Traffic:
    """Messages and bytes of one type of message, sent and (where it is kept per peer) received."""

    __slots__ = ("received", "received_bytes", "sent", "sent_bytes")

    def __init__(self) -> None:
        self.sent = self.sent_bytes = self.received = self.received_bytes = 0


class Engine:
    def __init__(self, codec: Codec, network: NetworkConfig, rng: Random, observer: Observer) -> None:
        self.timeline = Timeline()
        self.nodes: list[Node] = []
        self.traffic: dict[type[Message], Traffic] = {}
        self.meters: dict[int, dict[type[Message], Traffic]] | None = None
        """Traffic per peer, kept if somebody asks for it by putting a dictionary here."""
        self._observer = observer
        self._on_reception = observer.on_reception
        self._encode, self._decode = codec.encode, codec.decode
        self._delays = LinkDelays(network, rng)
        self._latencies = self._delays.table
        self._plain = self._delays.plain  # nothing is wrong with any link: the short way through `send`
        self._cut = False
        self._held: dict[int, Entry] = {}  # what waits for a cut to heal or its connection to be given up
        self._held_count = 0
        self._by_peer: dict[str, Node] = {}
        self._by_endpoint: dict[str, Node] = {}
        self._table = actions(self)
        self._size = 0  # of the message that is being handled
        self._trace = bytearray()
        self._trace_hash = sha256()
        self._marked_ms = -1

    # --- the run ------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.timeline.now_ms

    def run_until(self, until_ms: int) -> None:
        """Let virtual time pass."""
        take, decode, table = self.timeline.take, self._decode, self._table
        while (entries := take(until_ms)) is not None:
            now_ms = self.timeline.now_ms
            trace = self._trace
            for entry in entries:
                if entry[0] is None:
                    self._happen(entry)
                    continue
                _, sender, to, data, target = entry
                if not target.open or to.boot != target.boot or self.meters is not None:
                    self._deliver(*entry)
                    continue
                # The same as `_deliver`, for the millions of messages that nothing stands in the way of.
                if self._marked_ms != now_ms:
                    self._mark_time()
                trace += target.mark
                perform(table, target, target.peer.handle(now_ms, Received(sender, to.slot, decode(data))))
            if len(trace) > TRACE_CHUNK:
                self._trace_hash.update(trace)
                trace.clear()

    def _happen(self, entry: Entry) -> None:
        """A timer fires, or it is time for something that the scenario does."""
        if entry[1] is None:
            entry[2]()
        else:
            self._fire(*entry)

    def at(self, at_ms: int, call: Callable[[], object]) -> None:
        self.timeline.put(at_ms, (None, None, call))

    def step(self, node: Node, item: PeerInput) -> None:
        """Hand an input to a peer and carry out what it answers."""
        perform(self._table, node, node.peer.handle(self.timeline.now_ms, item))

    def _mark_time(self) -> None:
        """Before what is traced at a time, and only then: what an observer puts into the timeline leaves no trace."""
        self._marked_ms = self.timeline.now_ms
        self._trace += b"@%d" % self._marked_ms

    def trace_sha256(self) -> str:
        self._trace_hash.update(self._trace)
        self._trace.clear()
        return self._trace_hash.hexdigest()

    # --- peers and faults ---------------------------------------------------------------------------------------------

    def add(self, address: Address, peer: Peer) -> Node:
        """Start a peer, or the next life of one."""
        node = Node(len(self.nodes), address, peer)
        self.nodes.append(node)
        self._by_peer[address.peer] = node
        self._by_endpoint[address.at] = node
        return node

    def stop(self, node: Node, silent: bool = False) -> None:
        """End a peer's process; `silent` takes its host away too, so that nobody refuses connections."""
        node.alive, node.open, node.silent = False, False, silent
        node.timers.clear()
        node.backlog.clear()

    def stall(self, node: Node, for_ms: int) -> None:
        """The peer does nothing for a while; what comes meanwhile waits for it."""
        node.open = False
        node.asleep_until_ms = max(node.asleep_until_ms, self.now_ms + for_ms)
        self.at(node.asleep_until_ms, lambda: self._resume(node))

    def cut(self, sides: dict[int, int]) -> None:
        """Partition: peers (by index) on different sides do not reach each other."""
        self._cut = True
        for node in self.nodes:
            node.side = sides.get(node.index, 0)

    def heal(self) -> None:
        self._cut = False
        held, self._held = self._held, {}
        for entry in held.values():
            self._carry(*entry)

    def calm(self) -> None:
        """The links stop losing, doubling and reordering."""
        self._delays.calm()

    def reset(self, a: Node, b: Node) -> None:
        """Break the connection of two peers: what is under way is lost, and its sender is told."""
        if self._delays.datagram:
            return  # there is no connection to break
        ends = (a, b)

        def lost(entry: Entry) -> bool:
            return entry[0] in ends and entry[4] in ends

        held = [number for number, entry in self._held.items() if lost(entry)]
        under_way = self.timeline.withdraw(lost) + [self._held.pop(number) for number in held]
        for source, sender, to, data, _ in under_way:
            self._bounce(source, sender, to, data, False, self.now_ms)
        self._delays.forget(a.index, b.index)

    # --- effects (the host's side of `perform`) -----------------------------------------------------------------------

    def send(self, origin: Node, effect: Send) -> None:
        message = effect.message
        data = self._encode(message)
        self._trace += data
        sender = origin.addresses.get(effect.slot)
        if sender is None:
            sender = origin.addresses[effect.slot] = in_slot(origin.address, effect.slot)
        traffic = self.traffic.get(type(message))
        if traffic is None:
            traffic = self.traffic[type(message)] = Traffic()
        if self.meters is not None:
            meter = self._meter(origin, type(message))
            meter.sent += len(effect.to)
            meter.sent_bytes += len(effect.to) * (len(data) + FRAME_OVERHEAD)
        traffic.sent += len(effect.to)
        traffic.sent_bytes += len(effect.to) * (len(data) + FRAME_OVERHEAD)
        by_peer, put, latencies, source = self._by_peer, self.timeline.put, self._latencies, origin.index
        now_ms, plain = self.timeline.now_ms, self._plain and not self._cut
        for to in effect.to:
            target = by_peer.get(to.peer) or self._by_endpoint.get(to.at)
            if target is None:
                self._bounce(origin, sender, to, data, True, now_ms + latencies[0])
            elif plain and target.alive:
                put(now_ms + latencies[pair_hash(source, target.index)], (origin, sender, to, data, target))
            else:
                self._carry(origin, sender, to, data, target)

    def set_timer(self, origin: Node, effect: SetTimer) -> None:
        origin.timers[effect.slot, effect.key] = effect.at_ms
        self.timeline.put(effect.at_ms, (None, effect.slot, effect.key, effect.at_ms, origin))

    def cancel_timer(self, origin: Node, effect: CancelTimer) -> None:
        origin.timers.pop((effect.slot, effect.key), None)

    def active(self, origin: Node, effect: Active) -> None:
        self._observer.on_active(self.timeline.now_ms, origin, effect)

    def deliver(self, origin: Node, effect: Deliver) -> None:
        self._trace += b"d%d %s@%d" % (origin.index, effect.event.id.encode(), self.timeline.now_ms)
        self._observer.on_deliver(self.timeline.now_ms, origin, effect)

    def reception(self, origin: Node, effect: Reception) -> None:
        self._on_reception(self.timeline.now_ms, origin, effect, self._size)

    def report(self, origin: Node, effect: Report) -> None:
        self._observer.on_report(self.timeline.now_ms, origin, effect)

    # --- messages -----------------------------------------------------------------------------------------------------

    def _deliver(self, source: Node, sender: Address, to: Address, data: bytes, target: Node) -> None:
        """A message arrives, or finds that it cannot."""
        if not target.alive or (to.boot and to.boot != target.boot):
            if target.silent:
                self._hold((source, sender, to, data, target))
            else:
                self._bounce(source, sender, to, data, True, self.now_ms + self._latency(source, target))
            return
        if not target.open:
            target.backlog.append((source, sender, to, data, target))
            return
        if self._marked_ms != self.timeline.now_ms:
            self._mark_time()
        self._trace += target.mark
        self._size = len(data) + FRAME_OVERHEAD
        item = Received(sender, to.slot, self._decode(data))
        if self.meters is not None:
            meter = self._meter(target, type(item.message))
            meter.received += 1
            meter.received_bytes += self._size
        self.step(target, item)

    def _carry(self, source: Node, sender: Address, to: Address, data: bytes, target: Node) -> None:
        """The long way: over links that lose, delay, are cut, or end nowhere."""
        if target.silent or (self._cut and source.side != target.side):
            self._hold((source, sender, to, data, target))
            return
        for at_ms in self._delays.arrivals(self.now_ms, source.index, target.index, len(data)):
            self.timeline.put(at_ms, (source, sender, to, data, target))

    def _hold(self, entry: Entry) -> None:
        """Keep what cannot get through until the cut heals or the connection is given up."""
        if self._delays.datagram:
            return
        self._held_count += 1
        number = self._held_count
        self._held[number] = entry
        self.at(self.now_ms + GIVE_UP_MS, lambda: self._give_up(number))

    def _give_up(self, number: int) -> None:
        if number in self._held:
            source, sender, to, data, _ = self._held.pop(number)
            self._bounce(source, sender, to, data, False, self.now_ms)

    def _bounce(self, source: Node, sender: Address, to: Address, data: bytes, refused: bool, at_ms: int) -> None:
        """Tell the sender, if it still lives, that a message did not arrive."""
        if self._delays.datagram:
            return
        item = Undelivered(sender.slot, to, self._decode(data), refused)
        self.at(at_ms, lambda: self._return(source, item))

    def _return(self, node: Node, item: Undelivered) -> None:
        if node.open:
            self.step(node, item)
        elif node.alive:
            node.backlog.append((None, None, lambda: self._return(node, item)))

    def _latency(self, a: Node, b: Node) -> int:
        return self._latencies[pair_hash(a.index, b.index)]

    def _meter(self, node: Node, type_: type[Message]) -> Traffic:
        assert self.meters is not None
        meters = self.meters.setdefault(node.index, {})
        return meters.setdefault(type_, Traffic())

    # --- timers and stalls --------------------------------------------------------------------------------------------

    def _fire(self, _: None, slot: int, key: str, at_ms: int, node: Node) -> None:
        if node.timers.get((slot, key)) != at_ms:
            return
        if not node.open:
            node.backlog.append((None, slot, key, at_ms, node))
            return
        del node.timers[slot, key]
        self._trace += b"t%d %s@%d" % (node.index, key.encode(), self.timeline.now_ms)
        perform(self._table, node, node.peer.handle(self.timeline.now_ms, TimerFired(slot, key)))

    def _resume(self, node: Node) -> None:
        if not node.alive or self.now_ms < node.asleep_until_ms:
            return
        node.open = True
        backlog, node.backlog = node.backlog, []
        for entry in backlog:
            if entry[0] is None:
                self._happen(entry)
            else:
                self._deliver(*entry)
