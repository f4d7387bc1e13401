"""Leaving: who inherits the arc of a node that goes.

A leaver o first ends what it is handing over itself, and then sends its successor s all rows of (low, o] (`Transfer`,
purpose `bequest`). s takes it only if its own arc begins at o, and then hands nothing over until o has said `Leaving`;
with that word s answers for o's arc, and o has ceased to before it said it. So it does not matter who enters between
the two meanwhile: whoever enters before gets the bequest itself, and whoever enters after gets both arcs from s.

Where many leave together a leaver takes the bequest of another only if that one goes first, and then waits for it
(`_goes_first`: an order by lot, so that a whole ring that leaves waits neither in a circle nor one by one).
"""

from protocols.chord.ids import Circle
from protocols.chord.ring import Ring
from protocols.chord.transfers import INCOMING_MAX, Transfers
from protocols.model.ids import Address


class Bequests:
    __slots__ = ("_accepted", "_circle", "_ring", "_transfers", "leaving")

    def __init__(self, ring: Ring, transfers: Transfers, circle: Circle) -> None:
        self._ring = ring
        self._transfers = transfers
        self._circle = circle
        self.leaving = False
        self._accepted: dict[Address, tuple[int, int]] = {}  # who is about to leave -> its low, when it last said so

    # --- our own ------------------------------------------------------------------------------------------------------

    def bequeath(self, now_ms: int) -> bool:
        """Send everything to the successor. True if we may go: it has all, or there is nothing or nobody to send it to.

        Not before what we hand over ourselves has been taken: whoever takes it answers from then on, and until we know
        it, what is stored here has to go there too.
        """
        ring = self._ring
        self.leaving = True
        if self._transfers.heir is not None:
            return False
        if ring.low is not None and ring.head is not None and self.heir is None:
            self._begin(now_ms, ring.head, ring.low)
            return False
        return not self.is_heir

    def _begin(self, now_ms: int, head: Address, low: int) -> None:
        """Another successor may be asked already: it will be known which of them answers for the arc after ours."""
        outgoing = self._transfers.outgoing
        for address in [a for a, o in outgoing.items() if o.purpose != "bequest" or o.low != low]:
            del outgoing[address]
        self._transfers.begin(now_ms, head, "bequest", low, self._ring.id)

    @property
    def heir(self) -> Address | None:
        """Who has all that we answer for, and waits until we have left."""
        low = self._ring.low
        return next((to for to, o in self._transfers.outgoing.items() if o.taken and o.low == low), None)

    # --- others' ------------------------------------------------------------------------------------------------------

    @property
    def is_heir(self) -> bool:
        """Whether somebody has left everything to us and is about to say so: not the time to leave, or to hand over."""
        return bool(self._accepted)

    def accept(self, now_ms: int, leaver: Address, low: int) -> bool:
        """A leaver has sent all rows from `low` to itself. Whether we inherit them."""
        if not self._may_inherit(leaver, low):
            return False
        self._accepted[leaver] = (low, now_ms)
        return True

    def _may_inherit(self, leaver: Address, low: int) -> bool:
        """Whether we answer for the arc right after the leaver's, or for that too, and will until it has left."""
        ring, before = self._ring, self._circle.node(leaver)
        if ring.low is None or self._transfers.heir is not None or len(self._accepted) >= INCOMING_MAX:
            return False
        if self.leaving and leaver not in self._accepted and not self._goes_first(leaver):
            return False
        is_next = ring.low == before
        return is_next or (ring.answers_for(before) and not self._circle.between(ring.low, low, before))

    def _goes_first(self, other: Address) -> bool:
        """Whether another leaver goes before us, by a lot that all draw alike."""
        lot = self._circle.hash
        return lot(str(self._circle.node(other))) < lot(str(self._ring.id))

    def said_again(self, now_ms: int, leaver: Address) -> None:
        """It has not left yet."""
        if leaver in self._accepted:
            self._accepted[leaver] = (self._accepted[leaver][0], now_ms)

    def on_leaving(self, leaver: Address) -> None:
        """A predecessor leaves: we answer for what it has left to us."""
        low, _ = self._accepted.pop(leaver, (None, 0))
        ring = self._ring
        if low is not None and ring.low == self._circle.node(leaver):
            ring.set_low(low)

    def forget_silent(self, late_ms: int) -> bool:
        """Forget leavers that have said nothing since: gone, or somebody else's. Whether there were any."""
        silent = [leaver for leaver, (_, said_ms) in self._accepted.items() if said_ms <= late_ms]
        for leaver in silent:
            del self._accepted[leaver]
        return bool(silent)

    def lost(self, leaver: Address) -> None:
        self._accepted.pop(leaver, None)
