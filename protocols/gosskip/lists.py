"""Which lists are active, and how everyone gets to know it.

An event is routed into every list in which somebody stands, and to every raster of a list in which a broad range is
kept (`cells`), which is announced and forgotten like a list. A participant that publishes must therefore know each of
them, or the event is lost to all in it; to know one too many costs a copy that lands beside nobody who wants it.

**A list begins** with a place whose left neighbour stands in another one. Before it is active it announces its list to
everyone: the `Announce` goes to the head of the chain, from where it is spread along the links to the right. Who has to
tell all up to a bound gives each of its links the part up to the next one, and echoes when they have. The nearest link
is the right neighbour, so no place is left out; one that joins meanwhile copies what its left neighbour knows. If an
echo is lost with a place that left, the origin announces again, ever more seldom; whichever of its announcements comes
back, however late, everyone knows.

That everyone knows is true of the list, not of the place that has announced it. So whoever joins behind a place of the
list that knows it is told so; and all others but the first place of the list ask (`Announce`) their left neighbour,
which answers as soon as it knows. The first one asks its right neighbour, before it announces: it may just have come
before one that knows.

**A list ends** by itself. Its first place refreshes it as long as it stands; gossip carries for every list how long ago
that was, and what was not refreshed for long is forgotten. A list that gossip brings and that was not known before (the
other half of a partition had it) is passed on at once.
"""

from collections.abc import Callable
from typing import Final, TypeGuard

from msgspec.structs import replace

from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import ANY, LISTS_MAX, Ages, Announce, Echo, Spread
from protocols.gosskip.order import NOWHERE, PlaceId, Spot
from protocols.gosskip.patience import Patience
from protocols.gosskip.routing import Table
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address

SPREADS_MAX: Final = 64
"""Announcements under way at one place. A guess: a swarm has few lists, and each begins once."""
ANNOUNCE_MS: Final = 3_000
"""After that an announcement is made again. A guess: tens of hops."""
ANNOUNCE_MS_MAX: Final = 24_000
"""At the most. A guess."""
REQUESTS_MAX: Final = 8
"""Announcements whose echo is waited for: two minutes' worth."""
PART_MS: Final = 120_000
"""How long who has not echoed is told again, unless it is lost: as long as the origin waits. That it announces again is
no sign that somebody is gone, where messages take seconds."""
SPREAD_MS_MAX: Final = 16_000
"""After so long at the most it is told again. A guess: as long as a host may stand still."""
ASKED_MAX: Final = 64
"""Neighbours that have asked, and are answered when it is known. A guess: each place has two, which may be others
after a while."""

RECALL_MS: Final = 60_000
"""For so long gossip tells of a recall. A guess: as long as a swarm may take to mend itself."""
RECALL_GAP_MS: Final = 5_000
"""What is recalled twice within this time is recalled once, and then stored again a second time, since it may have been
stored between the two. A guess: several times what the word of it takes."""

HEAD: Final[PlaceId] = (Address("", 0, 0, ""), 0)
"""On whose behalf the head spreads."""


class Lists:
    """The active lists, as far as one participant knows; and when ranges were last recalled (`keepers`)."""

    __slots__ = ("_desk", "_fresh_ms", "active", "recalled_ms")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._fresh_ms: dict[int, int] = {}
        self.active: tuple[int, ...] = ()
        self.recalled_ms = -RECALL_MS

    def learn(self, now_ms: int, ages: Ages) -> bool:
        """What another place knows. Returns whether a list is new."""
        news = False
        keep_ms = self._desk.config.lists_keep_ms
        for number, age_ms in ages:
            if age_ms < keep_ms and self._desk.dictionary.is_number(number):
                known = self._fresh_ms.get(number)
                if known is None and len(self._fresh_ms) < LISTS_MAX:
                    news = True
                    self._fresh_ms[number] = now_ms - age_ms
                elif known is not None and now_ms - age_ms > known:
                    self._fresh_ms[number] = now_ms - age_ms
        if news:
            self.active = tuple(sorted(self._fresh_ms))
        return news

    def expire(self, now_ms: int) -> None:
        keep_ms = self._desk.config.lists_keep_ms
        gone = [number for number, fresh_ms in self._fresh_ms.items() if now_ms - fresh_ms >= keep_ms]
        for number in gone:
            del self._fresh_ms[number]
        if gone:
            self.active = tuple(sorted(self._fresh_ms))

    def recall(self, now_ms: int, age_ms: int = 0) -> bool:
        """Entries of broad ranges are lost somewhere: all are to be stored again. Returns whether that is news."""
        if now_ms - age_ms < self.recalled_ms + RECALL_GAP_MS:
            return False
        self.recalled_ms = now_ms - age_ms
        return True

    def is_recalled(self, now_ms: int, stored_ms: int) -> bool:
        """Whether what was stored last at that time is to be stored again."""
        until_ms = self.recalled_ms + RECALL_GAP_MS
        return stored_ms < self.recalled_ms or stored_ms < until_ms <= now_ms

    def recall_age_ms(self, now_ms: int) -> int:
        """How long ago the last one was; `ANY`: too long."""
        age_ms = now_ms - self.recalled_ms
        return age_ms if age_ms < RECALL_MS else ANY

    def ages(self, now_ms: int) -> Ages:
        return tuple([(number, now_ms - fresh_ms) for number, fresh_ms in self._fresh_ms.items()])


class _Part:
    """What this place has to tell: on whose behalf, and who has not echoed yet. Nobody left: it has echoed itself."""

    __slots__ = ("begun_ms", "left", "parent", "patience")

    def __init__(self, parent: PlaceId, left: dict[PlaceId, tuple[Spot, Spread]], now_ms: int, rpc_ms: int) -> None:
        self.parent = parent
        self.left = left
        self.begun_ms = now_ms
        self.patience = Patience(rpc_ms, SPREAD_MS_MAX)
        self.patience.begin(now_ms)


class Announcements:
    """One place's part in announcing lists: its own, and those of others that pass through it."""

    __slots__ = ("_asked", "_desk", "_lists", "_me", "_parts", "_patience", "_reqs", "_table", "done")

    def __init__(self, desk: Desk, lists: Lists, me: Spot, table: Table) -> None:
        self._desk = desk
        self._lists = lists
        self._me = me
        self._table = table
        self._parts: dict[tuple[Address, int], _Part] = {}
        self._asked: dict[tuple[Address, int], Announce] = {}  # by neighbours in the same list
        self._reqs: list[int] = []
        self._patience = Patience(ANNOUNCE_MS, ANNOUNCE_MS_MAX)
        self.done = me.list == NOWHERE
        """Whether everyone knows the list in which this place stands."""

    def begin(self, now_ms: int, left: Spot | None, right: Spot | None) -> None:
        """See to it that everyone knows this place's list, for the first time or again."""
        if self.done or not self._patience.is_over(now_ms):
            return
        self._patience.begin(now_ms)
        self._lists.learn(now_ms, ((self._me.number, 0),))
        self._reqs = [*self._reqs[1 - REQUESTS_MAX :], self._desk.new_request()]
        message = Announce(ANY, self._me.number, self._me.descriptor, self._reqs[-1])
        if self._is_of_list(left):
            self._ask(left, message)
        elif len(self._reqs) == 1 and self._is_of_list(right):
            self._ask(right, message)
        else:
            self._announce(now_ms, message)

    def another_left(self, left: Spot | None, former: Spot | None) -> None:
        """There is another left neighbour, or none: who was asked may be gone."""
        if self.done or not self._reqs:
            return
        if self._is_of_list(left):
            self._ask(left, Announce(ANY, self._me.number, self._me.descriptor, self._reqs[-1]))
        elif self._is_of_list(former):
            self._patience.end()  # now this is the first place of the list

    def _is_of_list(self, spot: Spot | None) -> TypeGuard[Spot]:
        return spot is not None and spot.number == self._me.number

    def _ask(self, neighbour: Spot, message: Announce) -> None:
        self._desk.send(neighbour.address, replace(message, at=neighbour.version))

    def on_announce(self, now_ms: int, message: Announce) -> None:
        """Towards the head, unless it is this place that has to know."""
        if message.list != self._me.number:
            self._announce(now_ms, message)
        elif self.done:
            self._tell(message)
        elif len(self._asked) < ASKED_MAX:
            self._asked[message.origin.address, message.req] = message

    def know(self) -> None:
        """Everyone knows this place's list."""
        self.done = True
        asked, self._asked = self._asked, {}
        for message in asked.values():
            self._tell(message)

    def _tell(self, message: Announce) -> None:
        """Tell whoever has asked, or announced, that everyone knows."""
        origin = message.origin
        self._desk.send(origin.address, Echo(origin.version, ANY, origin, message.req))

    def _announce(self, now_ms: int, message: Announce) -> None:
        """Towards the head; the head begins to spread."""
        to = self._table.leftmost()
        if to is not None:
            if message.hops < self._desk.config.hops_max:
                self._desk.send(to.address, replace(message, at=to.version, hops=message.hops + 1))
            return
        origin = message.origin
        self._spread(now_ms, message.list, origin, message.req, HEAD, None)

    def on_spread(self, now_ms: int, sender: Address, message: Spread) -> None:
        parent = (sender, message.sender_at)
        self._spread(now_ms, message.list, message.origin, message.req, parent, message.bound)

    def _spread(
        self,
        now_ms: int,
        number: int,
        origin: Descriptor,
        req: int,
        parent: PlaceId,
        bound: Descriptor | None,
    ) -> None:
        self._lists.learn(now_ms, ((number, 0),))
        name = origin.address, req
        known = self._parts.get(name)
        if known is not None and known.parent == parent:
            self._echo(origin, req)  # the former one was lost, if there was one
            return
        end = None if bound is None else self._desk.dictionary.spot(bound).key
        parts = [spot for spot in self._table.rights if end is None or spot.key < end]
        bounds = [*[spot.descriptor for spot in parts[1:]], bound]
        left = {
            spot.id: (spot, Spread(spot.version, number, origin, req, self._me.version, until))
            for spot, until in zip(parts, bounds)
        }
        if len(self._parts) >= SPREADS_MAX:
            del self._parts[next(iter(self._parts))]
        self._parts[name] = _Part(parent, left, now_ms, self._desk.config.rpc_ms)
        self._send(self._parts[name])
        self._echo(origin, req)

    def _send(self, part: _Part) -> None:
        for spot, message in part.left.values():
            self._desk.send(spot.address, message)

    def spread_again(self, now_ms: int) -> None:
        """Once a period: tell those again who have not echoed for long; messages are lost now and then."""
        for name in [name for name, part in self._parts.items() if now_ms - part.begun_ms >= PART_MS]:
            del self._parts[name]
        for part in self._parts.values():
            if part.left and part.patience.is_over(now_ms):
                part.patience.begin(now_ms)
                self._send(part)

    def lost(self, is_gone: Callable[[Spot], bool]) -> None:
        """Some places are gone: what they had to echo never comes back, and its origin announces again."""
        for name, part in list(self._parts.items()):
            if any(is_gone(spot) for spot, _ in part.left.values()):
                del self._parts[name]

    def on_echo(self, sender: Address, message: Echo) -> bool:
        """Returns whether everyone knows this place's list now."""
        if message.sender_at == ANY:
            if self.done or message.req not in self._reqs or message.origin.address != self._me.address:
                return False
            self.know()
            return True
        part = self._parts.get((message.origin.address, message.req))
        if part is not None and part.left.pop((sender, message.sender_at), None) is not None:
            self._echo(message.origin, message.req)
        return False

    def _echo(self, origin: Descriptor, req: int) -> None:
        """Say so when nobody is left to be told: to whom it was asked by, or as the head to the origin."""
        part = self._parts[origin.address, req]
        if not part.left:
            address, at = part.parent
            if (address, at) == HEAD:
                self._desk.send(origin.address, Echo(origin.version, ANY, origin, req))
            else:
                self._desk.send(address, Echo(at, self._me.version, origin, req))
