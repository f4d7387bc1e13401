"""The way out: from `send` to the queues of the receivers, and from there to the sockets.

`send` never waits and never fails for remote reasons. It encodes a message once, notes the frame with its receivers and
returns. Consecutive messages to the same receivers, which is what a relay sends, make a *run*, and a run goes into the
queue of each of its receivers as a whole.

Writes are coalesced. All that came of one read is written when the read has been worked off, so that a message that is
alone need not wait for another turn of the event loop. While several connections are read in turns that is done once
in a turn of the loop; what comes of further reads, or of timers and calls, leaves in one write for each peer at the
start of the next turn.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from peerd.net.config import NetConfig
from peerd.net.lanes import Entry, Lane, Remote, Tally
from peerd.net.news import News
from peerd.net.remotes import Remotes
from peerd.wire import Codec, Unencodable
from protocols.model.ids import Address
from protocols.overlay import Message

RUNS_MAX: Final = 512
"""Messages that wait to be put into queues, which have the real bounds. A guess: what one read brings."""


class Outbox:
    """`seek` is called with remotes that something waits for and that have no connection, `overflow` with those that
    too much control waits for, and `flushed` when everything that could be written has been."""

    def __init__(
        self,
        config: NetConfig,
        codec: Codec,
        tallies: dict[type, Tally],
        remotes: Remotes,
        news: News,
        *,
        seek: Callable[[Remote], None],
        overflow: Callable[[Remote], None],
        flushed: Callable[[], None],
    ) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        self.codec = codec
        self._tallies = tallies
        self._remotes = remotes
        self._found = remotes.found
        self._news = news
        self._seek = seek
        self._overflow = overflow
        self._flushed = flushed
        self.crowded_out = 0
        self._runs: list[tuple[tuple[Address, ...], Tally, list[Entry]]] = []
        self._said = 0  # messages in them
        self._to: tuple[Address, ...] = ()  # the receivers that `send` was last given, and these by slot
        self._ways: list[tuple[int, tuple[Address, ...]]] = []
        self._dirty: list[Remote] = []
        self._flushing = False  # a flush comes with the next turn
        self._reader: object = None  # what it read was the last to be followed by a write
        self._reading = False  # a flush comes at the end of the read
        self._chunk: tuple[list[Entry], bytes] = ([], b"")  # what was last written

    def send(self, slot: int, to: tuple[Address, ...], message: Message) -> None:
        """Queue a message of the participant in `slot`. `Unencodable` if it cannot be put on the wire: local misuse."""
        tally = self._tallies.get(type(message))
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
            self.enqueue()
        if not (self._reading or self._flushing):
            self._flushing = True
            self._loop.call_soon(self._flush_later)

    # --- into the queues ----------------------------------------------------------------------------------------------

    def enqueue(self) -> None:
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
        return None if self._news.closed else self._remotes.of(address)

    def _stray(self, to: Address, entries: list[Entry]) -> None:
        """Messages to this peer itself, to a life that is over, or to one remote too many."""
        if self._news.closed:
            self._news.abandon(to, entries)
        elif self._remotes.is_own(to):
            received = self._news.receiver.received
            for frame, slot, _, message, _ in entries:
                self._news.later(received, Address(to.peer, to.boot, slot, to.at), to.slot, message, len(frame))
        elif self._remotes.is_over(to):
            self._news.give_back(to, entries, refused=True)
        else:
            self.crowded_out += len(entries)
            self._news.give_back(to, entries, refused=False)

    def _squeeze(self, remote: Remote, lane: Lane, to: Address, entries: list[Entry]) -> None:
        """The lane has no room for all of these: take as many as it has room for."""
        for entry in entries:
            if lane.extend([entry], len(entry[0])):
                continue
            if not entry[4].is_event:  # the other side would have holes in what it knows: all of it comes back
                self._overflow(remote)
                self._news.give_back(to, (entry,), refused=False)
            elif remote.admits_event(len(entry[0]), self._loop.time(), self._config):
                lane.append(entry)
            else:
                self._news.drop(to, entry[3], "link-full")

    # --- into the sockets ---------------------------------------------------------------------------------------------

    def wake(self, remote: Remote) -> None:
        """Something waits for a remote that can be written to, or sought."""
        if not remote.dirty:
            remote.dirty = True
            self._dirty.append(remote)
        if not (self._reading or self._flushing):
            self._flushing = True
            self._loop.call_soon(self._flush_later)

    def read_begins(self) -> None:
        """A connection hands in what it has read: what comes of it is written when the read ends, unless that was done
        before in this turn."""
        self._reading = not self._flushing

    def read_ends(self, reader: object) -> None:
        if not self._reading:
            return
        self._reading = False
        if self._runs or self._dirty:
            self.flush()
            if reader is not self._reader:  # several are talking: no second time in this turn
                self._reader = reader
                self._flushing = True
                self._loop.call_soon(self._flush_later)

    def _flush_later(self) -> None:
        self._flushing = False
        self.flush()

    def flush(self) -> None:
        """Write what waits; seek those that are not connected."""
        self.enqueue()
        dirty, self._dirty = self._dirty, []
        waiting = iter(dirty)
        while True:
            try:
                for remote in waiting:
                    remote.dirty = False
                    connection = remote.connection
                    if connection is None:
                        self._seek(remote)
                    elif not connection.paused:
                        connection.pour()
                break
            except Exception as error:  # one remote's trouble: the others must not wait for ever
                self._unwritten(remote, error)
        self._chunk = [], b""
        self._flushed()

    def _unwritten(self, remote: Remote, error: Exception) -> None:
        context = {"message": f"writing to {remote.at} failed", "exception": error}
        self._loop.call_exception_handler(context)
        if remote.connection is not None:
            remote.connection.abort("write-failed")

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


def _by_slot(to: tuple[Address, ...]) -> list[tuple[int, tuple[Address, ...]]]:
    """Receivers that get the same frame; those without an id each by themselves."""
    ways: dict[tuple[int, str], list[Address]] = {}
    for address in to:
        ways.setdefault((address.slot, "" if address.peer else address.at), []).append(address)
    return [(slot, tuple(receivers)) for (slot, _), receivers in ways.items()]
