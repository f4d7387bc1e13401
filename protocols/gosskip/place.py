"""One place of the list, with all that belongs to it: its neighbours (`chain`), its links (`gossip`, `routing`), the
ranges that reach to it (`ranges`) or are kept at it (`keepers`), and its way to being active (`activation`).

A place belongs to one version of one box, and never changes. A participant whose box changes takes another place and
gives up the former one later, so that both serve it in between.
"""

from collections.abc import Callable

from msgspec.structs import replace

from protocols.gosskip.activation import Activation
from protocols.gosskip.answers import Answers
from protocols.gosskip.chain import GONE, JOINING, LEAVING, STANDING, Chain
from protocols.gosskip.desk import Desk
from protocols.gosskip.gossip import Gossiping
from protocols.gosskip.keepers import Keeper
from protocols.gosskip.lists import Announcements, Lists
from protocols.gosskip.messages import (
    Beyond,
    Claim,
    Claimed,
    Echo,
    Gossip,
    Held,
    Hint,
    Insert,
    Inserted,
    Leaving,
    LeftIs,
    Probe,
    Pull,
    Ranges,
    Released,
    Seek,
    Store,
    Vacant,
)
from protocols.gosskip.order import Key, PlaceId, Spot
from protocols.gosskip.patience import Patience
from protocols.gosskip.proxies import Leases
from protocols.gosskip.ranges import Known
from protocols.gosskip.routing import Table
from protocols.model.box import Point
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.overlay import Link, Message

CONFIRM_TICKS = 5
"""Periods after which a place confirms its left neighbour. A guess: half a link, left by a lie, may last so long."""
HEAD_TICKS = 3
"""Periods without anybody to the left after which a place takes itself for the head. A guess."""

INSERT_MS_MAX = 8_000
"""After so long at the most a joiner asks again. A guess: a few hundred hops."""
ASKED_MAX = 4
"""Owners of doubtful ranges that are written to in a period. A guess: one that lives is enough to close a gap."""


class Place:
    __slots__ = (
        "_answers",
        "_desk",
        "_insert_patience",
        "_links",
        "_lists",
        "_stands_after_ranges",
        "_ticks_as_head",
        "activation",
        "announcements",
        "chain",
        "gossip",
        "keeper",
        "known",
        "leases",
        "leave_at_ms",
        "levels",
        "linger_until_ms",
        "spot",
        "table",
        "told",
    )

    def __init__(self, desk: Desk, lists: Lists, spot: Spot) -> None:
        self._desk = desk
        self._lists = lists
        self.spot = spot
        self.table = Table(spot)
        self.leases = Leases(desk)
        self.known = Known(desk, spot, self._has_lost_right)
        self.chain = Chain(
            desk,
            spot,
            self.forward,
            self._new_right,
            self._new_left,
            lambda: self.leases.leased_ms(desk.now_ms),
        )
        self.gossip = Gossiping(desk, lists, self.table, self.chain, self.known)
        self.levels = self.gossip.levels
        self._links = self.gossip.links
        self.keeper = Keeper(desk, self.chain, self.forward)
        self.announcements = Announcements(desk, lists, spot, self.table)
        self.activation = Activation(desk, spot, self.known, self.keeper, self.announcements)
        self.told = False  # the participant has said so
        self.leave_at_ms: int | None = None
        self.linger_until_ms = 0
        self._answers = Answers(desk)
        self._insert_patience = Patience(desk.config.rpc_ms, INSERT_MS_MAX)
        self._stands_after_ranges: Inserted | None = None
        self._ticks_as_head = 0

    @property
    def state(self) -> str:
        return self.chain.state

    @property
    def version(self) -> int:
        return self.spot.version

    # --- routing ------------------------------------------------------------------------------------------------------

    def next_hop(self, key: Key, overshoot: bool) -> Spot | None:
        """Where a message for that key goes next; None: it ends here."""
        to = self.table.next_hop(key, overshoot)
        if to is None and self.chain.state == GONE:
            return self.chain.left or self.chain.right
        return to

    def knows_left(self, key: Key) -> bool:
        """Whether an event that falls left of here ends here: beside it, where all are known that may want it."""
        left = self.chain.left
        is_beside = left is not None and left.key < key < self.spot.key
        return is_beside and self.known.whole and self.chain.state == STANDING

    def is_beside_gap(self, key: Key) -> bool:
        """Whether a neighbour was lost on that side, and it is not known yet who stands there now."""
        is_lost = self._has_lost_right() if key > self.spot.key else self._has_lost_left()
        return is_lost and self.chain.state == STANDING

    def _has_lost_right(self) -> bool:
        return self.chain.right is None and (bool(self.chain.candidates) or bool(self.table.rights))

    def _has_lost_left(self) -> bool:
        return self.chain.left is None and (self.chain.bereft or bool(self.known.doubted()))

    def forward(self, key: Key, message: Message) -> bool:
        """Send a message that is routed on towards its key, unless it ends here."""
        assert isinstance(message, Insert | Seek | Store)
        to = self.next_hop(key, overshoot=False)
        if isinstance(message, Insert) and to is not None and to.key == key:
            to = self.table.before(to)
        if to is None:
            return False
        if message.hops < self._desk.config.hops_max:
            self._desk.send(to.address, replace(message, at=to.version, hops=message.hops + 1))
        return True

    def links(self) -> list[Link]:
        return self._links.all()

    def serving(self, point: Point) -> list[Spot]:
        """All others that this place knows of whose boxes hold a point."""
        return [*self.known.matching(point), *self.keeper.all_matching(point)]

    def _new_left(self, left: Spot | None, former: Spot | None) -> None:
        self._ticks_as_head = 0
        self.known.another_left(left, former)
        self.keeper.another_left(former)
        self.announcements.another_left(left, former)

    def _new_right(self, former: Spot | None, knows: bool) -> None:
        """There is another right neighbour, which may have to be told the ranges that reach to it."""
        right = self.chain.right
        self.known.right = right
        self.known.probes.another_right()
        self._links.renew()
        self.keeper.another_right(former)
        if right is None:
            return
        if not knows:
            self.known.tell_all(right)
        self.gossip.pace.hasten(0)

    # --- joining ------------------------------------------------------------------------------------------------------

    def join(self, now_ms: int, contact: Address, at: int) -> None:
        self.activation.insert_req = self.activation.insert_req or self._desk.new_request()
        self._insert_patience.begin(now_ms)
        self._desk.send(contact, Insert(at, self.spot.descriptor, self.activation.insert_req))

    def must_ask_again(self, now_ms: int) -> bool:
        return self.chain.state == JOINING and self._insert_patience.is_over(now_ms)

    def begin(self, now_ms: int) -> None:
        """The first place of a swarm: everyone there is knows its list."""
        self.chain.begin()
        self._lists.learn(now_ms, ((self.spot.number, 0),))
        self.activation.begin()

    def on_insert(self, now_ms: int, message: Insert) -> None:
        joiner = self.chain.on_insert(message)
        if joiner is None:
            return
        self._links.renew()
        left, right, successors = self.chain.placing(joiner)
        established = self.announcements.done and joiner.number == self.spot.number and joiner.key > self.spot.key
        wait_ms, holders = self.leases.revoke(now_ms, joiner.descriptor, message.req)
        portions = [()] if left is None else self.known.portions()
        answer = Inserted(
            joiner.version,
            message.req,
            left,
            right,
            successors,
            portions[0],
            len(portions) == 1,
            self._lists.ages(now_ms),
            established,
            wait_ms,
            holders,
        )
        self._answers.send(now_ms, joiner.id, answer)
        if len(portions) > 1:
            self.known.tell_all(joiner)

    def on_inserted(self, now_ms: int, sender: Address, message: Inserted) -> None:
        if message.req != self.activation.insert_req:
            return
        if self.chain.state != JOINING:
            self.chain.introduce_to(sender, message)  # it has not heard that this place stands
            return
        self.known.copy_left(message.ranges)
        if message.whole:
            self._stand(now_ms, message)
        else:
            self._stands_after_ranges = message

    def _stand(self, now_ms: int, message: Inserted) -> None:
        self._lists.learn(now_ms, message.lists)
        if message.established:
            self.announcements.know()
        self.activation.wait(now_ms, message.wait_ms, message.holders)
        self.chain.stand(message)
        self._links.renew()
        self.known.tell_own()
        self.gossip.pace.hasten(0)
        for insert in self.chain.release_waiting():
            self.on_insert(now_ms, insert)
        self.strive(now_ms)

    # --- becoming active ----------------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        return self.activation.done

    def strive(self, now_ms: int) -> None:
        """Do what is left to do before the place is active; not beside a gap, beyond which nobody knows of it."""
        if self.chain.state == STANDING and not (self._has_lost_left() or self._has_lost_right()):
            self.activation.strive(now_ms, self.chain.left, self.chain.right)

    def on_held(self, now_ms: int, message: Held) -> None:
        if self.activation.on_held(now_ms, message):
            self.strive(now_ms)

    def on_echo(self, now_ms: int, sender: Address, message: Echo) -> None:
        if self.announcements.on_echo(sender, message):
            self.strive(now_ms)

    def on_revoked(self, now_ms: int, req: int) -> None:
        self.activation.on_revoked(req)
        self.strive(now_ms)

    # --- ranges -------------------------------------------------------------------------------------------------------

    def on_ranges(self, now_ms: int, sender: Address, message: Ranges) -> None:
        if self.chain.state == JOINING:
            awaited = self._stands_after_ranges
            if awaited is not None and awaited.left is not None and awaited.left.address == sender:
                self.known.take(message)
                if message.end:
                    self._stands_after_ranges = None
                    self._stand(now_ms, awaited)
            return
        spot = self._desk.dictionary.spot(message.place)
        if spot.address != sender or not self._listens_to(spot):
            return
        news = self.known.take(message)
        if message.end and self.chain.left is not None and self.chain.left.id == spot.id:
            self.known.whole = not self.known.doubted()
        if news and message.begin:
            self.leases.revoke(now_ms, self.spot.descriptor, 0)  # no probe may follow what comes to light by comparing

    def _listens_to(self, spot: Spot) -> bool:
        """Whether a place is the left neighbour, or was until a moment ago: its last words may come late."""
        former = self.chain.former_left
        if former is not None and former.id == spot.id:
            return True
        return self.chain.hear_left(spot)

    def on_pull(self, sender: Address, message: Pull) -> None:
        right = self.chain.right
        if right is not None and right.address == sender:
            self.known.tell_all(right)

    def on_probe(self, now_ms: int, sender: Address, message: Probe) -> None:
        if self.chain.state == JOINING:
            return  # it comes again: not all ranges may be known here yet, and nobody to the right
        wait_ms, holders = 0, 0
        if self.known.probes.is_new(message):
            wait_ms, holders = self.leases.revoke(now_ms, message.owner, message.req)
        self.known.probes.take(sender, message, wait_ms, holders)

    # --- leaving ------------------------------------------------------------------------------------------------------

    def leave(self, now_ms: int) -> None:
        if self.chain.state == STANDING:
            self.keeper.drop_own()
            self.chain.leave(now_ms)
            self.leases.revoke(now_ms, self.spot.descriptor, 0)
            self.ask_to_leave(now_ms)

    def ask_to_leave(self, now_ms: int) -> None:
        if self.chain.state == LEAVING:
            self.chain.ask_to_leave(now_ms, bool(self.levels.left), self.leases.leased_ms(now_ms))
            if self.chain.state == GONE:
                self._gone(now_ms)

    def on_leaving(self, now_ms: int, sender: Address, message: Leaving) -> None:
        if message.place.address == sender and self.chain.on_leaving(message):
            self.leases.inherit(now_ms, message.leased_ms)
            self._forget(now_ms, lambda spot: spot.id == (message.place.address, message.place.version))

    def on_released(self, now_ms: int, message: Released) -> None:
        if self.chain.on_released():
            self._gone(now_ms)

    def _gone(self, now_ms: int) -> None:
        """Out of the chain: say so to those who may be linked here, and pass on what still comes."""
        self.linger_until_ms = now_ms + self._desk.config.linger_ms
        self.gossip.farewell_to_all()
        self.chain.unlink()
        for insert in self.chain.release_waiting():
            self.on_insert(now_ms, insert)

    # --- neighbours ---------------------------------------------------------------------------------------------------

    def on_left_is(self, now_ms: int, sender: Address, message: LeftIs) -> None:
        leaver, heir = message.instead, message.left
        if leaver is not None and (sender == leaver.address or (heir is not None and sender == heir.address)):
            self.known.forget((leaver.address, leaver.version))
        if self.chain.on_left_is(message):
            self._links.renew()
            if self.chain.left is None:
                self.known.forget_all()
            self.ask_to_leave(now_ms)

    def on_claim(self, message: Claim) -> None:
        if self.chain.state != STANDING:
            self._desk.send(message.place.address, Vacant(self.version))
            return
        self.chain.on_claim(message)
        self._links.renew()

    def on_claimed(self, now_ms: int, message: Claimed) -> None:
        before = self.chain.right
        self.chain.on_claimed(message)
        if self.chain.right is not before:
            self.leases.revoke(now_ms, self.spot.descriptor, 0)  # its box was active before it stood here
            if before is not None:
                self._recall(now_ms)  # two halves of the list have met

    def correct(self, now_ms: int, sender: Address, place: Descriptor) -> None:
        """A place speaks for itself: whoever has said that it stands elsewhere has lied."""
        if place.address == sender and self.chain.is_linked:
            spot = self._desk.dictionary.spot(place)
            if self.chain.misplaced(spot):
                self._forget(now_ms, lambda known: known.id == spot.id)

    def on_hint(self, now_ms: int, sender: Address, message: Hint) -> None:
        self.correct(now_ms, sender, message.place)
        self.chain.consider(self._desk.dictionary.spot(message.place))

    def on_seek(self, message: Seek) -> None:
        self.chain.seek(message)

    def on_beyond(self, now_ms: int, sender: Address, message: Beyond) -> None:
        self._heard((sender, message.place.version))
        self.correct(now_ms, sender, message.place)
        self.chain.on_beyond(sender, message)

    def _heard(self, id_: PlaceId) -> None:
        """A place is heard of: if it has just been let stand here, it knows that now."""
        if self._answers.heard(id_):
            self.known.probes.another_right()
            self.known.probes.send_again()

    def lost(self, now_ms: int, is_gone: Callable[[Spot], bool], surely: bool) -> None:
        """Places are gone without a word; if that is not sure, they may be on the other side of a cut."""
        if self.chain.state in (JOINING, GONE):
            return
        had_left = self.chain.left is not None
        right, leased_ms = self.chain.right, self.chain.right_leased_until_ms - now_ms
        self._forget(now_ms, is_gone, surely)
        if right is not None and self.chain.right is None:
            self.leases.inherit(now_ms, max(0, leased_ms))
        self._inherit_unknown(now_ms)
        if had_left and self.chain.left is None:
            self._seek_left()

    def _seek_left(self) -> None:
        """Have this place looked for from further left."""
        to = self.table.leftmost()
        if to is not None:
            self._desk.send(to.address, Seek(to.version, self.spot.descriptor))

    def _ask_doubted(self) -> None:
        """Whoever is left out by the left neighbour, and lives, has this place looked for from there, and closes the
        gap; of who is dead, and refuses, the range is forgotten."""
        owners = self.known.doubted()
        for spot in self._desk.rng.sample(owners, min(ASKED_MAX, len(owners))):
            self._desk.send(spot.address, Seek(spot.version, self.spot.descriptor))

    def _look_beside(self, now_ms: int) -> None:
        """Who has links on a side, but no neighbour there, has lost it; it goes on until there is one."""
        self.chain.claim_again(now_ms, self.table.rights)
        if self.chain.left is None and self.chain.state == STANDING:
            self._seek_left()

    def _inherit_unknown(self, now_ms: int) -> None:
        """Of a place that nobody has told this one about, filters may be held for as long as they can last."""
        if self.chain.candidates.skipped:
            self.chain.candidates.skipped = False
            self.leases.inherit(now_ms, self._desk.config.proxy_ms if self._desk.config.proxy_after else 0)
            self._recall(now_ms)

    def _recall(self, now_ms: int) -> None:
        """This place may have to keep broad ranges of which it has no copies: let them be stored again."""
        if self._desk.config.cells and self._lists.recall(now_ms):
            self.gossip.hasten_all()

    def _forget(self, now_ms: int, is_gone: Callable[[Spot], bool], surely: bool = True) -> None:
        self.gossip.lost(is_gone)
        self.announcements.lost(is_gone)
        if surely:
            self.known.lost(is_gone)
            self.keeper.lost(is_gone)  # else they would have to be stored again, and do not know it
        rights = [spot for spot in self.levels.spots() if spot.key > self.spot.key]
        self.chain.lost(now_ms, is_gone, rights)
        self._links.renew()

    # --- gossip -------------------------------------------------------------------------------------------------------

    def on_gossip(self, now_ms: int, sender: Address, message: Gossip) -> None:
        if not self.chain.is_linked or message.place.address != sender:
            return
        self._heard((sender, message.place.version))
        had = self.chain.left
        self.gossip.receive(now_ms, message)
        if self.chain.left is not had:
            self.ask_to_leave(now_ms)

    def tick(self, now_ms: int) -> None:
        """Once a period: gossip at the levels whose turn it is (level l every l + 1 periods); look after the rest."""
        if not self.chain.is_linked:
            return
        self.gossip.pace.ticks += 1
        if self.gossip.pace.ticks % CONFIRM_TICKS == 0:
            self.chain.tell_beyond()  # a left neighbour that takes itself for none will say so
        left = self.chain.left
        self._ticks_as_head = self._ticks_as_head + 1 if left is None and not self.levels.left else 0
        if self._ticks_as_head == HEAD_TICKS:
            if self.chain.bereft:
                self._recall(now_ms)
            self.chain.bereft = False
        if left is None or left.number != self.spot.number:
            self._lists.learn(now_ms, ((self.spot.number, 0),))  # the first of its list keeps it known
        self.gossip.tick(now_ms)
        self._answers.send_again(now_ms)
        self.known.probes.send_again()
        self.keeper.tick(now_ms, self._lists.is_recalled(now_ms, self.keeper.stored_ms))
        self.announcements.spread_again(now_ms)
        self._look_beside(now_ms)
        self.known.expire()
        self._ask_doubted()
        self._inherit_unknown(now_ms)
        self.strive(now_ms)
        self.ask_to_leave(now_ms)
