"""The rows of one node: subscription ids in lists, with a lease each.

A row is here because the node answers for a key of it, or holds a copy for one that does. Both are asked when an event
is matched: what matches, matches, wherever else it is stored, and the node that asked counts each only once.

The newest version of a row wins; a row that is told to be removed goes, if it is not newer than that, and the removal
is remembered for as long as a lease, so that no late message brings the row back. So is a newer version that has no key
here: owners whom the change does not concern still have the older one, and would have it spread again along their
copies; who is sent that one takes the newer one instead, and says so. A row whose lease was not renewed in time goes
too: its subscriber is dead, or the row belongs elsewhere by now.

**Leases.** Only the access node renews: by storing, or by asking its owners to renew. Whoever passes a row on to
another node says how long it lives on, and who holds copies is told which rows were renewed (`marks`). Copies that were
renewed for being alike would live for ever where they stand in a circle: a row with many keys is everybody's copy.

Differs from the paper: it stores bare subscription ids, which match too much as soon as two values share a node. Rows
carry their box.
"""

from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from protocols.chord.keys import HOME, Keys, Values
from protocols.chord.messages import Found, Row
from protocols.model.box import Box, Point, is_empty, match
from protocols.model.event import Attributes
from protocols.model.ids import Address
from protocols.model.index import LocalIndex

RowKey: TypeAlias = tuple[Address, int, int]
"""Access node, number and list."""

Put: TypeAlias = Literal["new", "same", "older", "full", "wrong"]

NEW: Final = "new"
SAME: Final = "same"
OLDER: Final = "older"
FULL: Final = "full"
WRONG: Final = "wrong"

NO_ATTRIBUTES: Final[Attributes] = {}


def key_of(row: Row) -> RowKey:
    return row.access, row.number, row.list


def _digest(kept: "_Kept") -> int:
    return kept.digest


def anything(attributes: object) -> bool:
    """The box decides: what matches exactly is for the subscriber to say."""
    return True


class _Kept:
    __slots__ = ("digest", "id", "lease_ms", "renewed", "row", "values")

    def __init__(self, row: Row, values: Values, id_: str, lease_ms: int) -> None:
        self.row = row
        self.values = values
        self.id = id_
        self.lease_ms = lease_ms
        self.renewed = False  # by its access node, since the holders of copies were told
        access = row.access
        named = f"{access.peer}/{access.boot}/{access.slot}/{row.number}/{row.list}/{row.version}"
        self.digest = int.from_bytes(blake2b(named.encode(), digest_size=7).digest(), "big")


class RowTable:
    __slots__ = ("_by_id", "_capacity", "_ended", "_index", "_kept", "_keys", "_lease_ms", "_made")

    def __init__(self, keys: Keys, capacity: int, lease_ms: int) -> None:
        self._keys = keys
        self._capacity = capacity
        self._lease_ms = lease_ms
        self._kept: dict[RowKey, _Kept] = {}
        self._by_id: dict[str, _Kept] = {}
        self._index = LocalIndex()
        self._made = 0
        self._ended: dict[RowKey, tuple[Row, int]] = {}  # -> by what, until when it is remembered; oldest first

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: RowKey) -> bool:
        return key in self._kept

    @property
    def rotations(self) -> tuple[int, ...]:
        return self._keys.rotations

    def get(self, key: RowKey) -> Row | None:
        kept = self._kept.get(key)
        return None if kept is None else kept.row

    def all(self) -> list[tuple[Row, int]]:
        """Every row and until when it lives."""
        return [(kept.row, kept.lease_ms) for kept in self._kept.values()]

    # --- changes ------------------------------------------------------------------------------------------------------

    def newer(self, row: Row) -> Row:
        """What is known here of a row that was found `OLDER`."""
        key = key_of(row)
        kept = self._kept.get(key)
        if kept is not None:
            return kept.row
        return self._ended[key][0]

    def left_ms(self, now_ms: int, key: RowKey) -> int:
        """How long a row lives on."""
        return max(0, self._kept[key].lease_ms - now_ms)

    def put(self, now_ms: int, row: Row, left_ms: int | None = None) -> Put:
        """Take a row, or remove it, unless a newer one is here. It lives on for `left_ms`, or for a whole lease."""
        former = self._kept.get(key_of(row))
        if former is not None and former.row.version > row.version:
            return OLDER
        ended = self._ended_by(now_ms, row)
        if ended is not None:
            if row.removed and former is None:
                return SAME
            outcome = OLDER if ended.removed else self._keep(now_ms, ended, left_ms)
            return outcome if outcome in (FULL, WRONG) else OLDER
        if row.removed:
            self.end(now_ms, row)
            return NEW
        return self._keep(now_ms, row, left_ms)

    def _keep(self, now_ms: int, row: Row, left_ms: int | None) -> Put:
        key = key_of(row)
        former = self._kept.get(key)
        lease_ms = now_ms + (self._lease_ms if left_ms is None else min(left_ms, self._lease_ms))
        if former is not None and former.row.version == row.version:
            former.lease_ms = max(former.lease_ms, lease_ms)
            return SAME
        values = None if is_empty(row.box) else self._keys.values(row.list, row.box, row.access)
        if values is None:
            return WRONG
        if former is not None:
            self.drop(key)
        elif len(self._kept) >= self._capacity:
            return FULL
        self._made += 1
        kept = self._kept[key] = _Kept(row, values, str(self._made), lease_ms)
        self._by_id[kept.id] = kept
        if row.list != HOME:
            self._index.add(kept.id, (row.box,), anything)
        return NEW

    def _ended_by(self, now_ms: int, row: Row) -> Row | None:
        """The removal or newer version by which this one is over."""
        ended, until_ms = self._ended.get(key_of(row), (row, 0))
        is_over = row.version < ended.version + ended.removed
        return ended if is_over and now_ms < until_ms else None

    def end(self, now_ms: int, row: Row) -> None:
        """A removal, or a version that has no key here, is the newest of a row: let go what there is of it."""
        key = key_of(row)
        self.drop(key)
        if self._ended_by(now_ms, row) is not None:
            return
        self._ended.pop(key, None)
        if len(self._ended) >= self._capacity:
            del self._ended[next(iter(self._ended))]
        self._ended[key] = (row, now_ms + self._lease_ms)

    def drop(self, key: RowKey) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            del self._by_id[kept.id]
            if kept.row.list != HOME:
                self._index.remove(kept.id)

    def renew(self, now_ms: int, key: RowKey, version: int) -> bool:
        """Let a row live on, as its access node says; False if it is not here in that version or a later one."""
        kept = self._kept.get(key)
        if kept is None or kept.row.version < version:
            return False
        kept.lease_ms = now_ms + self._lease_ms
        kept.renewed = True
        return True

    def expire(self, now_ms: int) -> int:
        """Let go what was not renewed in time."""
        late = [key for key, kept in self._kept.items() if kept.lease_ms <= now_ms]
        for key in late:
            self.drop(key)
        while self._ended and next(iter(self._ended.values()))[1] <= now_ms:
            del self._ended[next(iter(self._ended))]
        return len(late)

    # --- arcs ---------------------------------------------------------------------------------------------------------

    def on_arc(self, low: int, high: int) -> list[RowKey]:
        """The rows that have a key on the arc (low, high]."""
        rotations = self._keys.rotations
        return [key for key, kept in self._kept.items() if kept.values.touches(low, high, rotations)]

    def touches(self, key: RowKey, low: int, high: int) -> bool:
        """Whether a row is here and has a key on the arc (low, high]."""
        kept = self._kept.get(key)
        return kept is not None and kept.values.touches(low, high, self._keys.rotations)

    def digest(self, low: int, high: int) -> tuple[int, int]:
        """How many rows have a key on the arc, and a sum that differs if any of them does."""
        digests = [self._kept[key].digest for key in self.on_arc(low, high)]
        return len(digests), sum(digests) & (2**62 - 1)

    def _in_order(self, low: int, high: int) -> list[_Kept]:
        """The rows of an arc in the order of their digests, which is the same wherever the digests are."""
        return sorted([self._kept[key] for key in self.on_arc(low, high)], key=_digest)

    def marks(self, low: int, high: int) -> bytes:
        """A bit for each row of the arc that its access node has renewed since it was last marked."""
        rows = self._in_order(low, high)
        marks = bytearray(-(-len(rows) // 8))
        for place, kept in enumerate(rows):
            marks[place >> 3] |= kept.renewed << (place & 7)
            kept.renewed = False
        return bytes(marks)

    def renew_marked(self, now_ms: int, low: int, high: int, marks: bytes) -> None:
        """Let the rows of an arc live on that are marked: whoever has marked them has heard from their access nodes."""
        for place, kept in enumerate(self._in_order(low, high)):
            if place >> 3 < len(marks) and marks[place >> 3] >> (place & 7) & 1:
                kept.lease_ms = now_ms + self._lease_ms

    # --- events -------------------------------------------------------------------------------------------------------

    def match(self, point: Point, counted: bool) -> list[Found]:
        """The subscription ids whose rows an event at this point satisfies (paper, section 3.2).

        `counted`: each id with the lists in which it was found. Otherwise a row has the whole box, and one id of each
        access node is enough.
        """
        ids = self._index.match(point, NO_ATTRIBUTES)
        if not counted:
            one = {row.access: row for row in [self._by_id[id_].row for id_ in reversed(ids)]}
            return [Found(access, row.number, row.lists, (row.list,)) for access, row in one.items()]
        lists: dict[tuple[Address, int], dict[int, None]] = {}
        rows: dict[tuple[Address, int], Row] = {}
        for id_ in ids:
            row = self._by_id[id_].row
            name = (row.access, row.number)
            lists.setdefault(name, {})[row.list] = None
            rows[name] = row
        return [Found(*name, row.lists, tuple(lists[name])) for name, row in rows.items()]

    def home(self, access: Address, numbers: tuple[int, ...], point: Point) -> tuple[bool, bool]:
        """(whether any of these subscriptions is known here, whether the event satisfies one of them)."""
        boxes: list[Box] = []
        for number in numbers:
            kept = self._kept.get((access, number, HOME))
            if kept is not None:
                boxes.append(kept.row.box)
        return bool(boxes), any(match(box, point) for box in boxes)
