"""Somebody is gone, or does not answer (paper, section 3: failures).

Whoever loses its parent is the origin of its own tree from then on, and serves it. It asks its grandparents to take it,
then anybody. A target that refuses, or is silent for too long, is followed by the next one.
"""

from protocols.overlay import PeerLost, Repaired, Undelivered
from protocols.semantic import links, moving
from protocols.semantic.messages import Attach, Below, Rank, Refused, Routed
from protocols.semantic.participant import LEFT, Participant
from protocols.semantic.seek import Target


def failed(me: Participant, now_ms: int) -> None:
    """The target of the request under way will not do."""
    if me.seek.failed(now_ms, me.config.rpc_ms):
        links.ask(me)
        me.out.timer("seek", now_ms + me.config.rpc_ms)
    elif me.seek.waiting is None:
        moving.idle(me, now_ms)


def seek_again(me: Participant, now_ms: int) -> None:
    """The timer: an answer is overdue, or it is time to try again."""
    seek, rpc_ms = me.seek, me.config.rpc_ms
    if seek.request is not None:
        if seek.overdue(now_ms, rpc_ms):
            links.ask(me)
        elif seek.purpose is None:
            moving.idle(me, now_ms)
    elif seek.waiting is not None and now_ms >= seek.waiting_until_ms:
        targets = me.anybody()
        if seek.waiting == "update" and me.tree.parent is not None:
            targets.insert(0, (me.tree.parent, "here"))
        links.seek(me, now_ms, seek.waiting, targets)
    if seek.purpose is not None:
        me.out.timer("seek", now_ms + rpc_ms)


def orphaned(me: Participant, now_ms: int) -> None:
    """The parent is gone. Whoever hangs on us still does: be their origin until somebody takes us."""
    tree = me.tree
    grandparents: list[Target] = [(address, "here") for address in tree.ancestors[1:]]
    former, former_kind = tree.former, tree.former_kind
    if former is not None:
        tree.set_parent(former, former_kind)
        tree.release()
    else:
        tree.set_parent(None)
        tree.release()
        me.reign(Rank(now_ms, me.address.peer, me.address.slot))
    me.heard_ms = now_ms
    links.arrange(me, now_ms)
    links.beat(me)
    if tree.parent is not None:
        links.seek(me, now_ms, "update", [(tree.parent, "here"), *me.anybody()])
    elif me.seek.purpose in ("join", "update"):
        failed(me, now_ms)
    else:
        links.seek(me, now_ms, "orphan", grandparents + me.anybody())
    me.out.report(Repaired("parent"))


def peer_lost(me: Participant, now_ms: int, item: PeerLost) -> None:
    lost, tree = item.address, me.tree
    me.contacts = [contact for contact in me.contacts if contact != lost]
    me.waiting.pop(lost, None)
    if me.handover.lost(lost):
        links.hand_over(me, now_ms)
    if me.wish == lost:
        me.wish = None
    if me.state == LEFT:
        return
    if tree.drop(lost):
        links.arrange(me, now_ms)
        links.tell_parent(me)
    if tree.former == lost:
        tree.release()
        links.arrange(me, now_ms)
    if tree.parent == lost:
        orphaned(me, now_ms)
    if me.seek.request is not None and me.seek.request.to == lost:
        failed(me, now_ms)


def undelivered(me: Participant, now_ms: int, item: Undelivered) -> None:
    message = item.message
    if isinstance(message, Routed):
        me.routing.undelivered(item.to, message, item.refused)
    elif isinstance(message, Attach):
        if message.joiner != me.address:
            me.out.send(message.joiner, Refused(message.req_id))
        elif me.seek.is_under_way(message.req_id):
            failed(me, now_ms)
    elif isinstance(message, Below) and item.to == me.tree.parent and not item.refused:
        me.said = None
        links.tell_parent(me)
