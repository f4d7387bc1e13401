"""One TCP connection: greeting, frames, goodbye. An asyncio Protocol that reads into a buffer of its owner's.

    greeting ──> open ──> finishing ──> closed
        │          └───────────┬──────────^
        └──> refused ──────────┘

*Greeting*: the first frame has to come within 5 s (`peerd/net/greeting.py`). *Refused*: what had to be said has been
said; whatever still comes is thrown away until the other side closes, because closing on unread bytes would make the
kernel take back our last words.

*Open*: frames are decoded where they were read and handed to the receiver at once; nothing is queued on the way in, so
a busy receiver makes TCP slow the sender down. On the way out everything that waits is written at once, but only while
the transport holds nothing: then at most one chunk is neither in our queues nor with the kernel, and if the connection
breaks, it comes back with the queue. Some of that chunk may have arrived; "undelivered" means surely or possibly. What
the kernel has taken and not delivered when the other host dies is lost, and nobody can say so.

*Finishing*: a frame of no content is a goodbye, "I shall send no more here". Each side keeps reading until the other's
goodbye, so a connection can be given up while both are talking and not a frame is lost: when it was idle, when it turns
out to be the second one between two peers, and when a peer leaves. (Closing one half of the TCP connection would do the
same, but not under TLS.) A connection may be told to wait (`hold`) until its predecessor has ended, so that what went
over the two arrives in the order in which it was sent.
"""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Final, Protocol, cast

from peerd.net.capture import CaptureWriter, Splitter
from peerd.net.config import NetConfig
from peerd.net.endpoints import join_endpoint
from peerd.net.greeting import BadGreeting, First, FirstFrame, Greeting, Refusal, encode_first
from peerd.net.lanes import Entry, Remote, Tally
from peerd.net.outbox import Outbox
from peerd.wire import LENGTH_BYTES, BadFrame, Codec, Decoder, Frame, FrameTooLarge
from protocols.model.ids import Address, in_slot

GOODBYE: Final = bytes(LENGTH_BYTES)
SENDERS_MAX: Final = 64
"""Addresses of the other peer's participants kept ready: four times as many as a peer has."""
LINGER_S: Final = 1.0
"""How long a refused connection may take to close. A guess: a slow round trip."""
BAD_FRAMES_WINDOW_S: Final = 60.0

_GREETING, _OPEN, _FINISHING, _REFUSED, _CLOSED = range(5)


class Inbox(Protocol):
    def arrived(self, frames: Iterator[Frame], senders: Mapping[int, Address]) -> None: ...


class Shared:
    """What all connections of a network have in common: its ways in and out, and one buffer to read into."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: NetConfig,
        codec: Codec,
        tallies: dict[type, Tally],
        inbox: Inbox,
        outbox: Outbox,
        capture: CaptureWriter | None,
    ) -> None:
        self.loop = loop
        self.config = config
        self.codec = codec
        self.tallies = tallies
        self.inbox = inbox
        self.outbox = outbox
        self.capture = capture
        self.view = memoryview(bytearray(config.read_bytes))


class Owner(Protocol):
    """Who decides about connections."""

    def made(self, connection: "Connection") -> None:
        """It stands. Greet if it was dialled."""

    def first(self, connection: "Connection", first: First) -> None:
        """The other side has introduced itself: open, refuse or close."""

    def ended(self, connection: "Connection") -> None:
        """The other side said goodbye first: use this connection no more."""

    def lost(self, connection: "Connection") -> None:
        """It is closed."""

    def reject(self, connection: "Connection", reason: str) -> None:
        """Count and report what the other side did wrong."""


class Connection(asyncio.BufferedProtocol):
    """`remote` is whom it was dialled for, and later whom it leads to; None while an accepted one is not greeted."""

    def __init__(self, shared: Shared, owner: Owner, remote: Remote | None) -> None:
        self._shared = shared
        self._owner = owner
        self.remote = remote
        self.dialled = remote.at if remote is not None else ""
        self.dialler = ""
        self.number = 0
        """Which dial of the dialler's it is."""
        self.at = self.dialled
        """Where the other side is, for messages to people."""
        self.successor: Connection | None = None
        """Waits for the end of this one."""
        self.opened_at = 0.0
        self.idle_since = 0.0
        self.seen = 0
        """Owner's note: `moves` when it last looked."""
        self.reason = ""
        """Why it was closed, if it was closed here or in good order."""
        self.paused = True
        """The transport holds something: do not write."""
        self.handed: list[Entry] = []
        """The chunk that the transport holds."""
        self.moves = 0
        """Reads and writes."""
        self.held = False
        self.was_open = False
        self.peer_done = False
        self._state = _GREETING
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._first = FirstFrame()
        self._consume = self._greeting
        self._pending = bytearray()
        self._bad = 0
        self._bad_since = 0.0
        self._splitter = Splitter() if shared.capture is not None else None

    # --- from asyncio -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by type
        self._transport.set_write_buffer_limits(high=0)  # `paused` from the first byte that the kernel does not take
        self.paused = False
        _tune(self._transport, self._shared.config)
        if not self.at:
            name = transport.get_extra_info("peername")
            self.at = join_endpoint(str(name[0]), name[1]) if name else "?"
        self._timer = self._shared.loop.call_later(self._shared.config.handshake_s, self._late)
        self._owner.made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared.view  # shared: what is read is consumed before anybody else reads

    def buffer_updated(self, count: int) -> None:
        data = self._shared.view[:count]
        if self._splitter is not None:
            self._capture(data)
        self._consume(data)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self.handed = []
        if self.remote is not None and self._state == _OPEN:
            self._shared.outbox.wake(self.remote)

    def connection_lost(self, error: Exception | None) -> None:
        if self._state == _CLOSED:
            return
        self._state = _CLOSED
        self.paused = True
        self._consume = self._discard
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.peer_done and error is None:
            self.handed = []
        self._owner.lost(self)

    # --- the greeting -------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._state == _OPEN

    @property
    def has_spoken(self) -> bool:
        """Whether a byte of the greeting has come."""
        return len(self._first) > 0

    def greet(self, greeting: Greeting) -> None:
        self._write_first(greeting)

    def open(self, remote: Remote, greeting: Greeting) -> None:
        """Frames from here on."""
        self._stop_timer()
        self._state = _OPEN
        self.was_open = True
        self.remote = remote
        self._sender_address = Address(greeting.peer, greeting.boot, 0, greeting.at)
        self._decoder = Decoder(self._shared.codec)
        self._feed = self._decoder.feed
        self._arrived = self._shared.inbox.arrived
        self._senders = _Senders(self._sender_address)
        self._consume = self._frames
        self.opened_at = self.idle_since = self._shared.loop.time()

    def answer(self, first: First, reason: str) -> None:
        """Say this and nothing more; then let the other side close."""
        self._write_first(first)
        self.reason = self.reason or reason
        self._state = _REFUSED
        self._consume = self._discard
        self._stop_timer()
        self._timer = self._shared.loop.call_later(LINGER_S, self.abort, reason)
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def reject(self, reason: str, refusal: Refusal | None = None) -> None:
        """The other side did wrong: report it, tell it why if that is possible, and end the connection."""
        if self._state in (_REFUSED, _CLOSED):
            return
        self._owner.reject(self, reason)
        if refusal is not None and not self.dialled and self._state == _GREETING:
            self.answer(refusal, "rejected")
        else:
            self.abort("rejected")

    def _write_first(self, first: First) -> None:
        frame = encode_first(first)
        if self._shared.capture is not None:
            self._shared.capture.sent("", frame)
        self._transport.write(frame)

    def _greeting(self, data: memoryview) -> None:
        try:
            first = self._first.feed(data)
        except BadGreeting as error:
            self.reject(str(error), error.answer or Refusal("version", "this is a peerd peer; that was no greeting"))
            return
        if first is None:
            return
        self._consume = self._discard
        self._owner.first(self, first)
        if self._first.rest:
            self._consume(memoryview(self._first.rest))
            self._first.rest = b""

    def _late(self) -> None:
        self._timer = None
        said = "said nothing" if not len(self._first) else "began a frame and fell silent"
        self.reject(f"the handshake timed out: the other side {said}", Refusal("busy", "the handshake took too long"))

    # --- reading ------------------------------------------------------------------------------------------------------

    def _frames(self, data: memoryview) -> None:
        self.moves += 1
        items = self._feed(data)
        self._shared.outbox.read_begins()
        try:
            if self._decoder.clean:
                self._hand_in(cast(list[Frame], items))
            else:
                for good, run in groupby(items, lambda item: type(item) is Frame):
                    if good:
                        self._hand_in(cast(list[Frame], list(run)))
                    elif not self._refused_frames(cast(Iterator[BadFrame], run)):
                        break
        finally:
            self._shared.outbox.read_ends(self)

    def _hand_in(self, frames: list[Frame]) -> None:
        tallies = self._shared.tallies
        for frame in frames:
            tally = tallies[type(frame.message)]
            tally.received += 1
            tally.received_bytes += frame.size
        arrived = iter(frames)
        while True:
            try:
                self._arrived(arrived, self._senders)
                return
            except Exception as error:  # our own fault, not the connection's: go on with what follows
                context = {"message": "a received message was not handled", "exception": error, "protocol": self}
                self._shared.loop.call_exception_handler(context)

    def _refused_frames(self, items: Iterator[BadFrame]) -> bool:
        """Whether anything may follow."""
        for item in items:
            self._refused_frame(item)
            if self.peer_done or self._state not in (_OPEN, _FINISHING):
                return False
        return True

    def _refused_frame(self, item: BadFrame) -> None:
        if isinstance(item.error, FrameTooLarge):
            self._owner.reject(self, f"frame too large: {item.error}")
            self.abort("frame-too-large")
        elif item.size == len(GOODBYE):
            self._goodbye()
        else:
            self._bad_frame(f"{type(item.error).__name__.lower()} frame: {item.error}")

    def _bad_frame(self, reason: str) -> None:
        self._owner.reject(self, reason)
        now = self._shared.loop.time()
        if now - self._bad_since > BAD_FRAMES_WINDOW_S:
            self._bad, self._bad_since = 0, now
        self._bad += 1
        if self._bad > self._shared.config.bad_frames_max:
            self.abort("bad-frames")

    @property
    def within_frame(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self.was_open and self._decoder.pending_bytes > 0

    def _discard(self, data: memoryview) -> None:
        """Nobody listens any more."""

    def _keep(self, data: memoryview) -> None:
        self._pending += data

    def hold(self) -> None:
        """Read nothing until `release`. At most one read's worth is kept meanwhile."""
        if self._state in (_OPEN, _FINISHING) and not self.held:
            self.held = True
            self._consume = self._keep
            if not self._transport.is_closing():
                self._transport.pause_reading()

    def release(self) -> None:
        if not self.held:
            return
        self.held = False
        if self._state not in (_OPEN, _FINISHING):
            return
        self._consume = self._frames
        if self._pending:
            kept, self._pending = self._pending, bytearray()
            self._frames(memoryview(kept))
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # --- writing ------------------------------------------------------------------------------------------------------

    def pour(self) -> None:
        """Write what waits for the remote: all of it in one go, unless it is more than a chunk."""
        remote, transport, bytes_max = self.remote, self._transport, self._shared.config.write_bytes
        assert remote is not None
        while not self.paused:
            entries = remote.take(bytes_max)
            if not entries:
                return
            self.moves += 1
            if self._shared.capture is not None:
                for entry in entries:
                    self._shared.capture.sent(remote.peer, entry[0])
            try:
                transport.write(self._shared.outbox.chunk(entries))
            except BaseException:
                self.handed = entries
                raise
            if transport.is_closing() or self.paused:  # the kernel failed (asyncio says so later), or has not taken all
                self.paused = True
                self.handed = entries
                return
            if not (remote.events.entries or remote.control.entries):
                return

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self, reason: str) -> None:
        """Say goodbye, and close when the other side has said it too."""
        if self._state != _OPEN:
            return
        self.reason = self.reason or reason
        self._state = _FINISHING
        if self._shared.capture is not None and self.remote is not None:
            self._shared.capture.sent(self.remote.peer, GOODBYE)
        self._transport.write(GOODBYE)
        self._watch_drain()

    def _goodbye(self) -> None:
        """Everything that the other side will ever send here has been read."""
        self.peer_done = True
        self._consume = self._discard
        if self._state == _OPEN:
            self._owner.ended(self)
        self._transport.close()  # writes first what it holds

    def _watch_drain(self) -> None:
        self._stop_timer()
        self._timer = self._shared.loop.call_later(self._shared.config.drain_s, self._drained, self.moves)

    def _drained(self, moves: int) -> None:
        self._timer = None
        if self.moves == moves:
            self.abort("stalled")
        else:
            self._watch_drain()

    def close(self, reason: str) -> None:
        """Nothing more is expected from either side."""
        self.reason = self.reason or reason
        self._consume = self._discard
        self._transport.close()

    def abort(self, reason: str) -> None:
        """Cut the connection; the owner hears of it in the next turn.

        Also if the transport does not say so: uvloop closes one in silence when the dial that made it is cancelled.
        """
        self.reason = self.reason or reason
        self._consume = self._discard
        self.paused = True
        if self._state != _CLOSED:
            self._state = _REFUSED
            self._transport.abort()
            self._shared.loop.call_soon(self.connection_lost, None)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _capture(self, data: memoryview) -> None:
        assert self._splitter is not None
        capture = self._shared.capture
        peer = self.remote.peer if self.was_open and self.remote is not None else ""
        for frame in self._splitter.feed(data):
            if capture is not None:
                capture.received(peer, frame)


class _Senders(dict[int, Address]):
    """The addresses of the other peer's participants by slot, made when one is first heard of."""

    def __init__(self, life: Address) -> None:
        self._life = life

    def __missing__(self, slot: int) -> Address:
        address = in_slot(self._life, slot)
        if len(self) < SENDERS_MAX:
            self[slot] = address
        return address


def _tune(transport: asyncio.Transport, config: NetConfig) -> None:
    """No delay for small frames. Data that nobody acknowledges or takes for as long as liveness needs to call a peer
    dead ends the connection; the kernel would go on trying for a quarter of an hour."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    with suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        user_timeout = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux
        if user_timeout is not None:
            sock.setsockopt(socket.IPPROTO_TCP, user_timeout, int(config.give_up_s * 1000))
