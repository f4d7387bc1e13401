"""Ring links as they are kept: made and given up, watched, greeted, agreed upon.

    hello to each new ring link ──> reply: itself, and who is nearer ──> other links, hello to those … until all of them
    know us as we are

`ring` decides who the links are; here is what follows from it: whom to watch, to whom to show ourselves, and since when
nothing has changed.

**Roles** (paper, section IV.C). With cells, whoever has a ring link into a lower cell is a *broker*: it brings events
into its cell. Whoever has one into a higher cell is a *feeder*. A participant may be both; roles follow from the links,
and are reported when they change.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Final, TypeAlias

from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.overlay import Control, LinkDown, LinkUp, Message, Outbox
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.messages import RingHello
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.repair import Repair
from protocols.sub2sub.ring import Candidate, Ring

ENTRIES: Final = 64
"""Entries of a reply in a ring: as many as a message takes, for exact links may be many."""
REFRESH_CYCLES: Final = 10
"""Every ring link is greeted about once in so many cycles. A guess: views are renewed in 20."""
GUIDES_MAX: Final = 4
"""Holders of claims that are asked at a time for the way into a ring. A guess."""
PLACES_MAX: Final = 4
"""Rings of which that is remembered; a participant stands in one, or in two while it moves."""

BROKER: Final = "broker"
FEEDER: Final = "feeder"

Sending: TypeAlias = Callable[[Address, Message], None]


class Links:
    """`send` charges what it sends."""

    __slots__ = (
        "_config",
        "_greeted",
        "_guided",
        "_hood",
        "_out",
        "_repair",
        "_roles",
        "_send",
        "_unrest_ms",
        "_watched",
        "changed_ms",
    )

    def __init__(self, hood: Neighbourhood, config: Sub2SubConfig, repair: Repair, send: Sending, out: Outbox) -> None:
        self._hood = hood
        self._config = config
        self._repair = repair
        self._send = send
        self._out = out
        self._greeted: dict[Address, int] = {}  # ring links and guides that owe us an answer
        self._guided: dict[int, tuple[tuple[int, int] | None, list[Descriptor]]] = {}
        self._watched: dict[Address, None] = {}
        self._roles: tuple[str, ...] = ()
        self._unrest_ms = 0  # until then gossip is quick
        self.changed_ms = 0  # when a ring last changed

    # --- unrest ---

    def unrest(self, now_ms: int) -> None:
        """Something changes: gossip quickly until every view had its turn."""
        self._unrest_ms = now_ms + self._config.cycle_ms * self._config.view

    def is_restless(self, now_ms: int) -> bool:
        return now_ms < self._unrest_ms

    # --- made and given up ---

    def relink(self, now_ms: int, ring: Ring) -> None:
        """Pick the links of a ring anew, if they may be others."""
        if not ring.changed:
            return
        added, removed = ring.resweep(now_ms)
        if not (added or removed):
            return
        self.changed_ms = now_ms
        self.unrest(now_ms)
        for kind, link in removed:
            self.drop(kind, link)
        for kind, link in added:
            self._out.report(LinkUp(kind, link.address))
            if link.address not in self._watched:
                self._watched[link.address] = None
                self._out.watch(link.address)
        if ring.overflow:
            self._out.report(Control("ring-links-overflow", ring.overflow))
        self._note_roles()

    def _note_roles(self) -> None:
        roles = tuple(sorted({role for role, _ in self.across()}))
        if roles != self._roles:
            self._roles = roles
            cells = [ring.rank[0] for ring in self._hood.rings.values()]
            self._out.report(Control("role", max(cells, default=0), {"role": " and ".join(roles) or "neither"}))

    def across(self) -> list[tuple[str, Candidate]]:
        """Links into other cells, with what we are to them: broker of those below, feeder of those above."""
        return [
            (BROKER if link.rank[0] < ring.rank[0] else FEEDER, link)
            for ring in self._hood.rings.values()
            for link in ring.links.values()
            if link.rank[0] != ring.rank[0]
        ]

    def drop(self, kind: str, link: Candidate) -> None:
        self._out.report(LinkDown(kind, link.address))
        if not any(link.key in other.links for other in self._hood.rings.values()):
            self._unwatch(link.address)

    def _unwatch(self, address: Address) -> None:
        if address in self._watched:
            del self._watched[address]
            self._out.unwatch(address)

    def unwatch_all(self) -> None:
        for address in list(self._watched):
            self._unwatch(address)

    def lost(self, address: Address) -> bool:
        """The one we watched is gone. Returns whether we did."""
        self._greeted.pop(address, None)
        known = address in self._watched
        self._watched.pop(address, None)
        return known

    # --- greeted ---

    def greet(self, now_ms: int, ring: Ring) -> None:
        """Show ourselves to links that do not know us as we are, and to those who claim what we serve alone."""
        wanted = [link.descriptor for link in ring.unconfirmed()]
        if ring.upper_left and ring.lower_left:
            wanted += self._guides(ring)
        for descriptor in wanted:
            self._hello(now_ms, ring, descriptor)

    def _guides(self, ring: Ring) -> list[Descriptor]:
        """Who claims what we serve alone; looked up once for as long as neither claims nor links change."""
        seen = (self._hood.claims.revision, ring.sweeps)
        known, guides = self._guided.get(ring.place, (None, []))
        if known != seen:
            free = ring.unserved()
            guides = self._hood.claims.guides(ring.place, free, GUIDES_MAX) if free else []
            if len(self._guided) >= PLACES_MAX:
                self._guided.clear()
            self._guided[ring.place] = (seen, guides)
        return guides

    def refresh(self, now_ms: int, ring: Ring) -> None:
        """The second VICINITY: greet those ring links whose word is oldest."""
        links = sorted(ring.links.values(), key=attrgetter("born_ms"))
        for link in links[: 1 + len(links) // REFRESH_CYCLES]:
            self._hello(now_ms, ring, link.descriptor)

    def _hello(self, now_ms: int, ring: Ring, to: Descriptor) -> None:
        if self._greeted.get(to.address, 0) > now_ms:
            return  # it was greeted a moment ago
        if len(self._greeted) > 2 * self._config.ring_links_max:
            self._greeted = {address: until for address, until in self._greeted.items() if until > now_ms}
        self._greeted[to.address] = now_ms + self._config.rpc_ms
        entries = ring.best_for(now_ms, to, self._config.gossip_length)
        self._send(to.address, RingHello(ring.place, self._hood.own, entries))

    def announce(self, now_ms: int, ring: Ring, links: list[Candidate]) -> None:
        """Show the links that a ring had our new descriptor, with those that are best for them now."""
        gone = ring.place not in self._hood.rings
        for link in links:
            self._greeted[link.address] = now_ms + self._config.rpc_ms
            entries = ring.best_for(now_ms, link.descriptor, ENTRIES)
            self._send(link.address, RingHello(ring.place, self._hood.own, entries))
            if gone:
                self.drop(ring.kind(link), link)

    def take_leave(self, now_ms: int, ring: Ring) -> None:
        """Tell the links of a ring that we go, and who is next to them then."""
        for link in ring.links.values():
            entries = ring.best_for(now_ms, link.descriptor, ENTRIES)
            self._send(link.address, RingHello(ring.place, self._hood.own, entries, True))

    def not_greeted(self, address: Address) -> None:
        """A hello has not arrived."""
        self._greeted.pop(address, None)

    def agreed(self, now_ms: int, ring: Ring, other: Descriptor) -> None:
        """A participant knows us as we are."""
        key = (other.address.peer, other.address.slot)
        if key in ring.links:
            self._greeted.pop(other.address, None)
            fresh = key not in ring.confirmed
            ring.confirmed[key] = self._hood.own.version
            if fresh:
                self._repair.compare(now_ms, ring, other.address)
