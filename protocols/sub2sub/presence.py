"""What a participant presents itself as: its box, its rings, its cell; and when a box is active.

**Moving.** A new box is served before the old one is given up: first the participant presents the box that encloses
both, in the rings of both; when all of that is settled the new box is active, and it presents only that.

**Making room.** A ring of several attributes is given up for one of a single attribute if it would need a claim where
there are many already (`claims`).

**Settled** means that all ring links know us as we are, nothing has changed for `quiet_ms`, and where we know nobody at
all, nobody has claimed anything. That is more than the specification's "mutual and unchanged for 3 cycles": a ring
neighbour that stands at its exact place answers with ours, so we need not wait and hope.
"""

from math import log2
from typing import Final, NamedTuple

from protocols.model.box import EMPTY, Box, enclosing, is_empty
from protocols.model.descriptor import Descriptor
from protocols.overlay import OWN_BOX, Outbox
from protocols.sub2sub.budget import Budget
from protocols.sub2sub.claiming import Claiming
from protocols.sub2sub.compound import is_compound
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.links import Links
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.order import CELL_MAX, best_place, first_cell, length, places
from protocols.sub2sub.ring import VERSION_MAX, Candidate, Ring
from protocols.sub2sub.switching import Switching

NEVER_MS: Final = 1 << 62


class _Move(NamedTuple):
    """A box that is to become active, and in whose ring."""

    box: Box
    version: int
    place: int | None


class Presence:
    """Its owner brings links and claims into line after whatever changes the descriptor here."""

    __slots__ = (
        "_active",
        "_budget",
        "_claiming",
        "_config",
        "_count",
        "_hood",
        "_links",
        "_looked",
        "_moving",
        "_out",
        "_place",
        "_switching",
        "is_heard",
    )

    def __init__(
        self,
        hood: Neighbourhood,
        config: Sub2SubConfig,
        links: Links,
        claiming: Claiming,
        switching: Switching | None,
        budget: Budget,
        out: Outbox,
    ) -> None:
        self._hood = hood
        self._config = config
        self._links = links
        self._claiming = claiming
        self._switching = switching
        self._budget = budget
        self._out = out
        self._moving: _Move | None = _Move(EMPTY, 0, None)
        self._place: int | None = None  # in whose ring the active box stands
        self._active = -1  # the last version that did
        self._count = 0  # the version of our descriptor: boxes and cells change it
        self._looked = (-1, -1)  # the claims and our version when we last looked whether there is room
        self.is_heard = False  # others know of us: what we present is announced

    @property
    def is_moving(self) -> bool:
        """Whether a box is on its way to become active."""
        return self._moving is not None

    def subscribe(self, now_ms: int, box: Box, version: int) -> None:
        """Make for a box: present it together with the present one, until it is active."""
        if self._switching is not None:
            self._switching.shift = 0  # which said where the former box was better off
        self._move(now_ms, _Move(box, version, best_place(self._hood.space, box, self._config.ring_attributes)))

    def _move(self, now_ms: int, move: _Move) -> None:
        self._moving = move
        mine = self._hood.own.box
        at = tuple(dict.fromkeys([place for place in (self._place, move.place) if place is not None]))
        self._present(now_ms, move.box if is_empty(mine) else enclosing(mine, move.box), at)

    def make_room(self, now_ms: int) -> None:
        """Leave a ring of several attributes for that of one, if it needs a claim that there is no room for."""
        state = self._hood.claims.revision, self._hood.own.version
        if self._hood.claims.has_room or self._looked == state:
            return
        self._looked = state
        move = self._moving or _Move(self._hood.own.box, self._active, self._place)
        if move.place is not None and self._is_dear(move.place):
            self._move(now_ms, _Move(move.box, move.version, best_place(self._hood.space, move.box)))

    def _is_dear(self, place: int) -> bool:
        """Whether a ring is one of several attributes that needs a claim of ours."""
        claims, ring = self._hood.claims, self._hood.rings.get(place)
        if ring is None or not is_compound(place):
            return False
        if claims.mine(place) is not None:
            return not claims.complete
        return bool(claims.uncovered(place, ring.lo, ring.hi))

    def unsubscribe(self, now_ms: int) -> None:
        self._moving = self._place = None
        self._present(now_ms, EMPTY, ())

    def shift(self, now_ms: int) -> None:
        """Move to the cell that switching has chosen."""
        self._present(now_ms, self._hood.own.box, places(self._hood.own))

    def _cell(self, box: Box, at: tuple[int, ...]) -> int:
        """Where a box belongs: by its length, by the budget if that counts, and by how far we have moved since."""
        if self._config.variant != "cells" or not at:
            return 0
        cell = first_cell(length(self._hood.space, box, at[-1]))
        if self._switching is not None:
            cell -= self._switching.shift
        if self._config.reference and self._budget.limit is not None:
            cell += round(log2(self._config.reference / self._budget.limit))
        return max(1, min(CELL_MAX, cell))

    def _present(self, now_ms: int, box: Box, at: tuple[int, ...]) -> None:
        """Be known by this box, in the rings of these places, from now on."""
        if not at:
            box = EMPTY
        cell = self._cell(box, at)
        hood, former = self._hood, self._hood.own
        if (box, (cell, *at)) == (former.box, former.ext):
            return
        own = self._describe(box, (cell, *at))
        told: list[tuple[Ring, list[Candidate]]] = []
        for place, ring in list(hood.rings.items()):
            told.append((ring, list(ring.links.values())))
            if place in at:
                ring.present(own)
            else:
                del hood.rings[place]
                self._claiming.give_up(now_ms, place)
        for place in at:
            if place not in hood.rings:
                config = self._config
                ring = Ring(place, own, config.cycle_ms, config.ring_links_max, config.linger_ms)
                ring.learn(now_ms, hood.alive(hood.everyone()))
                hood.rings[place] = ring
        hood.offer_interest(hood.samples)
        if self.is_heard:
            for ring, links in told:
                self._links.announce(now_ms, ring, links)
        self._links.unrest(now_ms)

    def _describe(self, box: Box, ext: tuple[int, ...]) -> Descriptor:
        self._count += 1
        own = Descriptor(self._hood.me, box, self._count, 0, ext)
        self._hood.present(own)
        return own

    def refute(self, pretended: Descriptor) -> None:
        """Somebody pretends to be us: speak louder."""
        own = self._hood.own
        if own.version < pretended.version <= VERSION_MAX:
            self._count = pretended.version
            louder = self._describe(own.box, own.ext)  # type: ignore[arg-type]
            for ring in self._hood.rings.values():
                ring.present(louder)

    def settle(self, now_ms: int) -> bool:
        """Say that the box is active, once it is. Returns whether what we present has changed by that."""
        if self._moving is None:
            return False
        if not is_empty(self._hood.own.box):
            rings = self._hood.rings
            since_ms = max([self._links.changed_ms + self._config.quiet_ms, *map(self._standing_since, rings)])
            if not all(ring.is_settled() for ring in rings.values()):
                return False
            if since_ms > now_ms:
                if since_ms < NEVER_MS:
                    self._out.timer("settle", since_ms)
                return False
        (box, version, self._place), self._moving = self._moving, None
        if version > self._active:
            self._active = version
            self._out.active(OWN_BOX, version)
        self._present(now_ms, box, () if self._place is None else (self._place,))
        return True

    def _standing_since(self, place: int) -> int:
        """From when on events find the ring of a place in all of our span: claims must lead everywhere in it."""
        ring, claims = self._hood.rings[place], self._hood.claims
        free = ring.unserved()
        if free and claims.guides(place, free, 1):
            return NEVER_MS  # somebody is there, whom we have not met yet
        if not claims.complete:
            return claims.filled_ms + self._config.claim_ms  # by then the others flood their events
        if claims.uncovered(place, ring.lo, ring.hi):
            return NEVER_MS
        return self._claiming.claimed_ms.get(place, -self._config.claim_ms) + self._config.claim_ms if free else 0
