"""Level 0: the chain of places, each with a left and a right neighbour.

**The right neighbour is the truth.** A place x with the right neighbour y is the home of all events from its own key up
to that of y, and it alone decides what happens between the two: who is inserted there, and who is next when y leaves.
One step of one place does either, so there is never a moment at which two places are home to an event, or none. What a
place believes of its left neighbour only helps messages from the right to find their way.

    joining ──Inserted──► standing ──Leaving/Released──► gone (lingers, and passes on what still comes)

**Insert** (paper, section 3.3). Routed to the place x before the joiner's. In one step x makes the joiner its right
neighbour, answers `Inserted`, tells it the ranges that reach there, and tells y (`LeftIs`). Any number may join at the
same place at once: each is inserted behind the one that x or a former joiner has become. Before the head there is
nobody; the head itself lets a joiner stand left of it.

**Leave.** Differs from the paper, where a peer just stops: it asks its left neighbour to link to its right one
(`Leaving`), which it does unless it is leaving itself; then the leaver waits until that one has gone, and asks the next
one. Meanwhile joiners wait at the leaver, whose right neighbour must not change any more.

**Crash.** A place knows the next few peers to its right (`Beyond`). When the right neighbour is lost it claims the
first of them (`candidates`); `Claimed` makes the link. Who loses its left neighbour has itself sought from further
left.

**Stabilise and merge.** Level-0 gossip is a claim too: y takes a closer left neighbour at once, tells the former one of
it (`Hint`), and tells a sender that is not its left neighbour who is. So a place gets between two others from either
side. A place that is not where a routed `Seek` looks for it belongs to another chain, the other half of a partition:
whoever should have it to the right claims it, and hints it at the neighbour that it displaces, which thereby is sought
in the other chain: link by link the two chains are closed like a zip (after Shafaat, Ghodsi, Haridi 2007).

    consider(z):   z between me and my right neighbour       Claim(z)
                   z further right                           Seek(z), along my chain
                   z left of me                              Seek(me), along the chain of z
"""

from collections.abc import Callable
from typing import Final

from protocols.gosskip.candidates import Candidates
from protocols.gosskip.departed import Departed
from protocols.gosskip.desk import Desk
from protocols.gosskip.messages import (
    SUCCESSORS_MAX,
    Beyond,
    Claim,
    Claimed,
    Hint,
    Insert,
    Inserted,
    Leaving,
    LeftIs,
    Released,
    Seek,
    chunks,
)
from protocols.gosskip.order import Key, PlaceId, Spot
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.overlay import LinkDown, LinkUp, Message, Repaired

JOINING: Final = "joining"
STANDING: Final = "standing"
LEAVING: Final = "leaving"
GONE: Final = "gone"

WAITING_MAX: Final = 512
"""Joiners that wait until this place stands, or is gone. A guess: a whole testbed, twice over."""
INTRODUCE_MS: Final = 200
"""How soon a place is told again where this one stands. A guess: some round trips."""
INTRODUCED_MAX: Final = 256
"""Places of which it is remembered that they were told. A guess: more than ever have a wrong idea at once."""
ALONE_MS: Final = 1_500
"""How long a leaver with links to the left, but no neighbour there, waits for one. A guess: a period and a half."""


class Chain:
    """One place's neighbours, and how they change."""

    __slots__ = (
        "_before_head",
        "_departed",
        "_desk",
        "_forward",
        "_introduced",
        "_leased_ms",
        "_leave_since_ms",
        "_on_left",
        "_on_right",
        "_state",
        "bereft",
        "candidates",
        "former_left",
        "left",
        "me",
        "right",
        "right_leased_until_ms",
        "successors",
        "waiting",
    )

    def __init__(
        self,
        desk: Desk,
        me: Spot,
        forward: Callable[[Key, Message], bool],
        on_right: Callable[[Spot | None, bool], None],
        on_left: Callable[[Spot | None, Spot | None], None],
        leased_ms: Callable[[], int],
    ) -> None:
        """`forward` sends a message on towards a key, unless it has arrived; `on_right` is told that there is another
        right neighbour: the former one, and whether the new one knows the ranges already; `on_left`, that there is
        another left one, and the former; `leased_ms` says for how long proxy filters of this place may be held."""
        self._desk = desk
        self.me = me
        self._forward = forward
        self._on_right = on_right
        self._on_left = on_left
        self._leased_ms = leased_ms
        self._state = JOINING
        self.left: Spot | None = None
        self.right: Spot | None = None
        self.former_left: Spot | None = None
        self.successors: tuple[Spot, ...] = ()  # beyond the right neighbour
        self.waiting: list[Insert] = []
        self.right_leased_until_ms = 0  # until when proxy filters of the right neighbour may be held
        self.candidates = Candidates(desk, me)
        self.bereft = False  # the left neighbour was lost without a word: somebody else may stand there
        self._departed = Departed(desk)
        self._introduced: dict[PlaceId, int] = {}  # places that were told where this one stands -> when
        self._before_head: PlaceId | None = None  # whom this place let stand before it when it was the head
        self._leave_since_ms = 0

    @property
    def state(self) -> str:
        return self._state

    @state.setter
    def state(self, state: str) -> None:
        self._state = state
        self._desk.changed = True

    @property
    def is_linked(self) -> bool:
        """Whether the place is in the chain."""
        return self._state in (STANDING, LEAVING)

    # --- neighbours ---------------------------------------------------------------------------------------------------

    def set_right(self, spot: Spot | None, successors: tuple[Spot, ...] = (), knows: bool = False) -> None:
        former = self.right
        if spot is not None:
            self._desk.out.watch(spot.address)
            self._desk.out.report(LinkUp("right", spot.address))
        if former is not None:
            self._desk.out.unwatch(former.address)
            self._desk.out.report(LinkDown("right", former.address))
        self.right = spot
        self.right_leased_until_ms = 0
        self.successors = successors
        self.candidates.forget_all()
        self._on_right(former, knows)
        self.tell_beyond()

    def set_left(self, spot: Spot | None) -> None:
        former = self.left
        if spot is not None:
            self._desk.out.watch(spot.address)
            self._desk.out.report(LinkUp("left", spot.address))
        if former is not None:
            self._desk.out.unwatch(former.address)
            self._desk.out.report(LinkDown("left", former.address))
        self.former_left, self.left = former, spot
        self.bereft = False
        self._on_left(spot, former)
        self.tell_beyond()

    def tell_beyond(self) -> None:
        """Let the left neighbour know who stands right of here."""
        if self.left is not None:
            message = Beyond(self.left.version, self.me.descriptor, self.shown(), self._leased_ms())
            self._desk.send(self.left.address, message)

    def shown(self) -> tuple[Descriptor, ...]:
        """The places to the right, as many as make up `backups` peers besides this one's own."""
        spots = [*([] if self.right is None else [self.right]), *self.successors]
        peers: dict[str, None] = {self.me.address.peer: None}
        result: list[Descriptor] = []
        for spot in spots:
            if len(peers) > self._desk.config.backups or len(result) == SUCCESSORS_MAX:
                break
            peers[spot.address.peer] = None
            result.append(spot.descriptor)
        return chunks(result)[0]

    def _spots(self, descriptors: tuple[Descriptor, ...]) -> tuple[Spot, ...]:
        """What a right neighbour says of those behind it, in order and beyond it."""
        spots = [self._desk.dictionary.spot(descriptor) for descriptor in descriptors]
        return tuple([spot for spot in spots if spot.key > self.me.key])

    def _between(self, spot: Spot) -> bool:
        """Whether a place belongs between this one and its right neighbour."""
        return spot.key > self.me.key and (self.right is None or spot.key < self.right.key)

    # --- joining ------------------------------------------------------------------------------------------------------

    def on_insert(self, message: Insert) -> Spot | None:
        """An `Insert` has arrived here, before its place or at the head. Returns the joiner if it stands now."""
        joiner = self._desk.dictionary.spot(message.joiner)
        if joiner.id == self.me.id:
            return None
        if self.is_linked and joiner.id in (self._before_head, None if self.right is None else self.right.id):
            return joiner  # inserted before, and the answer was lost
        if self._forward(joiner.key, message):
            return None
        if self.state != STANDING:
            if len(self.waiting) < WAITING_MAX:
                self.waiting.append(message)
            return None
        if joiner.key < self.me.key:
            if self.left is not None or self.bereft:
                return None  # on its way to stand left of here, or behind somebody who does; it will ask again
            self.set_left(joiner)
            self._before_head = joiner.id
            return joiner
        right = self.right
        successors = () if right is None else (right, *self.successors[: SUCCESSORS_MAX - 1])
        self.set_right(joiner, successors, knows=True)
        if right is not None:
            self._desk.send(right.address, LeftIs(right.version, joiner.descriptor))
        return joiner

    def placing(self, joiner: Spot) -> tuple[Descriptor | None, Descriptor | None, tuple[Descriptor, ...]]:
        """Left, right and successors of a joiner that this place has let stand beside it."""
        if joiner.key < self.me.key:
            return None, self.me.descriptor, self.shown()
        beyond = [spot.descriptor for spot in self.successors]
        return self.me.descriptor, beyond[0] if beyond else None, chunks(beyond[1:SUCCESSORS_MAX])[0]

    def stand(self, message: Inserted) -> None:
        """This place is in the chain."""
        spot = self._desk.dictionary.spot
        self.state = STANDING
        left = None if message.left is None else self._departed.heir(spot(message.left))
        if left is not None and left.key < self.me.key:
            self.set_left(left)
        if message.right is not None and spot(message.right).key > self.me.key:
            self.set_right(spot(message.right), self._spots(message.successors), knows=True)

    def begin(self) -> None:
        """The first place of a swarm."""
        self.state = STANDING

    def release_waiting(self) -> list[Insert]:
        waiting, self.waiting = self.waiting, []
        return waiting

    # --- leaving ------------------------------------------------------------------------------------------------------

    def leave(self, now_ms: int) -> None:
        self.state = LEAVING
        self._leave_since_ms = now_ms

    def ask_to_leave(self, now_ms: int, has_links_left: bool, leased_ms: int) -> None:
        """Ask the left neighbour to do without this place; the head needs nobody's leave."""
        left, right = self.left, self.right
        if left is not None:
            message = Leaving(left.version, self.me.descriptor, None if right is None else right.descriptor, leased_ms)
            self._desk.send(left.address, message)
        elif not (has_links_left or self.bereft) or now_ms - self._leave_since_ms >= ALONE_MS:
            if right is not None:
                self._desk.send(right.address, LeftIs(right.version, None, self.me.descriptor))
            self.state = GONE

    def on_leaving(self, message: Leaving) -> bool:
        """The right neighbour wants to go. Returns whether it has been let go now."""
        leaver = self._desk.dictionary.spot(message.place)
        if self.state != STANDING:
            return False  # it will ask whoever takes this place's part
        right = self.right
        if right is not None and right.id == leaver.id:
            beyond = None if message.right is None else self._desk.dictionary.spot(message.right)
            if beyond is not None and beyond.key <= self.me.key:
                beyond = None
            successors = tuple([s for s in self.successors if beyond is not None and s.key > beyond.key])
            self.set_right(beyond, successors)
            if beyond is not None:
                instead = LeftIs(beyond.version, self.me.descriptor, leaver.descriptor)
                self._desk.send(beyond.address, instead)
            self._desk.send(leaver.address, Released(leaver.version))
            return True
        if right is None or right.key > leaver.key:
            self._desk.send(leaver.address, Released(leaver.version))  # let go before, and the answer was lost
        else:
            self._desk.send(leaver.address, LeftIs(leaver.version, right.descriptor))
        return False

    def on_released(self) -> bool:
        if self.state != LEAVING:
            return False
        self.state = GONE
        return True

    def unlink(self) -> None:
        """The place is gone: nobody needs to be watched for it. It still knows where to send what comes late."""
        for spot in (self.left, self.right):
            if spot is not None:
                self._desk.out.unwatch(spot.address)

    # --- stabilising and merging --------------------------------------------------------------------------------------

    def on_left_is(self, message: LeftIs) -> bool:
        """Returns whether there is another left neighbour now."""
        spot = None if message.left is None else self._desk.dictionary.spot(message.left)
        if message.instead is not None:
            self._departed.note((message.instead.address, message.instead.version), spot)
        if not self.is_linked:
            return False  # not yet: whom it is told as its left neighbour may be the one that has left
        spot = self._departed.heir(spot)
        if spot is None:
            if self.left is not None and _names(message.instead, self.left.id):
                self.set_left(None)
                return True
            return False
        if spot.key >= self.me.key or (self.left is not None and self.left.id == spot.id):
            return False
        if self.left is None or spot.key > self.left.key or _names(message.instead, self.left.id):
            self.set_left(spot)
            return True
        return False

    def hear_left(self, spot: Spot) -> bool:
        """A place says that this one is its right neighbour. Returns whether it is the left neighbour (now)."""
        left = self.left
        if left is not None and left.id == spot.id:
            return True
        if spot.id in self._departed:
            return False
        if spot.key >= self.me.key:
            self._introduce(spot)
            return False
        if left is not None and spot.key < left.key:
            self._introduce(spot)
            self._desk.send(spot.address, Hint(spot.version, left.descriptor))
            self.tell_beyond()  # if the left neighbour is there no more, this will show
            return False
        self.set_left(spot)
        if left is not None:
            self._desk.send(left.address, Hint(left.version, spot.descriptor))
        return True

    def on_claim(self, message: Claim) -> None:
        spot = self._desk.dictionary.spot(message.place)
        if self.state == STANDING and self.hear_left(spot):
            self._desk.send(spot.address, Claimed(spot.version, self.me.descriptor, self.shown()))

    def on_claimed(self, message: Claimed) -> None:
        spot = self._desk.dictionary.spot(message.place)
        right = self.right
        if self.state != STANDING or not self._between(spot):
            return
        self.set_right(spot, self._spots(message.successors))
        self._desk.out.report(Repaired("chain"))
        if right is not None:
            self._desk.send(spot.address, Hint(spot.version, right.descriptor))

    def consider(self, spot: Spot) -> None:
        """A place that this one should know."""
        if self.state != STANDING or spot.id == self.me.id:
            return
        if self._between(spot):
            self._claim(spot)
        elif spot.key > self.me.key:
            if self.right is None or self.right.id != spot.id:
                self.seek(Seek(self.me.version, spot.descriptor))
        else:  # also if it is the left neighbour: it takes itself for none
            self._desk.send(spot.address, Seek(spot.version, self.me.descriptor))

    def seek(self, message: Seek) -> None:
        """Look for a place from here on."""
        spot = self._desk.dictionary.spot(message.place)
        if spot.id == self.me.id or self._forward(spot.key, message):
            return
        if self.state != STANDING:
            return
        if self._between(spot):
            self._claim(spot)
        elif spot.key < self.me.key and self.left is None:
            self._desk.send(spot.address, Hint(spot.version, self.me.descriptor))

    def _claim(self, spot: Spot) -> None:
        self._desk.send(spot.address, Claim(spot.version, self.me.descriptor))

    def _introduce(self, spot: Spot) -> None:
        """Let a place that has a wrong idea of this one know where it really stands. Not at once again: it may answer,
        be sought and claim this place once more, between two places of one peer in no time at all."""
        now_ms = self._desk.now_ms
        if now_ms < self._introduced.get(spot.id, -INTRODUCE_MS) + INTRODUCE_MS:
            return
        if len(self._introduced) >= INTRODUCED_MAX:
            self._introduced.clear()
        self._introduced[spot.id] = now_ms
        self._desk.send(spot.address, Beyond(spot.version, self.me.descriptor, self.shown()))

    def introduce_to(self, sender: Address, message: Inserted) -> None:
        """Let whoever has inserted this place know that it stands."""
        by = message.left or message.right
        if by is not None and by.address == sender and self.is_linked:
            self._desk.send(sender, Beyond(by.version, self.me.descriptor, self.shown()))

    def misplaced(self, spot: Spot) -> bool:
        """Whether a place that speaks for itself stands elsewhere than this one was told."""
        return any(
            known is not None and known.id == spot.id and known.key != spot.key
            for known in (self.left, self.right, *self.successors)
        )

    def on_beyond(self, sender: Address, message: Beyond) -> None:
        if self.right is None or self.right.id != (sender, message.place.version):
            if self.state == STANDING:
                self._desk.send(sender, Hint(message.place.version, self.me.descriptor))
            return
        self.right_leased_until_ms = self._desk.now_ms + message.leased_ms
        spots = self._spots(message.successors)
        if [spot.id for spot in spots] != [spot.id for spot in self.successors]:
            self.successors = spots
            self.tell_beyond()

    # --- losing neighbours --------------------------------------------------------------------------------------------

    def lost(self, now_ms: int, is_gone: Callable[[Spot], bool], links: list[Spot]) -> None:
        """Some places are gone without a word; `links` are other places right of here."""
        changed = self.candidates.lost(is_gone, self.successors)
        self.successors = tuple([spot for spot in self.successors if not is_gone(spot)])
        if self.left is not None and is_gone(self.left):
            self.set_left(None)
            self.bereft = True
            self._desk.out.report(Repaired("left"))
        if self.right is not None and is_gone(self.right):
            behind = [spot for spot in (*self.successors, *links) if not is_gone(spot)]
            self.set_right(None)
            self.candidates.assign(behind)
            changed = True
        if changed and self.state == STANDING:
            self.candidates.claim_first(now_ms)

    def claim_again(self, now_ms: int, links: list[Spot]) -> None:
        """The one that should be the right neighbour has not answered: try the next. Without any, but with `links` to
        the right, a place is not the last one, whatever it was told: try those."""
        if self.right is None and self.state == STANDING:
            self.candidates.claim_next(now_ms, links)


def _names(descriptor: Descriptor | None, id_: PlaceId) -> bool:
    return descriptor is not None and (descriptor.address, descriptor.version) == id_
