"""The simulator's engine: many peers, one virtual clock, seeded links.

Every message goes through the wire codec: encoded once per `Send`, decoded for each receiver, so that no two peers
share an object and the bytes that are counted are the real ones. Nothing here knows an overlay.

An entry of the timeline is a `Parcel` (a message on its way), an `Alarm` (a timer), or a function: something that the
scenario does at that time.

The trace is a hash over all that the peers do, in order: who sends what and when each copy of it arrives, which timers
fire, what is delivered. Two runs with the same trace did the same.

**What a message costs.** A large swarm does not fit into the processor's caches, so what counts is how many objects a
message touches that no message just before it has touched. Hence `Route`: who is sent something once is often sent
something again, and is found among its sender's routes instead of in a table of all peers. And hence parcels that the
garbage collector does not know: its list of all objects would tie each to two others. (A node must therefore not hold
what holds a node: such a ring of references would never be found, and the whole swarm stay in memory.)
"""

from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Final, Protocol

import msgspec

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
ROUTES_MAX: Final = 64
"""Receivers that are kept at hand for each peer. A guess: more than any participant has links."""


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """A message on its way from a participant to the one in `slot` of the node `target`."""

    target: "Node"
    slot: int
    sender: Address
    data: bytes
    to: Address
    source: "Node"


class Alarm(msgspec.Struct, frozen=True, gc=False):
    """A timer; it counts if the node still holds it to be due at that time."""

    node: "Node"
    slot: int
    key: str
    at_ms: int


class Route(msgspec.Struct, frozen=True, gc=False):
    """Where a receiver lives, and how long it takes to get there."""

    target: "Node"
    slot: int
    latency_ms: int


class Node:
    """One life of a simulated peer, and what the simulated machine remembers of it."""

    __slots__ = (
        "address",
        "addresses",
        "alive",
        "asleep_until_ms",
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
        self.mark = b">%d>" % index  # in the trace: it does what follows
        self.address = address
        self.peer = peer
        self.addresses: dict[int, Address] = {PEER_SLOT: address}
        self.timers: dict[tuple[int, str], int] = {}
        self.alive = True
        self.open = True  # alive and not stalled
        self.silent = False  # dead without a trace: the host is gone, nobody even refuses
        self.asleep_until_ms = 0
        self.side = 0


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
        self.routes: list[dict[Address, Route]] = []  # of each node
        self._backlogs: dict[int, list[Entry]] = {}  # what waits for a stalled node
        self.traffic: dict[type[Message], Traffic] = {}
        self.meters: dict[int, dict[type[Message], Traffic]] | None = None
        """Traffic per peer, kept if somebody asks for it by putting a dictionary here."""
        self.tap: Callable[[int, Address, Send], None] | None = None
        """Told of everything that is sent, if somebody wants to be."""
        self._observer = observer
        self._on_reception = observer.on_reception
        self._encode, self._decode = codec.encode, codec.decode_own
        self._delays = LinkDelays(network, rng)
        self._latencies = self._delays.table
        self._plain = self._delays.plain  # nothing is wrong with any link: the short way through `send`
        self._cut = False
        self._held: dict[int, Parcel] = {}  # what waits for a cut to heal or its connection to be given up
        self._held_count = 0
        self._lives: dict[tuple[str, int], Node] = {}  # by peer and boot
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
            now_ms, metered, trace = self.timeline.now_ms, self.meters is not None, self._trace
            for entry in entries:
                if type(entry) is not Parcel or metered or not (target := entry.target).open:
                    self._happen(entry)
                else:  # as in `_deliver`, for the millions of messages that nothing stands in the way of
                    item = Received(entry.sender, entry.slot, decode(entry.data))
                    perform(table, target, target.peer.handle(now_ms, item))
            if len(trace) > TRACE_CHUNK:
                self._trace_hash.update(trace)
                trace.clear()

    def _happen(self, entry: Entry) -> None:
        """A message arrives, a timer fires, or it is time for something that the scenario does."""
        if type(entry) is Parcel:
            self._deliver(entry)
        elif type(entry) is Alarm:
            self._fire(entry)
        else:
            entry()

    def at(self, at_ms: int, call: Callable[[], object]) -> None:
        self.timeline.put(at_ms, call)

    def step(self, node: Node, item: PeerInput) -> None:
        """Hand an input to a peer and carry out what it answers."""
        perform(self._table, node, node.peer.handle(self.timeline.now_ms, item))

    def observe(self, observer: Observer) -> None:
        """From now on another observer is told what happens."""
        self._observer = observer
        self._on_reception = observer.on_reception

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
        self.routes.append({})
        former = self._by_endpoint.get(address.at)
        if former is not None:
            former.silent = False  # there is a host again, which refuses what was meant for another life
        self._lives[address.peer, address.boot] = self._by_endpoint[address.at] = node
        return node

    def stop(self, node: Node, silent: bool = False) -> None:
        """End a peer's process; `silent` takes its host away too, so that nobody refuses connections."""
        node.alive, node.open, node.silent = False, False, silent
        self._plain = self._plain and not silent
        node.timers.clear()
        self._backlogs.pop(node.index, None)

    def stall(self, node: Node, for_ms: int) -> None:
        """The peer does nothing for a while; what comes meanwhile waits for it."""
        node.open = False
        node.asleep_until_ms = max(node.asleep_until_ms, self.now_ms + for_ms)
        self.at(node.asleep_until_ms, lambda: self._resume(node))

    def cut(self, sides: dict[int, int]) -> None:
        """Partition: peers (by index) on different sides do not reach each other."""
        self._cut = True
        for node in self.nodes:  # a former life is where its host is
            node.side = sides.get(self._by_endpoint[node.address.at].index, 0)

    def heal(self) -> None:
        self._cut = False
        held, self._held = self._held, {}
        for parcel in held.values():
            self._carry(parcel)

    def calm(self) -> None:
        """The links stop losing, doubling and reordering."""
        self._delays.calm()

    def reset(self, a: Node, b: Node) -> None:
        """Break the connection of two peers: what is under way is lost, and its sender is told."""
        if self._delays.datagram:
            return  # there is no connection to break
        ends = (a, b)

        def lost(entry: Entry) -> bool:
            return type(entry) is Parcel and entry.source in ends and entry.target in ends

        held = [number for number, parcel in self._held.items() if lost(parcel)]
        for parcel in self.timeline.withdraw(lost) + [self._held.pop(number) for number in held]:
            self._bounce(parcel.source, parcel.sender, parcel.to, parcel.data, False, self.now_ms)
        self._delays.forget(a.index, b.index)

    # --- effects (the host's side of `perform`) -----------------------------------------------------------------------

    def send(self, origin: Node, effect: Send) -> None:
        data, routes, timeline = self._encode(effect.message), self.routes[origin.index], self.timeline
        now_ms, buckets, plain = timeline.now_ms, timeline.buckets, self._plain and not self._cut
        trace = self._trace
        if self._marked_ms != now_ms:
            self._mark_time()
        trace += origin.mark
        trace += data
        self._count(origin, type(effect.message), len(effect.to), len(data))
        sender = origin.addresses.get(effect.slot)
        if sender is None:
            sender = origin.addresses[effect.slot] = in_slot(origin.address, effect.slot)
        if self.tap is not None:
            self.tap(now_ms, sender, effect)
        for to in effect.to:
            route = routes.get(to) or self._route(origin, to)
            if route is None:
                self._bounce(origin, sender, to, data, True, now_ms + self._latencies[0])
                continue
            parcel, latency_ms = Parcel(route.target, route.slot, sender, data, to, origin), route.latency_ms
            if not plain:
                self._carry(parcel)
                continue
            trace.append(latency_ms & 255)
            if (bucket := buckets.get(now_ms + latency_ms)) is not None:
                bucket.append(parcel)
            else:
                timeline.put(now_ms + latency_ms, parcel)

    def _count(self, origin: Node, type_: type[Message], count: int, size: int) -> None:
        traffic = self.traffic.get(type_)
        if traffic is None:
            traffic = self.traffic[type_] = Traffic()
        traffic.sent += count
        traffic.sent_bytes += count * (size + FRAME_OVERHEAD)
        if self.meters is not None:
            meter = self._meter(origin, type_)
            meter.sent += count
            meter.sent_bytes += count * (size + FRAME_OVERHEAD)

    def _route(self, origin: Node, to: Address) -> Route | None:
        """The way to a receiver; None if it never lived.

        That to a participant is kept at hand. Peers as such shuffle with somebody else every time: their routes would
        only take up room. (And who lives at an endpoint can change, while a life stays one.)"""
        target = self._lives.get((to.peer, to.boot)) if to.peer else self._by_endpoint.get(to.at)
        if target is None:
            return None
        route = Route(target, to.slot, self._latency(origin, target))
        if to.slot != PEER_SLOT:
            routes = self.routes[origin.index]
            if len(routes) >= ROUTES_MAX:
                routes.clear()
            routes[to] = route
        return route

    def set_timer(self, origin: Node, effect: SetTimer) -> None:
        origin.timers[effect.slot, effect.key] = effect.at_ms
        self.timeline.put(effect.at_ms, Alarm(origin, effect.slot, effect.key, effect.at_ms))

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

    def _deliver(self, parcel: Parcel) -> None:
        """A message arrives, or finds that it cannot."""
        target = parcel.target
        if target.silent:
            self._hold(parcel)
        elif not target.alive:
            back_ms = self.now_ms + self._latency(parcel.source, target)
            self._bounce(parcel.source, parcel.sender, parcel.to, parcel.data, True, back_ms)
        elif not target.open:
            self._backlogs.setdefault(target.index, []).append(parcel)
        else:
            self._size = len(parcel.data) + FRAME_OVERHEAD
            item = Received(parcel.sender, parcel.slot, self._decode(parcel.data))
            if self.meters is not None:
                meter = self._meter(target, type(item.message))
                meter.received += 1
                meter.received_bytes += self._size
            self.step(target, item)

    def _carry(self, parcel: Parcel) -> None:
        """The long way: over links that lose, delay, are cut, or end nowhere."""
        target, source = parcel.target, parcel.source
        if target.silent or (self._cut and source.side != target.side):
            self._hold(parcel)
            return
        for at_ms in self._delays.arrivals(self.now_ms, source.index, target.index, len(parcel.data)):
            self._trace += b"+%d" % at_ms
            self.timeline.put(at_ms, parcel)

    def _hold(self, parcel: Parcel) -> None:
        """Keep what cannot get through until the cut heals or the connection is given up."""
        if self._delays.datagram:
            return
        self._held_count += 1
        number = self._held_count
        self._held[number] = parcel
        self.at(self.now_ms + GIVE_UP_MS, lambda: self._give_up(number))

    def _give_up(self, number: int) -> None:
        if number in self._held:
            parcel = self._held.pop(number)
            self._bounce(parcel.source, parcel.sender, parcel.to, parcel.data, False, self.now_ms)

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
            self._backlogs.setdefault(node.index, []).append(lambda: self._return(node, item))

    def _latency(self, a: Node, b: Node) -> int:
        return self._latencies[pair_hash(a.index, b.index)]

    def _meter(self, node: Node, type_: type[Message]) -> Traffic:
        assert self.meters is not None
        meters = self.meters.setdefault(node.index, {})
        return meters.setdefault(type_, Traffic())

    # --- timers and stalls --------------------------------------------------------------------------------------------

    def _fire(self, alarm: Alarm) -> None:
        node, slot, key = alarm.node, alarm.slot, alarm.key
        if node.timers.get((slot, key)) != alarm.at_ms:
            return
        if not node.open:
            self._backlogs.setdefault(node.index, []).append(alarm)
            return
        del node.timers[slot, key]
        now_ms = self.timeline.now_ms
        if self._marked_ms != now_ms:
            self._mark_time()
        self._trace += node.mark
        self._trace += key.encode()
        perform(self._table, node, node.peer.handle(now_ms, TimerFired(slot, key)))

    def _resume(self, node: Node) -> None:
        if not node.alive or self.now_ms < node.asleep_until_ms:
            return
        node.open = True
        for entry in self._backlogs.pop(node.index, ()):
            self._happen(entry)
