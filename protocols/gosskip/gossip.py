"""The levels of one place at work: with whom it gossips, when, and what it makes of what it hears (`levels`, `pace`).

Level 0 has more to do than the others: its gossip is a claim to be the left neighbour (`chain`), and carries a digest
of the ranges that the receiver should know (`ranges`). The gossip of every level says which lists are active (`lists`).
"""

from collections.abc import Callable

from protocols.gosskip.chain import Chain
from protocols.gosskip.desk import Desk
from protocols.gosskip.levels import Levels
from protocols.gosskip.links import Links
from protocols.gosskip.lists import Lists
from protocols.gosskip.messages import ANY, Ask, Farewell, Gossip
from protocols.gosskip.order import Spot
from protocols.gosskip.pace import Pace
from protocols.gosskip.ranges import Known
from protocols.gosskip.routing import Table
from protocols.model.ids import Address


class Gossiping:
    __slots__ = ("_chain", "_desk", "_known", "_lists", "_me", "levels", "links", "pace")

    def __init__(self, desk: Desk, lists: Lists, table: Table, chain: Chain, known: Known) -> None:
        config = desk.config
        self._desk = desk
        self._lists = lists
        self._chain = chain
        self._known = known
        self._me = chain.me
        self.levels = Levels(
            chain.me,
            desk.dictionary,
            config.k,
            config.t_ms,
            config.expire_periods,
            bool(config.eager_ms),
            config.calm_turns if config.eager_ms else 1,
        )
        self.pace = Pace(desk)
        self.links = Links(desk, table, chain, self.levels)

    # --- what is heard ------------------------------------------------------------------------------------------------

    def receive(self, now_ms: int, message: Gossip) -> None:
        is_news = self._lists.learn(now_ms, message.lists)
        if message.recall_age_ms != ANY and self._lists.recall(now_ms, message.recall_age_ms):
            is_news = True
        if is_news:
            self.hasten_all()
        if message.level == 0:
            had = self._chain.left
            if not self._chain.hear_left(self._desk.dictionary.spot(message.place)):
                return
            self._compare(message.digest)
            if self._chain.left is not had:
                self.links.renew()
        count = len(self.levels.left) + len(self.levels.right)
        news = self.levels.receive(now_ms, message)
        if len(self.levels.left) + len(self.levels.right) != count:
            self.links.renew()
        self._changed(news)

    def hasten_all(self) -> None:
        """There is something that everyone should know."""
        for level in range(self.levels.top() + 1):
            self.pace.hasten(level)

    def _compare(self, digest: int) -> None:
        """Whether the left neighbour thinks that this place knows what it knows."""
        left = self._chain.left
        is_same = digest == self._known.digest()
        self._known.whole = is_same and not self._known.doubted()
        if left is not None and not is_same:
            self._known.pull(left)

    def on_farewell(self, now_ms: int, sender: Address, message: Farewell) -> None:
        id_ = sender, message.version
        if message.level == ANY:
            self._changed(self.levels.forget_where(lambda spot: spot.id == id_))
        else:
            self._changed(self.levels.farewell(now_ms, id_, message.level))

    def on_ask(self, now_ms: int, sender: Address, message: Ask) -> None:
        to = self.levels.neighbour(message.level)
        if to is not None and to.id == (sender, message.version):
            self._emit(now_ms, message.level)
        else:
            self._desk.send(sender, Farewell(message.version, self._me.version, message.level))

    def lost(self, is_gone: Callable[[Spot], bool]) -> None:
        """Places are gone without a word."""
        self._changed(self.levels.forget_where(is_gone, surely=False))

    def _changed(self, levels: list[int]) -> None:
        """At these levels there are others to gossip with, or there is something else to say."""
        if levels:
            self.links.renew()
            for level in levels:
                self.pace.hasten(level)

    # --- what is said -------------------------------------------------------------------------------------------------

    def emit_due(self, now_ms: int) -> None:
        for level in self.pace.take_due(now_ms):
            self._emit(now_ms, level)

    def tick(self, now_ms: int) -> None:
        """Once a period: gossip at the levels whose turn it is (level l every l + 1 periods)."""
        self._changed(self.levels.expire(now_ms))
        for spot, level in self.levels.silent(now_ms):
            self._desk.send(spot.address, Ask(spot.version, self._me.version, level))
        for level in range(self.levels.top() + 1):
            if self.pace.is_turn(level):
                self._emit(now_ms, level, is_turn=True)

    def _emit(self, now_ms: int, level: int, is_turn: bool = False) -> None:
        to = self.levels.neighbour(level) if level else self._chain.right
        if to is None or not self._chain.is_linked:
            return
        ages = self._lists.ages(now_ms)
        digest = 0 if level else self._known.digest_for_right()
        message = self.levels.emit(now_ms, level, to, ages, digest, self._lists.recall_age_ms(now_ms))
        if self.levels.has_news(to, message) or level == 0 or not is_turn:
            self.pace.sent(now_ms, level)
            self._desk.send(to.address, message)

    def farewell_to_all(self) -> None:
        """This place is gone: say so to those who may be linked here."""
        farewells = {spot.id: spot for spot in self.levels.spots()}
        for spot in farewells.values():
            self._desk.send(spot.address, Farewell(spot.version, self._me.version))
        self.levels.forget_where(lambda spot: True)  # the neighbours outlast this place, other links may not
        self.links.renew()
