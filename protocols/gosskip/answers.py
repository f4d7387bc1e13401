"""What a place has answered to those that it let stand beside it.

From the moment a place inserts a joiner, the chain goes through the joiner; if the answer is lost, the chain ends there
until it comes. So it is kept, and sent again until the joiner is heard of.
"""

from typing import Final

from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import Inserted
from protocols.gosskip.order import PlaceId
from protocols.gosskip.patience import Patience

ANSWERS_MAX: Final = 64
"""Joiners whose answers are kept. A guess: more than join behind one place within a round trip."""
ANSWERS_MS: Final = 30_000
"""How long a joiner is answered again; then liveness has long said that it is dead. A guess."""


class Answers:
    """To joiners that have not been heard of since."""

    __slots__ = ("_desk", "_kept")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._kept: dict[PlaceId, tuple[int, Patience, Inserted]] = {}

    def send(self, now_ms: int, joiner: PlaceId, answer: Inserted) -> None:
        self._desk.send(joiner[0], answer)
        patience = Patience(self._desk.config.rpc_ms, ANSWERS_MS)
        patience.begin(now_ms)
        self._kept[joiner] = now_ms, patience, answer
        if len(self._kept) > ANSWERS_MAX:
            del self._kept[next(iter(self._kept))]

    def heard(self, joiner: PlaceId) -> bool:
        """A place is heard of. Returns whether that is a joiner that has got its answer now."""
        return self._kept.pop(joiner, None) is not None

    def send_again(self, now_ms: int) -> None:
        for id_, (at_ms, patience, answer) in list(self._kept.items()):
            if now_ms - at_ms >= ANSWERS_MS:
                del self._kept[id_]
            elif patience.is_over(now_ms):
                patience.begin(now_ms)
                self._desk.send(id_[0], answer)
