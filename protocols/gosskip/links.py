"""All links of one place: by key, for routing (`Table`), and by kind, for those who look at it."""

from typing import Final

from protocols.gosskip.chain import GONE, Chain
from protocols.gosskip.desk import Desk
from protocols.gosskip.levels import LEVELS_MAX, Levels
from protocols.gosskip.messages import Farewell
from protocols.gosskip.routing import Table
from protocols.model.ids import Address
from protocols.overlay import Link, LinkDown, LinkUp

SIDES: Final = ("left", "right")
KINDS: Final = {side: [f"level-{level}-{side}" for level in range(LEVELS_MAX + 1)] for side in SIDES}


class Links:
    __slots__ = ("_chain", "_desk", "_levels", "_shown", "_table")

    def __init__(self, desk: Desk, table: Table, chain: Chain, levels: Levels) -> None:
        self._desk = desk
        self._table = table
        self._chain = chain
        self._levels = levels
        self._shown: dict[str, Address] = {}

    def renew(self) -> None:
        """The links have changed: know them by key, say which, and tell those who are none any more."""
        dropped, self._levels.dropped = self._levels.dropped, []
        if self._desk.config.eager_ms:
            me = self._chain.me
            for spot, level in dropped:
                self._desk.send(spot.address, Farewell(spot.version, me.version, level))
        ends = [spot for spot in (self._chain.left, self._chain.right) if spot is not None]
        self._table.assign([*ends, *self._levels.spots()])
        shown = self._of_levels()
        if shown == self._shown:
            return
        for kind, to in self._shown.items():
            if shown.get(kind) != to:
                self._desk.out.report(LinkDown(kind, to))
        for kind, to in shown.items():
            if self._shown.get(kind) != to:
                self._desk.out.report(LinkUp(kind, to))
        self._shown = shown

    def _of_levels(self) -> dict[str, Address]:
        sides = zip(KINDS.values(), (self._levels.left, self._levels.right))
        return {kinds[level]: held.spot.address for kinds, links in sides for level, held in links.items()}

    def all(self) -> list[Link]:
        if self._chain.state == GONE:
            return []
        ends = zip(SIDES, (self._chain.left, self._chain.right))
        kinds = {kind: spot.address for kind, spot in ends if spot is not None} | self._of_levels()
        return [Link(kind, to) for kind, to in kinds.items()]
