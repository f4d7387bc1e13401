"""Levels 1 and up: the paper's Figure 2.

Level 0 is the chain of neighbours (`chain`). A place that stands at position i of it should know, at level l, the
places i - k^l and i + k^l. It learns them by gossip between neighbours of a level: a message of level l carries the
sender's own entry, with the counter 0, and what came to it in the last message of that level, each with its counter
raised by one. Messages of even levels go right, those of odd levels left.

    on receipt, level l    entry with counter 0, l > 0    the neighbour of level l on the side it came from
                           entry with counter k - 1       the neighbour of level l + 1 on that side; goes no further
                           any other entry                goes on, with its counter raised

So a message has at most k entries, whatever the size of the swarm, and levels appear as long as there is anybody so far
away. A neighbour is *replaced* by the next that the gossip names, and forgotten if it names none for a few periods.

Differs from the paper: entries on the wrong side, and a place's own, are ignored (they come from the time before a
change, or from a liar). News need not wait for the next period (`eager`; specification: "slow high levels"), so that
what is no news need not be said at every turn (`calm_turns`); nor does
the end of a link wait until it expires:

- where two messages of level l in a row name nobody k places away there is nobody at level l + 1;
- whom a place does not gossip with any more it tells so (`dropped`);
- who gossips with this place, and was silent for longer than it should be, is asked whether it still does (`silent`),
  and is dropped if it does not answer: high levels have long turns, and nobody watches their links;
- without a neighbour at level l there is nobody on that side who could name one at level l + 1.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from protocols.gosskip.messages import ANY, Ages, Forwarded, Gossip
from protocols.gosskip.order import Dictionary, Key, PlaceId, Spot

LEVELS_MAX: Final = 48
"""2^48 places are enough."""

OUT_PERIODS: Final = 2
"""What was received goes on for so long. The paper says one period; periods are jittered, so one message may come just
after the next one was sent."""
MISSES_MAX: Final = 2
"""For the same reason a single message without an entry says nothing."""
RECEIVED_MAX: Final = 2
"""So many places may take this one for their neighbour at a level: one that is right, and one that was."""
ASKED_PERIODS: Final = 3
"""So many periods one that is silent has to answer, and is asked in each. A guess."""
SAID_TURNS: Final = 2
"""So often the same is said at turns in a row: as often as it takes for a miss."""


class Held:
    """A neighbour, when the gossip last named it, by whom, and whether it has done so more than once."""

    __slots__ = ("heard_ms", "is_confirmed", "spot", "via")

    def __init__(self, spot: Spot, heard_ms: int, via: PlaceId) -> None:
        self.spot = spot
        self.heard_ms = heard_ms
        self.via = via
        self.is_confirmed = False


class Received(NamedTuple):
    """What of a message goes on, when it came, and from whom."""

    at_ms: int
    via: PlaceId
    entries: tuple[Forwarded, ...]


class Levels:
    """The neighbours of one place from level 1 on, by level."""

    __slots__ = (
        "_calm_turns",
        "_dictionary",
        "_displaced",
        "_eager",
        "_expire_periods",
        "_k",
        "_me",
        "_misses",
        "_out",
        "_said",
        "_t_ms",
        "dropped",
        "left",
        "right",
    )

    def __init__(
        self,
        me: Spot,
        dictionary: Dictionary,
        k: int,
        t_ms: int,
        expire_periods: int,
        eager: bool = False,
        calm_turns: int = 1,
    ) -> None:
        self._me = me
        self._dictionary = dictionary
        self._k = k
        self._t_ms = t_ms
        self._expire_periods = expire_periods
        self._eager = eager
        self._calm_turns = calm_turns
        self._displaced: dict[tuple[bool, int], Held] = {}  # (is left, level) -> the neighbour before this one
        self._said: dict[int, tuple[object, int]] = {}  # level -> what was said last, and for how many turns since
        self._misses: dict[int, int] = {}  # level -> how many of its last messages named nobody k places away
        self.dropped: list[tuple[Spot, int]] = []  # whom this place does not gossip with any more, and at which level
        self.left: dict[int, Held] = {}
        self.right: dict[int, Held] = {}
        self._out: dict[int, list[Received]] = {}  # level -> what its last messages have left to go on, oldest first

    def receive(self, now_ms: int, message: Gossip) -> list[int]:
        """Figure 2 (a). Returns the levels at which there are news to pass on."""
        level, via = message.level, (message.place.address, message.place.version)
        before = self._out.get(level, [])
        said = self._received(level)
        news: list[int] = []
        out: list[Forwarded] = []
        for place, counter in [(message.place, 0), *[(e.place, e.counter) for e in message.entries]]:
            spot = self._dictionary.spot(place)
            if not self._fits(level, spot.key):
                continue
            if counter == 0 and level != 0:
                news += self._add(now_ms, level, level, spot, via)
            if counter == self._k - 1:
                news += self._add(now_ms, level, level + 1, spot, via)
            elif counter < self._k - 1:
                out.append(Forwarded(spot.descriptor, counter + 1))
        others = [received for received in before if received.via != via]
        self._out[level] = [*others[1 - RECEIVED_MAX :], Received(now_ms, via, tuple(out))]
        self._miss(level, any(entry.counter == self._k - 1 for entry in message.entries))
        if [e.place for e in (() if said is None else said.entries)] != [e.place for e in out]:
            news.append(level)
        return news

    def emit(
        self, now_ms: int, level: int, neighbour: Spot, lists: Ages = (), digest: int = 0, recall_age_ms: int = ANY
    ) -> Gossip:
        """Figure 2 (b): what goes to the neighbour at that level, with what it takes along."""
        received = self._received(level)
        entries = () if received is None else received.entries
        if received is not None and now_ms - received.at_ms > OUT_PERIODS * self._turn_ms(level):
            entries = ()
        return Gossip(neighbour.version, level, self._me.descriptor, entries, lists, digest, recall_age_ms)

    def _received(self, level: int) -> Received | None:
        """What the neighbour said last that gossips with this place at a level."""
        received = self._out.get(level, [])
        if level == 0:
            return received[-1] if received else None
        held = (self.right if level % 2 else self.left).get(level)
        said = [each for each in received if held is not None and each.via == held.spot.id]
        return said[-1] if said else None

    def has_news(self, neighbour: Spot, message: Gossip) -> bool:
        """Whether a message should go out at its turn: it has not been said twice already, or not for long."""
        says = neighbour.id, [(e.place.address, e.place.version, e.counter) for e in message.entries]
        said, turns = self._said.get(message.level, (None, 0))
        turns = turns + 1 if says == said else 0
        self._said[message.level] = says, turns
        return turns < SAID_TURNS or turns % self._calm_turns == 0

    def _turn_ms(self, level: int) -> int:
        """How long after another messages of a level come that say nothing new."""
        return self._t_ms * (level + 1) * self._calm_turns

    def neighbour(self, level: int) -> Spot | None:
        """To whom gossip of a level goes: right at even levels, left at odd ones. Not for level 0."""
        held = (self.left if level % 2 else self.right).get(level)
        return None if held is None else held.spot

    def top(self) -> int:
        """The highest level at which there is a neighbour."""
        return max([0, *self.left, *self.right])

    def expire(self, now_ms: int) -> list[int]:
        """Forget whom the gossip does not name any more. Returns the levels at which that changes anything."""
        changed: list[int] = []
        for side in (self.left, self.right):
            for level, held in list(side.items()):
                silent_ms = now_ms - held.heard_ms
                # what is true is said at least twice in a row; what is not confirmed by then was a lie
                periods = self._expire_periods + (2 * (self._calm_turns - 1) if held.is_confirmed else 0)
                is_expired = silent_ms > periods * self._t_ms * (level + 1) + self._t_ms
                if self._eager and self._gossips_here(side, level):
                    is_expired = is_expired or silent_ms > self._patience_ms(level) + ASKED_PERIODS * self._t_ms
                elif self._eager and level > 1 and level - 1 not in side:
                    is_expired = is_expired or silent_ms > self._t_ms * (level + 1)
                if is_expired:
                    self._drop(side, level)
                    changed += [level, *self._forget_from(held.spot.id, [level])]
        return changed

    def silent(self, now_ms: int) -> list[tuple[Spot, int]]:
        """Whom to ask for its gossip, and of which level: who should have been heard of again, and who has not named
        one that it used to name, which is not believed before it is said twice."""
        if not self._eager:
            return []
        found: list[tuple[Spot, int]] = []
        for side in (self.left, self.right):
            for level, held in side.items():
                is_missing = level + 1 in side and self._misses.get(level, 0) > 0
                is_late = now_ms - held.heard_ms > self._patience_ms(level)
                if self._gossips_here(side, level) and (is_late or is_missing):
                    found.append((held.spot, level))
        return found

    def _gossips_here(self, side: dict[int, Held], level: int) -> bool:
        """Whether it is the neighbour that gossips with this place at a level, not the other way round."""
        return side is (self.right if level % 2 else self.left)

    def _patience_ms(self, level: int) -> int:
        """After so long somebody who gossips with this place should have been heard of again."""
        return self._turn_ms(level) + 2 * self._t_ms

    def farewell(self, now_ms: int, id_: PlaceId, level: int) -> list[int]:
        """A place does not gossip with this one any more at a level. Returns the levels at which that changes anything.

        What it said is forgotten with it, and who it displaced may be the neighbour again, and is asked: of two who
        take this place for their neighbour at a level, the one who is wrong may have been the last to say so."""
        changed: list[int] = []
        side = self.right if level % 2 else self.left
        for at in (level, level + 1):
            held = side.get(at)
            if held is None or id_ not in (held.spot.id, held.via):
                continue
            displaced = self._displaced.pop((side is self.left, at), None)
            if displaced is not None and displaced.spot.id == id_:
                displaced = None
            if displaced is None and held.spot.id != id_:
                continue
            self._drop(side, at)
            if displaced is not None:
                side[at] = displaced
                if self._eager and self._gossips_here(side, at):  # ask it, and wait for its answer
                    displaced.heard_ms, displaced.is_confirmed = now_ms - self._patience_ms(at) - 1, True
            changed.append(at)
        return changed + self._forget_from(id_, [level])

    def forget_where(self, is_gone: Callable[[Spot], bool], surely: bool = True) -> list[int]:
        """Places are gone; if that is not sure, they are told, in case that it was a lie. Returns the levels at which
        that changes anything."""
        changed: list[int] = []
        for side in (self.left, self.right):
            for level in [level for level, held in side.items() if is_gone(held.spot)]:
                changed += [level, *self._forget_from(side[level].spot.id, list(self._out))]
                if surely:
                    del side[level]
                else:
                    self._drop(side, level)
        self._displaced = {at: held for at, held in self._displaced.items() if not is_gone(held.spot)}
        return changed

    def _forget_from(self, id_: PlaceId, levels: list[int]) -> list[int]:
        """At these levels nothing goes on that came from a place, or names it. Returns those where anything did."""
        changed: list[int] = []
        for level in levels:
            before = self._out.get(level, [])
            after: list[Received] = []
            for each in before:
                entries = tuple([e for e in each.entries if (e.place.address, e.place.version) != id_])
                if each.via != id_:
                    after.append(each._replace(entries=entries))
            if after != before:
                self._out[level] = after
                changed.append(level)
        return changed

    def spots(self) -> Sequence[Spot]:
        return [held.spot for side in (self.left, self.right) for held in side.values()]

    def _fits(self, level: int, key: Key) -> bool:
        """Gossip of even levels comes from the left."""
        mine = self._me.key
        return key > mine if level % 2 else key < mine

    def _add(self, now_ms: int, message_level: int, level: int, spot: Spot, via: PlaceId) -> list[int]:
        if level > LEVELS_MAX:
            return []
        side = self.right if message_level % 2 else self.left
        held = side.get(level)
        if held is not None and held.spot.id == spot.id:
            held.heard_ms, held.via, held.is_confirmed = now_ms, via, True
            return []
        if held is not None:
            self._displaced[side is self.left, level] = held
            self._drop(side, level)
        side[level] = Held(spot, now_ms, via)
        return [level]

    def _miss(self, level: int, is_named: bool) -> None:
        """Whether a message of a level named somebody at the next one."""
        misses = self._misses[level] = 0 if is_named else self._misses.get(level, 0) + 1
        side = self.right if level % 2 else self.left
        if self._eager and misses >= MISSES_MAX and level + 1 in side:
            self._drop(side, level + 1)

    def _drop(self, side: dict[int, Held], level: int) -> None:
        spot = side.pop(level).spot
        if side is (self.left if level % 2 else self.right):
            self.dropped.append((spot, level))
