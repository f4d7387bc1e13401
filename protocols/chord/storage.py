"""Rows where they belong: answering for an arc, handing over, copies.

**Who answers.** A node answers for the arc (low, me] (`ring`). It moves only so:

- *A newcomer* x has come before node o. o sends x all rows of (low, x] (`Transfer`, purpose `handoff`), and whatever is
  stored under a key of that arc meanwhile goes to both. With the last part x answers; with its receipt o ceases to.
  In between both do, and both have everything: o is x's first successor, so x's copies go to o.
- *A leaver* leaves its arc to its successor, which answers for it from the moment at which the leaver has gone
  (`bequests`).
- *A death*: a node behind whose predecessor nobody answers does so at once, with what copies it has. What all holders
  of copies took with them is missing until its access node asks for it (`placements`).

If the predecessor stands *on* the arc that a node answers for, it hands over; if it stands *before* it, the node takes
over. Nothing else is needed for two rings that become one.

**Copies.** The first `replicas` successors hold copies: all rows at first (purpose `copy`), each new one as it is
stored (`Replicate`), and every `digest_ms` they compare (`Digest`). `Stored` is said when the row is here and at all of
them. Where a copy's digest agrees, the leases in it are renewed that were renewed here by their access nodes; a holder
that is no longer one is not told anything, and its rows expire. A holder that knows a newer version of a row than it is
sent says so.
"""

from typing import Final

from protocols.chord.bequests import Bequests
from protocols.chord.config import ChordConfig
from protocols.chord.ids import Circle
from protocols.chord.keys import Keys
from protocols.chord.messages import (
    Differs,
    Digest,
    Held,
    Refresh,
    Refreshed,
    Replicate,
    Row,
    Stored,
    Taken,
    Transfer,
)
from protocols.chord.ring import Ring
from protocols.chord.rows import FULL, NEW, OLDER, SAME, WRONG, RowKey, RowTable, key_of
from protocols.chord.transfers import Transfers
from protocols.model.ids import Address
from protocols.overlay import Control, Outbox, Rejected, Repaired

WRITES_MAX: Final = 1_024
"""Rows that wait for their copies to be acknowledged; further ones are not taken, and will be sent again."""


class _Write:
    """A row on its way to all holders of copies, which is acknowledged when they have it."""

    __slots__ = ("hops", "outdated", "row", "sent_ms", "waiting")

    def __init__(self, row: Row, outdated: bool, hops: int, waiting: dict[Address, None], sent_ms: int) -> None:
        self.row = row
        self.outdated = outdated
        self.hops = hops
        self.waiting = waiting
        self.sent_ms = sent_ms


class Storage:
    __slots__ = (
        "_circle",
        "_config",
        "_copied_low",
        "_epoch",
        "_out",
        "_ring",
        "_token",
        "_transfers",
        "_writes",
        "_writing",
        "bequests",
        "copies",
        "rows",
    )

    def __init__(self, ring: Ring, config: ChordConfig, keys: Keys, circle: Circle, out: Outbox) -> None:
        self._ring = ring
        self._config = config
        self._circle = circle
        self._out = out
        self.rows = RowTable(keys, config.rows_max, config.lease_ms)
        self.copies: dict[Address, bool] = {}
        """Who holds copies of our rows, and whether it has all of them."""
        self._copied_low: int | None = None  # where the arc began that the copies were made of
        self._transfers = Transfers(self.rows, config.rows_max, circle, out)
        self.bequests = Bequests(ring, self._transfers, circle)
        self._writes: dict[int, _Write] = {}
        self._writing: dict[RowKey, int] = {}
        self._token = 0
        self._epoch = -1

    def assume_copied(self) -> None:
        """Whoever holds copies has them all: for a ring that an oracle has made."""
        self._copied_low = self._ring.low
        self._epoch = self._ring.epoch

    # --- storing ------------------------------------------------------------------------------------------------------

    def store(self, now_ms: int, row: Row, hops: int) -> bool:
        """Take a row, send it to the copies, and say so to the access node when they have it. False: not taken."""
        if len(self._writes) >= WRITES_MAX:
            return False
        outcome = self.rows.put(now_ms, row)
        if outcome in (FULL, WRONG):
            self._out.report(Rejected(row.access, "no room for a row" if outcome is FULL else "a row of no list"))
            return False
        if outcome is OLDER:
            return True
        if outcome is SAME:
            self.rows.renew(now_ms, key_of(row), row.version)
            if key_of(row) not in self._writing:  # or that is said when the copies have it
                self._acknowledge(row, hops)
            return True
        self._write(now_ms, row, hops)
        return True

    def outdate(self, now_ms: int, row: Row, hops: int) -> bool:
        """The newest version of a row has no key on our arc any more: the older one goes. False: not taken.

        Not as a removal: whoever holds copies for us may have the older one on its own behalf, or for others.
        """
        former = self.rows.get(key_of(row))
        if former is not None and former.version >= row.version:
            self._acknowledge(row, hops)
            return True
        if former is not None and len(self._writes) >= WRITES_MAX:
            return False
        self.rows.end(now_ms, row)
        if former is None:
            self._acknowledge(row, hops)
        else:
            self._write(now_ms, row, hops, outdated=True)
        return True

    def _write(self, now_ms: int, row: Row, hops: int, outdated: bool = False) -> None:
        waiting = dict.fromkeys(self.copies)
        for address, outgoing in self._transfers.outgoing.items():
            if outgoing.purpose != "copy":
                waiting[address] = None
        if not waiting:
            self._acknowledge(row, hops)
            return
        self._token += 1
        self._writes[self._token] = _Write(row, outdated, hops, waiting, now_ms)
        self._writing[key_of(row)] = self._token
        self._out.send_all(list(waiting), Replicate(self._token, row, outdated))

    def _acknowledge(self, row: Row, hops: int) -> None:
        low = self._ring.low
        if low is not None:
            stored = Stored(row.number, row.list, row.version, self._circle.encode(low), hops)
            self._out.send(row.access, stored)

    def on_replicate(self, now_ms: int, sender: Address, message: Replicate) -> None:
        row, key = message.row, key_of(message.row)
        if message.outdated and key not in self.rows:
            self.rows.end(now_ms, row)
            self._out.send(sender, Held(message.token))
            return
        outcome = self.rows.put(now_ms, row)
        if message.outdated and outcome is NEW and not self._is_ours(key):
            self.rows.end(now_ms, row)
        if outcome in (FULL, WRONG):
            self._out.report(Rejected(sender, "no room for a copy" if outcome is FULL else "a copy of no list"))
            return
        self._transfers.receive_row(sender, row)
        self._out.send(sender, Held(message.token))

    def on_held(self, now_ms: int, sender: Address, message: Held) -> None:
        self._has_it(sender, message.token)

    def _has_it(self, holder: Address, token: int) -> None:
        write = self._writes.get(token)
        if write is None:
            return
        write.waiting.pop(holder, None)
        if not write.waiting:
            del self._writes[token]
            if self._writing.get(key_of(write.row)) == token:
                del self._writing[key_of(write.row)]
            self._acknowledge(write.row, write.hops)

    # --- who answers, and who holds copies ----------------------------------------------------------------------------

    def settle(self, now_ms: int) -> None:
        """Bring the arc, the hand-over and the copies in line with the ring. To be called whenever that has changed."""
        ring = self._ring
        if self._epoch == ring.epoch or not ring.standing:
            return
        self._epoch = ring.epoch
        if ring.alone:
            ring.set_low(ring.id)
            self._epoch = ring.epoch
            for address in (*self._transfers.outgoing, *self.copies):
                self.lost(address)
            return
        if ring.low is not None and ring.predecessor is not None and not self._is_bound:
            before = self._circle.node(ring.predecessor)
            if self._circle.between(before, ring.low, ring.id):
                self._transfers.begin(now_ms, ring.predecessor, "handoff", ring.low, before)
            elif before != ring.low:
                ring.set_low(before)
                self._epoch = ring.epoch
                self._out.report(Repaired("arc"))
        ring.watch_heir(self._transfers.heir)
        self._settle_copies(now_ms)

    @property
    def _is_bound(self) -> bool:
        """Whether our arc stays as it is, because we leave it to somebody, or are about to inherit."""
        return self.bequests.leaving or self.bequests.is_heir

    def _settle_copies(self, now_ms: int) -> None:
        ring = self._ring
        if self.bequests.leaving:
            return
        wanted = ring.successors[: self._config.replicas]
        for address in [a for a in self.copies if a not in wanted]:
            self._release(address)
        if ring.low is None:
            return
        length, copied = self._circle.length(ring.low, ring.id), self._copied_low
        grown = copied is None or length > self._circle.length(copied, ring.id)
        self._copied_low = ring.low
        for address in wanted:
            if grown or not self.copies.get(address):
                self.copies[address] = False
                self._transfers.begin(now_ms, address, "copy", ring.low, ring.id)

    def _release(self, address: Address) -> None:
        """Somebody does not hold our copies any more."""
        del self.copies[address]
        outgoing = self._transfers.outgoing
        if address in outgoing and outgoing[address].purpose == "copy":
            del outgoing[address]
        if address not in outgoing:
            for token in list(self._writes):
                if address in self._writes[token].waiting:
                    self._has_it(address, token)

    def lost(self, address: Address) -> None:
        """Somebody is gone: nothing waits for it."""
        self._transfers.lost(address)
        self.bequests.lost(address)
        self.copies.pop(address, None)
        for token in list(self._writes):
            if address in self._writes[token].waiting:
                self._has_it(address, token)
        self._epoch = -1

    # --- arcs that come and go ----------------------------------------------------------------------------------------

    def on_taken(self, now_ms: int, sender: Address, message: Taken) -> None:
        outgoing, ring = self._transfers.on_taken(now_ms, sender, message), self._ring
        if outgoing is None:
            return
        if outgoing.purpose == "copy":
            if sender in self.copies:
                self.copies[sender] = True
        elif outgoing.purpose == "handoff" and ring.low == outgoing.low:
            ring.set_low(outgoing.high)
            self._copied_low = ring.low
            self._out.report(Control("chord.handed-over"))
        self._epoch = -1  # there may be more to hand over

    def on_transfer(self, now_ms: int, sender: Address, message: Transfer) -> None:
        ring, decode = self._ring, self._circle.decode
        if not ring.standing:
            return
        receipt = Taken(message.token, message.part)
        if self._transfers.was_received(sender, message.token):
            if message.purpose == "bequest":
                self.bequests.said_again(now_ms, sender)
            self._out.send(sender, receipt)
            return
        if not self._take_rows(now_ms, sender, message):
            return
        low, high = decode(message.low), decode(message.high)
        if message.purpose == "copy":
            for key in self._transfers.receive_copy(sender, message):
                if not self._is_ours(key):
                    self.rows.drop(key)
        elif message.last and message.purpose == "bequest":
            if not self.bequests.accept(now_ms, sender, low):
                return  # it will know of another successor soon, or ask again
        elif message.last and high == ring.id and self._reaches_further(low):
            ring.set_low(low)
        if message.last:
            self._transfers.received(sender, message.token)
        self._out.send(sender, receipt)

    def _take_rows(self, now_ms: int, sender: Address, message: Transfer) -> bool:
        """Take the rows of a part; whoever has sent an older one than is known here is told so."""
        if len(message.leases) != len(message.rows):
            self._out.report(Rejected(sender, "rows without leases"))
            return False
        for row, left_ms in zip(message.rows, message.leases):
            outcome = self.rows.put(now_ms, row, left_ms)
            if outcome in (FULL, WRONG):
                self._out.report(Rejected(sender, "no room for a row"))
                return False
            if outcome is OLDER:
                self._out.send(sender, Replicate(0, self.rows.newer(row)))
        return True

    def _reaches_further(self, low: int) -> bool:
        """Whether the arc from there is more than what we answer for."""
        ring = self._ring
        return ring.low is None or self._circle.length(low, ring.id) > self._circle.length(ring.low, ring.id)

    def _is_ours(self, key: RowKey) -> bool:
        low = self._ring.low
        return low is not None and self.rows.touches(key, low, self._ring.id)

    # --- upkeep -------------------------------------------------------------------------------------------------------

    def again(self, now_ms: int) -> None:
        """Send once more what was not acknowledged in time."""
        late_ms = now_ms - self._config.rpc_ms
        self._transfers.again(now_ms, late_ms)
        if self.bequests.forget_silent(late_ms - self._config.rpc_ms):
            self._epoch = -1
        for token, write in self._writes.items():
            if write.sent_ms <= late_ms:
                write.sent_ms = now_ms
                self._out.send_all(list(write.waiting), Replicate(token, write.row, write.outdated))

    def compare(self, now_ms: int) -> None:
        """Let go what has expired, and let the holders of copies compare."""
        self.rows.expire(now_ms)
        low = self._ring.low
        if low is not None and self.copies:
            count, total = self.rows.digest(low, self._ring.id)
            marks = self.rows.marks(low, self._ring.id)
            complete = [address for address, has_all in self.copies.items() if has_all]
            self._out.send_all(complete, Digest(self._circle.encode(low), count, total, marks))

    def on_digest(self, now_ms: int, sender: Address, message: Digest) -> None:
        low, high = self._circle.decode(message.low), self._circle.node(sender)
        if self.rows.digest(low, high) != (message.count, message.sum):
            self._out.send(sender, Differs())
        else:
            self.rows.renew_marked(now_ms, low, high, message.renewed)

    def on_differs(self, now_ms: int, sender: Address, message: Differs) -> None:
        low = self._ring.low
        if sender in self.copies and low is not None:
            self.copies[sender] = False
            self._transfers.begin(now_ms, sender, "copy", low, self._ring.id)

    def on_refresh(self, now_ms: int, sender: Address, message: Refresh) -> None:
        """Renew an access node's rows."""
        ring = self._ring
        missing = [
            place
            for place, lease in enumerate(message.leases)
            if not self.rows.renew(now_ms, (sender, lease.number, lease.list), lease.version)
        ]
        low = b"" if ring.low is None else self._circle.encode(ring.low)
        self._out.send(sender, Refreshed(message.token, low, tuple(missing)))
