"""The neighbours of a participant of the similarity graph (paper, section 4, network description).

**Proximity links.** The n participants whose interests are closest by f_s; in case of equality those with fewer
connections. They are used both ways: whom I choose learns it and forwards to me too. (The paper leaves the direction
open; of the four readings this one comes closest to its figures.)

**Variety.** Differs from the paper, with `alike_max` > 0: of the n, all but one may have my own interest, and
`alike_max` one and the same other interest. More than n participants with equal interests would choose each other only,
and events that they share with others would reach them over random links or not at all. Such closed communities are
where most false negatives of the paper's rule come from (`docs/semantic.md` has the figures).

**Random links**, r of them, lead to anybody, and are used by their owner only. Now and then one is exchanged, so that
communities do not close.
"""

from random import Random
from typing import Final

from protocols.model.box import Space
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.model.interest import NOTHING, Interest
from protocols.overlay import LinkDown, LinkUp, Outbox
from protocols.semantic.config import SemanticConfig
from protocols.semantic.proximity import parts_of, proximities

PROXIMITY: Final = "proximity"
RANDOM: Final = "random"


class Circle:
    __slots__ = ("_config", "_interests", "_out", "_rng", "_space", "choosers", "chosen", "random", "refused")

    def __init__(self, config: SemanticConfig, space: Space, out: Outbox, rng: Random) -> None:
        self._config = config
        self._space = space
        self._out = out
        self._rng = rng
        self.chosen: dict[Address, bool] = {}
        """The n neighbours by proximity, and whether they have agreed."""
        self.choosers: dict[Address, None] = {}
        """Those that chose this one."""
        self.random: dict[Address, None] = {}
        self.refused: dict[Address, None] = {}
        """Those who had no room when they were chosen, and are not asked again for a while."""
        self._interests: dict[Address, Interest] = {}  # of all of them, as they last said

    # --- who they are -------------------------------------------------------------------------------------------------

    def __contains__(self, address: Address) -> bool:
        return address in self._interests

    def neighbours(self) -> list[Address]:
        """By proximity: those chosen, and those that chose this one."""
        return list(self.chosen | dict.fromkeys(self.choosers, True))

    def everybody(self) -> list[Address]:
        return [*self.neighbours(), *self.random]

    def interests(self) -> dict[Address, Interest]:
        return dict(self._interests)

    def interest_of(self, address: Address) -> Interest:
        return self._interests.get(address, NOTHING)

    def is_complete(self) -> bool:
        """Whether all links are up that are wanted."""
        wanted = self._config.neighbours + self._config.random_links
        return len(self.chosen) + len(self.random) >= wanted and all(self.chosen.values())

    # --- who they should be -------------------------------------------------------------------------------------------

    def select(self, target: Descriptor, candidates: list[Descriptor], count: int) -> list[Descriptor]:
        """The closest to the target, with fewer connections first, and not too many of one interest."""
        near = proximities(self._space, target, candidates)
        ranked = []
        for number, each in enumerate(candidates):
            connections, _, interest = parts_of(each)
            ranked.append((-near[number], connections, each.address, number, interest))
        ranked.sort()
        own = parts_of(target)[2]
        of_own, of_others = (most_alike(self._config, count, same) for same in (True, False))
        found: list[Descriptor] = []
        too_alike: list[Descriptor] = []
        alike: dict[Interest, int] = {}
        for *_, number, interest in ranked:
            taken = alike.get(interest, 0)
            if taken < (of_own if interest == own else of_others):
                alike[interest] = taken + 1
                found.append(candidates[number])
                if len(found) == count:
                    break
            else:
                too_alike.append(candidates[number])
        return (found + too_alike)[:count]

    def closest(self, own: Descriptor, known: list[Descriptor]) -> dict[Address, Descriptor]:
        """Of those known, the neighbours to have: what has nothing in common with this one is none. One that refused
        would be chosen again every round, and leave this one a neighbour short."""
        willing = [each for each in known if each.address not in self.refused]
        best = self.select(own, willing, self._config.neighbours)
        near = proximities(self._space, own, best)
        return {each.address: each for each, nearness in zip(best, near) if nearness > 0.0}

    def fill_random(self, wanted: int, contacts: dict[Address, Descriptor], exchange: bool) -> None:
        if self.random and exchange:
            self.drop_random(next(iter(self.random)))
        strangers = [a for a in contacts if a not in self.random and a not in self.chosen]
        for address in self._rng.sample(strangers, min(len(strangers), max(0, wanted - len(self.random)))):
            self.link_at_random(contacts[address])

    # --- links --------------------------------------------------------------------------------------------------------

    def choose(self, descriptor: Descriptor) -> None:
        """Have somebody as a neighbour; it has to be told."""
        self._link(descriptor, PROXIMITY)
        self.chosen[descriptor.address] = False

    def be_chosen(self, descriptor: Descriptor) -> None:
        self._link(descriptor, PROXIMITY)
        self.choosers[descriptor.address] = None

    def link_at_random(self, descriptor: Descriptor) -> None:
        self._link(descriptor, RANDOM)
        self.random[descriptor.address] = None

    def hear(self, descriptor: Descriptor) -> None:
        """A neighbour says what it wants."""
        self._interests[descriptor.address] = parts_of(descriptor)[2]

    def unchoose(self, address: Address) -> None:
        if self.chosen.pop(address, None) is not None:
            self._dropped(address, PROXIMITY)

    def drop_chooser(self, address: Address) -> None:
        if address in self.choosers:
            del self.choosers[address]
            self._dropped(address, PROXIMITY)

    def drop_random(self, address: Address) -> None:
        if address in self.random:
            del self.random[address]
            self._dropped(address, RANDOM)

    def forget(self, address: Address) -> None:
        self.unchoose(address)
        self.drop_random(address)
        self.drop_chooser(address)

    def _link(self, descriptor: Descriptor, kind: str) -> None:
        self._out.watch(descriptor.address)
        self._out.report(LinkUp(kind, descriptor.address))
        self.hear(descriptor)

    def _dropped(self, address: Address, kind: str) -> None:
        self._out.unwatch(address)
        self._out.report(LinkDown(kind, address))
        if address not in self.chosen and address not in self.choosers and address not in self.random:
            self._interests.pop(address, None)


def most_alike(config: SemanticConfig, count: int, own: bool) -> int:
    """Of `count` participants to be selected, how many may have one and the same interest; `own`: this one's."""
    n, most = config.neighbours, config.alike_max
    if not most:
        return count
    return max(1, count * (n - 1) // n if own else count * most // n)
