"""Arcs on their way from node to node: all rows of an arc, a part at a time, each part with a receipt.

What is on its way is sent from the rows as they are when a part is made, so a row that has gone meanwhile is not sent;
one that has come meanwhile is sent by itself (`storage`). A part without a receipt is sent again. There is one arc at a
time on its way to a node, and one to be handed over in all: the next begins where that one ends.

Whoever receives copies keeps track of what has come. After the last part whatever else it has of that arc goes: the
sender does not have it.
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

    __slots__ = ("high", "low", "part", "purpose", "rest", "sent_ms", "token")

    def __init__(self, token: int, purpose: Purpose, low: int, high: int, rest: list[RowKey]) -> None:
        self.token = token
        self.purpose = purpose
        self.low = low
        self.high = high
        self.rest = rest
        self.part: Transfer | None = None
        self.sent_ms = 0


class Transfers:
    __slots__ = ("_circle", "_incoming", "_out", "_rows", "_token", "outgoing")

    def __init__(self, rows: RowTable, circle: Circle, out: Outbox) -> None:
        self._rows = rows
        self._circle = circle
        self._out = out
        self.outgoing: dict[Address, Outgoing] = {}
        self._incoming: dict[tuple[Address, int], dict[RowKey, None]] = {}
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
        self._send_part(now_ms, to, outgoing, True)

    def _send_part(self, now_ms: int, to: Address, outgoing: Outgoing, first: bool) -> None:
        rows: list[Row] = []
        text = 0
        while outgoing.rest and len(rows) < ROWS_MAX and text < PART_TEXT:
            row = self._rows.get(outgoing.rest.pop())
            if row is not None:
                rows.append(row)
                text += sum(map(len, row.box.lo_text)) + sum(map(len, row.box.hi_text))
        encode = self._circle.encode
        low, high = encode(outgoing.low), encode(outgoing.high)
        outgoing.part = Transfer(outgoing.token, outgoing.purpose, low, high, tuple(rows), first, not outgoing.rest)
        outgoing.sent_ms = now_ms
        self._out.send(to, outgoing.part)

    def on_taken(self, now_ms: int, sender: Address, message: Taken) -> Outgoing | None:
        """A receipt: send the next part. Returns the arc if that was the last one."""
        outgoing = self.outgoing.get(sender)
        if outgoing is None or outgoing.token != message.token or outgoing.part is None:
            return None
        if not outgoing.part.last:
            self._send_part(now_ms, sender, outgoing, False)
            return None
        del self.outgoing[sender]
        return outgoing

    def is_last(self, sender: Address, message: Taken) -> Outgoing | None:
        """The arc of which this is the last receipt, if it is."""
        outgoing = self.outgoing.get(sender)
        if outgoing is None or outgoing.token != message.token or outgoing.part is None or not outgoing.part.last:
            return None
        return outgoing

    def again(self, now_ms: int, late_ms: int) -> None:
        """Send parts once more that were not taken since."""
        for to, outgoing in self.outgoing.items():
            if outgoing.sent_ms <= late_ms and outgoing.part is not None:
                outgoing.sent_ms = now_ms
                self._out.send(to, outgoing.part)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def receive_copy(self, sender: Address, message: Transfer) -> list[RowKey]:
        """Keep track of a part. After the last one: the rows of the arc that were not in any."""
        key = (sender, message.token)
        if message.first:
            for other in [k for k in self._incoming if k[0] == sender]:
                del self._incoming[other]
            if len(self._incoming) >= INCOMING_MAX:
                del self._incoming[next(iter(self._incoming))]
            self._incoming[key] = {}
        received = self._incoming.get(key)
        if received is None:
            return []
        received.update(dict.fromkeys(map(key_of, message.rows)))
        if not message.last:
            return []
        del self._incoming[key]
        low, high = self._circle.decode(message.low), self._circle.decode(message.high)
        return [row_key for row_key in self._rows.on_arc(low, high) if row_key not in received]

    def receive_row(self, sender: Address, row: Row) -> None:
        """A row has come by itself, while an arc is on its way."""
        for (other, _), received in self._incoming.items():
            if other == sender:
                received[key_of(row)] = None

    def lost(self, address: Address) -> None:
        self.outgoing.pop(address, None)
        for key in [key for key in self._incoming if key[0] == address]:
            del self._incoming[key]
