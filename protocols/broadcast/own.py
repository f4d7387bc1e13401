"""What all parts of a participant share: who it is, how far it has come, its box, and where its effects go."""

from random import Random
from typing import Final

from protocols.broadcast.config import BroadcastConfig
from protocols.model.box import EMPTY, Box
from protocols.model.ids import Address
from protocols.overlay import OWN_BOX, Joined, Left, Outbox

NEW: Final = "new"
JOINING: Final = "joining"
STANDING: Final = "standing"
LEAVING: Final = "leaving"
LEFT: Final = "left"


class Own:
    __slots__ = ("box", "config", "me", "out", "rng", "state", "version")

    def __init__(self, me: Address, config: BroadcastConfig, rng: Random) -> None:
        self.me = me
        self.config = config
        self.rng = rng
        self.out = Outbox(me.slot)
        self.state = NEW
        self.box: Box = EMPTY
        self.version = 0

    def stand(self) -> None:
        self.state = STANDING
        self.out.report(Joined())
        self.out.active(OWN_BOX, self.version)

    def leave(self) -> None:
        """This is the end: no timer may fire after it."""
        self.state = LEFT
        for key in ("rotate", "repair", "seek", "linger"):
            self.out.cancel(key)
        self.out.report(Left())

    def jittered(self, now_ms: int, period_ms: int) -> int:
        return now_ms + int(period_ms * self.rng.uniform(0.9, 1.1))
