"""What becomes of messages that cannot be sent, and who is told.

The receiver hears of it in the next turn of the event loop, never at once: whoever sends is in the middle of performing
effects, and whoever finds a connection broken is in the middle of mending its tables. Once the network is closed nobody
can act on a message that comes back any more; then only events are spoken of, since none is lost in silence.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from peerd.net.greeting import Greeting, Refusal
from peerd.net.lanes import Entry, Remote
from peerd.wire import Frame
from protocols.model.ids import Address
from protocols.overlay import Message


class Receiver(Protocol):
    """Who runs the peer. All of these are called from the event loop, none of them from within `Network.send`."""

    def received(self, sender: Address, slot: int, message: Message, size: int) -> None:
        """A message of this peer's own for the participant in `slot`, in a frame of `size` bytes."""

    def arrived(self, frames: Iterator[Frame], senders: Mapping[int, Address]) -> None:
        """All that one read has brought, and the senders by their slots. Whoever raises is given the rest again."""

    def undelivered(self, slot: int, to: Address, message: Message, refused: bool) -> None:
        """A message of the participant in `slot` surely or possibly did not arrive; `refused`: that life is over."""

    def dropped(self, to: Address, message: Message, reason: str) -> None:
        """A copy of an event goes no further: "link-full" or "closed"."""

    def rejected(self, sender: Address | None, at: str, reason: str) -> None:
        """A bad frame, or a connection that did not become one. `sender` is known after the handshake."""

    def accepts(self, greeting: Greeting) -> Refusal | None:
        """Why not to talk to this peer: swarm, overlay, parameters, schema. The wire's version has been checked."""

    def greeted(self, greeting: Greeting) -> None:
        """A connection has come up, dialled by either side: the schema's version may be news."""


class News:
    def __init__(self, loop: asyncio.AbstractEventLoop, receiver: Receiver) -> None:
        self.receiver = receiver
        self.closed = False
        """Nobody can act on what comes back any more."""
        self.undelivered = 0
        self.dropped: Counter[str] = Counter()
        self._loop = loop
        self._later: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def later(self, function: Callable[..., None], *args: Any) -> None:
        if not self._later:
            self._loop.call_soon(self.tell)
        self._later.append((function, args))

    def tell(self) -> None:
        """Say what there is to say."""
        later, self._later = self._later, []
        for function, args in later:
            try:
                function(*args)
            except Exception as error:  # a fault of the receiver's must not keep the others from being told
                context = {"message": "news from the network were not handled", "exception": error}
                self._loop.call_exception_handler(context)

    def returned(self, remote: Remote, entries: Iterable[Entry], refused: bool) -> None:
        """Give back what waited for a remote."""
        for entry in entries:
            self.give_back(remote.addressee(entry), (entry,), refused)

    def give_back(self, to: Address, entries: Iterable[Entry], refused: bool) -> None:
        if self.closed:
            self.abandon(to, entries)
            return
        for _, slot, _, message, _ in entries:
            self.undelivered += 1
            self.later(self.receiver.undelivered, slot, to, message, refused)

    def abandon(self, to: Address, entries: Iterable[Entry]) -> None:
        """These could not be sent before the end."""
        for _, _, _, message, tally in entries:
            if tally.is_event:
                self.drop(to, message, "closed")

    def drop(self, to: Address, message: Message, reason: str) -> None:
        self.dropped[reason] += 1
        self.later(self.receiver.dropped, to, message, reason)
