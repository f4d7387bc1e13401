"""The ring: who stands before and after a node, and for which arc it answers.

Every node keeps a predecessor and a list of successors. The rules are those of Zave's correct Chord (Zave 2017,
"Reasoning about identifier spaces: How to make Chord correct"):

- *Join*: take over `[s] + list(s)`, cut to r, in one step; nobody is a member with a short list.
- *Stabilise*: adopt `[s] + list(s)` of the first living successor s; if s has a predecessor between, ask that one, and
  adopt it only when it answers.
- *Rectify*, on word from x: take x as the predecessor if there is none, or if x stands between; otherwise keep the one
  there is until it is dead. (Zave pings it; here it is watched.)
- A successor that is dead is dropped and the next one takes its place.

`Stabilise` is Zave's query and notification in one: whoever asks for my neighbours takes me for its successor.

Three things come on top. They make the ring settle in time that does not grow with its size; the rules above make up
for whatever they miss:

- A newcomer is accepted by its successor, which takes it as its predecessor there and then, so that the next newcomer
  is sent on to it: joins in the same gap follow each other in one round trip each, not one round of stabilisation.
- A node whose list has changed tells its predecessor at once. A change runs back as far as the lists reach, and ends.
- Two rings that have met become one (Shafaat, Ghodsi, Haridi 2007, simplified): a participant that peer sampling shows
  is looked for in the ring (`Meet`, routed to the node before it), and who takes a nearer successor tells that one of
  the former one. So the two rings close like a zip from every place where they have met.

**The arc.** `low` is where the arc (low, me] begins that this node *answers for*: it has every row stored under its
keys. That is not the same as standing behind a predecessor. A newcomer answers for nothing until its successor has
handed over; a leaver answers until its successor has everything; so at any time, faults aside, one node answers for a
key. `storage` moves `low`; here it only becomes the whole circle for a node that is alone.
"""

from typing import Final

from protocols.chord.config import QUIET, ChordConfig
from protocols.chord.ids import Circle
from protocols.chord.messages import HOPS_MAX, Leaving, Meet, Neighbours, Stabilise
from protocols.model.ids import Address
from protocols.overlay import LinkDown, LinkUp, Outbox, Rejected

ASKED_MAX: Final = 32
"""Nodes that owe us their neighbours."""
LOST_MAX: Final = 256
LOST_MS: Final = 5_000
"""How long a lost node is not taken back on the word of others: five rounds, until they know as well."""
CALM_MS: Final = 10_000
"""While nothing has changed for so long, only every third round of stabilisation takes place (`QUIET`). A guess:
changes are told at once, so a round finds only what was not told, and the next ones follow at the usual pace."""


class Ring:
    __slots__ = (
        "_adopted",
        "_asked",
        "_before_ms",
        "_buried",
        "_circle",
        "_config",
        "_head_id",
        "_head_number",
        "_heir",
        "_lost",
        "_moved_epoch",
        "_moved_ms",
        "_number",
        "_out",
        "_stabilised_ms",
        "_watched",
        "epoch",
        "id",
        "low",
        "me",
        "predecessor",
        "standing",
        "successors",
    )

    def __init__(self, me: Address, config: ChordConfig, circle: Circle, out: Outbox) -> None:
        self.me = me
        self.id = circle.node(me)
        self._config = config
        self._circle = circle
        self._out = out
        self.standing = False
        self.predecessor: Address | None = None
        self.successors: tuple[Address, ...] = ()
        self.low: int | None = None
        self.epoch = 0
        """Grows whenever a neighbour or the arc changes."""
        self._number = 0  # of our list
        self._head_id = self.id
        self._head_number = 0  # of the first successor's list
        self._adopted: tuple[Address, ...] | None = None  # our list as it was made of that one
        self._asked: dict[Address, int] = {}
        self._lost: dict[Address, int] = {}  # lost lately -> until when it is not taken back on hearsay
        self._watched: dict[Address, None] = {}
        self._heir: Address | None = None  # to whom an arc is handed over
        self._stabilised_ms = 0
        self._moved_ms = 0  # when a round has last found something changed
        self._moved_epoch = -1
        self._before_ms = 0  # when the predecessor was last heard to take us for its successor
        self._buried = 0  # successors found dead since the first one has last answered

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def alone(self) -> bool:
        return not self.successors

    @property
    def head(self) -> Address | None:
        return self.successors[0] if self.successors else None

    def answers_for(self, key: int) -> bool:
        """Whether every row under this key is here."""
        return self.low is not None and self._circle.within(key, self.low, self.id)

    def is_behind(self, key: int) -> bool:
        """Whether the key lies between the predecessor and this node, so that a newcomer there enters here."""
        if self.alone:
            return key != self.id
        if self.predecessor is not None and key == self._circle.node(self.predecessor):
            return True  # it asks again: our answer was lost
        low = self.low if self.predecessor is None else self._circle.node(self.predecessor)
        return low is not None and self._circle.between(key, low, self.id)

    def listed(self, key: int) -> tuple[Address, int] | None:
        """The node that the key belongs to by our list, and where its arc begins; None if the list ends before it."""
        low = self.id
        for address in self.successors:
            high = self._circle.node(address)
            if self._circle.within(key, low, high):
                return address, low
            low = high
        whole = len(self.successors) < self._config.successors  # the list has all there are
        return (self.me, low) if whole else None

    def size_estimate(self) -> int:
        """How many nodes there are, from how far apart the successors stand."""
        if not self.successors:
            return 1
        reach = self._circle.distance(self.id, self._circle.node(self.successors[-1]))
        if len(self.successors) < self._config.successors:
            return len(self.successors) + 1
        return max(2, len(self.successors) * self._circle.size // max(1, reach))

    # --- standing and falling -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Be the first."""
        self.standing = True
        self.low = self.id
        self.epoch += 1

    def enter(self, now_ms: int, predecessor: Address | None, successors: tuple[Address, ...]) -> None:
        """Be a member, as the successor has accepted."""
        self.standing = True
        self._before_ms = now_ms
        self._set_successors(self._in_order(successors))
        if predecessor is not None and predecessor != self.me and predecessor.slot >= 0:
            self._set_predecessor(predecessor)
        self.stabilise(now_ms)

    def stand(self, predecessor: Address, successors: tuple[Address, ...], low: int) -> None:
        """Be a member whose neighbours and arc are known to be right: for a ring that an oracle has made."""
        self.standing = True
        self._set_successors(successors)
        self._set_predecessor(predecessor)
        self.set_low(low)

    def accept(self, now_ms: int, newcomer: Address) -> tuple[Address | None, tuple[Address, ...]]:
        """Take a newcomer as the predecessor; what it is to be told: its predecessor and its successors."""
        former = self.predecessor if self.predecessor != newcomer else None
        if former is None and self.alone:
            former = self.me
        beyond = (self.me, *[s for s in self.successors if s != newcomer])[: self._config.successors]
        self._lost.pop(newcomer, None)
        self._set_predecessor(newcomer)
        self._before_ms = now_ms
        if self.alone:
            self._set_successors((newcomer,))
        if former is not None and former != self.me:
            self._out.send(former, Meet(newcomer))
        return former, beyond

    def leave(self, heir: Address | None) -> None:
        """Tell both sides and who answers for our arc from now on, and be no more."""
        message = Leaving(self.predecessor, self.successors)
        told = dict.fromkeys((self.head, self.predecessor, heir))
        self._out.send_all([address for address in told if address is not None], message)
        self.standing = False
        self.low = None
        for address in self._watched:
            self._out.unwatch(address)
        self._watched = {}

    def lost(self, now_ms: int, address: Address) -> bool:
        """Somebody is dead, or gone. Returns whether it stood next to us."""
        self._asked.pop(address, None)
        self._watched.pop(address, None)
        if len(self._lost) >= LOST_MAX:
            del self._lost[next(iter(self._lost))]
        self._lost[address] = now_ms + LOST_MS
        near = address == self.predecessor or address == self.head
        if address == self.predecessor:
            self._set_predecessor(None)
        if address in self.successors:
            self._buried += 1
            self._drop(now_ms, address)
        return near

    def disown(self, now_ms: int, newcomer: Address) -> None:
        """Somebody asks to enter whom we have as a successor: it was accepted and has not heard of it.

        Until it has it answers nobody, and the ring would end at it. It is taken back when it answers.
        """
        if newcomer in self.successors:
            self._drop(now_ms, newcomer)

    def _drop(self, now_ms: int, address: Address) -> None:
        """Do without a successor: the next one takes its place, or, all the way around, the predecessor."""
        was_head = address == self.head
        left = tuple([s for s in self.successors if s != address])
        if not left and self.predecessor not in (None, address):
            left = (self.predecessor,)
        self._set_successors(left)
        if was_head:
            self.stabilise(now_ms)

    # --- stabilise ----------------------------------------------------------------------------------------------------

    def round(self, now_ms: int) -> None:
        """What is to be done every `stabilise_ms`."""
        if now_ms - self._before_ms >= self._config.silent_ms and self.predecessor is not None:
            self._set_predecessor(None)
        if self._moved_epoch != self.epoch:
            self._moved_epoch, self._moved_ms = self.epoch, now_ms
        is_calm = now_ms - self._moved_ms >= CALM_MS and self.head not in self._asked
        if not is_calm or now_ms - self._stabilised_ms >= (QUIET - 0.5) * self._config.stabilise_ms:
            self.stabilise(now_ms)
        self._forget_late(now_ms)

    def stabilise(self, now_ms: int) -> None:
        """Ask the first successor for its neighbours, which tells it that we stand before it."""
        self._stabilised_ms = now_ms
        if self.successors:
            head = self.successors[0]
            self._asked[head] = now_ms
            self._out.send(head, Stabilise(self._head_number if self._adopted is self.successors else 0))

    def _forget_late(self, now_ms: int) -> None:
        """The lost may be taken back, and who does not answer may be asked again."""
        if self._lost:
            self._lost = {address: until for address, until in self._lost.items() if until > now_ms}
        if self._asked:
            late_ms = now_ms - self._config.rpc_ms
            self._asked = {address: at for address, at in self._asked.items() if at > late_ms}

    def consider(self, now_ms: int, other: Address) -> None:
        """Somebody may be our successor: ask it, and believe it when it answers."""
        if (
            other == self.me
            or other.slot < 0
            or other in self._lost
            or other in self._asked
            or len(self._asked) >= ASKED_MAX
        ):
            return
        if not self.successors or self._is_nearer(other):
            self._asked[other] = now_ms
            self._out.send(other, Stabilise())

    def on_stabilise(self, now_ms: int, sender: Address, message: Stabilise) -> None:
        if sender == self.me or sender.slot < 0:
            self._out.report(Rejected(sender, "not a node before us"))
            return
        if not self.standing:
            return
        self._lost.pop(sender, None)
        self._rectify(sender)
        if sender == self.predecessor:
            self._before_ms = now_ms
        self.consider(now_ms, sender)
        self._out.send(sender, self._neighbours(message.known))

    def _rectify(self, other: Address) -> None:
        predecessor = self.predecessor
        if predecessor is None or (other != predecessor and self._is_nearer_behind(other)):
            self._set_predecessor(other)
            if predecessor is not None:
                self._out.send(predecessor, Meet(other))  # it learns of it in the next round as well

    def on_neighbours(self, now_ms: int, sender: Address, message: Neighbours) -> None:
        """The answer of one that we asked; or the first successor tells a change by itself."""
        asked = self._asked.pop(sender, None) is not None
        if not self.standing or sender == self.me or not (asked or sender == self.head):
            return
        if self._buried and sender == self.head:
            self._buried = 0
            self._rewatch()
        if sender == self.head or not self.successors or self._is_nearer(sender):
            self._adopt(sender, message)
        if message.predecessor is not None:
            self.consider(now_ms, message.predecessor)
        if self.low is None and sender == self.head and message.low and self.predecessor is not None:
            low = self._circle.decode(message.low)
            if self._circle.within(low, self.id - 1, self._circle.node(sender) - 1):
                # Who should have handed our arc over has died meanwhile: nobody answers for it, so we do.
                self.set_low(self._circle.node(self.predecessor))

    def _adopt(self, head: Address, message: Neighbours) -> None:
        """Make our list `[head] + list(head)`. The head's list is left out if it is the one that ours was made of."""
        if head == self.head and message.list == self._head_number and self._adopted is self.successors:
            return
        if message.list and not message.successors:
            self._adopted = None  # it left out a list that we do not have any more: have it told again
            return
        former, beyond = self.head, [s for s in message.successors if s not in self._lost]
        self._set_successors(self._in_order((head, *beyond)))
        complete = len(beyond) == len(message.successors)  # or we want to be told again
        self._head_number, self._adopted = message.list, self.successors if complete else None
        if former is not None and former != head:
            self._out.send(head, Meet(former))

    def on_meet(self, now_ms: int, sender: Address, message: Meet) -> bool:
        """Whether we stand beside the place of the other, and have done what is to be done about it."""
        other = message.other
        if other == self.me or self.head == other or self.predecessor == other:
            return True
        if self.alone or self._is_nearer(other):
            self.consider(now_ms, other)
            return True
        if not self.is_behind(self._circle.node(other)):
            return False
        if sender != other:  # or it knows us
            self._out.send(other, Meet(self.me))  # it is before us, if it does not know a nearer one
        if self.predecessor not in (None, sender) and message.hops < HOPS_MAX:
            self._out.send(self.predecessor, Meet(other, message.hops + 1))  # for whom it may be a successor
        return True

    def on_leaving(self, now_ms: int, sender: Address, message: Leaving) -> None:
        heir = message.predecessor
        if sender == self.head:
            beyond = [s for s in message.successors if s not in (self.me, sender) and s not in self._lost]
            rest = [s for s in self.successors if s != sender]
            self._set_successors(self._in_order((*rest[:1], *beyond) if rest else tuple(beyond)))
        was_before = sender == self.predecessor
        self.lost(now_ms, sender)
        if was_before and heir is not None and heir not in (self.me, sender, *self._lost) and heir.slot >= 0:
            self._set_predecessor(heir)
            self._before_ms = now_ms
        self.stabilise(now_ms)

    # --- changes ------------------------------------------------------------------------------------------------------

    def set_low(self, low: int | None) -> None:
        if low != self.low:
            self.low = low
            self.epoch += 1

    def watch_heir(self, address: Address | None) -> None:
        """Somebody takes an arc over: others may come between us meanwhile, but it must not die unnoticed."""
        if address != self._heir:
            self._heir = address
            self._rewatch()

    def _set_predecessor(self, address: Address | None) -> None:
        if address == self.predecessor:
            return
        if self.predecessor is not None:
            self._out.report(LinkDown("predecessor", self.predecessor))
        self.predecessor = address
        if address is not None:
            self._out.report(LinkUp("predecessor", address))
        self.epoch += 1
        self._rewatch()

    def _set_successors(self, successors: tuple[Address, ...]) -> None:
        if successors == self.successors:
            return
        former, self.successors = self.head, successors
        self._number = list_number(self._circle, successors)
        self._head_id = self._circle.node(successors[0]) if successors else self.id
        if former != self.head:
            if former is not None:
                self._out.report(LinkDown("successor", former))
            if self.head is not None:
                self._out.report(LinkUp("successor", self.head))
        if not successors:
            self._set_predecessor(None)
        self.epoch += 1
        self._rewatch()
        if self.standing and self.predecessor is not None:
            self._out.send(self.predecessor, self._neighbours(0))

    def _rewatch(self) -> None:
        """Watch the predecessor, the nearest successors and who takes an arc over, and nobody else.

        Silence takes long to notice. Where successors have died together, more of the next ones are watched at a time,
        until one of them answers, so that a long row of dead does not take that long for each.
        """
        near = dict.fromkeys(self.successors[: self._config.watched * (1 + self._buried)])
        if self.predecessor is not None:
            near[self.predecessor] = None
        if self._heir is not None:
            near[self._heir] = None
        for address in near:
            if address not in self._watched:
                self._out.watch(address)
        for address in self._watched:
            if address not in near:
                self._out.unwatch(address)
        self._watched = near

    def _neighbours(self, known: int) -> Neighbours:
        low = b"" if self.low is None else self._circle.encode(self.low)
        is_known = known and known == self._number
        return Neighbours(self.predecessor, low, self._number, () if is_known else self.successors)

    def _in_order(self, addresses: tuple[Address, ...]) -> tuple[Address, ...]:
        """What of a list is a successor list: further and further away, once around at the most, r of them."""
        found: list[Address] = []
        reach = 0
        for address in addresses:
            far = self._circle.distance(self.id, self._circle.node(address))
            if far > reach and len(found) < self._config.successors and address.slot >= 0:
                found.append(address)
                reach = far
        return tuple(found)

    def _is_nearer(self, other: Address) -> bool:
        """Whether it stands between us and the first successor."""
        return self._circle.between(self._circle.node(other), self.id, self._head_id)

    def _is_nearer_behind(self, other: Address) -> bool:
        assert self.predecessor is not None
        return self._circle.between(self._circle.node(other), self._circle.node(self.predecessor), self.id)


def list_number(circle: Circle, addresses: tuple[Address, ...]) -> int:
    """A number that two lists share only if they are the same: never 0, which stands for no list."""
    number = 0
    for address in addresses:
        number = (number * 1_000_003 + circle.node(address)) & (2**62 - 1)
    return number | 1 if addresses else 0
