"""The publisher's side: which subscriptions an event satisfies, and sending it to them (paper, section 3.2).

The publisher asks, for every key of the event, the node that answers for it (`Match`); the answer names subscription
ids. Questions about keys that share a way travel together, and what is remembered (`Locations`) is asked directly. Only
the point of the event is sent along, so nobody gets an event that it has not asked for.

- `rendezvous`: whatever is named is a match, and gets the event at once.
- `parallel`, the paper's: an id is a match if it was found in as many lists as it is in (c3).
- `chain`: one question visits all keys in turn and carries along what can still be a match.

The event then goes to the access nodes, straight (`delivery = "direct"`), or by a lookup of c1 (`"home"`, the paper's):
the home node knows the subscription's metadata, compares the whole box, and tells the subscriber. The home node is the
access node itself, as long as that lives.

**Nothing is lost**: the publisher keeps an event until all its questions are answered, and asks again every `rpc_ms`.
By the rules of `storage` one node answers for each key, and it has every row that was active when the event was
published. An event whose questions are not answered within its life is dropped, and that is said.
"""

from functools import partial
from typing import Final

from protocols.chord.config import ChordConfig
from protocols.chord.fingers import Fingers, Locations
from protocols.chord.ids import Circle
from protocols.chord.lookup import Answer, Lookups
from protocols.chord.messages import FOUND_MAX, HOPS_MAX, KEYS_MAX, Chain, Found, Match, Matched
from protocols.chord.ring import Ring
from protocols.chord.rows import RowTable
from protocols.model.event import Copy, Event
from protocols.model.ids import Address, EventId
from protocols.overlay import Dropped, Outbox, Rejected

MATCHES_MAX: Final = 262_144
"""Subscriptions that one event may match; an answer with more is not taken. A guess: 25 times 10,000."""


class _Publication:
    """An event whose questions are not all answered."""

    __slots__ = ("asked_ms", "chained", "copy", "found", "hops", "keys", "lists", "notified", "since_ms", "tries")

    def __init__(self, copy: Copy, keys: dict[int, None], now_ms: int, chained: bool) -> None:
        self.copy = copy
        self.keys = keys
        self.since_ms = self.asked_ms = now_ms
        self.found: dict[tuple[Address, int], dict[int, None]] = {}
        self.lists: dict[tuple[Address, int], int] = {}
        self.notified: dict[Address, None] = {}
        self.tries = 0
        self.hops = 0
        self.chained = chained  # one question for all keys is under way


class Matches:
    """What a publication has come to: its copy, and the access nodes and numbers to be told."""

    __slots__ = ("copy", "hops", "subscribers")

    def __init__(self, copy: Copy, hops: int, subscribers: list[tuple[Address, tuple[int, ...]]]) -> None:
        self.copy = copy
        self.hops = hops
        self.subscribers = subscribers


class Publications:
    __slots__ = (
        "_circle",
        "_config",
        "_fingers",
        "_locations",
        "_lookups",
        "_open",
        "_out",
        "_ring",
        "_rows",
    )

    def __init__(
        self,
        ring: Ring,
        fingers: Fingers,
        locations: Locations,
        lookups: Lookups,
        rows: RowTable,
        config: ChordConfig,
        circle: Circle,
        out: Outbox,
    ) -> None:
        self._ring = ring
        self._fingers = fingers
        self._locations = locations
        self._lookups = lookups
        self._rows = rows
        self._config = config
        self._circle = circle
        self._out = out
        self._open: dict[EventId, _Publication] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        return len(self._open) >= self._config.publications_max

    # --- asking -------------------------------------------------------------------------------------------------------

    def publish(self, now_ms: int, event: Event, keys: list[int]) -> Matches | None:
        """Begin to match an event; what is matched at once is returned."""
        chained = self._config.matching == "chain"
        publication = self._open[event.id] = _Publication(Copy(event), dict.fromkeys(keys), now_ms, chained)
        return self._ask(now_ms, publication)

    def _ask(self, now_ms: int, publication: _Publication) -> Matches | None:
        """Ask what is open: here, and elsewhere."""
        if publication.chained:
            return self._begin_chain(now_ms, publication)
        mine = [key for key in publication.keys if self._ring.answers_for(key)]
        matches = None
        if mine:
            found = self._rows.match(publication.copy.event.point, self._config.matching != "rendezvous")
            matches = self._take(publication, mine, found, 0)
        self._ask_others(now_ms, publication)
        return matches

    def _ask_others(self, now_ms: int, publication: _Publication) -> None:
        """Send the questions that are open, those to one node in one message."""
        event = publication.copy.event
        onward: dict[Address, list[bytes]] = {}
        for key in publication.keys:
            to = None if publication.tries else self._locations.owner(key)
            if to is None and self._config.lookup == "iterative":
                self._lookups.begin(now_ms, key, partial(self._ask_owner, event.id, key))
                continue
            to = to or self._fingers.next_hop(key)
            if to is not None:
                onward.setdefault(to, []).append(self._circle.encode(key))
        for to, keys in onward.items():
            for start in range(0, len(keys), KEYS_MAX):
                part = tuple(keys[start : start + KEYS_MAX])
                self._out.send(to, Match(event.id, event.point, part, self._ring.me, 1))

    def _ask_owner(self, event_id: EventId, key: int, now_ms: int, answer: Answer) -> None:
        """An iterative lookup has found who answers for a key; if it has not, that is asked again anyway."""
        publication = self._open.get(event_id)
        if publication is not None and answer.owner is not None and key in publication.keys:
            point, hops = publication.copy.event.point, min(answer.hops + 1, HOPS_MAX)
            self._out.send(answer.owner, Match(event_id, point, (self._circle.encode(key),), self._ring.me, hops))

    def _begin_chain(self, now_ms: int, publication: _Publication) -> Matches | None:
        event = publication.copy.event
        keys = tuple([self._circle.encode(key) for key in publication.keys])[:KEYS_MAX]
        return self.on_chain(now_ms, self._ring.me, Chain(event.id, event.point, keys, (), self._ring.me))

    def again(self, now_ms: int) -> list[Matches]:
        """Ask again what was not answered in time; give up what has outlived its event."""
        done: list[Matches] = []
        late_ms = now_ms - self._config.rpc_ms
        for id_, publication in list(self._open.items()):
            if now_ms - publication.since_ms >= publication.copy.event.ttl_ms:
                del self._open[id_]
                self._out.report(Dropped(id_, "unanswered"))
            elif publication.asked_ms <= late_ms:
                publication.asked_ms = now_ms
                publication.tries += 1
                self._doubt(publication)
                matches = self._ask(now_ms, publication)
                if matches is not None:
                    done.append(matches)
        return done

    def _doubt(self, publication: _Publication) -> None:
        """Whoever we remember to answer for these keys has not: forget it, or every further event would wait for it."""
        for key in publication.keys:
            owner = self._locations.owner(key)
            if owner is not None:
                self._locations.forget(owner)

    # --- answering ----------------------------------------------------------------------------------------------------

    def on_match(self, now_ms: int, sender: Address, message: Match) -> None:
        """Answer for the keys that are ours, and pass the others on."""
        ring = self._ring
        onward: dict[Address, list[bytes]] = {}
        mine: list[bytes] = []
        for raw in message.keys:
            key = self._circle.decode(raw)
            if ring.answers_for(key):
                mine.append(raw)
            elif (to := self._fingers.next_hop(key)) is not None:
                onward.setdefault(to, []).append(raw)
        if mine and ring.low is not None:
            found = self._rows.match(message.point, self._config.matching != "rendezvous")
            low = self._circle.encode(ring.low)
            while len(found) > FOUND_MAX:
                part, found = found[:FOUND_MAX], found[FOUND_MAX:]
                self._out.send(message.origin, Matched(message.event_id, (), low, tuple(part), message.hops))
            self._out.send(message.origin, Matched(message.event_id, tuple(mine), low, tuple(found), message.hops))
        if message.hops < HOPS_MAX:
            for to, keys in onward.items():
                onwards = Match(message.event_id, message.point, tuple(keys), message.origin, message.hops + 1)
                self._out.send(to, onwards)

    def on_chain(self, now_ms: int, sender: Address, message: Chain) -> Matches | None:
        """Add what is found here to what was found before; go on to the next key, or back to the publisher."""
        ring, keys, found = self._ring, message.keys, message.found
        while keys and ring.answers_for(self._circle.decode(keys[0])):
            keys = keys[1:]
            found = _merged(found, self._rows.match(message.point, True), len(keys))
        overflow = len(found) > FOUND_MAX
        if not keys or overflow:
            matched = Matched(message.event_id, (), b"", () if overflow else found, message.hops, overflow)
            if message.origin == ring.me:
                return self.on_matched(now_ms, ring.me, matched)
            self._out.send(message.origin, matched)
        elif (to := self._fingers.next_hop(self._circle.decode(keys[0]))) is not None and message.hops < HOPS_MAX:
            onward = Chain(message.event_id, message.point, keys, found, message.origin, message.hops + 1)
            self._out.send(to, onward)
        return None

    def on_matched(self, now_ms: int, sender: Address, message: Matched) -> Matches | None:
        """An answer; returns who is to be told now."""
        if message.low and sender != self._ring.me:
            self._locations.learn(sender, self._circle.decode(message.low))
        publication = self._open.get(message.event_id)
        if publication is None:
            return None
        if message.overflow and publication.chained:
            publication.chained = False
            return self._ask(now_ms, publication)
        if publication.chained and not message.keys:
            keys = list(publication.keys)  # one answer for all of them
        else:
            keys = [self._circle.decode(key) for key in message.keys]
        if len(publication.found) + len(publication.notified) + len(message.found) > MATCHES_MAX:
            self._out.report(Rejected(sender, "more matches than there can be"))
            return None
        return self._take(publication, keys, list(message.found), message.hops)

    def _take(self, publication: _Publication, keys: list[int], found: list[Found], hops: int) -> Matches | None:
        for key in keys:
            publication.keys.pop(key, None)
        publication.hops = max(publication.hops, hops)
        done = not publication.keys
        subscribers: list[tuple[Address, tuple[int, ...]]] = []
        if self._config.matching == "rendezvous":
            for each in found:
                if each.access not in publication.notified:
                    publication.notified[each.access] = None
                    subscribers.append((each.access, (each.number,)))
        else:
            for each in found:
                name = (each.access, each.number)
                publication.found.setdefault(name, {}).update(dict.fromkeys(each.seen))
                publication.lists[name] = each.lists
            subscribers = self._counted(publication) if done else []
        if done:
            self._open.pop(publication.copy.event.id, None)
        return Matches(publication.copy, publication.hops, subscribers) if subscribers else None

    def _counted(self, publication: _Publication) -> list[tuple[Address, tuple[int, ...]]]:
        """The ids that were found in as many lists as they are in (paper, section 3.2), by access node."""
        numbers: dict[Address, list[int]] = {}
        for (access, number), seen in publication.found.items():
            if len(seen) == publication.lists[access, number]:
                numbers.setdefault(access, []).append(number)
        return [(access, tuple(each[:FOUND_MAX])) for access, each in numbers.items()]


def _merged(found: tuple[Found, ...], more: list[Found], keys_left: int) -> tuple[Found, ...]:
    """The union, without those that are in more lists than can still be found."""
    seen: dict[tuple[Address, int], dict[int, None]] = {}
    lists: dict[tuple[Address, int], int] = {}
    for each in (*found, *more):
        name = (each.access, each.number)
        seen.setdefault(name, {}).update(dict.fromkeys(each.seen))
        lists[name] = each.lists
    possible = [name for name in seen if len(seen[name]) + keys_left >= lists[name]]
    return tuple(
        [Found(access, number, lists[access, number], tuple(seen[access, number])) for access, number in possible]
    )
