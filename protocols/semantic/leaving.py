"""Leaving, and taking a leaver's place (paper, section 3, leave algorithm).

The children of a leaver attach to their grandparent; within an equivalence tree a leaf is promoted to its place first.
An origin that leaves, or moves below somebody, passes its crown on. The order of it all is kept by `handover.py`.
"""

from msgspec.structs import replace

from protocols.model.ids import Address
from protocols.model.interest import is_empty
from protocols.overlay import Leave
from protocols.semantic import links
from protocols.semantic.messages import HOPS_MAX, Attached, Crown, Detach, Leaving, Promote, Promoted, Rank, Refused
from protocols.semantic.participant import JOINING, LEAVING, NEW, Participant
from protocols.semantic.tree import IDLE, ROOT


def leave(me: Participant, now_ms: int, item: Leave) -> None:
    if me.state in (NEW, JOINING):
        links.leave_now(me)
        return
    me.state = LEAVING
    me.tree.leaving = True
    if me.seek.purpose in ("move", "merge"):
        me.seek.stop()
    links.tell_parent(me)
    me.handover.leave(now_ms)
    links.hand_over(me, now_ms)


def on_leaving(me: Participant, now_ms: int, sender: Address, message: Leaving) -> None:
    request = me.seek.request
    if request is not None and request.purpose == "away" and request.to == message.to:
        return  # it has been asked already; to begin anew would be to lose the answer
    if sender == me.tree.parent and message.to != me.address:
        links.seek(me, now_ms, "away", [(message.to, "here"), *me.anybody()])


def on_promote(me: Participant, now_ms: int, sender: Address, message: Promote) -> None:
    if me.handover.on_promote(message, sender):
        links.seek(me, now_ms, "away", [(message.parent, "here")])


def on_promoted(me: Participant, now_ms: int, sender: Address, message: Promoted) -> None:
    me.handover.heir = sender
    links.hand_over(me, now_ms)


def on_crown(me: Participant, now_ms: int, sender: Address, message: Crown) -> None:
    tree = me.tree
    if not me.is_sound(sender, message.root, message.interest):
        return
    if message.rank != tree.rank or message.root == me.address or not me.stands:
        return
    if message.climb and not tree.is_top and tree.parent is not None and message.hops < HOPS_MAX:
        me.out.send(tree.parent, replace(message, hops=message.hops + 1))
        return
    if tree.is_origin or me.state == LEAVING:
        me.out.send(message.root, Refused(message.req_id))
        return
    tree.drop(message.root)
    tree.set_parent(None)
    former = tree.release()
    if former not in (None, message.root):
        me.out.send(former, Detach(me.seek.settled_id))
    changing = me.routing.served != tree.interest
    me.seek.stop()
    me.reign(Rank(tree.rank.since_ms, me.address.peer, me.address.slot), tree.seq)
    tree.adopt(message.root, message.req_id, message.interest, IDLE if is_empty(message.interest) else ROOT)
    links.arrange(me, now_ms)
    me.out.send(message.root, Attached(message.req_id, tree.pulse_for(message.root, me.routing.chain)))
    me.routing.replay_to_child(now_ms, message.root)
    if changing:
        me.activate()
    links.beat(me)
