"""Claims: how a publisher finds a ring, or knows that there is none.

The paper's publisher walks greedily to the subscription nearest to the event (section III). That finds a match if there
are many, but it can neither be sure that there is none, nor can it know on which attributes anybody stands in a ring.
So participants tell everybody what they cover, but only if it is not covered yet: a *claim* says that its holder stands
in the ring of a place with its whole span. Ranges that overlap need few claims (the paper's thousand ranges about
five), equalities one for each value that somebody asks for. This is subscription flooding with covering, as content-
based brokers do it, cut down to what a ring needs: one way in.

Claims are soft state. They are flooded when they are made, renewed every ten minutes and forgotten after thirty;
participants compare a digest of all claims now and then and exchange them if they differ. (Differs from the
specification, section 1, which renews everything every minute and holds it for three: a thousand subscriptions make
hundreds of claims, each of which everybody has to hear of, so that renewals would be most of all messages. They are not
needed to find out who is gone: whoever finds it out says so.) A claim that is out of date costs a detour: whoever was
sent an event and is not in the ring says so, and the claim goes. Where no claim covers a value, nobody is there, for a
newcomer is active only after its claim, or one that covers it, stands; and whoever begins to leave, or takes up less,
says that its claim is about to end, for as long as others need to make theirs.

Rings of several attributes (`compound`) need more claims, since fewer boxes overlap in them. They are not needed: with
more than `ROOM` claims whoever would have to claim one of these takes the ring of one attribute.

With more than `CLAIMS_KEPT` claims the directory is *incomplete*: then nobody can be sure that a value is free, and
every event is flooded. Those who claim rings of several attributes give them up. An event whose claims only lead to
holders that are gone is flooded as well.
"""

from collections.abc import Iterable
from typing import Any, Final

from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.parts.view import ParticipantKey, participant_key
from protocols.sub2sub.messages import CLAIMS_MAX, CLAIMS_PARTS, Claim
from protocols.sub2sub.order import Coordinate, Span, lot, span
from protocols.sub2sub.ring import VERSION_MAX
from protocols.sub2sub.sweep import Interval, subtract

CLAIMS_KEPT: Final = 2_048
"""Claims that a participant remembers. A guess: ten times the stock symbols of the default workload."""
ROOM: Final = 768
"""With so many there are no further ones for rings of several attributes: the rest is for those who are claiming just
now, and for what cannot be done without. A thousand subscriptions of workload `stocks` need 670."""
FULL_MS: Final = 10_000
"""So long after there was no room the directory may lack claims: as long as those who could not claim may take now."""
REFRESH_MS: Final = 600_000
LEASE_MS: Final = 3 * REFRESH_MS
"""Ten times what the specification says (section 1): see above."""
ALL_PARTS: Final = (1 << CLAIMS_PARTS) - 1
DISTRUST_MS: Final = 30_000
"""For how long a claim that led nowhere is not believed again: as long as a tombstone stands."""


class Held:
    __slots__ = ("claim", "hi", "lo", "since_ms", "until_ms")

    def __init__(self, claim: Claim, its: Span, now_ms: int) -> None:
        self.claim = claim
        self.lo, self.hi = its
        self.since_ms = now_ms - claim.age_ms
        self.until_ms = self.since_ms + LEASE_MS


class Claims:
    """What is claimed, by place and holder. `revision` grows whenever that changes."""

    __slots__ = ("_count", "_distrusted", "_full_ms", "_mine", "_places", "digest", "filled_ms", "parts", "revision")

    def __init__(self, me: Address) -> None:
        self._mine: ParticipantKey = (me.peer, me.slot)
        self._places: dict[int, dict[ParticipantKey, Held]] = {}
        self._distrusted: dict[tuple[int, ParticipantKey], tuple[int, int, int]] = {}  # -> boot, turn, until when
        self._count = 0
        self._full_ms = -FULL_MS  # when there was no room last
        self.filled_ms = 0  # since when there is none, if so
        self.digest = 0
        self.parts = [0] * CLAIMS_PARTS  # digests as well
        self.revision = 0

    def __len__(self) -> int:
        return self._count

    @property
    def complete(self) -> bool:
        """Whether everything that is claimed can be known here."""
        return self._count < CLAIMS_KEPT

    def may_lack(self, now_ms: int) -> bool:
        """Whether somebody may stand where nothing is claimed."""
        return not self.complete or now_ms < self._full_ms + FULL_MS

    @property
    def has_room(self) -> bool:
        """Whether there may be claims that could be done without."""
        return self._count < ROOM

    def places(self) -> list[int]:
        """On which attributes anybody stands in a ring."""
        return list(self._places)

    def mine(self, place: int) -> Claim | None:
        held = self._places.get(place, {}).get(self._mine)
        return None if held is None else held.claim

    def about_me(self, claim: Claim) -> bool:
        address = claim.holder.address
        return (address.peer, address.slot) == self._mine

    def add(self, now_ms: int, claim: Claim) -> bool:
        """Take note of a claim. Returns whether it is news, to be passed on: soon if `revision` has grown as well."""
        key = participant_key(claim.holder)
        if key is None or claim.holder.version > VERSION_MAX or claim.turn > VERSION_MAX or claim.age_ms >= LEASE_MS:
            return False
        held_at = self._places.get(claim.place)
        held = held_at.get(key) if held_at else None
        boot = claim.holder.address.boot
        if held is not None and (boot, claim.turn) <= (held.claim.holder.address.boot, held.claim.turn):
            return False
        if self._is_distrusted(now_ms, claim, key):
            return False
        its = span(claim.holder, claim.place)
        if claim.ended or its is None:
            if held is not None:
                self._end(now_ms, claim.place, key, boot, claim.turn)
                return True
            return False
        if held is None and self._count >= CLAIMS_KEPT:
            return False
        if held is not None and (held.claim.holder, held.claim.ending) == (claim.holder, claim.ending):
            held_at[key] = Held(claim, its, now_ms)  # type: ignore[index] # renewed: nothing else has changed
            return True
        if held is not None:
            self._drop(now_ms, claim.place, key)
        self._places.setdefault(claim.place, {})[key] = Held(claim, its, now_ms)
        self._count += 1
        self.filled_ms = self.filled_ms if self.complete else now_ms
        self._turn_mark(key, claim)
        return True

    def _is_distrusted(self, now_ms: int, claim: Claim, key: ParticipantKey) -> bool:
        boot, turn, until_ms = self._distrusted.get((claim.place, key), (-1, -1, 0))
        return now_ms < until_ms and (claim.holder.address.boot, claim.turn) <= (boot, turn)

    def _end(self, now_ms: int, place: int, key: ParticipantKey, boot: int, turn: int) -> None:
        """A claim is over, and up to that turn of that life it is not believed again for a while."""
        self._drop(now_ms, place, key)
        if len(self._distrusted) >= CLAIMS_KEPT:
            self._distrusted = {k: v for k, v in self._distrusted.items() if v[-1] > now_ms}
        if len(self._distrusted) < CLAIMS_KEPT:
            self._distrusted[place, key] = (boot, turn, now_ms + DISTRUST_MS)

    def disprove(self, now_ms: int, address: Address, place: int | None = None) -> list[Claim]:
        """A claim led nowhere: its holder is gone, or not in that ring. Returns what to tell the others.

        That is worded as its holder would: that the claim has ended. One that lives contradicts it."""
        key = (address.peer, address.slot)
        over: list[Claim] = []
        for at in [place] if place is not None else self.places():
            held = self._places.get(at, {}).get(key)
            if held is not None and held.claim.holder.address.boot <= address.boot:
                turn = held.claim.turn + 1
                self._end(now_ms, at, key, held.claim.holder.address.boot, turn)
                over.append(Claim(at, held.claim.holder, turn, ended=True))
        return over

    def correct(self, now_ms: int, place: int, own: Descriptor) -> None:
        """A holder has spoken for itself: does it still stand where its claim says? If not, it will tell the others
        itself, in its next turn, which has to be believed."""
        key = (own.address.peer, own.address.slot)
        held = self._places.get(place, {}).get(key)
        if held is None or (held.lo, held.hi) == span(own, place):
            return
        claimed = held.claim.holder
        if (claimed.address.boot, claimed.version) < (own.address.boot, own.version):  # a hello may be late
            self._end(now_ms, place, key, claimed.address.boot, held.claim.turn)

    def _drop(self, now_ms: int, place: int, key: ParticipantKey) -> None:
        if not self.complete:
            self._full_ms = now_ms
        held_at = self._places[place]
        held = held_at.pop(key)
        self._count -= 1
        self._turn_mark(key, held.claim)
        if not held_at:
            del self._places[place]

    def _turn_mark(self, key: ParticipantKey, claim: Claim) -> None:
        """A claim is known from now on, or no longer."""
        mark = _mark(key, claim)
        self.digest ^= mark
        self.parts[_part(key, claim.place)] ^= mark
        self.revision += 1

    def expire(self, now_ms: int) -> None:
        """Forget what was not renewed in time."""
        over = [
            (place, key)
            for place, held_at in self._places.items()
            for key, held in held_at.items()
            if held.until_ms <= now_ms
        ]
        for place, key in over:
            self._drop(now_ms, place, key)
        if self._distrusted:
            self._distrusted = {k: v for k, v in self._distrusted.items() if v[-1] > now_ms}

    # --- Questions ---

    def covering(self, place: int, x: Coordinate) -> list[Descriptor]:
        """Who claims to stand in the ring of this value."""
        return [held.claim.holder for held in self._at(place) if held.lo <= x < held.hi]

    def _at(self, place: int) -> Iterable[Held]:
        return self._places.get(place, {}).values()

    def uncovered(self, place: int, lo: Any, hi: Any, by_others: bool = False) -> list[Interval]:
        """Which parts of a span nobody has claimed who means to stay."""
        left: list[Interval] = [(lo, hi)]
        for key, held in self._places.get(place, {}).items():
            if held.lo < hi and lo < held.hi and not held.claim.ending and not (by_others and key == self._mine):
                left = subtract(left, held.lo, held.hi)
                if not left:
                    break
        return left

    def guides(self, place: int, intervals: list[Interval], count: int) -> list[Descriptor]:
        """Others who claim some of these intervals."""
        found: list[Descriptor] = []
        lo, hi = min(a for a, _ in intervals), max(b for _, b in intervals)
        for key, held in self._places.get(place, {}).items():
            if held.lo >= hi or lo >= held.hi or key == self._mine:
                continue
            if any(a < held.hi and held.lo < b for a, b in intervals):
                found.append(held.claim.holder)
                if len(found) == count:
                    break
        return found

    def different(self, parts: tuple[int, ...]) -> int:
        """In which parts somebody else knows other claims, one bit each."""
        return sum([1 << at for at, (mine, its) in enumerate(zip(self.parts, parts)) if mine != its])

    def batches(self, now_ms: int, parts: int = ALL_PARTS) -> Iterable[tuple[Claim, ...]]:
        """All claims in some parts, as many at a time as a message takes."""
        every = [
            Claim(claim.place, claim.holder, claim.turn, max(0, now_ms - held.since_ms), ending=claim.ending)
            for place, held_at in self._places.items()
            for key, held in held_at.items()
            if parts >> _part(key, place) & 1
            for claim in (held.claim,)
        ]
        for first in range(0, len(every), CLAIMS_MAX):
            yield tuple(every[first : first + CLAIMS_MAX])


def _part(key: ParticipantKey, place: int) -> int:
    return (lot(*key) + place // 2) % CLAIMS_PARTS


def _mark(key: ParticipantKey, claim: Claim) -> int:
    """A claim's share of the digest: two participants that know the same claims have the same digest."""
    said = 2 * claim.holder.version + claim.ending
    which = lot(*key) * 0x9E3779B1 + ((claim.place ^ claim.place >> 18) << 7)
    return which + said * 0x85EBCA77 + claim.holder.address.boot * 0xC2B2AE3D & 0xFFFFFFFF
