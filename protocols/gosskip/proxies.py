"""Proxy filters: a publisher that keeps missing is told where nobody listens (paper, section 3.4).

The home of an event that nobody wants sees, by its own knowledge alone, that nobody stands and no range reaches between
the event and the next place. After a few such events from one publisher it says so (`Proxy`), and for `proxy_ms` the
publisher keeps to itself what falls into that gap.

No event that is owed may be lost to it. So the home remembers who holds what it has given (*leases*). When somebody is
to stand in its part of the list, or a range comes to reach there, the holders are told to drop everything (`Revoke`)
and to say so to the newcomer (`Revoked`); the newcomer is told how many there are and how long a filter can last at the
most, and is not active before all have answered or that time is over. So is the next newcomer, for as long: the word to
the former one's holders may still be on its way. A lease ends `proxy_ms` after the *publication* of the event that
earned it, by the publisher's own clock: however late the filter comes, it does not outlast what the home reckons with.

A place that goes tells its left neighbour, which then stands in for it, how long its filters may still be held; and so
that a crash cannot make them forgotten, that one is told beforehand (`Beyond.leased_ms`).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import Proxy, Revoke, Revoked
from protocols.gosskip.order import Key, Spot, is_raster
from protocols.model.descriptor import Descriptor
from protocols.model.event import Event
from protocols.model.ids import Address, EventId

HOLDERS_MAX: Final = 64
"""Publishers that are counted, and those that hold filters of one place. A guess; the others just go on publishing."""
CALLED_MS: Final = 2_000
"""After so long the left neighbour need not reckon any more with those who were told to drop their filters. A guess:
twenty times a latency."""
FILTERS_MAX: Final = 256
"""Filters that a publisher holds, and publications that it remembers to date them by. A guess."""


class Leases:
    """What one place has given to publishers."""

    __slots__ = ("_called_ms", "_desk", "_holders", "_misses", "_until_ms")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._misses: dict[Address, tuple[int, int]] = {}  # publisher -> how many events nobody wanted, since when
        self._holders: dict[Address, int] = {}  # until when
        self._called_ms: dict[Address, int] = {}  # holders that were told to drop everything -> when
        self._until_ms = 0  # until when there may be holders whom this place does not know

    def missed(self, now_ms: int, publisher: Address) -> bool:
        """Nobody wants an event of that publisher. Returns whether it has earned a filter."""
        config = self._desk.config
        if not config.proxy_after:
            return False
        self._expire(now_ms)
        count, since_ms = self._misses.get(publisher, (0, now_ms))
        if now_ms - since_ms >= config.proxy_ms:
            count, since_ms = 0, now_ms
        if publisher not in self._misses and len(self._misses) >= HOLDERS_MAX:
            del self._misses[next(iter(self._misses))]
        self._misses[publisher] = count + 1, since_ms
        if count + 1 < config.proxy_after:
            return False
        if publisher not in self._holders and len(self._holders) >= HOLDERS_MAX:
            return False
        self._holders[publisher] = now_ms + config.proxy_ms
        self._called_ms.pop(publisher, None)
        return True

    def leased_ms(self, now_ms: int) -> int:
        """How long filters of this place may still be held, as far as those who stand in for it have to know."""
        called = [holder for holder, called_ms in self._called_ms.items() if now_ms - called_ms >= CALLED_MS]
        return self._longest_ms(now_ms, [until for holder, until in self._holders.items() if holder not in called])

    def _longest_ms(self, now_ms: int, until_ms: Iterable[int]) -> int:
        return max(0, max([self._until_ms, *until_ms]) - now_ms)

    def inherit(self, now_ms: int, leased_ms: int) -> None:
        """Filters of another place, whose part this one takes over, may be held for so long."""
        self._until_ms = max(self._until_ms, now_ms + min(leased_ms, self._desk.config.proxy_ms))

    def revoke(self, now_ms: int, owner: Descriptor, req: int) -> tuple[int, int]:
        """Call all filters back, for the sake of `owner`. Returns how long it must wait if not all of them answer, and
        how many will. With the request 0 nobody answers, and whoever comes next has to wait that time."""
        self._expire(now_ms)
        wait_ms = self._longest_ms(now_ms, self._holders.values())
        told = list(self._holders)
        for holder in told:
            self._desk.send(holder, Revoke(owner, req))
        unknown = self._until_ms > now_ms
        if req:
            self._called_ms = {holder: self._called_ms.get(holder, now_ms) for holder in told}
        else:
            self._until_ms = max(self._until_ms, now_ms + wait_ms)
            self._holders.clear()
            self._called_ms.clear()
        self._misses.clear()
        return wait_ms, len(told) + unknown  # of those that nobody knows none will answer

    def _expire(self, now_ms: int) -> None:
        for holder in [holder for holder, until_ms in self._holders.items() if until_ms <= now_ms]:
            del self._holders[holder]
            self._called_ms.pop(holder, None)


class _Filter(msgspec.Struct, frozen=True):
    giver: Address
    lo: Key
    hi: Key
    until_ms: int


class Filters:
    """What one participant has been given as a publisher."""

    __slots__ = ("_desk", "_filters", "_published")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._filters: list[_Filter] = []
        self._published: dict[EventId, tuple[int, Event]] = {}

    def published(self, now_ms: int, event: Event) -> None:
        """An event goes out: remember when, for filters that it may earn."""
        if not self._desk.config.proxy_after:
            return
        if len(self._published) >= FILTERS_MAX:
            del self._published[next(iter(self._published))]
        self._published[event.id] = now_ms, event

    def hold(self, now_ms: int, key: Key) -> bool:
        """Whether nobody wants what falls there."""
        if not self._filters:
            return False
        self._filters = [each for each in self._filters if each.until_ms > now_ms]
        return any(each.lo <= key < each.hi for each in self._filters)

    def on_proxy(self, now_ms: int, sender: Address, message: Proxy) -> None:
        published = self._published.get(message.event_id)
        dictionary = self._desk.dictionary
        if published is None or len(self._filters) >= FILTERS_MAX:
            return
        if is_raster(message.list) or not dictionary.is_number(message.list):
            return
        at_ms, event = published
        lo = dictionary.event_key(message.list, event.point)
        beyond: Spot | None = None if message.next is None else dictionary.spot(message.next)
        hi: Key = (message.list + 1,) if beyond is None or beyond.list != message.list else beyond.key
        self._filters.append(_Filter(sender, lo, hi, at_ms + self._desk.config.proxy_ms))

    def on_revoke(self, sender: Address, message: Revoke) -> None:
        self._filters = [each for each in self._filters if each.giver != sender]
        if message.req:
            self._desk.send(message.owner.address, Revoked(message.owner.version, message.req))
