"""One ring: whom a participant knows in it, and its exact links.

A participant knows some others whose spans overlap with its own (the *pool*). The sweep picks from them the upper and
the lower ring links, each with the parts of the span that it serves. All that is left to gossip is to bring the right
candidates into the pool; links stand outside of its bound, and whoever was a link stays a candidate, so that a crash is
mended from what is at hand (specification, section 5).

**Believing.** What a participant says of itself replaces whatever was known of it. What others say of it is believed
only if its version is higher: so a lie lasts until its victim speaks, which it does to all its links. Whoever has heard
the victim does not believe that lie again (`Neighbourhood.heard`), and what is passed on at second hand grows old.

**Agreeing.** A link is *confirmed* once the other side has answered our present descriptor: it knows us then, and has
told us who is nearer. The nearest of both sides agree by induction: whoever stands at its exact place in the ring
finds, among those it knows, the exact place of a newcomer next to it.

**Fading.** A link that is given up is used for some seconds more, for the parts that it served: an event may be on its
way to us from there, or to it from us, while the new neighbours have not yet agreed (make before break).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.parts.view import ParticipantKey, participant_key
from protocols.sub2sub.order import Coordinate, Rank, rank, span
from protocols.sub2sub.sweep import Interval, Part, find, subtract, sweep

POOL_MAX: Final = 40
"""Candidates beside the links. A guess: twice what a view of gossip holds."""
FADING_MAX: Final = 64
VERSION_MAX: Final = 1 << 53
"""No participant changes so often; whoever claims it cannot be refuted by the next higher number."""
HOPS_MAX: Final = 1_024
"""Values of which the next hops, or shortcuts, are kept at hand."""
STALE_CYCLES: Final = 30
"""Beyond that age a third party's word of somebody is not passed on any more. One and a half views of gossip."""


Climb: TypeAlias = tuple[int, Coordinate, int]
"""A copy's way into a higher cell, which may have limits: the place of the ring, the value there, and the cell."""
Hops: TypeAlias = tuple[Address | None, Address | None, Climb | None]
"""The next above and the next below for a value, and into which higher cell the first leads, if it does."""


class Candidate:
    __slots__ = ("address", "born_ms", "descriptor", "hi", "key", "lo", "rank")

    def __init__(
        self, key: ParticipantKey, descriptor: Descriptor, lo: Any, hi: Any, its_rank: Rank, born_ms: int
    ) -> None:
        self.key = key
        self.descriptor = descriptor
        self.address: Address = descriptor.address
        self.rank = its_rank
        self.lo = lo
        self.hi = hi
        self.born_ms = born_ms  # when its age was 0


class Ring:
    """The ring of one place, seen by one participant. Its owner calls `resweep` after `changed` turns true."""

    __slots__ = (
        "_cycle_ms",
        "_fading",
        "_hops",
        "_linger_ms",
        "_links_max",
        "_pool",
        "_sorted",
        "changed",
        "confirmed",
        "hi",
        "links",
        "lo",
        "lower",
        "lower_left",
        "overflow",
        "own",
        "place",
        "rank",
        "sweeps",
        "upper",
        "upper_left",
    )

    def __init__(self, place: int, own: Descriptor, cycle_ms: int, links_max: int, linger_ms: int) -> None:
        self.place = place
        self._cycle_ms = cycle_ms
        self._links_max = links_max
        self._linger_ms = linger_ms
        self._pool: dict[ParticipantKey, Candidate] = {}
        self._sorted: tuple[list[Rank], list[Candidate]] | None = None
        self._hops: dict[Coordinate, Hops] = {}
        self._fading: list[tuple[int, Any, Any, Address]] = []  # until when, part, to whom
        self.upper: list[Part] = []
        self.lower: list[Part] = []
        self.upper_left: list[Interval] = []
        self.lower_left: list[Interval] = []
        self.links: dict[ParticipantKey, Candidate] = {}
        self.confirmed: dict[ParticipantKey, int] = {}
        self.changed = True
        self.overflow = 0  # links that were not taken for want of room
        self.sweeps = 0  # how often the links were picked
        self.present(own)

    def present(self, own: Descriptor) -> None:
        """Stand here as this descriptor says, from now on; nothing is confirmed any more."""
        found = span(own, self.place)
        assert found is not None, "a participant has a span in its ring"
        self.own, self.rank = own, rank(own)
        self.lo, self.hi = found
        self.confirmed.clear()
        self.changed = True

    def holds(self, x: Coordinate) -> bool:
        inside: bool = self.lo <= x < self.hi
        return inside

    # --- Candidates ---

    def candidates(self) -> Iterable[Candidate]:
        return self._pool.values()

    def get(self, key: ParticipantKey) -> Candidate | None:
        return self._pool.get(key)

    def learn(self, now_ms: int, descriptors: Iterable[Descriptor]) -> None:
        """Consider what others say of third parties."""
        pool, place, lo, hi = self._pool, self.place, self.lo, self.hi
        mine = (self.own.address.peer, self.own.address.slot)
        for descriptor in descriptors:
            address, version = descriptor.address, descriptor.version
            key = (address.peer, address.slot)
            known = pool.get(key)
            if known is not None:
                held = known.descriptor
                if (address.boot, version) <= (held.address.boot, held.version):
                    if version == held.version:
                        born_ms = now_ms - descriptor.age * self._cycle_ms
                        if born_ms > known.born_ms:
                            known.born_ms = born_ms
                    continue
            elif descriptor.age > STALE_CYCLES or participant_key(descriptor) is None or key == mine:
                continue
            if version > VERSION_MAX:
                continue
            found = span(descriptor, place)
            if found is None or found[0] >= hi or found[1] <= lo:
                if known is not None:
                    self._drop(key)
                continue
            self._put(key, descriptor, found, now_ms - descriptor.age * self._cycle_ms)

    def heard(self, now_ms: int, descriptor: Descriptor) -> None:
        """A participant speaks for itself, and is believed."""
        key = (descriptor.address.peer, descriptor.address.slot)
        known = self._pool.get(key)
        if known is not None and known.descriptor.address.boot > descriptor.address.boot:
            return
        found = span(descriptor, self.place)
        if found is None or found[0] >= self.hi or found[1] <= self.lo or descriptor.version > VERSION_MAX:
            self._drop(key)
        elif known is not None and _same(known.descriptor, descriptor):
            known.born_ms = now_ms
        else:
            self._put(key, descriptor, found, now_ms)

    def forget(self, address: Address) -> None:
        """This life of a participant is over, or not of this ring."""
        key = (address.peer, address.slot)
        known = self._pool.get(key)
        if known is not None and known.descriptor.address.boot <= address.boot:
            self._drop(key)

    def _drop(self, key: ParticipantKey) -> None:
        if self._pool.pop(key, None) is not None:
            self._sorted = None
            if key in self.links:
                self.changed = True

    def _put(self, key: ParticipantKey, descriptor: Descriptor, found: Interval, born_ms: int) -> None:
        lo, hi = found
        its = rank(descriptor)
        nearer = key in self.links or self._improves(lo, hi, its)
        if key not in self._pool and not self._make_room(nearer, born_ms):
            return
        self._pool[key] = Candidate(key, descriptor, lo, hi, its, born_ms)
        self._sorted = None
        if nearer:
            self.changed = True

    def _make_room(self, nearer: bool, born_ms: int) -> bool:
        """Let the candidate go that has been there longest. One that is no link itself only replaces what is stale:
        candidates come by all the time, and none of them is better than another."""
        if len(self._pool) < POOL_MAX + len(self.links):
            return True
        for other, candidate in self._pool.items():
            if other not in self.links:
                if not nearer and candidate.born_ms + STALE_CYCLES * self._cycle_ms > born_ms:
                    return False
                del self._pool[other]
                return True
        return nearer

    def _improves(self, lo: Any, hi: Any, its: Rank) -> bool:
        """Whether it would become a link: it serves what nobody serves, or stands nearer than who serves it."""
        if its > self.rank:
            for part in self.upper:
                if part[0] < hi and lo < part[1] and its < part[2].rank:
                    return True
            return any(a < hi and lo < b for a, b in self.upper_left)
        for part in self.lower:
            if part[0] < hi and lo < part[1] and its > part[2].rank:
                return True
        return any(a < hi and lo < b for a, b in self.lower_left)

    # --- Links ---

    def resweep(self, now_ms: int) -> tuple[list[tuple[str, Candidate]], list[tuple[str, Candidate]]]:
        """Pick the links anew: (kind and candidate of the new ones, those of the former ones)."""
        self.changed = False
        self.sweeps += 1
        self._hops.clear()
        before = {key: (self.kind(candidate), candidate) for key, candidate in self.links.items()}
        former = (*self.upper, *self.lower)
        mine = self.rank
        ranks, order = self._order()
        self.upper, self.upper_left = sweep(self.lo, self.hi, order[bisect_right(ranks, mine) :])
        self.lower, self.lower_left = sweep(self.lo, self.hi, reversed(order[: bisect_left(ranks, mine)]))
        self.links = {part.who.key: part.who for part in chain(self.upper, self.lower)}
        self.overflow = 0
        if len(self.links) > self._links_max:
            self._shed()
        self._fade(now_ms, former)
        confirmed = {key: version for key, version in self.confirmed.items() if key in self.links}
        self.confirmed = confirmed
        after = {key: (self.kind(candidate), candidate) for key, candidate in self.links.items()}
        added = [each for key, each in after.items() if key not in before or not _same_link(before[key], each)]
        removed = [each for key, each in before.items() if key not in after or not _same_link(after[key], each)]
        return added, removed

    def kind(self, candidate: Candidate) -> str:
        return "ring-upper" if candidate.rank > self.rank else "ring-lower"

    def _shed(self) -> None:
        """More links than there is room for: those nearest in the order stay, and the owner says so."""
        keep = sorted(self.links.values(), key=_by_rank)
        above = [c for c in keep if c.rank > self.rank][: self._links_max // 2]
        below = [c for c in keep if c.rank < self.rank][-(self._links_max // 2) :]
        self.overflow = len(keep) - len(above) - len(below)
        self.links = {c.key: c for c in (*above, *below)}
        self.upper = [part for part in self.upper if part.who.key in self.links]
        self.lower = [part for part in self.lower if part.who.key in self.links]

    def _fade(self, now_ms: int, former: Iterable[Part]) -> None:
        """What a link served and serves no more is still sent to it for a while."""
        until_ms = now_ms + self._linger_ms
        self._fading = [each for each in self._fading if each[0] > now_ms]
        if not self._linger_ms:
            return
        current = {(part.lo, part.hi, part.who.key) for part in chain(self.upper, self.lower)}
        for part in former:
            if (part.lo, part.hi, part.who.key) not in current:
                self._fading.append((until_ms, part.lo, part.hi, part.who.address))
        del self._fading[:-FADING_MAX]

    def bury(self, address: Address) -> None:
        """Nothing fades towards the dead."""
        self._fading = [each for each in self._fading if each[3] != address]

    def is_settled(self) -> bool:
        """Whether every link knows us as we are."""
        version = self.own.version
        if self.changed:
            return False
        return all(self.confirmed.get(key) == version for key in self.links)

    def unconfirmed(self) -> list[Candidate]:
        version = self.own.version
        return [c for key, c in self.links.items() if self.confirmed.get(key) != version]

    def unserved(self) -> list[Interval]:
        """Where nobody is known at all beside ourselves."""
        left: list[Interval] = [(self.lo, self.hi)]
        for part in chain(self.upper, self.lower):
            left = subtract(left, part.lo, part.hi)
            if not left:
                break
        return left

    # --- Events ---

    def next_hops(self, x: Coordinate) -> Hops:
        """upper(x) and lower(x), and into which higher cell the first leads."""
        hops = self._hops.get(x)
        if hops is None:
            upper, lower = find(self.upper, x), find(self.lower, x)
            above = None if upper is None else upper.address
            climbs = upper is not None and upper.rank[0] > self.rank[0]
            climb = (self.place, x, upper.rank[0]) if climbs else None
            hops = (above, None if lower is None else lower.address, climb)
            if len(self._hops) >= HOPS_MAX:
                self._hops.clear()
            self._hops[x] = hops
        return hops

    def climb(self, x: Coordinate, address: Address) -> Climb | None:
        """Into which higher cell a copy for somebody leads: then we feed it. None: it stands in no higher one."""
        known = self._pool.get((address.peer, address.slot))
        return (self.place, x, known.rank[0]) if known is not None and known.rank[0] > self.rank[0] else None

    def nearest(self, wanted: Rank, of: Descriptor) -> Candidate | None:
        """Who would be a ring link of somebody with that rank, of those who share values with it. None: we would."""
        its = span(of, self.place)
        if its is None:
            return None
        ranks, order = self._order()
        at = bisect_left(ranks, wanted)
        mine = self.rank
        for candidate in order[at:]:
            if candidate.lo < its[1] and its[0] < candidate.hi and candidate.address != of.address:
                return None if wanted <= mine < candidate.rank else candidate
        for candidate in reversed(order[:at]):
            if candidate.lo < its[1] and its[0] < candidate.hi and candidate.address != of.address:
                return None if mine >= wanted or mine > candidate.rank else candidate
        return None

    def fading(self, now_ms: int, x: Coordinate) -> list[Address]:
        """Former links that still get what falls there."""
        if not self._fading:
            return []
        if self._fading[-1][0] <= now_ms:
            self._fading = []
        return [to for until_ms, lo, hi, to in self._fading if until_ms > now_ms and lo <= x < hi]

    # --- Gossip ---

    def best_for(
        self, now_ms: int, target: Descriptor, count: int, others: Iterable[Descriptor] = ()
    ) -> tuple[Descriptor, ...]:
        """Of those whom we know, the ring links that `target` would choose, nearest first (the sweep for another)."""
        wanted = span(target, self.place)
        if wanted is None:
            return ()
        lo, hi = wanted
        its_rank, oldest_ms = rank(target), now_ms - STALE_CYCLES * self._cycle_ms
        ranks, order = self._order()
        links = self.links
        above = [c for c in order[bisect_right(ranks, its_rank) :] if c.born_ms >= oldest_ms or c.key in links]
        below = [c for c in order[: bisect_left(ranks, its_rank)] if c.born_ms >= oldest_ms or c.key in links]
        if others:
            self._mix_in(now_ms, target, others, above, below)
        below.reverse()
        chosen: dict[ParticipantKey, Candidate] = {}
        upper = sorted(sweep(lo, hi, above)[0], key=_part_rank)
        lower = sorted(sweep(lo, hi, below)[0], key=_part_rank, reverse=True)
        for number in range(max(len(upper), len(lower))):
            for parts in (upper, lower):
                if number < len(parts):
                    chosen[parts[number].who.key] = parts[number].who
        return tuple([self._aged(now_ms, c) for c in chosen.values()][:count])

    def _mix_in(
        self,
        now_ms: int,
        target: Descriptor,
        others: Iterable[Descriptor],
        above: list[Candidate],
        below: list[Candidate],
    ) -> None:
        """Add those who are known otherwise, where they belong in the order."""
        its_rank = rank(target)
        for descriptor in others:
            key, found = participant_key(descriptor), span(descriptor, self.place)
            if key is None or key in self._pool or found is None or descriptor.address == target.address:
                continue
            born_ms = now_ms - descriptor.age * self._cycle_ms
            c = Candidate(key, descriptor, found[0], found[1], rank(descriptor), born_ms)
            (above if c.rank > its_rank else below).append(c)
        above.sort(key=_by_rank)
        below.sort(key=_by_rank)

    def _order(self) -> tuple[list[Rank], list[Candidate]]:
        """The pool in the order of ranks, and the ranks alone."""
        if self._sorted is None:
            order = sorted(self._pool.values(), key=_by_rank)
            self._sorted = ([c.rank for c in order], order)
        return self._sorted

    def _aged(self, now_ms: int, candidate: Candidate) -> Descriptor:
        # rounded up: were it rounded down, what goes to and fro quickly would never grow old
        age = max(0, now_ms - candidate.born_ms + self._cycle_ms - 1) // self._cycle_ms
        descriptor = candidate.descriptor
        return descriptor if age == descriptor.age else replace(descriptor, age=age)


def _same(a: Descriptor, b: Descriptor) -> bool:
    return a.version == b.version and a.address == b.address and a.box == b.box and a.ext == b.ext


def _same_link(a: tuple[str, Candidate], b: tuple[str, Candidate]) -> bool:
    return a[0] == b[0] and a[1].address == b[1].address


def _by_rank(candidate: Candidate) -> Rank:
    return candidate.rank


def _part_rank(part: Part) -> Rank:
    who: Candidate = part.who
    return who.rank
