"""Arcs on their way from node to node: all rows of an arc, a part at a time, each part with a receipt.

What is on its way is sent from the rows as they are when a part is made, so a row that has gone meanwhile is not sent;
one that has come meanwhile is sent by itself (`storage`). A part without a receipt is sent again; the receipt names the
part, since that of a part that was sent twice comes twice. There is one arc at a time on its way to a node, and one to
be handed over in all: the next begins where that one ends.

Whoever receives copies keeps track of what has come. After the last part whatever else it has of that arc goes: the
sender does not have it. It also remembers which arc of each sender was the last to come in full: what comes of that one
or an earlier one again was sent twice, and would undo what has happened since.

A bequest stays here when all of it has been received, until its sender is gone: its last part is repeated, so that the
heir knows that it still has to wait (`bequests`).
"""

from typing import Final, Literal, TypeAlias

from protocols.chord.ids import Circle
from protocols.chord.messages import ROWS_MAX, Row, Taken, Transfer
from protocols.chord.rows import RowKey, RowTable, key_of
from protocols.model.ids import Address
from protocols.overlay import Outbox

INCOMING_MAX: Final = 64
"""Arcs that are being received."""
PART_TEXT: Final = 50_000
"""Characters of strings in one part, so that it fits into a frame."""

Purpose: TypeAlias = Literal["handoff", "bequest", "copy"]


class Outgoing:
    """An arc on its way to another node."""

    __slots__ = ("high", "low", "part", "purpose", "rest", "sent_ms", "taken", "token")

    def __init__(self, token: int, purpose: Purpose, low: int, high: int, rest: list[RowKey]) -> None:
        self.token = token
        self.purpose = purpose
        self.low = low
        self.high = high
        self.rest = rest
        self.part: Transfer | None = None
        self.sent_ms = 0
        self.taken = False
        """Whether all of it has been received."""


class Transfers:
    __slots__ = ("_capacity", "_circle", "_incoming", "_out", "_received", "_rows", "_token", "outgoing")

    def __init__(self, rows: RowTable, capacity: int, circle: Circle, out: Outbox) -> None:
        self._rows = rows
        self._capacity = capacity
        self._circle = circle
        self._out = out
        self.outgoing: dict[Address, Outgoing] = {}
        self._incoming: dict[Address, tuple[int, dict[RowKey, None]]] = {}  # sender -> token, rows that have come
        self._received: dict[Address, int] = {}  # sender -> token of the last arc that has come in full
        self._token = 0

    @property
    def heir(self) -> Address | None:
        """To whom an arc is being handed over."""
        return next((to for to, outgoing in self.outgoing.items() if outgoing.purpose == "handoff"), None)

    # --- sending ------------------------------------------------------------------------------------------------------

    def begin(self, now_ms: int, to: Address, purpose: Purpose, low: int, high: int) -> None:
        """Send an arc, unless the same is on its way; a hand-over goes before a copy."""
        current = self.outgoing.get(to)
        if current is not None:
            if (current.purpose, current.low, current.high) == (purpose, low, high):
                return
            if current.purpose != "copy" and purpose == "copy":
                return  # begun when that is done
        if purpose == "handoff" and self.heir is not None:
            return
        self._token += 1
        outgoing = Outgoing(self._token, purpose, low, high, self._rows.on_arc(low, high))
        self.outgoing[to] = outgoing
        self._send_part(now_ms, to, outgoing)

    def _send_part(self, now_ms: int, to: Address, outgoing: Outgoing) -> None:
        rows: list[Row] = []
        leases: list[int] = []
        text = 0
        while outgoing.rest and len(rows) < ROWS_MAX and text < PART_TEXT:
            row = self._rows.get(key := outgoing.rest.pop())
            if row is not None:
                rows.append(row)
                leases.append(self._rows.left_ms(now_ms, key))
                text += sum(map(len, row.box.lo_text)) + sum(map(len, row.box.hi_text))
        encode = self._circle.encode
        low, high = encode(outgoing.low), encode(outgoing.high)
        number = 0 if outgoing.part is None else outgoing.part.part + 1
        parts = (tuple(rows), tuple(leases))
        outgoing.part = Transfer(outgoing.token, number, outgoing.purpose, low, high, *parts, not outgoing.rest)
        outgoing.sent_ms = now_ms
        self._out.send(to, outgoing.part)

    def on_taken(self, now_ms: int, sender: Address, message: Taken) -> Outgoing | None:
        """A receipt: send the next part. Returns the arc if that was the last one."""
        outgoing = self.outgoing.get(sender)
        if outgoing is None or outgoing.part is None or outgoing.taken:
            return None
        if (outgoing.token, outgoing.part.part) != (message.token, message.part):
            return None
        if not outgoing.part.last:
            self._send_part(now_ms, sender, outgoing)
            return None
        outgoing.taken = True
        if outgoing.purpose != "bequest":
            del self.outgoing[sender]
        return outgoing

    def again(self, now_ms: int, late_ms: int) -> None:
        """Send parts once more that were not taken since."""
        for to, outgoing in self.outgoing.items():
            if outgoing.sent_ms <= late_ms and outgoing.part is not None:
                outgoing.sent_ms = now_ms
                self._out.send(to, outgoing.part)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def was_received(self, sender: Address, token: int) -> bool:
        """Whether that arc, or a later one, has come in full."""
        return token <= self._received.get(sender, -1)

    def received(self, sender: Address, token: int) -> None:
        """An arc has come in full."""
        if self._received.pop(sender, None) is None and len(self._received) >= INCOMING_MAX:
            del self._received[next(iter(self._received))]
        self._received[sender] = token

    def receive_copy(self, sender: Address, message: Transfer) -> list[RowKey]:
        """Keep track of a part. After the last one: the rows of the arc that were not in any."""
        token, rows = self._incoming.get(sender, (-1, {}))
        if token != message.token:
            if message.part:
                return []  # where its first part has gone is for the next comparison to see
            if sender not in self._incoming and len(self._incoming) >= INCOMING_MAX:
                del self._incoming[next(iter(self._incoming))]
            rows = {}
            self._incoming[sender] = (message.token, rows)
        rows.update(dict.fromkeys(map(key_of, message.rows)))
        if self._outgrown(sender) or not message.last:
            return []
        del self._incoming[sender]
        low, high = self._circle.decode(message.low), self._circle.decode(message.high)
        return [row_key for row_key in self._rows.on_arc(low, high) if row_key not in rows]

    def receive_row(self, sender: Address, row: Row) -> None:
        """A row has come by itself, while an arc is on its way."""
        if sender in self._incoming:
            self._incoming[sender][1][key_of(row)] = None
            self._outgrown(sender)

    def _outgrown(self, sender: Address) -> bool:
        """Give up keeping track of an arc, if more rows have come than there can be."""
        outgrown = sum([len(rows) for _, rows in self._incoming.values()]) > self._capacity
        if outgrown:
            del self._incoming[sender]
        return outgrown

    def lost(self, address: Address) -> None:
        self.outgoing.pop(address, None)
        self._incoming.pop(address, None)
