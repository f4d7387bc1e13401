"""Keepers: who keeps the broad ranges of a cell, and how they get and stay there (`cells`).

The keeper of a cell is the home of its first value: the last place at or before it, or the head if there is none. Its
left neighbour has a copy (the head's copy is with its right one), since it is the keeper when the other goes.

    owner ──Store──► keeper of the first cell ──Store──► keeper of the next one … ──► the last one ──Held──► owner
                         │Keep                               │Keep
                         ▼                                   ▼
                     left neighbour                      left neighbour

**Stored.** A `Store` is routed to the first cell and walks from keeper to keeper, each of which takes all cells up to
its right neighbour. The last one answers, so the answer proves that all have it. The owner stores again every
`REFRESH_MS`; what was not for `LEASE_MS` is forgotten. A place that goes takes its range back the same way (`drop`).

**Recalled.** Who takes the part of others of which it has no copies (keeper and deputy died together, two halves of the
list have merged) has it told to everyone, with the gossip, that entries are lost; then all owners store again at once,
and once more a little later, for what was stored before the list was whole.

**Handed over.** A place gets to keep a cell, or ceases to, in one step of one place, as it becomes home there
(`chain`). Messages between two places keep their order, hence in calm and through graceful change no event finds its
keeper without an entry:

| event | why the keeper has the entry |
|---|---|
| y joins behind x | x sends what is kept behind y (`Keep`) before it answers y, and every event for it afterwards |
| y joins before the head | so does the head, with everything that is kept before it |
| y leaves | its left neighbour has had a copy of each entry since it was stored, or since it is the neighbour |
| the head leaves | so has its right neighbour |
| y leaves while something is stored | it does not take it, so that nothing is acknowledged, and the owner tries again |
| y dies | as if it left, but for what was under way; if its left neighbour dies too, it is recalled |
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from protocols.gosskip.boxes import Boxes
from protocols.gosskip.chain import JOINING, LEAVING, STANDING, Chain
from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import Held, Keep, Kept, Store, chunks
from protocols.gosskip.order import Key, PlaceId, Spot
from protocols.model.box import Point
from protocols.model.ids import Address
from protocols.overlay import Control, Message, Rejected

REFRESH_MS: Final = 60_000
"""How often a range is stored again (specification, section 1)."""
AGAIN_MS: Final = 2_000
"""If that is not answered, it is done again so soon: the specification's time for an answer."""
LEASE_MS: Final = 3 * REFRESH_MS
"""Specification, section 1: three times the refresh."""
REQUESTS_MAX: Final = 16
"""Times that the own range was stored of which the answer still counts: half a minute's worth."""


class Keeper:
    """What one place keeps in its cells, and what it does so that its own range is kept."""

    __slots__ = ("_boxes", "_chain", "_desk", "_due_ms", "_forward", "_me", "_reqs", "_until_ms", "stored_ms")

    def __init__(self, desk: Desk, chain: Chain, forward: Callable[[Key, Message], bool]) -> None:
        """`forward` sends a message on towards a key, unless it ends here."""
        self._desk = desk
        self._chain = chain
        self._forward = forward
        self._me = chain.me
        self._boxes = Boxes()
        self._until_ms: dict[PlaceId, int] = {}
        self._due_ms = 0
        self._reqs: list[int] = []
        self.stored_ms = 0  # when the own range was sent out last

    def __len__(self) -> int:
        return len(self._boxes)

    def __contains__(self, id_: PlaceId) -> bool:
        return id_ in self._boxes

    def matching(self, number: int, point: Point) -> list[Spot]:
        """The places whose broad ranges of that raster hold a point."""
        return [spot for spot in self._boxes.matching(point) if spot.number == number]

    def all_matching(self, point: Point) -> list[Spot]:
        return self._boxes.matching(point)

    # --- the own range ------------------------------------------------------------------------------------------------

    def own_cells(self) -> list[Key]:
        """Where the cells of this place's range start."""
        dictionary = self._desk.dictionary
        return [dictionary.cell_key(self._me, cell) for cell in dictionary.cells(self._me)]

    def store_own(self) -> None:
        """Have this place's range kept, and again until that is answered with `Held`."""
        self.stored_ms = self._desk.now_ms
        self._due_ms = self.stored_ms + AGAIN_MS
        self._reqs = [*self._reqs[1 - REQUESTS_MAX :], self._desk.new_request()]
        self._store_own(self._reqs[-1], drop=False)

    def drop_own(self) -> None:
        if self._me.is_broad:
            self._store_own(0, drop=True)

    def _store_own(self, req: int, drop: bool) -> None:
        me = self._me
        self._desk.send(me.address, Store(me.version, me.descriptor, self._desk.dictionary.cells(me).start, req, drop))

    def on_held(self, req: int) -> bool:
        """Returns whether all cells have the own range: for a while there is nothing to do."""
        if req not in self._reqs:
            return False
        self._due_ms = self._desk.jittered(self._desk.now_ms, REFRESH_MS)
        return True

    def tick(self, now_ms: int, is_recalled: bool) -> None:
        """Once a period: store again what has to be, forget what nobody has stored again."""
        if self._me.is_broad and self._chain.state == STANDING and (is_recalled or now_ms >= self._due_ms):
            self.store_own()
        for id_ in [id_ for id_, until_ms in self._until_ms.items() if until_ms <= now_ms]:
            self._remove(id_)

    # --- for others ---------------------------------------------------------------------------------------------------

    def on_store(self, now_ms: int, sender: Address, message: Store) -> None:
        owner = self._desk.dictionary.spot(message.owner)
        cells = self._desk.dictionary.cells(owner) if owner.is_broad else range(0)
        if message.cell not in cells:
            self._desk.out.report(Rejected(sender, "a range is stored where it has no cell"))
            return
        state = self._chain.state
        if state == JOINING or self._forward(self._desk.dictionary.cell_key(owner, message.cell), message):
            return
        if state != STANDING and not (message.drop and state == LEAVING):
            return
        if message.drop:
            self._remove(owner.id)
        elif not self._add(owner, now_ms + LEASE_MS):
            return
        self._copy([owner], message.drop)
        right = self._chain.right
        for cell in range(message.cell + 1, cells.stop):
            key = self._desk.dictionary.cell_key(owner, cell)
            if right is not None and key > right.key:
                self._forward(key, replace(message, cell=cell, hops=0))
                return
        if not message.drop:
            self._desk.send(owner.address, Held(owner.version, message.req))

    def on_keep(self, now_ms: int, message: Keep) -> None:
        """What a neighbour keeps; or this place from now on."""
        for entry in message.entries:
            spot = self._desk.dictionary.spot(entry.place)
            if entry.left_ms == 0:
                self._remove(spot.id)
            elif spot.is_broad:
                self._add(spot, now_ms + min(entry.left_ms, LEASE_MS))

    def lost(self, is_gone: Callable[[Spot], bool]) -> None:
        for id_ in [id_ for id_, spot in self._boxes.spots.items() if is_gone(spot)]:
            self._remove(id_)

    def _add(self, spot: Spot, until_ms: int) -> bool:
        if spot.id not in self._boxes:
            if len(self._boxes) >= self._desk.config.entries_max:
                self._desk.out.report(Control("cells-full", float(len(self._boxes))))
                return False
            if not self._boxes.add(spot):
                return False
        self._until_ms[spot.id] = max(until_ms, self._until_ms.get(spot.id, 0))
        return True

    def _remove(self, id_: PlaceId) -> None:
        self._boxes.pop(id_)
        self._until_ms.pop(id_, None)

    # --- handing over -------------------------------------------------------------------------------------------------

    def another_right(self, former: Spot | None) -> None:
        """There is another right neighbour: it keeps what falls behind it. If it stands further away than the former
        one, this place has more to keep than its deputy has copies of."""
        right = self._chain.right
        if not self._boxes:
            return
        is_head = self._chain.left is None
        if right is not None:
            beyond = self._chain.successors[0].key if self._chain.successors else None
            self._send(right, self._between(None if is_head else right.key, None if is_head else beyond))
        if former is not None and (right is None or right.key > former.key):
            self._copy(self._between(None if is_head else self._me.key, None if right is None else right.key))

    def another_left(self, former: Spot | None) -> None:
        """There is another left neighbour, which is this place's deputy; or, if this was the head, keeps from now on
        what falls before it."""
        if self._boxes:
            right = self._chain.right
            lo = None if former is None or self._chain.left is None else self._me.key
            self._copy(self._between(lo, None if right is None else right.key))

    def _copy(self, spots: list[Spot], drop: bool = False) -> None:
        """To whoever keeps it if this place goes."""
        deputy = self._chain.left or self._chain.right
        if deputy is not None:
            self._send(deputy, spots, drop)

    def _send(self, to: Spot, spots: list[Spot], drop: bool = False) -> None:
        now_ms = self._desk.now_ms
        for portion in chunks([spot.descriptor for spot in spots]):
            ids = [(each.address, each.version) for each in portion]
            left = [0 if drop else max(1, self._until_ms[id_] - now_ms) for id_ in ids]
            if portion:
                entries = tuple([Kept(each, left_ms) for each, left_ms in zip(portion, left)])
                self._desk.send(to.address, Keep(to.version, entries))

    def _between(self, lo: Key | None, hi: Key | None) -> list[Spot]:
        """The ranges that have a cell that starts behind `lo` and before `hi`."""
        return [spot for spot in self._boxes.spots.values() if self._is_between(spot, lo, hi)]

    def _is_between(self, spot: Spot, lo: Key | None, hi: Key | None) -> bool:
        dictionary = self._desk.dictionary
        cells = dictionary.cells(spot)
        at = 0 if lo is None else bisect_right(cells, lo, key=lambda cell: dictionary.cell_key(spot, cell))
        return at < len(cells) and (hi is None or dictionary.cell_key(spot, cells[at]) < hi)
