"""Events on their last hop: from the publisher to the subscribers (paper, section 3.2).

The subscriber is addressed straight away (`delivery = "direct"`), or the node of c1 is looked up first (`"home"`): it
holds the subscription's metadata, compares the whole box, and tells the client. Here a client's node is its access
node, so the home is the subscriber itself, unless that has just come or gone.
"""

from functools import partial
from sys import intern

import msgspec

from protocols.chord.config import ChordConfig
from protocols.chord.ids import Circle
from protocols.chord.lookup import Answer, Lookups
from protocols.chord.messages import Notify
from protocols.chord.placements import Placements
from protocols.chord.publications import Matches
from protocols.chord.rows import RowTable
from protocols.model.event import Copy, expired, onward
from protocols.model.ids import Address, EventId
from protocols.overlay import Dropped, Outbox
from protocols.parts.seen import DUPLICATE, FULL, NEW, Seen

BROKEN_MS = 1_000
"""What a broken connection adds to the age of an event that is sent again: at least a second was lost. A guess."""


class Notices:
    __slots__ = ("_circle", "_home", "_lookups", "_me", "_out", "_placements", "_rows", "seen")

    def __init__(
        self,
        me: Address,
        lookups: Lookups,
        placements: Placements,
        rows: RowTable,
        config: ChordConfig,
        circle: Circle,
        out: Outbox,
    ) -> None:
        self._me = me
        self._lookups = lookups
        self._placements = placements
        self._rows = rows
        self._circle = circle
        self._home = config.delivery == "home"
        self._out = out
        self.seen = Seen(capacity=config.seen_max)

    def tell(self, now_ms: int, matches: Matches | None) -> None:
        """Send an event to the access nodes of the subscriptions that it satisfies."""
        if matches is None:
            return
        copy = onward(Copy(matches.copy.event, matches.hops))
        for access, numbers in matches.subscribers:
            if access == self._me:
                continue  # the peer has served its own at once
            if self._home:
                message = Notify(copy, access, numbers, True)
                self._lookups.begin(now_ms, self._circle.node(access), partial(self._tell_home, message))
            else:
                self._out.send(access, Notify(copy, access, numbers))

    def _tell_home(self, message: Notify, now_ms: int, home: Answer) -> None:
        """If the home was not found the access node is told itself, which is the home as long as it lives."""
        to = message.access if home.owner is None else home.owner
        copy = msgspec.structs.replace(message.copy, hops=message.copy.hops + home.hops)
        self._out.send(to, Notify(copy, message.access, message.numbers, to != message.access))

    def touched(self, now_ms: int, sender: Address, event_id: EventId, hops: int) -> None:
        """A question about an event has come by."""
        if event_id not in self.seen and self.seen.admit(now_ms, ("touched", event_id)) is NEW:
            self._out.reception(event_id, sender, hops, "touched")

    def on_notify(self, now_ms: int, sender: Address, message: Notify) -> None:
        """An event for our subscriptions, or for one whose home is here but not its access node."""
        copy = message.copy
        event = copy.event
        if message.access != self._me:
            self._forward(now_ms, sender, message)
            return
        admission = self.seen.admit(now_ms, intern(event.id))  # one string for all peers of a process
        if admission is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
        elif expired(copy):
            self._out.report(Dropped(event.id, "expired"))
        elif admission is DUPLICATE:
            self._out.reception(event.id, sender, copy.hops, "duplicate")
        else:
            wanted = self._placements.wants(event.point)
            self._out.reception(event.id, sender, copy.hops, "wanted" if wanted else "unwanted")
            if wanted:
                self._out.deliver(event, copy.hops)

    def _forward(self, now_ms: int, sender: Address, message: Notify) -> None:
        """The access node is not here: its metadata say whether it wants the event (paper, section 3).

        Not remembered as seen: we may be a subscriber of the event ourselves.
        """
        event = message.copy.event
        if sender != self._me:
            is_first = event.id not in self.seen and self.seen.admit(now_ms, ("home", event.id)) is NEW
            self._out.reception(event.id, sender, message.copy.hops, "unwanted" if is_first else "duplicate")
        known, satisfied = self._rows.home(message.access, message.numbers, event.point)
        if satisfied and message.home:
            self._out.send(message.access, Notify(onward(message.copy), message.access, message.numbers))
        elif not known:
            self._out.report(Dropped(event.id, "no-metadata", message.access))

    def undelivered(self, to: Address, message: Notify, gone: bool, broken_ms: int) -> None:
        """Send it again over a new connection, unless nobody listens there or it has grown too old.

        `broken_ms`: for how long nothing has got through.
        """
        copy = message.copy
        again = Copy(copy.event, copy.hops, copy.age_ms + max(BROKEN_MS, broken_ms))
        if gone:
            self._out.report(Dropped(copy.event.id, "undelivered", to))
        elif expired(again):
            self._out.report(Dropped(copy.event.id, "expired", to))
        else:
            self._out.send(to, Notify(again, message.access, message.numbers, message.home))
