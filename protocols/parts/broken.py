"""Connections that have broken: what has come back is sent once more, but not for ever.

A reset must not cost the time that somebody waits for an answer, so what comes back is sent again, or another way, for
as long as that (`rpc_ms`) after the connection has first broken. Then it is let go. A host that is cut off would bring
everything back again and again until it is called dead, and for ever if nobody watches it, and a full queue at once;
and whoever waits for an answer asks again by itself.

One that is heard from has a connection again, and one whose messages have not come back for long is taken to have.
"""

from typing import Final

from protocols.model.ids import Address

BROKEN_MAX: Final = 256
"""Participants of which it is remembered. A guess."""
AGAIN_MAX: Final = 256
"""Messages that are sent again to one of them. A guess: more than a queue holds of control messages."""
FORGET_MS: Final = 30_000
"""Three times as long as it takes to give an unreachable connection up."""


class _Break:
    __slots__ = ("count", "first_ms", "last_ms")

    def __init__(self, now_ms: int) -> None:
        self.first_ms = self.last_ms = now_ms
        self.count = 0


class Broken:
    __slots__ = ("_breaks", "_patience_ms")

    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._breaks: dict[Address, _Break] = {}

    def heard(self, address: Address) -> None:
        """It has a connection."""
        if self._breaks:
            self._breaks.pop(address, None)

    def returned(self, now_ms: int, address: Address) -> int:
        """A message has come back from there. Since when none gets through, in milliseconds."""
        found = self._breaks.get(address)
        if found is None or now_ms - found.last_ms >= FORGET_MS:
            self._breaks.pop(address, None)
            if len(self._breaks) >= BROKEN_MAX:
                del self._breaks[next(iter(self._breaks))]
            found = self._breaks[address] = _Break(now_ms)
        found.last_ms = now_ms
        found.count += 1
        return now_ms - found.first_ms

    def is_worth_it(self, now_ms: int, address: Address) -> bool:
        """Whether what has come back from there is to be sent again."""
        found = self._breaks.get(address)
        if found is None:
            return True
        return now_ms - found.first_ms < self._patience_ms and found.count <= AGAIN_MAX

    def silent(self) -> list[Address]:
        """Whom to go around, where there is another way."""
        return list(self._breaks)
