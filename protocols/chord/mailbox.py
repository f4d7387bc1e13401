"""A node's outbox that keeps what the node sends to itself: it may be the owner of its own keys."""

from collections import deque

from protocols.model.ids import Address
from protocols.overlay import Message, Outbox


class Mailbox(Outbox):
    """`own` is handled in the same step."""

    __slots__ = ("_me", "own")

    def __init__(self, me: Address) -> None:
        super().__init__(me.slot)
        self._me = me
        self.own: deque[Message] = deque()

    def send(self, to: Address, message: Message) -> None:
        if to == self._me:
            self.own.append(message)
        else:
            super().send(to, message)
