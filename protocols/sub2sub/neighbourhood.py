"""Whom a participant knows: its rings, its interest view, samples and claims; and who is gone.

Three kinds of links are kept by gossip (paper, section III):

- *random* links are the peer's own CYCLON; it brings samples of them every cycle;
- *overlapping-interest* links are VICINITY's: participants of the same ring whose spans overlap with ours, and of those
  as many as the view holds, by lot. They serve as shortcuts, so they should be spread evenly over the ring: a lot that
  depends on both ends does that, and is stable. Whoever does not overlap counts by its distance;
- *ring* links are exact (`ring`).
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from random import Random
from typing import Any, Final, TypeAlias

from protocols.model.box import EMPTY, Space, code
from protocols.model.descriptor import Descriptor
from protocols.model.ids import PEER_SLOT, Address
from protocols.parts.vicinity import Vicinity
from protocols.parts.view import ParticipantKey
from protocols.sub2sub.claims import Claims
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.order import Coordinate, Rank, cell, lot, places, rank, span
from protocols.sub2sub.ring import HOPS_MAX, Climb, Ring

GONE_MAX: Final = 512
GONE_MS: Final = 30_000
"""Whoever left or died is not believed in for so long (specification, section 1: tombstones)."""
SAMPLES_MAX: Final = 128
HEARD_MAX: Final = 512
"""Participants of which we remember what they last said of themselves. A guess: many views' worth."""

Shortcut: TypeAlias = tuple[Any, Any, Rank, Address]
Bar: TypeAlias = tuple[int, Any, Any, int, int, dict[ParticipantKey, int]]
"""Place and span that are to overlap, our own lot, the worst that was drawn by a neighbour, and the neighbours'
versions."""


class Neighbourhood:
    __slots__ = (
        "_bar",
        "_config",
        "_heard",
        "_rng",
        "_shortcuts",
        "_ways_above",
        "_ways_within",
        "claims",
        "gone",
        "interest",
        "interest_is_stale",
        "me",
        "own",
        "rings",
        "samples",
        "space",
    )

    def __init__(self, me: Address, config: Sub2SubConfig, space: Space, rng: Random) -> None:
        self.me = me
        self._config = config
        self.space = space
        self._rng = rng
        self.own = Descriptor(me, EMPTY)
        self.rings: dict[int, Ring] = {}
        self.interest = Vicinity(me, closest, rng, capacity=config.view, gossip_length=config.gossip_length)
        self.interest_is_stale = True  # the table of shortcuts has to be made anew
        self._shortcuts: dict[int, list[Shortcut]] = {}
        self._ways_above: dict[tuple[int, Coordinate], list[tuple[Address, Climb | None]]] = {}
        self._ways_within: dict[tuple[int, Coordinate], list[Address]] = {}
        self._bar: Bar | None = None  # None: there is room for anybody
        self.samples: tuple[Descriptor, ...] = ()
        self.claims = Claims(me)
        self.gone: dict[Address, int] = {}
        self._heard: dict[Address, tuple[int, int]] = {}
        """What a participant last said of itself: its version, and up to which higher one that has disproved others."""

    def present(self, own: Descriptor) -> None:
        """Be known by this descriptor from now on."""
        self.own = own
        self.interest_is_stale = True

    # --- What is learned ---

    def learn(self, now_ms: int, descriptors: Iterable[Descriptor]) -> None:
        """Consider participants that somebody else told us of."""
        descriptors = self.alive(descriptors)
        for ring in self.rings.values():
            ring.learn(now_ms, descriptors)

    def heard(self, now_ms: int, own: Descriptor) -> None:
        """A participant speaks for itself."""
        if self.gone:
            self.gone.pop(own.address, None)
        disproved = self._heard.pop(own.address, (0, 0))[1]
        if len(self._heard) >= HEARD_MAX:
            del self._heard[next(iter(self._heard))]
        for ring in self.rings.values():
            known = ring.get((own.address.peer, own.address.slot))
            if known is not None and known.address == own.address:
                disproved = max(disproved, known.descriptor.version)
            ring.heard(now_ms, own)
        if self.interest.correct(own):
            self.interest_is_stale = True
        self._heard[own.address] = (own.version, disproved)

    def forget(self, now_ms: int, address: Address) -> None:
        """This life of a participant is over."""
        if address.slot == PEER_SLOT:
            return
        self.bury(now_ms, address)
        self.interest.forget(address)
        self.interest_is_stale = True
        self.samples = tuple([d for d in self.samples if d.address != address])
        for ring in self.rings.values():
            ring.forget(address)

    def bury(self, now_ms: int, address: Address) -> None:
        if len(self.gone) >= GONE_MAX:
            del self.gone[next(iter(self.gone))]
        self.gone[address] = now_ms + GONE_MS

    def expire(self, now_ms: int) -> None:
        if self.gone:
            self.gone = {address: until for address, until in self.gone.items() if until > now_ms}
        self.claims.expire(now_ms)

    def offer_interest(self, candidates: Iterable[Descriptor]) -> None:
        useful = self.of_interest(self.alive(candidates))
        if useful:
            self.interest.offer(self.own, useful)

    def of_interest(self, candidates: Iterable[Descriptor]) -> list[Descriptor]:
        """Those that the interest view holds or might choose, which it is to be offered next. Most that come by are not
        among them, and looking at them one by one costs far less than choosing anew."""
        if self.interest_is_stale:
            self._look_through()
        bar = self._bar
        if bar is None:
            self.interest_is_stale = True
            return list(candidates)
        place, lo, hi, own_lot, worst, held = bar
        found: list[Descriptor] = []
        for candidate in candidates:
            address = candidate.address
            version = held.get((address.peer, address.slot))
            if version is not None:
                found.append(candidate)
                self.interest_is_stale |= candidate.version != version
            elif drawn(own_lot, address) < worst:
                its = span(candidate, place)
                if its is not None and its[0] < hi and lo < its[1]:
                    found.append(candidate)
                    self.interest_is_stale = True
        return found

    def _look_through(self) -> None:
        """Make the tables that depend on the interest view anew: shortcuts, and who would be better."""
        self.interest_is_stale = False
        self._shortcuts = {}
        self._ways_above = {}
        self._ways_within = {}
        self._bar = None
        mine = places(self.own)
        wanted = span(self.own, mine[0]) if mine else None
        own_lot, worst, overlapping = lot(self.me.peer, self.me.slot), -1, 0
        held: dict[ParticipantKey, int] = {}
        for descriptor in self.interest.neighbours():
            address = descriptor.address
            held[address.peer, address.slot] = descriptor.version
            for at in places(descriptor):
                its = span(descriptor, at)
                if its is None:
                    continue
                self._shortcuts.setdefault(at, []).append((its[0], its[1], rank(descriptor), address))
                if wanted is not None and at == mine[0] and its[0] < wanted[1] and wanted[0] < its[1]:
                    overlapping += 1
                    worst = max(worst, drawn(own_lot, address))
        if wanted is not None and overlapping >= self._config.view:
            self._bar = (mine[0], *wanted, own_lot, worst, held)

    def alive(self, descriptors: Iterable[Descriptor]) -> list[Descriptor]:
        """Without those that are gone, and without what somebody has contradicted by what it said of itself."""
        gone, heard = self.gone, self._heard.get
        found: list[Descriptor] = []
        for descriptor in descriptors:
            said, disproved = heard(descriptor.address, (0, 0))
            version = descriptor.version
            if (version == said or version > max(said, disproved)) and descriptor.address not in gone:
                found.append(descriptor)
        return found

    # --- Who is there ---

    def everyone(self) -> Iterator[Descriptor]:
        """All that are known by a recent word, some perhaps twice."""
        for ring in self.rings.values():
            for candidate in ring.candidates():
                yield candidate.descriptor
        yield from self.interest.neighbours()
        yield from self.samples

    def shortcuts(self, place: int) -> list[Shortcut]:
        """The interest neighbours in the ring of a place, with their spans."""
        if self.interest_is_stale:
            self._look_through()
        return self._shortcuts.get(place, [])

    def ways_above(self, place: int, x: Coordinate) -> list[tuple[Address, Climb | None]]:
        """The interest neighbours above us that match a value, and the higher cells into which they lead."""
        if self.interest_is_stale:
            self._look_through()
        ways = self._ways_above.get((place, x))
        if ways is None:
            mine = rank(self.own)
            ways = [
                (to, (place, x, its[0]) if its[0] > mine[0] else None)
                for lo, hi, its, to in self.shortcuts(place)
                if its > mine and lo <= x < hi
            ]
            if len(self._ways_above) >= HOPS_MAX:
                self._ways_above.clear()
            self._ways_above[place, x] = ways
        return ways

    def ways_within(self, place: int, x: Coordinate) -> list[Address]:
        """The interest neighbours in our own cell that match a value. (Without cells all are in one.)"""
        if self.interest_is_stale:
            self._look_through()
        ways = self._ways_within.get((place, x))
        if ways is None:
            mine = cell(self.own)
            ways = [to for lo, hi, its, to in self.shortcuts(place) if its[0] == mine and lo <= x < hi]
            if len(self._ways_within) >= HOPS_MAX:
                self._ways_within.clear()
            self._ways_within[place, x] = ways
        return ways

    def member(self, place: int, x: Coordinate, besides: Iterable[Address]) -> Address | None:
        """Somebody in the ring of this value: the lowest that is known."""
        best: tuple[Rank, Address] | None = None
        for descriptor in self.everyone():
            its = span(descriptor, place)
            if its is None or not its[0] <= x < its[1]:
                continue
            address = descriptor.address
            if address not in besides and address != self.me and address not in self.gone:
                entry = (rank(descriptor), address)
                if best is None or entry < best:
                    best = entry
        return None if best is None else best[1]

    def circle(self, random_count: int, ring_count: int) -> list[Address]:
        """Some others by chance, and some ring neighbours: whoever tells them tells the swarm."""
        linked = [candidate.address for ring in self.rings.values() for candidate in ring.links.values()]
        chosen: dict[Address, None] = {}
        for addresses, count in ((self.somebody_of_each(), random_count), (linked, ring_count)):
            if len(addresses) > count:
                addresses = self._rng.sample(addresses, count)
            chosen.update(dict.fromkeys(addresses))
        chosen.pop(self.me, None)
        return [address for address in chosen if address not in self.gone]

    def somebody_of_each(self) -> list[Address]:
        """Of every peer in the samples one participant, by lot."""
        by_peer: dict[str, list[Address]] = {}
        for descriptor in self.samples:
            by_peer.setdefault(descriptor.address.peer, []).append(descriptor.address)
        return [each[int(self._rng.random() * len(each))] for each in by_peer.values()]

    def youngest(self, count: int) -> list[Address]:
        """Of the samples those that were heard of last, one for each peer."""
        by_peer = {d.address.peer: d for d in self.samples if d.address not in self.gone}
        by_peer.pop(self.me.peer, None)
        return [d.address for d in sorted(by_peer.values(), key=attrgetter("age"))[:count]]

    def anybody(self) -> Address | None:
        """Somebody at random."""
        pool = self.samples or self.interest.neighbours()
        chosen = pool[int(self._rng.random() * len(pool))].address if pool else self.me
        return None if chosen == self.me or chosen in self.gone else chosen


def closest(target: Descriptor, candidates: list[Descriptor], count: int) -> list[Descriptor]:
    """VICINITY's choice for interests: who overlaps, by lot; then who is nearest on the target's ring attribute."""
    its_places = places(target)
    wanted = span(target, its_places[0]) if its_places else None
    if wanted is None:
        return []
    place, (lo, hi) = its_places[0], wanted
    overlapping: list[Descriptor] = []
    apart: list[tuple[Any, Any, Descriptor]] = []
    for candidate in candidates:
        its = span(candidate, place)
        if its is None:
            continue
        if its[0] < hi and lo < its[1]:
            overlapping.append(candidate)
        else:
            apart.append((its[0], its[1], candidate))
    if len(overlapping) > count:
        own_lot = lot(target.address.peer, target.address.slot)
        overlapping.sort(key=lambda each: drawn(own_lot, each.address))
        return overlapping[:count]
    if len(overlapping) < count and apart:
        apart.sort(key=lambda each: _gap(lo, hi, each[0], each[1]))
        overlapping += [candidate for _, _, candidate in apart[: count - len(overlapping)]]
    return overlapping


def drawn(own_lot: int, address: Address) -> int:
    """What somebody draws in another one's lottery: the lowest are chosen."""
    return (own_lot ^ lot(address.peer, address.slot)) * 0x9E3779B1 & 0xFFFFFFFF


def _gap(lo: Any, hi: Any, first: Any, beyond: Any) -> float:
    """How far apart two spans are that do not overlap."""
    if isinstance(lo, str):
        return float(1 + abs(code(lo) - code(first)))
    return float(1 + (first - hi if first >= hi else lo - beyond))
