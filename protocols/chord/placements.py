"""The access node's side: its own subscriptions, and where their rows are.

Each box is a subscription id (c1, c2, c3): this node, a number of its own, and in how many lists it is (paper, section
3). Which lists, depends on how events are matched:

- `rendezvous`: one, that of the most selective side, and the row has the whole box.
- `parallel` and `chain`: one for each side that can be indexed, as in the paper, and the row has that side only.

The metadata, the whole box, stand under c1, unless subscribers are told directly and each row has the whole box.

A box of which no side can be indexed, or none that is narrow enough for a range of nodes, is under the key that every
event asks. So it does not matter for correctness which lists a box is in: an event asks for all of its values.

**Active.** Every answer (`Stored`) names the arc that its sender answers for. A box is active when all values of all
its rows lie on such arcs: then each of their owners has the row, and its copies have it too.

**Update** (paper, section 3.1.2). The row gets a higher version. Values that are new are stored first; when they are
covered the new box is active; after `linger_ms` the values that are no longer wanted are told of the new version, upon
which nodes that it does not concern forget the row. The values in both are left alone, unless the rest of the box has
changed with them: their owners' leases are asked for in the oldest version that will do (`Placement.since`). Differs
from the paper: deleting waits, because the questions of one event are not asked at the same moment, and one that missed
the new row must find the old one.

**Leases.** Every `refresh_ms` each owner is asked to renew what it has. What it lacks, and the arcs that it does not
answer for any more, are uncovered again and stored anew at once. The access node is the truth about its subscriptions.
"""

from itertools import islice
from typing import Final

from protocols.chord.config import ChordConfig
from protocols.chord.coverage import Arc, Coverage
from protocols.chord.ids import Circle
from protocols.chord.keys import ANY, HOME, Keys, Values
from protocols.chord.messages import ITEMS_MAX, Lease, Refresh, Refreshed, Row, Store, Stored
from protocols.chord.ranges import Ranges
from protocols.chord.ring import Ring
from protocols.chord.sides import is_numbers, one_side, outside, without_side
from protocols.model.box import Box, Point
from protocols.model.ids import Address
from protocols.model.index import LocalIndex
from protocols.overlay import Outbox

OUTGROWN: Final = 2
"""How many times `range_nodes_max` nodes a range may take up before it is stored elsewhere. A guess: the size of the
ring is an estimate, and a row must not go to and fro with it."""
WINDOW: Final = 256
"""Boxes that are being stored at a time; the others wait. A guess."""
PATIENCE: Final = 3
"""How often a row is stored in vain before another box takes its place in the window: its owner may have no room."""
REMOVALS: Final = 4
"""How often the removal of a row is tried; then it is left to its lease."""
REFRESHES: Final = 2
"""How often an owner is asked to renew before it is taken for gone."""


class Placement:
    """One row on its way to its nodes, and where it has arrived."""

    __slots__ = ("asked_ms", "coverage", "row", "since", "tries", "values")

    def __init__(self, row: Row, values: Values, rotations: tuple[int, ...]) -> None:
        self.row = row
        self.values = values
        self.since = row.version
        """The oldest version that says the same of the values that it shares with this one."""
        self.coverage = Coverage(values, rotations)
        self.asked_ms: int | None = None
        self.tries = 0


class Subscribed:
    """One box of a subscription."""

    __slots__ = ("active", "box", "id", "number", "placements", "version")

    def __init__(self, id_: str, box: Box, version: int) -> None:
        self.id = id_
        self.number = -1
        self.version = version
        self.box = box
        self.active = -1
        self.placements: dict[int, Placement] = {}


class Placements:
    __slots__ = (
        "_circle",
        "_config",
        "_doubtful",
        "_index",
        "_keys",
        "_numbers",
        "_out",
        "_ranges",
        "_refreshing",
        "_ring",
        "_storing",
        "_token",
        "_version",
        "by_number",
        "removals",
        "subscribed",
    )

    def __init__(self, ring: Ring, ranges: Ranges, keys: Keys, config: ChordConfig, out: Outbox) -> None:
        self._ring = ring
        self._ranges = ranges
        self._keys = keys
        self._circle: Circle = keys.circle
        self._config = config
        self._out = out
        self.subscribed: dict[str, Subscribed] = {}
        self.by_number: dict[int, Subscribed] = {}
        self.removals: dict[int, list[tuple[int, Placement]]] = {}
        """By number: when to begin, and a row whose nodes have to forget it or are told of a newer version."""
        self._index = LocalIndex()
        self._storing: dict[str, None] = {}  # ids that are not covered yet
        self._doubtful: dict[str, None] = {}
        self._refreshing: dict[int, tuple[Address, tuple[Lease, ...], int, int]] = {}
        self._numbers = 0
        self._token = 0
        self._version = 0

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(self, now_ms: int, id_: str, box: Box, version: int) -> None:
        """Take a box up, or give a subscription another one."""
        subscribed = self.subscribed.get(id_)
        if subscribed is None:
            subscribed = self.subscribed[id_] = Subscribed(id_, box, version)
            self._renumber(subscribed)
        else:
            self._index.remove(id_)
            subscribed.version, subscribed.box = version, box
        self._index.add(id_, (box,), _anything)
        if self._ring.standing:  # before that it is not known how large the ring is
            self._lay_out(now_ms, subscribed)

    def _lay_out(self, now_ms: int, subscribed: Subscribed) -> None:
        """Make a row for each list that the box belongs to, and begin to store them; have former ones removed."""
        self._version += 1
        former, subscribed.placements = subscribed.placements, {}
        lists = self.lists(subscribed.box)
        if former and lists != list(former) and self._config.matching != "rendezvous":
            self._renumber(subscribed)  # c3 changes: an event must not count lists of both
            self._retire(now_ms, former)
        for list_ in lists:
            self._place(subscribed, list_, len(lists) - (HOME in lists), former.pop(list_, None), now_ms)
        self._retire(now_ms, former)
        self._storing[subscribed.id] = None
        self.advance(now_ms, subscribed)

    def _renumber(self, subscribed: Subscribed) -> None:
        """Give a subscription a number that none has, nor has had: its rows would be counted with those that linger."""
        self.by_number.pop(subscribed.number, None)
        subscribed.number = self._numbers
        self.by_number[subscribed.number] = subscribed
        self._numbers += 1

    def _retire(self, now_ms: int, former: dict[int, Placement]) -> None:
        """Have rows removed that no event needs any more once those under way have been matched."""
        for placement in former.values():
            self._remove(now_ms + self._config.linger_ms, placement, self._version)
        former.clear()

    def unsubscribe(self, now_ms: int, id_: str) -> None:
        subscribed = self.subscribed.pop(id_, None)
        if subscribed is None:
            return
        self._version += 1
        self._index.remove(id_)
        del self.by_number[subscribed.number]
        self._storing.pop(id_, None)
        removals = self.removals.pop(subscribed.number, [])
        for at_ms, removal in removals:
            if removal.row.removed:
                self._remove_later(at_ms, removal)
        told = [removal for _, removal in removals if not removal.row.removed]
        for placement in (*subscribed.placements.values(), *told):
            self._remove(now_ms, placement, self._version)

    def lists(self, box: Box) -> list[int]:
        """The lists in which a box is stored."""
        sides = self._keys.sides(box)
        if self._config.matching != "rendezvous":
            return [*([list_ for list_, _ in sides] or [ANY]), HOME]
        best, least = ANY, 1.0
        for list_, share in sides:  # of equals the last: schemas name the general before the special
            if share <= least and self._nodes(list_, box, share) <= self._config.range_nodes_max:
                best, least = list_, share
        return [best, HOME] if self._config.delivery == "home" else [best]

    def _nodes(self, list_: int, box: Box, share: float) -> float:
        """On how many nodes a side of a box would be stored: one for each of its values, if these lie far apart."""
        values = self._keys.values(list_, box, self._ring.me)
        assert values is not None
        nodes = self._ring.size_estimate()
        return min(values.last - values.first + 1, share * nodes if values.ordered else nodes)

    def _place(self, subscribed: Subscribed, list_: int, lists: int, former: Placement | None, now_ms: int) -> None:
        """Make the row for one list, and take over what its former version has covered already."""
        whole = self._config.matching == "rendezvous" or list_ in (ANY, HOME)
        box = subscribed.box if whole else one_side(subscribed.box, list_)
        row = Row(self._ring.me, subscribed.number, lists, list_, self._version, box)
        values = self._keys.values(list_, box, self._ring.me)
        assert values is not None
        placement = subscribed.placements[list_] = Placement(row, values, self._keys.rotations)
        if former is None:
            return
        if former.row.lists == lists and without_side(former.row.box, list_) == without_side(box, list_):
            placement.since = former.since
            for arc in former.coverage.shared(values.first, values.last):
                placement.coverage.add(arc)
        if is_numbers(list_):
            at_ms = now_ms + self._config.linger_ms
            for first, last in outside(former.values, values):
                told = Placement(row, self._keys.run(list_, first, last), self._keys.rotations)
                self._remove_later(at_ms, told)
        elif former.values.key(0) != values.key(0):
            self._remove(now_ms + self._config.linger_ms, former, former.row.version)

    def _remove(self, at_ms: int, placement: Placement, version: int) -> None:
        row = placement.row
        gone = Row(row.access, row.number, row.lists, row.list, version, row.box, True)
        self._remove_later(at_ms, Placement(gone, placement.values, self._keys.rotations))

    def _remove_later(self, at_ms: int, removal: Placement) -> None:
        self.removals.setdefault(removal.row.number, []).append((at_ms, removal))

    def wants(self, point: Point) -> bool:
        """Whether an event falls into any of our boxes."""
        return bool(self._index.match(point, {}))

    # --- storing ------------------------------------------------------------------------------------------------------

    def advance(self, now_ms: int, subscribed: Subscribed) -> None:
        """Store what is not covered; if all is, the box is active."""
        if not self._ring.standing:
            return
        done = True
        for placement in subscribed.placements.values():
            missing = placement.coverage.missing()
            if missing:
                done = False
                self._storing.setdefault(subscribed.id, None)  # also if it was covered, and an owner answers for less
                if self._may_ask(now_ms, subscribed, placement):
                    self._store(now_ms, placement, missing)
                    if placement.tries == PATIENCE:
                        self._storing[subscribed.id] = self._storing.pop(subscribed.id)
        if done:
            self._storing.pop(subscribed.id, None)
            if subscribed.active != subscribed.version:
                subscribed.active = subscribed.version
                self._out.active(subscribed.id, subscribed.version)

    def _may_ask(self, now_ms: int, subscribed: Subscribed, placement: Placement) -> bool:
        if placement.asked_ms is not None:
            return now_ms - placement.asked_ms >= self._config.rpc_ms
        return any(id_ == subscribed.id for id_ in islice(self._storing, WINDOW))

    def _store(self, now_ms: int, placement: Placement, missing: list[tuple[int, int, int]]) -> None:
        placement.asked_ms = now_ms
        placement.tries += 1
        for turn, first, last in missing:
            self._ranges.begin(now_ms, Store(placement.row, first, last, turn))

    def on_stored(self, now_ms: int, sender: Address, message: Stored) -> None:
        low, high = self._circle.decode(message.low), self._circle.node(sender)
        subscribed = self.by_number.get(message.number)
        placement = None if subscribed is None else subscribed.placements.get(message.list)
        if subscribed is not None and placement is not None and placement.row.version == message.version:
            placement.coverage.add(Arc(sender, low, high))
            placement.asked_ms = now_ms  # it is making its way
            self.advance(now_ms, subscribed)
            self._next(now_ms)
        for _, removal in self.removals.get(message.number, ()):
            if (removal.row.list, removal.row.version) == (message.list, message.version):
                removal.coverage.add(Arc(sender, low, high))

    def _next(self, now_ms: int) -> None:
        """A place in the window may be free."""
        for id_ in islice(self._storing, WINDOW):
            subscribed = self.subscribed[id_]
            if any(placement.asked_ms is None for placement in subscribed.placements.values()):
                self.advance(now_ms, subscribed)
                return

    def begin(self, now_ms: int) -> None:
        """The node stands: store what has waited for that."""
        for subscribed in self.subscribed.values():
            self._lay_out(now_ms, subscribed)

    def again(self, now_ms: int) -> None:
        """Store once more what is not covered, and see to removals."""
        if not self._ring.standing:
            return
        for id_ in [*self._doubtful, *list(self._storing)]:
            if id_ in self.subscribed:
                self._storing.setdefault(id_, None)
                self.advance(now_ms, self.subscribed[id_])
        self._doubtful = {}
        self._remove_again(now_ms)

    def _remove_again(self, now_ms: int) -> None:
        """See to removals: none begins before what comes instead has been in place for `linger_ms`."""
        awaited = {self.subscribed[id_].number for id_ in self._storing}
        former, self.removals = self.removals, {}
        for number, removals in former.items():
            for at_ms, removal in removals:
                if number in awaited:
                    self._remove_later(max(at_ms, now_ms + self._config.linger_ms), removal)
                    continue
                missing = removal.coverage.missing()
                if not missing or removal.tries > REMOVALS:
                    continue
                self._remove_later(at_ms, removal)
                asked_ms = removal.asked_ms
                if at_ms <= now_ms and (asked_ms is None or now_ms - asked_ms >= self._config.rpc_ms):
                    self._store(now_ms, removal, missing)

    # --- leases -------------------------------------------------------------------------------------------------------

    def refresh(self, now_ms: int) -> None:
        """Ask every owner to renew our rows."""
        self._lay_out_anew(now_ms)
        held: dict[Address, dict[Lease, None]] = {}
        for subscribed in self.subscribed.values():
            for placement in subscribed.placements.values():
                lease = Lease(subscribed.number, placement.row.list, placement.since)
                for owner in placement.coverage.owners():
                    held.setdefault(owner, {})[lease] = None
        for owner, leases in held.items():
            named = list(leases)
            for start in range(0, len(named), ITEMS_MAX):
                self._ask(now_ms, owner, tuple(named[start : start + ITEMS_MAX]), REFRESHES)

    def _lay_out_anew(self, now_ms: int) -> None:
        """Choose another list for what takes up too many nodes, because the ring has grown."""
        most = OUTGROWN * self._config.range_nodes_max * len(self._keys.rotations)
        for subscribed in self.subscribed.values():
            outgrown = any(len(placement.coverage.owners()) > most for placement in subscribed.placements.values())
            if outgrown and self.lists(subscribed.box) != list(subscribed.placements):
                self._lay_out(now_ms, subscribed)

    def _ask(self, now_ms: int, owner: Address, leases: tuple[Lease, ...], left: int) -> None:
        self._token += 1
        self._refreshing[self._token] = (owner, leases, now_ms, left)
        self._out.send(owner, Refresh(self._token, leases))

    def refresh_again(self, now_ms: int) -> None:
        """An owner that does not answer is asked again, and then taken for gone."""
        for token, (owner, leases, at_ms, left) in list(self._refreshing.items()):
            if now_ms - at_ms >= self._config.rpc_ms:
                del self._refreshing[token]
                if left > 1:
                    self._ask(now_ms, owner, leases, left - 1)
                else:
                    self.lost(owner)

    def on_refreshed(self, now_ms: int, sender: Address, message: Refreshed) -> None:
        asked = self._refreshing.get(message.token)
        if asked is None or asked[0] != sender:
            return
        del self._refreshing[message.token]
        missing = dict.fromkeys(message.missing)
        low = self._circle.decode(message.low)
        for place, lease in enumerate(asked[1]):
            subscribed = self.by_number.get(lease.number)
            placement = None if subscribed is None else subscribed.placements.get(lease.list)
            if subscribed is None or placement is None or placement.since != lease.version:
                continue
            if place not in missing and message.low:
                placement.coverage.renew(sender, low, self._circle.node(sender))
            else:
                placement.coverage.without(sender)
            if placement.coverage.missing():
                self._doubtful[subscribed.id] = None
        if self._doubtful:
            self.again(now_ms)

    def lost(self, owner: Address) -> None:
        """An owner is gone, and what it held may be."""
        for subscribed in self.subscribed.values():
            for placement in subscribed.placements.values():
                if placement.coverage.without(owner):
                    self._doubtful[subscribed.id] = None


def _anything(attributes: object) -> bool:
    return True
