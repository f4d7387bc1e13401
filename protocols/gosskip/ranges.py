"""Ranges that reach to a place, and how they get there.

The routing entries of the paper (section 3.5): every place under a range stores it, and so does the first one beyond
its end. So both places beside an event know everyone who may want it, and it ends at whichever it comes to first ("one
of the matching peers if any, or a close peer", section 3.4). With x the left neighbour of y:

    known(y) = x itself, and those of known(x) that reach beyond x

So knowledge flows right along level 0, from each place to its right neighbour, as far as a range reaches: news at once
(`Ranges`), and once a period a digest in the level-0 gossip that both sides can compute; if they differ, the right one
asks for everything (`Pull`). Nothing has to be refreshed or leased: a range whose owner has left or died is not told
any more by the owner's former left neighbour, and vanishes along its whole length; and nothing has to be handed over
when a place goes, since its left neighbour knows all that it knew of what falls right of it.

**In doubt.** A left neighbour that was lost may have been well, only slow; and who stands there instead may stand too
far left, beyond others that have lost their neighbours as well, and know nothing of those. What it does not name is
therefore not forgotten at once. It is in doubt for a while: it is served as before, and its owner is asked, who closes
the gap if it lives.

Of what falls left of it a place knows everything only as long as it has the left neighbour that has told it (`whole`).
Until then it passes such events on to that one.

Differs from the paper, where the message rides on the gossip and takes a period per place.

That all of them know a range is proved by a probe that follows it (`probes`).

An event is tested against the whole box where it ends: a range with wildcards in it causes no false positive.

With `cells` all this is for narrow ranges; broad ones have keepers.
"""

from collections.abc import Callable
from typing import Final

from protocols.gosskip.boxes import Boxes, mark_of
from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import Pull, Ranges, chunks
from protocols.gosskip.order import PlaceId, Spot, covers
from protocols.gosskip.probes import Probes
from protocols.model.box import Point
from protocols.model.descriptor import Descriptor
from protocols.overlay import Control

DOUBT_MS: Final = 10_000
"""How long a range in doubt is kept: liveness' time until death, in which others find who is dead between them."""


class Known:
    """The ranges that reach to one place, and what its right neighbour must know of them."""

    __slots__ = ("_boxes", "_desk", "_doubted_ms", "_marks", "_me", "_named", "probes", "right", "whole")

    def __init__(self, desk: Desk, me: Spot, has_lost_right: Callable[[], bool]) -> None:
        """`has_lost_right`: whether there should be a right neighbour, but is none."""
        self._desk = desk
        self._me = me
        self._boxes = Boxes()
        self._marks: dict[PlaceId, int] = {}
        self._named: dict[PlaceId, None] | None = None  # told since `begin`, until `end`
        self._doubted_ms: dict[PlaceId, int] = {}  # what no left neighbour tells any more, and since when
        self.probes = Probes(desk, me, self.owner_of, self.next_under, lambda x: self._goes_on(x) and has_lost_right())
        self.right: Spot | None = None
        self.whole = False  # all that the left neighbour has to tell is known

    def __len__(self) -> int:
        return len(self._boxes)

    def __contains__(self, id_: PlaceId) -> bool:
        return id_ in self._boxes

    def spots(self) -> list[Spot]:
        return list(self._boxes.spots.values())

    def owner_of(self, id_: PlaceId) -> Spot | None:
        """The owner of a range that is known here, or is this place's own."""
        return self._me if id_ == self._me.id else self._boxes.spots.get(id_)

    def next_under(self, owner: Spot) -> Spot | None:
        """The right neighbour, if it has to know a range."""
        return self.right if self._goes_on(owner) else None

    def matching(self, point: Point) -> list[Spot]:
        """The places whose boxes hold a point, but for this one."""
        return self._boxes.matching(point)

    # --- towards the right --------------------------------------------------------------------------------------------

    def _goes_on(self, spot: Spot) -> bool:
        """Whether the right neighbour has to know a range that is known here, or is this place's own."""
        if spot is self._me:
            return spot.is_told
        return covers(spot, self._me)

    def _reaching(self) -> list[Spot]:
        """The ranges that the right neighbour must know."""
        return [spot for spot in (*self._boxes.spots.values(), self._me) if self._goes_on(spot)]

    def digest_for_right(self) -> int:
        """What the right neighbour's own digest should be."""
        me = self._me
        result = mark_of(me.id) if me.is_told else 0
        for id_, known in self._boxes.spots.items():
            if known.list == me.list and me.key[1] < known.end:  # `covers`, without the call
                result ^= self._marks[id_]
        return result

    def digest(self) -> int:
        """Of what the left neighbour has told."""
        result = 0
        for mark in self._marks.values():
            result ^= mark
        for id_ in self._doubted_ms:
            result ^= self._marks[id_]
        return result

    def portions(self) -> list[tuple[Descriptor, ...]]:
        """All ranges that the right neighbour must know, in as many messages as that takes."""
        return chunks([spot.descriptor for spot in self._reaching()])

    def tell_all(self, to: Spot) -> None:
        portions = self.portions()
        last = len(portions) - 1
        for number, portion in enumerate(portions):
            message = Ranges(to.version, self._me.descriptor, portion, (), number == 0, number == last)
            self._desk.send(to.address, message)

    def tell_own(self) -> None:
        """The right neighbour knows all but this place's own range."""
        self._tell([self._me], [])

    def _tell(self, added: list[Spot], dropped: list[Spot]) -> None:
        right = self.right
        if right is None:
            return
        add = [spot.descriptor for spot in added if self._goes_on(spot)]
        drop = [spot.descriptor for spot in dropped if self._goes_on(spot)]
        for portion in chunks(add):
            if portion:
                self._desk.send(right.address, Ranges(right.version, self._me.descriptor, portion))
        for portion in chunks(drop):
            if portion:
                self._desk.send(right.address, Ranges(right.version, self._me.descriptor, (), portion))

    # --- from the left ------------------------------------------------------------------------------------------------

    def take(self, message: Ranges) -> list[Spot]:
        """What the left neighbour tells. Returns the ranges that are new here."""
        if message.begin:
            self._named = {}
        added: list[Spot] = []
        for descriptor in message.add:
            spot = self._desk.dictionary.spot(descriptor)
            if self._add(spot):
                added.append(spot)
            self._doubted_ms.pop(spot.id, None)
            if self._named is not None and spot.id in self._boxes:
                self._named[spot.id] = None
        dropped = self._remove_all([(descriptor.address, descriptor.version) for descriptor in message.drop])
        if message.end and self._named is not None:
            self._doubt([id_ for id_ in self._boxes.spots if id_ not in self._named])
            self._named = None
        self._tell(added, dropped)
        return added

    def copy_left(self, descriptors: tuple[Descriptor, ...]) -> None:
        """What a left neighbour tells a place that is about to stand."""
        for descriptor in descriptors:
            self._add(self._desk.dictionary.spot(descriptor))

    def forget_all(self) -> None:
        """There is nobody left of here any more."""
        self._tell([], self._remove_all(list(self._boxes.spots)))

    def another_left(self, left: Spot | None, former: Spot | None) -> None:
        """There is another left neighbour. What ends before one that has come between does not reach here any more."""
        self.whole = False
        if left is not None and former is not None and left.key > former.key:
            spots = self._boxes.spots.values()
            self._remove_all([spot.id for spot in spots if not covers(spot, left) and spot.key < left.key])
        if left is None:
            self._doubt(list(self._boxes.spots))

    def forget(self, id_: PlaceId) -> None:
        """The left neighbour has left in good order."""
        self._drop([id_])

    # --- in doubt -----------------------------------------------------------------------------------------------------

    def doubted(self) -> list[Spot]:
        """The owners of ranges that no left neighbour tells (any more), and that were not taken back either."""
        return [self._boxes.spots[id_] for id_ in self._doubted_ms]

    def _doubt(self, ids: list[PlaceId]) -> None:
        for id_ in ids:
            self._doubted_ms.setdefault(id_, self._desk.now_ms)

    def lost(self, is_gone: Callable[[Spot], bool]) -> None:
        """Some places are gone for sure. What is not in doubt is for the left neighbour to take back."""
        self._drop([spot.id for spot in self.doubted() if is_gone(spot)])

    def expire(self) -> None:
        """Forget what has been in doubt for long."""
        now_ms = self._desk.now_ms
        self._drop([id_ for id_, since_ms in self._doubted_ms.items() if now_ms - since_ms >= DOUBT_MS])

    def _drop(self, ids: list[PlaceId]) -> None:
        if ids:
            self._tell([], self._remove_all(ids))

    def _add(self, spot: Spot) -> bool:
        if spot.id in self._boxes.spots or spot.id == self._me.id or not spot.is_told or spot.key > self._me.key:
            return False
        if len(self._boxes.spots) >= self._desk.config.entries_max:
            self._desk.out.report(Control("ranges-full", float(len(self._boxes.spots))))
            return False
        if not self._boxes.add(spot):
            return False
        self._marks[spot.id] = mark_of(spot.id)
        return True

    def _remove_all(self, ids: list[PlaceId]) -> list[Spot]:
        """Returns those that were known."""
        removed: list[Spot] = []
        for id_ in ids:
            spot = self._boxes.pop(id_)
            if spot is not None:
                del self._marks[id_]
                self._doubted_ms.pop(id_, None)
                self.probes.forget(id_)
                removed.append(spot)
                if self._named is not None:
                    self._named.pop(id_, None)
        return removed

    def pull(self, left: Spot) -> None:
        self._desk.send(left.address, Pull(left.version))
