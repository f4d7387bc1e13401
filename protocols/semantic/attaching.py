"""Having a parent, and being one (paper, section 3, join).

Attaching is make before break. A participant asks (`Attach`), is adopted (`Attached`), and only then tells the parent
before (`Detach`). The new parent replays to it what it has received lately, and it replays to the new parent what has
come from below. If there are children that only the former parent can serve (their place is at the top level, or the
interest has changed under them), that link is kept until they have moved.
"""

from typing import Final

from protocols.model.ids import Address
from protocols.model.interest import equivalent
from protocols.overlay import Joined
from protocols.semantic import failing, links, merging, moving
from protocols.semantic.messages import Attach, Attached, Detach, Dismiss, Promoted, Pulse, Refused
from protocols.semantic.participant import JOINING, NEW, STANDING, Participant
from protocols.semantic.placing import Adopt, Pass, passed

WAITING_MAX: Final = 1_000
"""Joiners that wait until this participant stands itself."""


def on_attach(me: Participant, now_ms: int, sender: Address, message: Attach) -> None:
    if not me.is_sound(sender, message.joiner, message.interest):
        return
    if message.joiner == me.address:
        if me.seek.is_under_way(message.req_id):
            failing.failed(me, now_ms)  # it has come around: whom we asked hangs below us
        return
    if me.state in (NEW, JOINING):
        if len(me.waiting) < WAITING_MAX and message.rank is None:
            me.waiting[message.joiner] = message
        else:
            me.out.send(message.joiner, Refused(message.req_id))
        return
    if me.seek.purpose == "move" and message.mode == "below" and equivalent(me.tree.interest, message.interest):
        # two equivalence trees that move below each other at once would be a cycle, cut off from the rest
        me.out.send(message.joiner, Refused(message.req_id))
        return
    if message.mode == "slot" and sender == me.tree.parent:
        me.said = None  # it counts on us to take the joiner, and has to know what came of it
    decision = me.placing.decide(message)
    if isinstance(decision, Pass):
        if me.placing.expect(decision):
            me.routing.replay_to_child(now_ms, decision.to)
        me.out.send(decision.to, passed(message, decision))
    elif isinstance(decision, Adopt):
        adopt(me, now_ms, message, decision)
    else:
        me.out.send(message.joiner, Refused(message.req_id))
        if decision.foreign:
            merging.join_tree(me, now_ms, message.joiner)
    links.tell_parent(me)


def adopt(me: Participant, now_ms: int, message: Attach, decision: Adopt) -> None:
    is_news = me.tree.adopt(message.joiner, message.req_id, message.interest, decision.kind)
    if is_news:
        links.arrange(me, now_ms)
    me.out.send(message.joiner, Attached(message.req_id, me.tree.pulse_for(message.joiner, me.routing.chain)))
    if is_news:
        me.routing.replay_to_child(now_ms, message.joiner)


def on_attached(me: Participant, now_ms: int, sender: Address, message: Attached) -> None:
    if me.seek.is_under_way(message.req_id) and me.tree.stays_above(sender, message.pulse.kind):
        me.out.send(sender, Detach(message.req_id))
        failing.failed(me, now_ms)
        return
    request = me.seek.answered(message.req_id)
    crowned = me.handover.crowned(message.req_id)
    if request is None and not crowned:
        if sender not in (me.tree.parent, me.tree.former):
            me.out.send(sender, Detach(message.req_id))  # the answer came too late
        return
    if sender in me.tree.children:
        me.tree.drop(sender)
    take_parent(me, now_ms, sender, message.pulse)
    if me.state == JOINING:
        stand(me, now_ms)
    if request is not None and request.interest != me.tree.interest:
        links.seek(me, now_ms, "update", [(sender, "here")])
        return
    if me.routing.served != me.tree.interest or (request is not None and request.purpose in ("join", "update")):
        me.activate()
        moving.look_around(me, now_ms, newcomer=True)
    elif request is not None and request.purpose in ("orphan", "away") and me.config.repair == "rejoin":
        moving.look_around(me, now_ms, newcomer=False)
    if me.handover.promoted_for is not None and request is not None and request.purpose == "away":
        me.out.send(me.handover.promoted_for, Promoted())
        me.handover.promoted_for = None
    moving.idle(me, now_ms)


def take_parent(me: Participant, now_ms: int, parent: Address, pulse: Pulse) -> None:
    tree = me.tree
    before, merged = tree.parent, tree.rank.since_ms > pulse.rank.since_ms
    if parent != before and tree.former not in (None, parent):
        me.out.send(tree.former, Detach(me.seek.settled_id))
    tree.set_parent(parent, pulse.kind)
    me.said = None  # whether it has just adopted us, or still knows us as something else, we cannot tell
    if parent != before:
        me.heard_ms = now_ms
        me.routing.replay_to_parent(now_ms, parent)
    tree.rank, tree.seq = pulse.rank, pulse.seq
    tree.note(pulse)
    tree.hear(pulse)
    links.hear_siblings(me, now_ms, pulse)
    links.arrange(me, now_ms)
    links.tell_parent(me)
    if parent != before:
        links.beat(me)
        links.tell_former(me)
    if merged and me.state == STANDING and before is None and tree.is_top:
        moving.look_around(me, now_ms, newcomer=False)


def on_refused(me: Participant, now_ms: int, sender: Address, message: Refused) -> None:
    if me.seek.is_under_way(message.req_id):
        failing.failed(me, now_ms)
    elif me.handover.crowned(message.req_id):
        links.hand_over(me, now_ms)


def on_detach(me: Participant, now_ms: int, sender: Address, message: Detach) -> None:
    tree = me.tree
    child = tree.children.get(sender)
    if child is not None and message.req_id >= child.req_id:
        tree.drop(sender)
        me.handover.lost(sender)
        links.arrange(me, now_ms)
        links.tell_parent(me)
        if me.seek.purpose is None:
            moving.idle(me, now_ms)


def on_dismiss(me: Participant, now_ms: int, sender: Address, message: Dismiss) -> None:
    if sender == me.tree.former:
        me.tree.release()
        links.arrange(me, now_ms)
    elif sender == me.tree.parent:
        failing.orphaned(me, now_ms)


def stand(me: Participant, now_ms: int) -> None:
    me.state = STANDING
    me.out.report(Joined())
    waiting, me.waiting = me.waiting, {}
    for request in waiting.values():
        on_attach(me, now_ms, request.joiner, request)
