"""The network of one peer: who is connected with whom, what waits for whom, and what came of it.

`send` never waits and never fails for remote reasons. It encodes a message once, notes the frame with its receivers and
returns. Consecutive messages to the same receivers, which is what a relay sends, make a *run*, and a run goes into the
queue of each of its receivers as a whole. What becomes of messages that cannot be sent is told to the receiver later,
never from within `send`: the caller is in the middle of performing effects.

Writes are coalesced. All that came of one read is written when the read has been worked off, so that a message that is
alone need not wait for another turn of the event loop. While several connections are read in turns that is done once
in a turn of the loop; what comes of further reads, or of timers and calls, leaves in one write for each peer at the
start of the next turn.

**One connection for each pair of peers**, made when there is something to send, closed when it was idle. Both sides may
dial at once, and a peer may be dialled under an endpoint that it was not known by; so a second connection can come up.
Neither side may simply close one of them, for it cannot know what the other has sent there. Both apply the same rule:

- a connection that is more than a handshake older than the other one gives way, since a peer that still had it would
  hardly have dialled again;
- otherwise they were dialled at once: the one dialled by the peer with the lower id stays (and of two by the same peer
  the later one).

The one that gives way is finished with a goodbye in both directions, and the other one is not read until that has
ended: nothing is lost, doubled or overtaken. (Overtaken it may be in one case: where one end has not even seen the
second connection come up when its frames arrive. Should the two ends judge differently, because the time is up at one
of them only, both connections end in good order and the next message dials anew.)

**Lives.** A remote is one life of a peer, (id, boot). A greeting from a later boot ends all earlier ones: their
messages come back as refused, and a connection that still claims an earlier boot is refused itself. An endpoint without
an id is a remote of its own until somebody answers there; then its messages go to that one. If that is this peer
itself, it gets them back as received from itself.

**Not reachable.** Dials back off exponentially, with jitter. Messages wait in the meantime and come back after 10 s;
where nobody listens, at once and as refused. A connection that breaks gives its queue back at once.

**Invented addresses.** Members name third ones, and may name some that do not exist. So there are bounds on the remotes
without a connection and on the dials under way (`NetConfig`); messages to more of them come back at once, not as
refused. Remotes that nothing waits for make room first: all that is lost with them is their back-off.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any, BinaryIO, Final, Protocol

import msgspec

from peerd.net.capture import CaptureWriter
from peerd.net.config import NetConfig
from peerd.net.connection import Connection
from peerd.net.dial import Unreachable, connect
from peerd.net.endpoints import join_endpoint, split_endpoint, why_not_listening
from peerd.net.greeting import First, Greeting, Refusal
from peerd.net.lanes import Entry, Lane, Remote, Tally
from peerd.net.stats import NetStats, QueueStats, TrafficStats
from peerd.net.tls import Tls
from peerd.wire import Codec, Frame, Unencodable
from protocols.model.ids import Address, in_slot
from protocols.overlay import Message

BOOTS_MAX: Final = 65_536
"""Peers whose latest boot is remembered. A guess: far more than one peer ever talks to."""

FOUND_MAX: Final = 4_096
"""Addresses whose remotes are at hand. A guess: as many as a peer can be connected with."""

RUNS_MAX: Final = 512
"""Messages that wait to be put into queues, which have the real bounds. A guess: what one read brings."""

SWEEPS: Final = 4
"""How often one looks for idle connections while one becomes idle."""


class Receiver(Protocol):
    """Who runs the peer. All of these are called from the event loop, none of them from within `Network.send`."""

    def received(self, sender: Address, slot: int, message: Message, size: int) -> None:
        """A message of this peer's own for the participant in `slot`, in a frame of `size` bytes."""

    def arrived(self, frames: Iterator[Frame], senders: Mapping[int, Address]) -> None:
        """All that one read has brought, and the senders by their slots. Whoever raises is given the rest again."""

    def undelivered(self, slot: int, to: Address, message: Message, refused: bool) -> None:
        """A message of the participant in `slot` surely or possibly did not arrive; `refused`: that life is over."""

    def dropped(self, to: Address, message: Message, reason: str) -> None:
        """A copy of an event goes no further: "link-full" or "closed"."""

    def rejected(self, sender: Address | None, at: str, reason: str) -> None:
        """A bad frame, or a connection that did not become one. `sender` is known after the handshake."""

    def accepts(self, greeting: Greeting) -> Refusal | None:
        """Why not to talk to this peer: swarm, overlay, parameters, schema. The wire's version has been checked."""

    def greeted(self, greeting: Greeting) -> None:
        """A connection has come up, dialled by either side: the schema's version may be news."""


class Network:
    """Made inside a running event loop. `greeting` is asked for every handshake, first when listening or dialling."""

    def __init__(
        self,
        greeting: Callable[[], Greeting],
        codec: Codec,
        receiver: Receiver,
        config: NetConfig = NetConfig(),  # noqa: B008 (a frozen value)
        rng: Random | None = None,
        *,
        capture: BinaryIO | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.config = config
        self.codec = codec
        self.inbox = receiver
        self.tallies: dict[type, Tally] = {type_: Tally(type_) for type_ in codec.message_types}
        self.view = memoryview(bytearray(config.read_bytes))
        self.capture = CaptureWriter(capture) if capture is not None else None
        self._greeting = greeting
        self._tls = tls
        self._rng = rng or Random()
        self._server: asyncio.Server | None = None
        self._own: tuple[str, int] | None = None
        self._remotes: dict[tuple[str, int], Remote] = {}
        self._found: dict[Address, Remote] = {}  # some of them by the addresses of their participants, for `send`
        self._calls: dict[str, Remote] = {}  # endpoints that somebody is to answer at
        self._answers: dict[str, Connection] = {}  # endpoints that were dialled, and what stands there now
        self._unconnected: dict[Remote, None] = {}  # of both kinds
        self._boots: dict[str, int] = {}
        self._connections: dict[Connection, None] = {}
        self._half_open: dict[Connection, None] = {}  # accepted, not greeted
        self._unanswered: dict[Connection, None] = {}  # dialled, not greeted
        self._accepted_open = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._runs: list[tuple[tuple[Address, ...], Tally, list[Entry]]] = []
        self._said = 0  # messages in them
        self._to: tuple[Address, ...] = ()  # the receivers that `send` was last given, and these by slot
        self._ways: list[tuple[int, tuple[Address, ...]]] = []
        self._dirty: list[Remote] = []
        self._flushing = False  # a flush comes with the next turn
        self._reader: Connection | None = None  # what it read was the last to be followed by a write
        self._reading = False  # a flush comes at the end of the read
        self._chunk: tuple[list[Entry], bytes] = ([], b"")  # what was last written
        self._later: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._quiet: asyncio.Event | None = None  # set while closing
        self._closed = False
        self._dials = self._accepts = self._undelivered = self._crowded_out = self._rejections = 0
        self._dropped: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()

    # --- interface ----------------------------------------------------------------------------------------------------

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections there; port 0 takes a free one. Returns the address that was bound.

        `OSError` with one clear line if that cannot be had. A name is bound at the first of its addresses.
        """
        try:
            found = await self.loop.getaddrinfo(
                host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, address = found[0][0], str(found[0][4][0])
            self._server = await self.loop.create_server(
                lambda: Connection(self, None),
                address,
                port,
                family=family,
                backlog=self.config.backlog,
                ssl=self._tls.server if self._tls else None,
                ssl_handshake_timeout=self.config.handshake_s if self._tls else None,
            )
        except OSError as error:
            where = join_endpoint(host, port)
            raise OSError(error.errno, f"cannot listen on {where}: {why_not_listening(error)}") from None
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def send(self, slot: int, to: tuple[Address, ...], message: Message) -> None:
        """Queue a message of the participant in `slot`. `Unencodable` if it cannot be put on the wire: local misuse."""
        tally = self.tallies.get(type(message))
        if tally is None:
            raise Unencodable(f"{type(message).__name__} is not a message of this swarm")
        encoded, runs = self.codec.encode(message), self._runs
        if to is not self._to:
            self._to, self._ways = to, _by_slot(to)
        for dst_slot, receivers in self._ways:
            entry = (self.codec.frame(slot, dst_slot, encoded), slot, receivers, message, tally)
            if runs and runs[-1][0] is receivers and runs[-1][1] is tally:
                runs[-1][2].append(entry)
            else:
                runs.append((receivers, tally, [entry]))
        self._said += 1
        if self._said >= RUNS_MAX:
            self._enqueue()
        if not (self._reading or self._flushing):
            self._flushing = True
            self.loop.call_soon(self._flush_later)

    async def close(self, flush_s: float = 2.0) -> None:
        """Send what is queued, for so long, say goodbye and end: no task, transport or server remains."""
        if self._closed or self._quiet is not None:
            return
        self._quiet = asyncio.Event()
        if self._server is not None:
            self._server.close()
        for connection in list(self._half_open):
            connection.abort("closed")
        self._flush()
        self._settle()
        try:
            async with asyncio.timeout(flush_s):
                await self._quiet.wait()
        except TimeoutError:
            pass
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in [*self._connections, *self._half_open]:
            connection.abort("closed")
        while self._connections or self._half_open:
            self._quiet.clear()
            await self._quiet.wait()
        self._clear()
        if self._server is not None:
            await self._server.wait_closed()
        if self.capture is not None:
            self.capture.flush()

    def events_queued(self) -> int:
        """Events that wait for their connections; cheap enough to be asked for every publication."""
        self._enqueue()
        return sum([len(remote.events) for remote in self._remotes.values()])

    def stats(self) -> NetStats:
        self._enqueue()
        remotes = [*self._remotes.values(), *self._calls.values()]
        return NetStats(
            connections=sum(1 for connection in self._connections if connection.was_open),
            handshakes=len(self._half_open) + sum(1 for c in self._connections if not c.was_open),
            dialling=len(self._tasks),
            accepted=self._accepts,
            dialled=self._dials,
            queues=tuple(map(_queue_stats, remotes)),
            traffic=tuple(
                TrafficStats(t.name, t.sent, t.sent_bytes, t.received, t.received_bytes) for t in self.tallies.values()
            ),
            dropped=dict(self._dropped),
            closed=dict(self._ends),
            undelivered=self._undelivered,
            crowded_out=self._crowded_out,
            rejected=self._rejections,
        )

    # --- sending ------------------------------------------------------------------------------------------------------

    def _enqueue(self) -> None:
        """Put what was said into the queues of its receivers."""
        runs, self._runs, self._said = self._runs, [], 0
        found = self._found
        for receivers, tally, entries in runs:
            size = sum([len(entry[0]) for entry in entries])
            for address in receivers:
                remote = found.get(address) or self._find(address)
                if remote is None:
                    self._stray(address, entries)
                    continue
                lane = remote.events if tally.is_event else remote.control
                if not lane.extend(entries, size):
                    self._squeeze(remote, lane, address, entries)
                if not remote.dirty:
                    remote.dirty = True
                    self._dirty.append(remote)

    def _find(self, address: Address) -> Remote | None:
        """Where messages to this address wait; None if they need not wait for anything, or there is no room."""
        peer, at = address.peer, address.at
        known = self._remotes.get((peer, address.boot))
        if known is not None:
            if len(self._found) >= FOUND_MAX:
                self._found.clear()
            self._found[address] = known
            return known
        if self._closed or self._is_over(address):
            return None
        if not peer:
            standing = self._answers.get(at)
            if standing is not None and standing.remote is not None and standing.remote.connection is standing:
                return standing.remote
            if at in self._calls:
                return self._calls[at]
        if not self._has_room(1):
            return None
        remote = Remote(peer, address.boot, at, self.config) if peer else Remote("", 0, at, self.config)
        if peer:
            self._remotes[peer, address.boot] = remote
        else:
            self._calls[at] = remote
        self._unconnected[remote] = None
        self._watch()
        return remote

    def _is_over(self, address: Address) -> bool:
        """Whether nobody else can live under this address."""
        return address.peer == self._self()[0] or address.boot < self._boots.get(address.peer, 0)

    def _has_room(self, more: int) -> bool:
        """Whether there may be so many more remotes without a connection. Forgets some that nothing waits for."""
        excess = len(self._unconnected) + more - self.config.unconnected_max
        if excess > 0:
            for remote in [remote for remote in self._unconnected if not remote.busy][:excess]:
                self._forget(remote)
        return len(self._unconnected) + more <= self.config.unconnected_max

    def _stray(self, to: Address, entries: list[Entry]) -> None:
        """Messages to this peer itself, to a life that is over, or to one remote too many."""
        peer, boot = self._self()
        if self._closed:
            self._abandon(to, entries)
        elif (to.peer, to.boot) == (peer, boot):
            for frame, slot, _, message, _ in entries:
                self._do_later(self.inbox.received, Address(peer, boot, slot, to.at), to.slot, message, len(frame))
        elif self._is_over(to):
            self._give_back(to, entries, refused=True)
        else:
            self._crowded_out += len(entries)
            self._give_back(to, entries, refused=False)

    def _squeeze(self, remote: Remote, lane: Lane, to: Address, entries: list[Entry]) -> None:
        """The lane has no room for all of these: take as many as it has room for."""
        for entry in entries:
            if lane.extend([entry], len(entry[0])):
                continue
            if not entry[4].is_event:
                self._overflow(remote, to, entry)
            elif remote.admits_event(len(entry[0]), self.loop.time(), self.config):
                lane.append(entry)
            else:
                self._dropped["link-full"] += 1
                self._do_later(self.inbox.dropped, to, entry[3], "link-full")

    def _overflow(self, remote: Remote, to: Address, last: Entry) -> None:
        """Too much control waits. It must not be dropped one by one: the other side would have holes in what it knows.
        So all of it comes back, and the connection ends."""
        connection, remote.connection = remote.connection, None
        returned = remote.take_all()
        self._part(remote)
        if connection is None:
            self._ends["control-overflow"] += 1
        else:
            returned = [*connection.handed, *returned]
            connection.handed = []
            connection.abort("control-overflow")
            self._back_off(remote, self.config.backoff_max_s)
        self._return(remote, returned, refused=False)
        self._give_back(to, (last,), refused=False)

    def wake(self, remote: Remote) -> None:
        if not remote.dirty:
            remote.dirty = True
            self._dirty.append(remote)
        if not (self._reading or self._flushing):
            self._flushing = True
            self.loop.call_soon(self._flush_later)

    def read_begins(self) -> None:
        """A connection hands in what it has read: what comes of it is written when the read ends, unless that was done
        before in this turn."""
        self._reading = not self._flushing

    def read_ends(self, reader: Connection) -> None:
        if not self._reading:
            return
        self._reading = False
        if self._runs or self._dirty:
            self._flush()
            if reader is not self._reader:  # several are talking: no second time in this turn
                self._reader = reader
                self._flushing = True
                self.loop.call_soon(self._flush_later)

    def _flush_later(self) -> None:
        self._flushing = False
        self._flush()

    def _flush(self) -> None:
        """Write what waits; dial those that are not connected."""
        self._enqueue()
        dirty, self._dirty = self._dirty, []
        for remote in dirty:
            remote.dirty = False
            connection = remote.connection
            if connection is None:
                self._seek(remote)
            elif not connection.paused:
                connection.pour()
        self._chunk = [], b""
        if self._quiet is not None:
            self._settle()

    def chunk(self, entries: list[Entry]) -> bytes:
        """The bytes of what is about to be written, counted. What goes to many is joined once."""
        if len(entries) == 1:
            frame, _, _, _, tally = entries[0]
            tally.sent += 1
            tally.sent_bytes += len(frame)
            return frame
        if entries != self._chunk[0]:
            self._chunk = entries, b"".join([entry[0] for entry in entries])
        tallies = {entry[4] for entry in entries}
        if len(tallies) == 1:  # nearly always
            tally = tallies.pop()
            tally.sent += len(entries)
            tally.sent_bytes += len(self._chunk[1])
        else:
            for frame, _, _, _, tally in entries:
                tally.sent += 1
                tally.sent_bytes += len(frame)
        return self._chunk[1]

    # --- what the receiver is told ------------------------------------------------------------------------------------

    def _do_later(self, function: Callable[..., None], *args: Any) -> None:
        if not self._later:
            self.loop.call_soon(self._do_now)
        self._later.append((function, args))

    def _do_now(self) -> None:
        later, self._later = self._later, []
        for function, args in later:
            try:
                function(*args)
            except Exception as error:  # a fault of the receiver's must not keep the others from being told
                context = {"message": "news from the network were not handled", "exception": error}
                self.loop.call_exception_handler(context)

    def _return(self, remote: Remote, entries: Iterable[Entry], refused: bool) -> None:
        """Give back what waited for a remote."""
        for entry in entries:
            self._give_back(remote.addressee(entry), (entry,), refused)

    def _give_back(self, to: Address, entries: Iterable[Entry], refused: bool) -> None:
        if self._closed:
            self._abandon(to, entries)
            return
        for _, slot, _, message, _ in entries:
            self._undelivered += 1
            self._do_later(self.inbox.undelivered, slot, to, message, refused)

    def reject(self, connection: Connection, reason: str) -> None:
        self._rejections += 1
        remote = connection.remote if connection.was_open else None
        sender = None if remote is None else Address(remote.peer, remote.boot, -1, remote.at)
        self.inbox.rejected(sender, connection.at, reason)

    # --- dialling -----------------------------------------------------------------------------------------------------

    def _seek(self, remote: Remote) -> None:
        """Dial, now or when the back-off is over, if there is something to send and nothing under way."""
        if not remote.queued or remote.connection is not None or remote.dial is not None or remote.timer is not None:
            return
        now = self.loop.time()
        if now >= remote.not_before and len(self._tasks) + len(self._unanswered) >= self.config.dials_max:
            self._crowded_out += remote.queued
            self._return(remote, remote.take_all(), refused=False)
            if self._quiet is not None:
                self._settle()
            return
        if remote.since is None:
            remote.since = now
        if now < remote.not_before:
            self._wait(remote, now)
            return
        waiting = remote.control.entries or remote.events.entries
        remote.at = remote.addressee(waiting[0]).at  # of several endpoints that were claimed for it, the one in use
        task = self.loop.create_task(self._dial(remote))
        remote.dial = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial(self, remote: Remote) -> None:
        task = asyncio.current_task()
        try:
            await connect(lambda: Connection(self, remote), remote.at, self.config.connect_s, self._tls)
        except Unreachable as error:
            if remote.dial is task:
                remote.dial = None
                self._failed(remote, error.refused)
        finally:
            if remote.dial is task:
                remote.dial = None

    def _failed(self, remote: Remote, refused: bool = False, at_once: bool = False) -> None:
        """A dial came to nothing. Messages come back if that is final, or has gone on for long enough."""
        if remote.connection is not None:
            return  # one that was accepted serves as well
        self._back_off(remote, self.config.backoff_refused_max_s if refused else self.config.backoff_max_s)
        now = self.loop.time()
        since = now if remote.since is None else remote.since
        if refused or at_once or now - since >= self.config.give_up_s:
            self._return(remote, remote.take_all(), refused)
        elif remote.queued:
            self._wait(remote, now)
        if self._quiet is not None:
            self._settle()

    def _back_off(self, remote: Remote, max_s: float) -> None:
        pause_s = min(self.config.backoff_s * 2 ** min(remote.failures, 20), max_s)
        remote.failures += 1
        remote.not_before = self.loop.time() + pause_s * self._rng.uniform(0.75, 1.25)

    def _wait(self, remote: Remote, now: float) -> None:
        """Wake up for the next dial, or for giving up, whichever is first."""
        since = now if remote.since is None else remote.since
        give_up_at = max(since + self.config.give_up_s, now)
        at = remote.not_before if give_up_at == now else min(remote.not_before, give_up_at)
        remote.timer = self.loop.call_at(at, self._waited, remote)

    def _waited(self, remote: Remote) -> None:
        remote.timer = None
        if remote.connection is not None or remote.since is None:
            return
        now = self.loop.time()
        if now < remote.not_before and now - remote.since >= self.config.give_up_s:
            self._return(remote, remote.take_all(), refused=False)
            if self._quiet is not None:
                self._settle()
        else:
            self._seek(remote)

    # --- greetings ----------------------------------------------------------------------------------------------------

    def _self(self) -> tuple[str, int]:
        """Own id and boot, which never change."""
        if self._own is None:
            own = self._greeting()
            self._own = own.peer, own.boot
        return self._own

    def made(self, connection: Connection) -> None:
        self._watch()
        if connection.remote is not None:
            self._connections[connection] = self._unanswered[connection] = None
            self._dials += 1
            connection.number = self._dials
            connection.remote.dial = connection
            connection.greet(msgspec.structs.replace(self._greeting(), dial=self._dials))
            return
        self._accepts += 1
        self._half_open[connection] = None
        if self._quiet is not None:
            connection.abort("closed")
        elif len(self._half_open) > self.config.handshakes_max:
            refusal = Refusal("busy", "too many connections are in their handshake at once; try again")
            polite = len(self._half_open) <= 2 * self.config.handshakes_max
            connection.reject(f"busy: {refusal.text}", refusal if polite else None)

    def first(self, connection: Connection, first: First) -> None:
        if connection.remote is None:
            self._called(connection, first)
        else:
            self._answered(connection, connection.remote, first)

    def _called(self, connection: Connection, first: First) -> None:
        """Somebody has dialled here."""
        own = self._greeting()
        if isinstance(first, Refusal):
            connection.reject("it opened with a refusal")
        elif not first.swarm_id:
            connection.answer(own, "inquiry")
        elif (first.peer, first.boot) == (own.peer, own.boot):
            connection.answer(own, "self")
        elif (refusal := self._objection(connection, first, own)) is not None:
            connection.reject(f"{refusal.code}: {refusal.text}", refusal)
        else:
            del self._half_open[connection]
            self._connections[connection] = None
            connection.number, connection.dialler = first.dial, first.peer
            connection.greet(own)
            self._establish(connection, first)

    def _answered(self, connection: Connection, remote: Remote, first: First) -> None:
        """Somebody has answered where this peer dialled for `remote`."""
        remote.dial = None
        self._unanswered.pop(connection, None)
        if isinstance(first, Refusal):
            self._failed(remote, at_once=first.code != "busy")
            connection.reject(f"refused by {connection.at}: {first.code}: {first.text}")
            return
        own = self._greeting()
        life = first.peer, first.boot
        if remote.peer and life != (remote.peer, remote.boot):
            self._return(remote, remote.take_all(), refused=True)  # somebody else lives there now
            self._back_off(remote, self.config.backoff_refused_max_s)
        if life == (own.peer, own.boot):
            self._met_self(remote, own)
            connection.close("self")
            return
        refusal = self._objection(connection, first, own)
        if refusal is not None:
            self._failed(remote, at_once=True)
            connection.reject(f"{refusal.code}: {refusal.text}")
            return
        connection.dialler = own.peer
        self._establish(connection, first)
        self._answers[connection.dialled] = connection
        target = connection.remote
        if not remote.peer and target is not None:
            self._forget(remote)
            for entry in remote.take_all():  # one without an id stands alone among its receivers
                (target.events if entry[4].is_event else target.control).append(entry)
            self.wake(target)

    def _met_self(self, remote: Remote, own: Greeting) -> None:
        """The endpoint is this peer's own: whoever answers there has the messages already."""
        sender = Address(own.peer, own.boot, 0, own.at)
        for entry in remote.take_all():
            frame, slot, _, message, _ = entry
            to = remote.addressee(entry)
            self._do_later(self.inbox.received, in_slot(sender, slot), to.slot, message, len(frame))
        self._forget(remote)

    def _objection(self, connection: Connection, theirs: Greeting, own: Greeting) -> Refusal | None:
        """Why there cannot be a connection with this peer."""
        if not theirs.peer or not _is_endpoint(theirs.at):
            return Refusal("identity", "a peer needs an id and an endpoint that others can dial (--advertise)")
        if theirs.peer == own.peer:
            text = "has this peer's own id; give each peer a data directory of its own"
            return Refusal("identity", f"the peer at {theirs.at} {text}")
        if theirs.boot < self._boots.get(theirs.peer, 0):
            return Refusal(
                "identity", f"peer {theirs.peer} has been started again since; its boot {theirs.boot} is over"
            )
        if connection.remote is None and self._accepted_open >= self.config.connections_max:
            return Refusal("busy", f"{self._accepted_open} peers are connected already")
        return self.inbox.accepts(theirs)

    # --- connections --------------------------------------------------------------------------------------------------

    def _establish(self, connection: Connection, greeting: Greeting) -> None:
        """A connection has been greeted at both ends, or the other end is about to see that it is."""
        life = greeting.peer, greeting.boot
        if greeting.boot > self._boots.get(greeting.peer, -1):
            self._supersede(greeting.peer, greeting.boot)
        remote = self._remotes.get(life)
        if remote is None:
            remote = self._remotes[life] = Remote(greeting.peer, greeting.boot, greeting.at, self.config)
        self._accepted_open += not connection.dialled
        connection.open(remote, greeting)
        remote.at, remote.since, remote.not_before = greeting.at, None, 0.0
        remote.stop_timer()
        rival, remote.connection = remote.connection, connection
        self._unconnected.pop(remote, None)
        if rival is not None and not self._gives_way(rival, connection):
            rival, remote.connection = connection, rival
        if rival is not None:
            rival.finish("switched")
            remote.ending = rival
        ending = remote.ending
        if ending is not None:
            ending.successor = remote.connection
            remote.connection.hold()
        self.inbox.greeted(greeting)
        if remote.queued:
            self.wake(remote)

    def _gives_way(self, rival: Connection, newcomer: Connection) -> bool:
        """Whether the newcomer takes the rival's place."""
        if newcomer.opened_at - rival.opened_at > self.config.handshake_s:
            return True
        return (newcomer.dialler, -newcomer.number) < (rival.dialler, -rival.number)

    def _supersede(self, peer: str, boot: int) -> None:
        """This life of the peer ends all earlier ones."""
        self._boots.pop(peer, None)
        if len(self._boots) >= BOOTS_MAX:
            del self._boots[next(iter(self._boots))]
        self._boots[peer] = boot
        for remote in [r for r in self._remotes.values() if r.peer == peer and r.boot < boot]:
            connection, remote.connection = remote.connection, None
            if connection is not None:
                self._return(remote, connection.handed, refused=True)
                connection.handed = []
                connection.abort("superseded")
            self._return(remote, remote.take_all(), refused=True)
            self._forget(remote)

    def _part(self, remote: Remote) -> None:
        """The remote has no connection any more."""
        self._unconnected[remote] = None
        self._has_room(0)

    def _forget(self, remote: Remote) -> None:
        remote.stop_timer()
        self._found.clear()
        self._unconnected.pop(remote, None)
        if remote.peer:
            self._remotes.pop((remote.peer, remote.boot), None)
        else:
            self._calls.pop(remote.at, None)

    def ended(self, connection: Connection) -> None:
        self._retire(connection, "peer-finished")

    def _retire(self, connection: Connection, reason: str) -> None:
        """Use a connection no more. What is queued will dial a new one."""
        remote = connection.remote
        connection.finish(reason)
        if remote is not None and remote.connection is connection:
            remote.connection = None
            remote.ending = connection
            self._part(remote)
            if remote.queued:
                self.wake(remote)

    def lost(self, connection: Connection, error: Exception | None) -> None:
        self._connections.pop(connection, None)
        self._half_open.pop(connection, None)
        self._unanswered.pop(connection, None)
        self._ends[connection.reason or "broken"] += 1
        if self._answers.get(connection.dialled) is connection:
            del self._answers[connection.dialled]
        remote = connection.remote
        if connection.was_open:
            assert remote is not None
            self._accepted_open -= not connection.dialled
            self._broke(connection, remote)
        else:
            if not connection.reason and (connection.dialled or connection.has_spoken):
                self.reject(connection, "it closed the connection during the handshake")
            if remote is not None and remote.dial is connection:
                remote.dial = None
                self._failed(remote)
        if self._quiet is not None:
            self._settle()

    def _broke(self, connection: Connection, remote: Remote) -> None:
        self._return(remote, connection.handed, refused=False)
        connection.handed = []
        if remote.ending is connection:
            remote.ending = None
        if connection.successor is not None:
            connection.successor.release()
            connection.successor = None
        if remote.connection is not connection:
            return
        remote.connection = None
        self._return(remote, remote.take_all(), refused=False)
        if self.loop.time() - connection.opened_at > self.config.backoff_max_s:
            remote.failures = 0
        else:
            self._back_off(remote, self.config.backoff_max_s)
        self._part(remote)

    # --- housekeeping -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Sweep from time to time, as long as there is something to sweep."""
        if self._sweeper is None and not self._closed:
            self._sweeper = self.loop.call_later(self.config.idle_s / SWEEPS, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self.loop.time()
        for connection in list(self._connections):
            if not connection.is_open:
                continue
            if connection.moves != connection.seen or connection.held:
                connection.seen, connection.idle_since = connection.moves, now
            elif now - connection.idle_since >= self.config.idle_s:
                self._idle(connection)
        for remote in list(self._unconnected):
            if not remote.busy and now >= remote.not_before + self.config.backoff_max_s:
                self._forget(remote)
        if self.capture is not None:
            self.capture.flush()
        if self._connections or self._half_open or self._remotes or self._calls:
            self._watch()

    def _idle(self, connection: Connection) -> None:
        if connection.within_frame:
            connection.reject("it began a frame and fell silent")
        elif connection.paused:
            connection.abort("stalled")  # it has not read a byte in all that time
        else:
            self._retire(connection, "idle")

    # --- closing ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """While closing: finish what has nothing left to send, and tell `close` when all has ended."""
        assert self._quiet is not None
        for connection in list(self._connections):
            remote = connection.remote
            if connection.is_open and remote is not None and not remote.queued:
                self._retire(connection, "closed")
        waiting = any(remote.queued for remote in [*self._remotes.values(), *self._calls.values()])
        if not self._connections and not self._half_open and not waiting:
            self._quiet.set()
        elif self._closed:
            self._quiet.set()  # `close` looks for itself

    def _clear(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for remote in [*self._remotes.values(), *self._calls.values()]:
            for entry in remote.take_all():
                self._abandon(remote.addressee(entry), (entry,))
            self._forget(remote)
        self._do_now()

    def _abandon(self, to: Address, entries: Iterable[Entry]) -> None:
        """What could not be sent before the end: nobody can act on it any more, but events are not lost in silence."""
        for _, _, _, message, tally in entries:
            if tally.is_event:
                self._dropped["closed"] += 1
                self._do_later(self.inbox.dropped, to, message, "closed")


def _by_slot(to: tuple[Address, ...]) -> list[tuple[int, tuple[Address, ...]]]:
    """Receivers that get the same frame; those without an id each by themselves."""
    ways: dict[tuple[int, str], list[Address]] = {}
    for address in to:
        ways.setdefault((address.slot, "" if address.peer else address.at), []).append(address)
    return [(slot, tuple(receivers)) for (slot, _), receivers in ways.items()]


def _is_endpoint(at: str) -> bool:
    try:
        host, port = split_endpoint(at)
    except ValueError:
        return False
    return bool(host) and port > 0


def _queue_stats(remote: Remote) -> QueueStats:
    return QueueStats(
        peer=remote.peer,
        boot=remote.boot,
        at=remote.at,
        connected=remote.connection is not None,
        control=len(remote.control),
        control_bytes=remote.control.bytes,
        events=len(remote.events),
        events_bytes=remote.events.bytes,
    )
