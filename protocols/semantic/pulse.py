"""The pulse.

Every `pulse_ms` the origin sends a pulse down the tree, with a number that grows. It tells everybody its depth, its
ancestors (paper, section 3: "every peer needs to know its grand-parent") and the tree's rank; and it is a proof that
one hangs on the origin. Each pulse is passed on once. Whoever has not had a new one for `patience_ms` is cut off, or in
a cycle that two moves at once have made; it looks for another parent.
"""

from typing import Final

from protocols.model.ids import Address
from protocols.semantic import failing, links
from protocols.semantic.messages import SEQ_MAX, Detach, Pulse
from protocols.semantic.participant import STANDING, Participant
from protocols.semantic.tree import ROOT

KEEP_PULSES: Final = 3
"""Pulses that may be missing before the parent is asked whether it still is one. A guess."""
SAY_PULSES: Final = 5
"""Pulses after which a child says again what is below it: what it said last may be lost, or somebody else may have said
it. A guess: with `peek` the parent is wrong about what to send until then."""


def tick(me: Participant, now_ms: int) -> None:
    """The timer: send a pulse, or see whether one has come."""
    me.out.timer("pulse", me.jittered(now_ms, me.config.pulse_ms))
    tree = me.tree
    if not me.stands:
        return
    me.handover.crown_overdue(now_ms)
    if tree.is_origin:
        tree.seq = min(tree.seq + 1, SEQ_MAX)
        links.beat(me)
        _abdicate_if_idle(me, now_ms)
        return
    silent_ms = now_ms - me.heard_ms
    if silent_ms > me.config.patience_ms * me.rng.uniform(0.75, 1.0):
        parent = tree.parent
        assert parent is not None
        me.out.send(parent, Detach(me.seek.settled_id))
        failing.orphaned(me, now_ms)
    elif silent_ms > KEEP_PULSES * me.config.pulse_ms and tree.parent is not None:
        links.seek(me, now_ms, "keep", [(tree.parent, "here")])


def on_pulse(me: Participant, now_ms: int, sender: Address, message: Pulse) -> None:
    tree = me.tree
    if sender not in (tree.parent, tree.former):
        if not me.seek.is_under_way(message.req_id):  # or the answer is still on its way
            me.out.send(sender, Detach(message.req_id))
        return
    if sender == tree.parent:
        if message.kind != tree.parent_kind or message.known != me.digest:
            links.seek(me, now_ms, "keep", [(sender, "here")])  # it is mistaken about us
        tree.hear(message)
        links.hear_siblings(me, now_ms, message)
    elif message.rank != tree.rank:
        return  # the parent before is in another tree by now
    if tree.note(message):
        merged = message.rank.since_ms < tree.rank.since_ms
        tree.rank, tree.seq = message.rank, message.seq
        me.heard_ms = now_ms
        links.beat(me)
        if (message.seq + me.digest) % SAY_PULSES == 0:  # not all at once
            me.said = None
            links.tell_parent(me)
        if merged and tree.is_top:
            me.out.timer("repair", now_ms + me.rng.randrange(1, 5_000))


def _abdicate_if_idle(me: Participant, now_ms: int) -> None:
    """An origin without an interest has nothing to do up there, as soon as there is somebody else."""
    if not me.tree.is_idle or me.state != STANDING or me.handover.is_busy:
        return
    heirs = [a for a in me.tree.of_kind(ROOT) if not me.tree.children[a].leaving]
    if heirs:
        me.handover.crown(now_ms, me.seek.next_id(), heirs[0], climb=False)
