"""A participant's own claims, and its share in spreading those of others (see `claims`).

A claim that goes, or that covers less than before, would leave a gap in which publishers think that nobody is there,
until somebody else has claimed what is left. So everybody is told first that it is about to end: whoever stands there
claims it now, and only after `claim_ms` is our claim over, or what we are by then. The ring neighbours see the gap
still sooner, by the hello that shows what we are now; but each of them knows only what its own neighbours say, and of
several that change at once some are nobody's neighbours. More than one may step in, so a claim that others cover as
well is given up when it would be renewed: else there would be ever more of them.

News is flooded, but not one by one: what is heard within `GATHER_MS` goes on in one message, for when a swarm gathers
there are hundreds of claims at a time. Of the participants of one peer only one passes on what comes from outside, and
tells the others, which are in the same process. Renewals are no news, and wait for `RENEWALS_MS`. What a flood has
missed is found by comparing:

    digest ──>  <── digests of all parts, if that differs ──  claims in those that differ ──>  <── the other one's
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from protocols.model.ids import Address
from protocols.overlay import Message, Outbox
from protocols.parts.view import ParticipantKey
from protocols.sub2sub.claims import CLAIMS_KEPT, REFRESH_MS
from protocols.sub2sub.messages import CLAIMS_MAX, Claim, Claims, ClaimsDigest
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.order import span
from protocols.sub2sub.ring import VERSION_MAX

FLOOD_RANDOM: Final = 8
FLOOD_RING: Final = 4
"""Random links and ring links that news is passed on by. A flood over eight random links misses one in three thousand,
which the next comparison finds."""
GATHER_MS: Final = 50
"""A flood of five hops then takes a quarter of a second longer, a sixth of `claim_ms`. A guess."""
RENEWALS_MS: Final = 20_000
RENEWALS_RANDOM: Final = 3
"""Renewals may be missed: others follow before the lease ends. A guess."""

Sending: TypeAlias = Callable[[list[Address], Message], None]


class Claiming:
    """`send` charges what it sends."""

    __slots__ = (
        "_claim_ms",
        "_covered",
        "_ending",
        "_hood",
        "_news",
        "_out",
        "_renew_ms",
        "_renewals",
        "_renewals_ms",
        "_send",
        "_turn",
        "claimed_ms",
        "siblings",
    )

    def __init__(self, hood: Neighbourhood, claim_ms: int, send: Sending, out: Outbox) -> None:
        self._hood = hood
        self._claim_ms = claim_ms
        self._send = send
        self._out = out
        self._news: dict[tuple[int, ParticipantKey], Claim] = {}  # to be passed on at the next "claims" timer
        self._renewals: dict[tuple[int, ParticipantKey], Claim] = {}  # to be passed on some time
        self._renewals_ms = 0  # when that will be
        self._ending: dict[int, int] = {}  # place -> when to say that our claim is not what it was
        self._turn = 0
        self._renew_ms = 0  # when to say it again
        self._covered = (-1, -1)  # the claims and our version when we last looked for gaps
        self.claimed_ms: dict[int, int] = {}  # place -> since when we claim it as we are
        self.siblings: list[Address] = []

    def cover(self, now_ms: int) -> None:
        """Claim our spans where nobody does; there is nothing to do while neither claims nor we have changed."""
        claims, own = self._hood.claims, self._hood.own
        if self._covered == (claims.revision, own.version):
            return
        for place, ring in self._hood.rings.items():
            mine = claims.mine(place)
            its = None if mine is None else span(mine.holder, place)
            if mine is None:
                if claims.complete and claims.uncovered(place, ring.lo, ring.hi):
                    self._claim(now_ms, place)
            elif mine.holder != own:
                if its is None or (ring.lo <= its[0] and its[1] <= ring.hi):
                    self._claim(now_ms, place)  # it says less than we are
                elif place not in self._ending:
                    self._end_soon(now_ms, place)
        self._covered = (claims.revision, own.version)

    def _claim(self, now_ms: int, place: int) -> None:
        if not self.claimed_ms:
            self._renew_ms = now_ms + REFRESH_MS
        self._ending.pop(place, None)
        self.claimed_ms[place] = now_ms
        self._say(now_ms, Claim(place, self._hood.own, self._next_turn()))

    def give_up(self, now_ms: int, place: int) -> None:
        """We leave the ring of a place."""
        if place in self.claimed_ms:
            self._end_soon(now_ms, place)

    def _end_soon(self, now_ms: int, place: int) -> None:
        """Our claim is about to be over, or another one."""
        self._ending[place] = now_ms + self._claim_ms
        self._foretell(now_ms, place)

    def _foretell(self, now_ms: int, place: int) -> None:
        """Whoever stands where we do is to claim it from now on."""
        mine = self._hood.claims.mine(place)
        if mine is not None:
            self._say(now_ms, Claim(place, mine.holder, self._next_turn(), ending=True))

    def _end(self, now_ms: int, place: int) -> None:
        """Say what our claim is now: another one, or none."""
        self._ending.pop(place, None)
        if place in self._hood.rings and not self._is_covered_by_others(place):
            self._claim(now_ms, place)
        elif self.claimed_ms.pop(place, None) is not None:
            self._say(now_ms, Claim(place, self._hood.own, self._next_turn(), ended=True))

    def _is_covered_by_others(self, place: int) -> bool:
        ring = self._hood.rings[place]
        return not self._hood.claims.uncovered(place, ring.lo, ring.hi, by_others=True)

    def foretell(self, now_ms: int) -> None:
        """We begin to leave."""
        for place in self.claimed_ms:
            self._foretell(now_ms, place)

    def withdraw_all(self, now_ms: int) -> None:
        """We are about to be gone, as the others have known for a while."""
        for place in list(self.claimed_ms):
            del self.claimed_ms[place]
            self._say(now_ms, Claim(place, self._hood.own, self._next_turn(), ended=True))
        self.flush()

    def _next_turn(self) -> int:
        self._turn += 1
        return self._turn

    def _say(self, now_ms: int, claim: Claim) -> None:
        """Say something of our own claims to everybody."""
        self._hood.claims.add(now_ms, claim)
        self._note(now_ms, claim)

    def disprove(self, now_ms: int, address: Address, place: int | None = None) -> None:
        """A claim led nowhere: everybody should know."""
        for over in self._hood.claims.disprove(now_ms, address, place):
            self._note(now_ms, over)

    def _note(self, now_ms: int, claim: Claim) -> None:
        if not self._news:
            self._out.timer("claims", now_ms + GATHER_MS)
        elif len(self._news) >= CLAIMS_KEPT:
            self.flush()
        address = claim.holder.address
        self._news[claim.place, (address.peer, address.slot)] = claim

    def flush(self) -> None:
        """Pass the news on."""
        news, self._news = list(self._news.values()), {}
        self._tell_all(news, self._hood.circle(FLOOD_RANDOM, FLOOD_RING))

    def _tell_all(self, claims: list[Claim], circle: list[Address]) -> None:
        circle = list(dict.fromkeys((*self.siblings, *circle)))
        for first in range(0, len(claims), CLAIMS_MAX):
            self._send(circle, Claims(tuple(claims[first : first + CLAIMS_MAX]), news=True))

    def cycle(self, now_ms: int) -> None:
        """Renew ours in time, unless others claim as much by now, and compare with somebody."""
        for place in [place for place, at_ms in self._ending.items() if at_ms <= now_ms]:
            self._end(now_ms, place)
        if self.claimed_ms and now_ms >= self._renew_ms:
            self._renew_ms = now_ms + REFRESH_MS
            for place in [place for place in self.claimed_ms if place not in self._ending]:
                if self._is_covered_by_others(place):
                    self._end_soon(now_ms, place)
                    continue
                claim = Claim(place, self._hood.own, self._next_turn())
                self._hood.claims.add(now_ms, claim)
                self._renew(claim)
        if self._renewals and now_ms >= self._renewals_ms:
            self._renewals_ms = now_ms + RENEWALS_MS
            renewals, self._renewals = list(self._renewals.values()), {}
            self._tell_all(renewals, self._hood.circle(RENEWALS_RANDOM, 1))
        somebody = self._hood.anybody()
        if somebody is not None:
            self._send([somebody], ClaimsDigest(self._hood.claims.digest))

    def _renew(self, claim: Claim) -> None:
        if len(self._renewals) < CLAIMS_KEPT:
            address = claim.holder.address
            self._renewals[claim.place, (address.peer, address.slot)] = claim

    # --- what others say ---

    def on_claims(self, now_ms: int, sender: Address, message: Claims, standing: bool) -> bool:
        """Returns whether that has changed what is known."""
        claims = self._hood.claims
        revision = known = claims.revision
        is_told = message.news and sender in self.siblings  # to others by whom we hear it from
        for claim in message.claims:
            if is_told:
                self._was_passed_on(claim)
            if claims.about_me(claim):
                if standing:
                    self._defend(now_ms, claim)
            elif claim.holder.address not in self._hood.gone or claim.ended:
                if claims.add(now_ms, claim) and message.news and not is_told:
                    if claims.revision != known:
                        self._note(now_ms, claim)
                    else:
                        self._renew(claim)
                known = claims.revision
        if message.asking:
            self.tell(now_ms, sender, message.asking)
        return claims.revision != revision

    def _was_passed_on(self, claim: Claim) -> None:
        address = claim.holder.address
        key = claim.place, (address.peer, address.slot)
        for waiting in (self._news, self._renewals):
            if key in waiting and waiting[key].turn <= claim.turn:
                del waiting[key]

    def _defend(self, now_ms: int, claim: Claim) -> None:
        """Somebody says something of our claims: if it is not what we say, say it louder."""
        if claim.holder.address.boot != self._hood.me.boot or claim.turn > VERSION_MAX:
            return
        ours = claim.place in self.claimed_ms
        if ours:
            mine = self._hood.claims.mine(claim.place)
            said = self._turn if mine is None else mine.turn  # in that ring: turns count in all of them
            if (claim.turn, claim.ended) <= (said, False):
                return
        self._turn = max(self._turn, claim.turn)
        if ours and claim.place in self._hood.rings:
            self._claim(now_ms, claim.place)
        elif ours:  # it was about to end
            self._end(now_ms, claim.place)
        elif not claim.ended:
            self._say(now_ms, Claim(claim.place, self._hood.own, self._next_turn(), ended=True))

    def tell(self, now_ms: int, to: Address, parts: int, asking: bool = False) -> None:
        """What we know of these parts; `asking` for what the other one knows."""
        batches = list(self._hood.claims.batches(now_ms, parts)) or [()]
        for number, batch in enumerate(batches):
            self._send([to], Claims(batch, parts if asking and number == len(batches) - 1 else 0))

    def on_digest(self, now_ms: int, sender: Address, message: ClaimsDigest) -> None:
        claims = self._hood.claims
        if message.digest == claims.digest:
            return
        if not message.parts:
            self._send([sender], ClaimsDigest(claims.digest, tuple(claims.parts)))
        elif different := claims.different(message.parts):
            self.tell(now_ms, sender, different, asking=True)
