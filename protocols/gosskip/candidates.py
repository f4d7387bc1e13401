"""Who may be the right neighbour of a place that has lost its own: claimed one after the other, nearest first."""

from collections.abc import Callable, Iterable

from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import Claim
from protocols.gosskip.order import Spot


class Candidates:
    __slots__ = ("_claimed_ms", "_desk", "_me", "_spots", "skipped")

    def __init__(self, desk: Desk, me: Spot) -> None:
        self._desk = desk
        self._me = me
        self._spots: list[Spot] = []
        self._claimed_ms = 0
        self.skipped = False
        """Somebody was lost, or passed over, of whose proxy filters this place was never told."""

    def __len__(self) -> int:
        return len(self._spots)

    def assign(self, spots: Iterable[Spot]) -> None:
        self._spots = sorted({spot.id: spot for spot in spots}.values(), key=lambda spot: spot.key)

    def forget_all(self) -> None:
        self._spots = []

    def lost(self, is_gone: Callable[[Spot], bool], successors: Iterable[Spot]) -> bool:
        """Some places are gone. Returns whether there were candidates among them."""
        self.skipped |= any(map(is_gone, (*successors, *self._spots)))
        count = len(self._spots)
        self._spots = [spot for spot in self._spots if not is_gone(spot)]
        return len(self._spots) < count

    def claim_first(self, now_ms: int) -> None:
        self._claimed_ms = now_ms
        if self._spots:
            spot = self._spots[0]
            self._desk.send(spot.address, Claim(spot.version, self._me.descriptor))

    def claim_next(self, now_ms: int, links: list[Spot]) -> None:
        """If the first has had time to answer, it is the turn of the next; without any, of these links."""
        if now_ms - self._claimed_ms < self._desk.config.rpc_ms:
            return
        if self._spots:
            del self._spots[0]
            self.skipped = True
        self._spots = self._spots or list(links)
        self.claim_first(now_ms)
