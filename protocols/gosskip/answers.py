"""What a place has answered to those that it let stand beside it.

From the moment a place inserts a joiner, the chain goes through the joiner; if the answer is lost, the chain ends there
until it comes. So it is kept, and sent again until the joiner is heard of.
"""

from typing import Final

from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import Inserted
from protocols.gosskip.order import PlaceId

ANSWERS_MAX: Final = 64
"""Joiners whose answers are kept. A guess: more than join behind one place within a round trip."""
ANSWERS_MS: Final = 30_000
"""How long a joiner is answered again; then liveness has long said that it is dead. A guess."""


class Answers:
    """To joiners that have not been heard of since."""

    __slots__ = ("_desk", "_kept")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._kept: dict[PlaceId, tuple[int, Inserted]] = {}

    def send(self, now_ms: int, joiner: PlaceId, answer: Inserted) -> None:
        self._desk.send(joiner[0], answer)
        self._kept[joiner] = now_ms, answer
        if len(self._kept) > ANSWERS_MAX:
            del self._kept[next(iter(self._kept))]

    def heard(self, joiner: PlaceId) -> None:
        """It has got its answer."""
        self._kept.pop(joiner, None)

    def send_again(self, now_ms: int) -> None:
        for id_, (at_ms, answer) in list(self._kept.items()):
            if now_ms - at_ms >= ANSWERS_MS:
                del self._kept[id_]
            elif now_ms - at_ms >= self._desk.config.rpc_ms:
                self._desk.send(id_[0], answer)
