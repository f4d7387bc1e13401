"""What all parts of a participant share: who it is, its parameters, and where its messages go.

A message to another place of the same participant does not leave it: it waits in `local` until the step that caused it
is over.
"""

from collections import deque
from random import Random

from protocols.gosskip.config import GosSkipConfig
from protocols.gosskip.order import Dictionary
from protocols.model.ids import Address
from protocols.overlay import Message, Outbox


class Desk:
    __slots__ = ("changed", "config", "dictionary", "local", "me", "now_ms", "out", "requests", "rng")

    def __init__(self, me: Address, config: GosSkipConfig, dictionary: Dictionary, rng: Random) -> None:
        self.me = me
        self.config = config
        self.dictionary = dictionary
        self.rng = rng
        self.out = Outbox(me.slot)
        self.local: deque[Message] = deque()
        self.changed = False  # something has happened that the participant should look at
        self.now_ms = 0  # of the step that is being made
        self.requests = 0

    def send(self, to: Address, message: Message) -> None:
        if to == self.me:
            self.local.append(message)
        else:
            self.out.send(to, message)

    def new_request(self) -> int:
        """A number that nobody guesses, for an answer to prove that it is one."""
        self.requests += 1
        return (self.requests << 32) + self.rng.getrandbits(32)

    def jittered(self, now_ms: int, period_ms: int) -> int:
        return now_ms + max(1, int(period_ms * self.rng.uniform(0.9, 1.1)))
