"""One participant of the containment hierarchy (paper, section 3), as the peer sees it.

**Structure.** One rooted tree over all participants, whose top is the virtual root: see `tree.py`. What a participant
consists of, and which module has which section of the paper: see `participant.py`. This one hands on what comes in.

**Invariants.** Parents and children know each other; there is one origin, and all hang on it; a parent's interest
contains that of its interest children; equals hang together, at most `equal_degree` on each; depth is as `tree.py`
says; and therefore whoever is interested in an event receives it.
"""

from random import Random
from typing import Any, Final

from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import (
    Effect,
    Input,
    Join,
    Leave,
    Link,
    PeerLost,
    Publish,
    Received,
    Rejected,
    Sampled,
    Subscribe,
    TimerFired,
    Undelivered,
    Unsubscribe,
    Update,
)
from protocols.semantic import attaching, failing, joining, leaving, links, merging, moving, pulse
from protocols.semantic.config import SemanticConfig
from protocols.semantic.messages import (
    Attach,
    Attached,
    Below,
    Crown,
    Detach,
    Dismiss,
    Foreign,
    Found,
    Leaving,
    Probe,
    Promote,
    Promoted,
    Pulse,
    Refused,
    Reorganise,
    Routed,
)
from protocols.semantic.participant import LEFT, NEW, Participant
from protocols.semantic.routing import Routing
from protocols.semantic.tree import Tree


class Containment:
    __slots__ = ("_me",)

    def __init__(self, me: Address, config: SemanticConfig, schema: Schema, rng: Random) -> None:
        self._me = Participant(me, config, rng)

    def handle(self, now_ms: int, item: Input) -> list[Effect]:
        me = self._me
        if type(item) is Received:
            handler = _MESSAGES.get(type(item.message))
            if handler is None:
                me.out.report(Rejected(item.sender, f"{type(item.message).__name__} is not for a participant"))
            elif me.state != LEFT:
                handler(me, now_ms, item.sender, item.message)
        else:
            _INPUTS[type(item)](me, now_ms, item)
        return me.out.drain()

    def descriptor(self) -> Descriptor:
        me = self._me
        rank, interest = me.tree.rank, me.tree.interest
        ext = (rank.since_ms, rank.peer.encode(), rank.slot, interest.pattern.encode())
        return Descriptor(me.address, interest.box, me.version, 0, ext if me.state != NEW else ())

    def links(self) -> list[Link]:
        tree = self.tree
        found = [] if tree.parent is None else [Link(f"{tree.parent_kind}-parent", tree.parent)]
        found += [Link(f"{child.kind}-child", address) for address, child in tree.children.items()]
        found += [Link("sibling", sibling) for sibling in (tree.left, tree.right) if sibling is not None]
        return found

    def has_room(self, now_ms: int) -> bool:
        return self._me.routing.has_room(now_ms)

    # --- for those who look on ----------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        return self._me.state

    @property
    def tree(self) -> Tree:
        return self._me.tree

    @property
    def below(self) -> Below:
        """What its parent should know of it."""
        return links.below(self._me, self.tree.leaving)

    @property
    def routing(self) -> Routing:
        return self._me.routing


# --- dispatch ---------------------------------------------------------------------------------------------------------


def _publish(me: Participant, now_ms: int, item: Publish) -> None:
    me.routing.publish(now_ms, Copy(item.event))


def _on_routed(me: Participant, now_ms: int, sender: Address, message: Routed) -> None:
    me.routing.receive(now_ms, sender, message.copy, message.along)


def _timer(me: Participant, now_ms: int, item: TimerFired) -> None:
    _TIMERS[item.key](me, now_ms)


_TIMERS: Final[dict[str, Any]] = {
    "pulse": pulse.tick,
    "seek": failing.seek_again,
    "probe": moving.probe_over,
    "hand": links.hand_over,
    "repair": moving.repair,
}

_INPUTS: Final[dict[type, Any]] = {
    Join: joining.join,
    Leave: leaving.leave,
    Subscribe: joining.subscribe,
    Update: joining.subscribe,
    Unsubscribe: joining.unsubscribe,
    Publish: _publish,
    TimerFired: _timer,
    Undelivered: failing.undelivered,
    PeerLost: failing.peer_lost,
    Sampled: merging.sampled,
}

_MESSAGES: Final[dict[type, Any]] = {
    Attach: attaching.on_attach,
    Attached: attaching.on_attached,
    Refused: attaching.on_refused,
    Detach: attaching.on_detach,
    Dismiss: attaching.on_dismiss,
    Pulse: pulse.on_pulse,
    Below: links.on_below,
    Probe: moving.on_probe,
    Found: moving.on_found,
    Reorganise: moving.on_reorganise,
    Leaving: leaving.on_leaving,
    Promote: leaving.on_promote,
    Promoted: leaving.on_promoted,
    Crown: leaving.on_crown,
    Foreign: merging.on_foreign,
    Routed: _on_routed,
}
