"""With whom a participant is linked: a random graph.

Every participant seeks `links` mutual links with participants that peer sampling shows it, and accepts up to
`links_max`. A link is mutual: `LinkRequest` -> `LinkAccept`, after which both sides hold it and watch each other. Now
and then a link is exchanged for a fresh one (`rotate`), which keeps the graph random and ties the two halves of a
healed partition together again; at the same time both ends confirm what they believe (`LinkConfirm`), so that half a
link, left by a lost message, does not last.

Whoever gets a new link replays its events of the last seconds over it (make before break).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from protocols.broadcast.candidates import Candidates
from protocols.broadcast.messages import (
    ALTERNATIVES_MAX,
    Flood,
    Leaving,
    LinkAccept,
    LinkConfirm,
    LinkRefuse,
    LinkRequest,
    Unlink,
)
from protocols.broadcast.own import JOINING, LEAVING, NEW, STANDING, Own
from protocols.model.descriptor import Descriptor
from protocols.model.event import onward
from protocols.model.ids import Address
from protocols.overlay import LinkDown, LinkUp, Rejected, Repaired, Undelivered
from protocols.parts.pending import RETRIES
from protocols.parts.recent import Recent

WAITING_MAX: Final = 1024
"""Joiners that wait until this participant stands itself."""

DOUBTS_MAX: Final = 256
"""Participants that are told again that we are not linked. A guess: far more than ever at once."""


class Asked(msgspec.Struct, frozen=True, gc=False):
    """A request for a link: until when to wait, and how often to ask again."""

    until_ms: int
    left: int


class Neighbours:
    __slots__ = ("_doubts", "_leaving", "_onward", "_own", "_recent", "_requests", "_waiting", "candidates", "linked")

    def __init__(self, own: Own, recent: Recent) -> None:
        self._own = own
        self._recent = recent
        self.candidates = Candidates(own)
        self.linked: dict[Address, int] = {}  # neighbour -> since when
        self._onward: dict[Address, tuple[Address, ...]] = {}  # neighbour -> all others; made anew when links change
        self._leaving: dict[Address, None] = {}  # neighbours that said they are about to go
        self._requests: dict[Address, Asked] = {}  # asked for a link
        self._doubts: dict[Address, int] = {}  # may hold a link that we do not -> how often to tell it yet
        self._waiting: dict[Address, None] = {}  # asked us before we stood

    def beyond(self, sender: Address) -> tuple[Address, ...]:
        """Whom to pass on to what came from there."""
        to = self._onward.get(sender)
        if to is None:
            to = tuple([a for a in self.linked if a != sender])
            if sender in self.linked:
                self._onward[sender] = to
        return to

    def is_agreeing_with(self, other: Address) -> bool:
        """Whether a request or a notice is under way that will settle whether the two are linked."""
        return other in self._requests or other in self._doubts

    # --- joining and leaving ------------------------------------------------------------------------------------------

    def join(self, now_ms: int, contacts: tuple[Address, ...]) -> None:
        if not contacts:
            self._stand()
            return
        self._own.state = JOINING
        self.candidates.contacts = contacts
        self.seek(now_ms)

    def _stand(self) -> None:
        own = self._own
        own.stand()
        for joiner in self._waiting:
            own.out.send(joiner, LinkRefuse((own.me,)))  # ask again: from now on you will be heard
        self._waiting = {}

    def leave(self, now_ms: int) -> None:
        own = self._own
        if not self.linked:
            self.leave_now()
            return
        own.state = LEAVING
        for neighbour in self.linked:
            own.out.send(neighbour, Leaving(self._alternatives(neighbour)))
        own.out.timer("linger", now_ms + own.config.linger_ms)

    def leave_now(self) -> None:
        self._own.out.send_all(list(self.linked), Unlink())
        for neighbour in list(self.linked):
            self._drop(neighbour)
        self._own.leave()

    # --- seeking links ------------------------------------------------------------------------------------------------

    def seek(self, now_ms: int) -> None:
        """Ask again or give up where an answer is overdue, then ask for as many links as are missing."""
        own = self._own
        self._ask_again(now_ms)
        self.candidates.forgive(now_ms)
        lasting = len(self.linked) - len(self._leaving)
        missing = own.config.links - lasting - len(self._requests)
        if own.state in (JOINING, STANDING):
            for candidate in self.candidates.choose(missing, self.linked, self._requests):
                self._request(now_ms, candidate)
        if self._requests or self._doubts or lasting < own.config.links:
            own.out.timer("seek", own.jittered(now_ms, own.config.rpc_ms))
        self._release_leavers()

    def _release_leavers(self) -> None:
        """Let neighbours go that are about to leave, once there are links enough without them, or none to be had."""
        if len(self.linked) - len(self._leaving) >= self._own.config.links or not self._requests:
            for leaver in list(self._leaving):
                self._drop(leaver)
                self._own.out.send(leaver, Unlink())

    def _ask_again(self, now_ms: int) -> None:
        own = self._own
        for to, asked in list(self._requests.items()):
            if asked.until_ms > now_ms:
                continue
            if asked.left and own.state in (JOINING, STANDING):
                self._request(now_ms, to, asked.left - 1)
            else:
                del self._requests[to]
                self._doubt(to)
        for to, left in list(self._doubts.items()):
            own.out.send(to, Unlink())
            if left > 1:
                self._doubts[to] = left - 1
            else:
                del self._doubts[to]

    def _doubt(self, to: Address) -> None:
        """The other one may hold a link that we do not: say so, and say it again, since a datagram can be lost."""
        if len(self._doubts) < DOUBTS_MAX:
            self._doubts[to] = RETRIES + 1

    def _request(self, now_ms: int, to: Address, left: int = RETRIES) -> None:
        self._requests[to] = Asked(now_ms + self._own.config.rpc_ms, left)
        self._doubts.pop(to, None)
        self._own.out.send(to, LinkRequest())

    def rotate(self, now_ms: int) -> None:
        """Seek one fresh link, and give up an old one once there are clearly more than enough."""
        own = self._own
        own.out.timer("rotate", own.jittered(now_ms, own.config.rotate_ms))
        own.out.send_all(list(self.linked), LinkConfirm())
        if own.state != STANDING:
            return
        for candidate in self.candidates.choose(1, self.linked, self._requests):
            self._request(now_ms, candidate)
            own.out.timer("seek", own.jittered(now_ms, own.config.rpc_ms))
        if len(self.linked) > 2 * own.config.links:
            oldest = min(self.linked, key=self.linked.__getitem__)
            self._drop(oldest)
            self._doubt(oldest)
            self.seek(now_ms)

    # --- what others say ----------------------------------------------------------------------------------------------

    def _on_link_request(self, now_ms: int, sender: Address, message: LinkRequest) -> None:
        own = self._own
        if sender == own.me:
            own.out.report(Rejected(sender, "a link to oneself"))
        elif own.state in (NEW, JOINING):
            if len(self._waiting) < WAITING_MAX:
                self._waiting[sender] = None
            else:
                own.out.send(sender, LinkRefuse(()))
        elif own.state == STANDING and (sender in self.linked or len(self.linked) < own.config.links_max):
            own.out.send(sender, LinkAccept())
            self._add(now_ms, sender)
        else:
            own.out.send(sender, LinkRefuse(self._alternatives(sender)))

    def _on_link_accept(self, now_ms: int, sender: Address, message: LinkAccept) -> None:
        own = self._own
        if self._requests.pop(sender, None) is None or own.state not in (JOINING, STANDING):
            if sender not in self.linked:
                self._doubt(sender)  # the answer came too late: do not leave half a link
                self.seek(now_ms)
            return
        self._add(now_ms, sender)
        if own.state == JOINING:
            self._stand()
            self.seek(now_ms)
        else:
            self._release_leavers()

    def _on_link_refuse(self, now_ms: int, sender: Address, message: LinkRefuse) -> None:
        asked = self._requests.pop(sender, None) is not None
        if asked and sender not in message.alternatives:  # or it says: ask me again
            self.candidates.spare(sender, now_ms + self._own.config.rpc_ms)
        self.candidates.learn(message.alternatives)
        if self._own.state == JOINING or self._leaving:
            self.seek(now_ms)

    def _on_unlink(self, now_ms: int, sender: Address, message: Unlink) -> None:
        if sender in self.linked:
            self._drop(sender)
            if self._own.state == LEAVING and not self.linked:
                self.leave_now()  # nobody depends on us any more
            else:
                self.seek(now_ms)

    def _on_link_confirm(self, now_ms: int, sender: Address, message: LinkConfirm) -> None:
        if sender not in self.linked and sender not in self._requests:
            self._own.out.send(sender, Unlink())

    def _on_leaving(self, now_ms: int, sender: Address, message: Leaving) -> None:
        if sender in self.linked:
            self._leaving[sender] = None
        self.candidates.forget(sender)
        self.candidates.learn(message.alternatives)
        self.seek(now_ms)

    # --- what sampling and liveness say -------------------------------------------------------------------------------

    def sampled(self, now_ms: int, descriptors: Sequence[Descriptor]) -> None:
        self.candidates.sampled(descriptors)
        if len(self.linked) < self._own.config.links and not self._requests:
            self.seek(now_ms)

    def lost(self, now_ms: int, address: Address) -> None:
        self.candidates.forget(address)
        if self._requests.pop(address, None) is not None:
            self.candidates.spare(address, now_ms + self._own.config.rotate_ms)  # samples may name it for a while
            self.seek(now_ms)
        if address in self.linked:
            self._drop(address)
            self._own.out.report(Repaired("link"))
            self.seek(now_ms)

    def unreached(self, now_ms: int, item: Undelivered) -> None:
        self._requests.pop(item.to, None)
        if isinstance(item.message, LinkAccept | LinkRequest):
            self._drop(item.to)
            self.seek(now_ms)

    # --- links --------------------------------------------------------------------------------------------------------

    def _add(self, now_ms: int, to: Address) -> None:
        if to in self.linked:
            return
        out = self._own.out
        self.linked[to] = now_ms
        self._onward.clear()
        self._doubts.pop(to, None)
        out.watch(to)
        out.report(LinkUp("random", to))
        for copy in self._recent.all(now_ms, self._own.config.replay_ms):
            out.send(to, Flood(onward(copy)))

    def _drop(self, to: Address) -> None:
        if self.linked.pop(to, None) is not None:
            self._onward.clear()
            self._leaving.pop(to, None)
            self._own.out.unwatch(to)
            self._own.out.report(LinkDown("random", to))

    def _alternatives(self, besides: Address) -> tuple[Address, ...]:
        others = [a for a in self.linked if a != besides and a not in self._leaving]
        if len(others) > ALTERNATIVES_MAX:
            others = self._own.rng.sample(others, ALTERNATIVES_MAX)
        return tuple(others)

    MESSAGES: Final[dict[type, Any]] = {
        LinkRequest: _on_link_request,
        LinkAccept: _on_link_accept,
        LinkRefuse: _on_link_refuse,
        Unlink: _on_unlink,
        LinkConfirm: _on_link_confirm,
        Leaving: _on_leaving,
    }
