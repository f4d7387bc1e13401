"""One participant of the baseline.

**Structure.** A random graph. Every participant seeks `links` mutual links with participants that peer sampling shows
it, and accepts up to `links_max`. A link is mutual: `LinkRequest` -> `LinkAccept`, after which both sides hold it and
watch each other. Now and then a link is exchanged for a fresh one (`rotate`), which keeps the graph random and ties the
two halves of a healed partition together again; at the same time both ends confirm what they believe (`LinkConfirm`),
so that half a link, left by a lost message, does not last.

**Dissemination.** An event is sent over every link but the one it came by, once per participant. On a connected graph
that is complete. Two things cover the moments when it is not, or when a copy was lost with a broken connection:

- whoever gets a new link replays its events of the last seconds over it (make before break);
- every `repair_ms` a participant tells somebody, a neighbour or a stranger, the digests of what it received lately, and
  is asked for what the other one lacks (`RecentIds` -> `Want` -> `Flood`).

**States.** new -> joining -> standing -> leaving -> left. A joiner stands with its first link; the first participant of
a swarm stands at once. A joiner that asks a participant which is joining itself waits there until that one stands.

**Invariants.** Links are mutual, at most `links_max`, and lead to standing participants; the graph is connected.
"""

from collections.abc import Sequence
from random import Random
from sys import intern
from typing import Any, Final

import msgspec

from protocols.broadcast.config import BroadcastConfig
from protocols.broadcast.messages import (
    ALTERNATIVES_MAX,
    DIGESTS_MAX,
    Flood,
    Leaving,
    LinkAccept,
    LinkConfirm,
    LinkRefuse,
    LinkRequest,
    RecentIds,
    Unlink,
    Want,
)
from protocols.model.box import EMPTY, Box, match
from protocols.model.descriptor import Descriptor, addresses_of
from protocols.model.event import Copy, onward
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import (
    OWN_BOX,
    Dropped,
    Effect,
    Input,
    Join,
    Joined,
    Leave,
    Left,
    Link,
    LinkDown,
    LinkUp,
    Outbox,
    PeerLost,
    Publish,
    Received,
    Reception,
    Rejected,
    Repaired,
    Sampled,
    Subscribe,
    TimerFired,
    Undelivered,
    Unsubscribe,
    Update,
)
from protocols.parts.digests import Digests, digest
from protocols.parts.pending import RETRIES
from protocols.parts.recent import Recent
from protocols.parts.seen import DUPLICATE, FULL, KEEP_MS, Seen

NEW: Final = "new"
JOINING: Final = "joining"
STANDING: Final = "standing"
LEAVING: Final = "leaving"
LEFT: Final = "left"

CANDIDATES_MAX: Final = 64
"""Participants remembered from peer sampling: three views' worth."""
WAITING_MAX: Final = 1024
"""Joiners that wait until this participant stands itself."""

DOUBTS_MAX: Final = 256
"""Participants that are told again that we are not linked. A guess: far more than ever at once."""

SETTLED_MS: Final = 1_000
"""Before that an event may still be on its way by itself, and asking for it would only double it. A guess."""


class Asked(msgspec.Struct, frozen=True, gc=False):
    """A request for a link: until when to wait, and how often to ask again."""

    until_ms: int
    left: int


class Broadcast:
    __slots__ = (
        "_box",
        "_candidates",
        "_config",
        "_contacts",
        "_digests",
        "_doubts",
        "_leaving",
        "_links",
        "_me",
        "_onward",
        "_out",
        "_recent",
        "_refused",
        "_requests",
        "_rng",
        "_samples",
        "_seen",
        "_version",
        "_waiting",
        "_wanted",
        "state",
    )

    def __init__(self, me: Address, config: BroadcastConfig, schema: Schema, rng: Random) -> None:
        self._me = me
        self._config = config
        self._rng = rng
        self._out = Outbox(me.slot)
        self.state = NEW
        self._box: Box = EMPTY
        self._version = 0
        self._links: dict[Address, int] = {}  # neighbour -> since when
        self._onward: dict[Address, tuple[Address, ...]] = {}  # neighbour -> all others; made anew when links change
        self._leaving: dict[Address, None] = {}  # neighbours that said they are about to go
        self._requests: dict[Address, Asked] = {}  # asked for a link
        self._doubts: dict[Address, int] = {}  # may hold a link that we do not -> how often to tell it yet
        self._refused: dict[Address, int] = {}  # refused a link -> until when we do not ask again
        self._contacts: list[Address] = []  # through whom to join
        self._samples: Sequence[Descriptor] | None = None  # what peer sampling showed last, not looked through yet
        self._candidates: list[Address] = []
        self._waiting: dict[Address, None] = {}
        self._seen = Seen(KEEP_MS, config.seen_max)
        self._recent = Recent(config.recent_ms + config.rpc_ms, config.recent_max)
        self._wanted: dict[int, None] = {}  # what was last found to be missing, and asked for
        self._digests = Digests(2 * config.recent_ms, 2 * config.recent_max)

    # --- interface ----------------------------------------------------------------------------------------------------

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        if type(item) is Received:
            message = item.message
            if type(message) is Flood and self._seen.holds(id_ := message.copy.event.id):
                # Most copies have been here before; for them, nothing else is touched.
                return [Reception(item.slot, id_, item.sender, message.copy.hops, "duplicate")]
            handler = self._MESSAGES.get(type(message))
            if handler is None:
                self._out.report(Rejected(item.sender, f"{type(message).__name__} is not for a participant"))
            elif self.state != LEFT:
                handler(self, now_ms, item.sender, message)
        else:
            self._INPUTS[type(item)](self, now_ms, item)
        return self._out.drain()

    def descriptor(self) -> Descriptor:
        return Descriptor(self._me, self._box, self._version)

    def links(self) -> list[Link]:
        return [Link("random", to) for to in self._links]

    def has_room(self, now_ms: int) -> bool:
        return self._seen.has_room(now_ms)

    def is_agreeing_with(self, other: Address) -> bool:
        """Whether a request or a notice is under way that will settle whether the two are linked."""
        return other in self._requests or other in self._doubts

    # --- joining, leaving, subscriptions ------------------------------------------------------------------------------

    def _join(self, now_ms: int, item: Join) -> None:
        if self.state != NEW:
            raise ValueError(f"participant {self._me} joins twice")
        self._out.timer("rotate", self._jittered(now_ms, self._config.rotate_ms))
        self._out.timer("repair", self._jittered(now_ms, self._config.repair_ms))
        if not item.contacts:
            self._stand()
            return
        self.state = JOINING
        self._contacts = list(item.contacts)
        self._seek(now_ms)

    def _stand(self) -> None:
        self.state = STANDING
        self._out.report(Joined())
        self._out.active(OWN_BOX, self._version)
        for joiner in self._waiting:
            self._out.send(joiner, LinkRefuse((self._me,)))  # ask again: from now on you will be heard
        self._waiting = {}

    def _subscribe(self, now_ms: int, item: Subscribe | Update) -> None:
        self._box, self._version = item.box, item.version
        if self.state in (STANDING, LEAVING):
            self._out.active(item.id, item.version)

    def _unsubscribe(self, now_ms: int, item: Unsubscribe) -> None:
        self._box, self._version = EMPTY, self._version + 1

    def _leave(self, now_ms: int, item: Leave) -> None:
        if not self._links:
            self._leave_now()
            return
        self.state = LEAVING
        for neighbour in self._links:
            self._out.send(neighbour, Leaving(self._alternatives(neighbour)))
        self._out.timer("linger", now_ms + self._config.linger_ms)

    def _leave_now(self) -> None:
        self.state = LEFT
        self._out.send_all(list(self._links), Unlink())
        for neighbour in list(self._links):
            self._drop_link(neighbour)
        for key in ("rotate", "repair", "seek", "linger"):
            self._out.cancel(key)
        self._out.report(Left())

    # --- links --------------------------------------------------------------------------------------------------------

    def _seek(self, now_ms: int) -> None:
        """Ask again or give up where an answer is overdue, then ask for as many links as are missing."""
        self._ask_again(now_ms)
        self._refused = {to: until for to, until in self._refused.items() if until > now_ms}
        lasting = len(self._links) - len(self._leaving)
        missing = self._config.links - lasting - len(self._requests)
        if self.state in (JOINING, STANDING):
            for candidate in self._choose(missing):
                self._request(now_ms, candidate)
        if self._requests or self._doubts or lasting < self._config.links:
            self._out.timer("seek", self._jittered(now_ms, self._config.rpc_ms))
        self._release_leavers()

    def _release_leavers(self) -> None:
        """Let neighbours go that are about to leave, once there are links enough without them, or none to be had."""
        if len(self._links) - len(self._leaving) >= self._config.links or not self._requests:
            for leaver in list(self._leaving):
                self._drop_link(leaver)
                self._out.send(leaver, Unlink())

    def _ask_again(self, now_ms: int) -> None:
        for to, asked in list(self._requests.items()):
            if asked.until_ms > now_ms:
                continue
            if asked.left and self.state in (JOINING, STANDING):
                self._request(now_ms, to, asked.left - 1)
            else:
                del self._requests[to]
                self._doubt(to)
        for to, left in list(self._doubts.items()):
            self._out.send(to, Unlink())
            if left > 1:
                self._doubts[to] = left - 1
            else:
                del self._doubts[to]

    def _doubt(self, to: Address) -> None:
        """The other one may hold a link that we do not: say so, and say it again, since a datagram can be lost."""
        if len(self._doubts) < DOUBTS_MAX:
            self._doubts[to] = RETRIES + 1

    def _choose(self, count: int) -> list[Address]:
        """Strangers to ask for a link; a joiner that knows nobody yet asks its contacts."""
        if count <= 0:
            return []
        taken = self._links.keys() | self._requests.keys() | self._refused.keys()
        strangers = [c for c in self._known() if c not in taken]
        if self.state == JOINING and len(strangers) < count:
            strangers += [c for c in self._contacts if c not in taken and c not in strangers]
        if count < len(strangers):
            return self._rng.sample(strangers, count)
        return strangers

    def _request(self, now_ms: int, to: Address, left: int = RETRIES) -> None:
        self._requests[to] = Asked(now_ms + self._config.rpc_ms, left)
        self._doubts.pop(to, None)
        self._out.send(to, LinkRequest())

    def _rotate(self, now_ms: int) -> None:
        """Seek one fresh link, and give up an old one once there are clearly more than enough."""
        self._out.timer("rotate", self._jittered(now_ms, self._config.rotate_ms))
        self._out.send_all(list(self._links), LinkConfirm())
        if self.state != STANDING:
            return
        for candidate in self._choose(1):
            self._request(now_ms, candidate)
            self._out.timer("seek", self._jittered(now_ms, self._config.rpc_ms))
        if len(self._links) > 2 * self._config.links:
            oldest = min(self._links, key=self._links.__getitem__)
            self._drop_link(oldest)
            self._doubt(oldest)
            self._seek(now_ms)

    def _on_link_request(self, now_ms: int, sender: Address, message: LinkRequest) -> None:
        if sender == self._me:
            self._out.report(Rejected(sender, "a link to oneself"))
        elif self.state in (NEW, JOINING):
            if len(self._waiting) < WAITING_MAX:
                self._waiting[sender] = None
            else:
                self._out.send(sender, LinkRefuse(()))
        elif self.state == STANDING and (sender in self._links or len(self._links) < self._config.links_max):
            self._out.send(sender, LinkAccept())
            self._add_link(now_ms, sender)
        else:
            self._out.send(sender, LinkRefuse(self._alternatives(sender)))

    def _on_link_accept(self, now_ms: int, sender: Address, message: LinkAccept) -> None:
        if self._requests.pop(sender, None) is None or self.state not in (JOINING, STANDING):
            if sender not in self._links:
                self._doubt(sender)  # the answer came too late: do not leave half a link
                self._seek(now_ms)
            return
        self._add_link(now_ms, sender)
        if self.state == JOINING:
            self._stand()
            self._seek(now_ms)
        else:
            self._release_leavers()

    def _on_link_refuse(self, now_ms: int, sender: Address, message: LinkRefuse) -> None:
        asked = self._requests.pop(sender, None) is not None
        if asked and sender not in message.alternatives:  # or it says: ask me again
            self._refused[sender] = now_ms + self._config.rpc_ms
        self._learn([a for a in message.alternatives if a != self._me])
        if self.state == JOINING or self._leaving:
            self._seek(now_ms)

    def _on_unlink(self, now_ms: int, sender: Address, message: Unlink) -> None:
        if sender in self._links:
            self._drop_link(sender)
            if self.state == LEAVING and not self._links:
                self._leave_now()  # nobody depends on us any more
            else:
                self._seek(now_ms)

    def _on_link_confirm(self, now_ms: int, sender: Address, message: LinkConfirm) -> None:
        if sender not in self._links and sender not in self._requests:
            self._out.send(sender, Unlink())

    def _on_leaving(self, now_ms: int, sender: Address, message: Leaving) -> None:
        if sender in self._links:
            self._leaving[sender] = None
        self._candidates = [c for c in self._known() if c != sender]
        self._learn([a for a in message.alternatives if a != self._me])
        self._seek(now_ms)

    def _add_link(self, now_ms: int, to: Address) -> None:
        if to in self._links:
            return
        self._links[to] = now_ms
        self._onward.clear()
        self._doubts.pop(to, None)
        self._out.watch(to)
        self._out.report(LinkUp("random", to))
        for copy in self._recent.all(now_ms, self._config.replay_ms):
            self._out.send(to, Flood(onward(copy)))

    def _drop_link(self, to: Address) -> None:
        if self._links.pop(to, None) is not None:
            self._onward.clear()
            self._leaving.pop(to, None)
            self._out.unwatch(to)
            self._out.report(LinkDown("random", to))

    def _alternatives(self, besides: Address) -> tuple[Address, ...]:
        others = [a for a in self._links if a != besides and a not in self._leaving]
        if len(others) > ALTERNATIVES_MAX:
            others = self._rng.sample(others, ALTERNATIVES_MAX)
        return tuple(others)

    def _learn(self, addresses: list[Address]) -> None:
        known = self._known()
        self._candidates = ([a for a in addresses if a not in known] + known)[:CANDIDATES_MAX]

    def _known(self) -> list[Address]:
        """The candidates; samples, which come far more often than a link is sought, are looked through only here."""
        if self._samples is not None:
            self._candidates = [a for a in addresses_of(self._samples) if a != self._me][:CANDIDATES_MAX]
            self._samples = None
        return self._candidates

    def _sampled(self, now_ms: int, item: Sampled) -> None:
        self._samples = item.descriptors
        if len(self._links) < self._config.links and not self._requests:
            self._seek(now_ms)

    def _peer_lost(self, now_ms: int, item: PeerLost) -> None:
        self._candidates = [c for c in self._known() if c != item.address]
        if self._requests.pop(item.address, None) is not None:
            self._refused[item.address] = now_ms + self._config.rotate_ms  # samples may name it for a while
            self._seek(now_ms)
        if item.address in self._links:
            self._drop_link(item.address)
            self._out.report(Repaired("link"))
            self._seek(now_ms)

    # --- events -------------------------------------------------------------------------------------------------------

    def _publish(self, now_ms: int, item: Publish) -> None:
        event = item.event
        if self._seen.admit(now_ms, event.id) is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
            return
        self._take(now_ms, Copy(event), self._me, match(self._box, event.point))

    def _on_flood(self, now_ms: int, sender: Address, message: Flood) -> None:
        copy = message.copy
        event = copy.event
        admission = self._seen.admit(now_ms, intern(event.id))  # one string for all peers of a process
        if admission is DUPLICATE:
            self._out.reception(event.id, sender, copy.hops, "duplicate")
        elif admission is FULL:
            self._out.report(Dropped(event.id, "seen-full"))
        elif copy.age_ms >= event.ttl_ms:  # `expired`, without the call
            self._out.report(Dropped(event.id, "expired"))
        else:
            wanted = match(self._box, event.point)
            self._out.reception(event.id, sender, copy.hops, "wanted" if wanted else "unwanted")
            self._take(now_ms, copy, sender, wanted)

    def _take(self, now_ms: int, copy: Copy, sender: Address, wanted: bool) -> None:
        """Keep it, deliver it if it is ours, pass it on."""
        self._recent.add(now_ms, copy)
        self._digests.add(now_ms, copy.event.id)
        if self._wanted and (digest_ := digest(copy.event.id)) in self._wanted:
            del self._wanted[digest_]
            self._out.report(Repaired("event"))
        if wanted:
            self._out.deliver(copy.event, copy.hops)
        to = self._onward.get(sender)
        if to is None:
            to = self._beyond(sender)
        if to:
            self._out.send_all(to, Flood(onward(copy)))

    def _beyond(self, sender: Address) -> tuple[Address, ...]:
        """Whom to pass on to what came from there."""
        to = tuple([a for a in self._links if a != sender])
        if sender in self._links:
            self._onward[sender] = to
        return to

    # --- repair -------------------------------------------------------------------------------------------------------

    def _repair(self, now_ms: int) -> None:
        """Tell a neighbour or a stranger what we have received lately."""
        self._out.timer("repair", self._jittered(now_ms, self._config.repair_ms))
        digests = self._digests.received(now_ms, self._config.recent_ms, SETTLED_MS)[-DIGESTS_MAX:]
        if not digests or self.state != STANDING:
            return
        known = self._known()
        circle = known if known and self._rng.random() < 0.5 else list(self._links)
        if circle:
            self._out.send(self._rng.choice(circle), RecentIds(digests))

    def _on_recent_ids(self, now_ms: int, sender: Address, message: RecentIds) -> None:
        missing = self._digests.missing(message.digests)
        if missing and self.state == STANDING:
            self._wanted = dict.fromkeys(missing)
            self._out.send(sender, Want(missing))

    def _on_want(self, now_ms: int, sender: Address, message: Want) -> None:
        wanted = dict.fromkeys(message.digests)
        for copy in self._recent.all(now_ms):
            if digest(copy.event.id) in wanted:
                self._out.send(sender, Flood(onward(copy)))

    # --- dispatch -----------------------------------------------------------------------------------------------------

    def _undelivered(self, now_ms: int, item: Undelivered) -> None:
        """A broken connection is made anew by sending again; whether the peer is dead is for liveness to say."""
        self._requests.pop(item.to, None)
        message = item.message
        if isinstance(message, Flood) and item.to in self._links and not item.refused:
            self._out.send(item.to, message)
        elif isinstance(message, Flood):
            self._out.report(Dropped(message.copy.event.id, "undelivered", item.to))
        elif isinstance(message, LinkAccept | LinkRequest):
            self._drop_link(item.to)
            self._seek(now_ms)

    def _timer(self, now_ms: int, item: TimerFired) -> None:
        if item.key == "seek":
            self._seek(now_ms)
        elif item.key == "rotate":
            self._rotate(now_ms)
        elif item.key == "repair":
            self._repair(now_ms)
        elif item.key == "linger" and self.state == LEAVING:
            self._leave_now()

    def _jittered(self, now_ms: int, period_ms: int) -> int:
        return now_ms + int(period_ms * self._rng.uniform(0.9, 1.1))

    _INPUTS: Final[dict[type, Any]] = {
        Join: _join,
        Leave: _leave,
        Subscribe: _subscribe,
        Update: _subscribe,
        Unsubscribe: _unsubscribe,
        Publish: _publish,
        TimerFired: _timer,
        Undelivered: _undelivered,
        PeerLost: _peer_lost,
        Sampled: _sampled,
    }

    _MESSAGES: Final[dict[type, Any]] = {
        LinkRequest: _on_link_request,
        LinkAccept: _on_link_accept,
        LinkRefuse: _on_link_refuse,
        Unlink: _on_unlink,
        LinkConfirm: _on_link_confirm,
        Leaving: _on_leaving,
        Flood: _on_flood,
        RecentIds: _on_recent_ids,
        Want: _on_want,
    }
