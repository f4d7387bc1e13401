"""A better place (paper, section 3, join and reorganisation).

A newcomer stands at once, below the first container on its way or at the top level. Then it probes (`search.py`), and
moves below the best parent that it has found; and those that it contains are told that it is one for them. Everybody
probes again every `repair_ms`, against drift.

Moving is make before break: the former parent is left when the new one has said yes. An origin gives its crown away
first. Whatever comes while something else is under way is a wish, and waits (`idle`).
"""

from typing import Final

from protocols.model.ids import Address
from protocols.semantic import links
from protocols.semantic.messages import Found, Leaving, Probe, Reorganise
from protocols.semantic.participant import STANDING, Participant
from protocols.semantic.tree import ROOT

REPAIR_MS: Final = 60_000
"""Without a repair of its own a participant that has come from another tree looks around as often as this."""


def look_around(me: Participant, now_ms: int, newcomer: bool) -> None:
    """Probe for a better parent."""
    if me.state != STANDING or me.tree.is_idle:
        return
    share = me.config.reorganise_share
    policy = me.config.reorganise
    reorganises = newcomer and (policy == "always" or (policy == "periodic" and me.rng.random() < share))
    me.search.probe(now_ms, newcomer, reorganises)
    me.out.timer("probe", now_ms + me.config.probe_ms)


def repair(me: Participant, now_ms: int) -> None:
    """The timer: look whether there is a better place by now."""
    me.out.timer("repair", now_ms + int((me.config.repair_ms or REPAIR_MS) * me.rng.uniform(0.5, 1.5)))
    look_around(me, now_ms, newcomer=False)


def probe_over(me: Participant, now_ms: int) -> None:
    if me.search.until_ms is None:
        return
    better = me.search.end()
    if me.state != STANDING:
        return
    if better is not None:
        move(me, now_ms, better)
    if me.seek.purpose is None:
        idle(me, now_ms)


def move(me: Participant, now_ms: int, to: Address) -> None:
    """Hang below a better parent, when nothing else is under way. An origin gives the crown away before."""
    tree = me.tree
    if me.state != STANDING or (to == tree.parent and tree.parent_kind != ROOT):
        return
    if me.seek.purpose is not None or me.handover.is_busy:
        me.wish = to
    elif tree.is_origin and tree.of_kind(ROOT):
        me.wish = to
        me.handover.crown(now_ms, me.seek.next_id(), to, climb=to not in tree.children)
    elif to in tree.children:
        if tree.children[to].kind == ROOT and tree.parent is not None:
            me.wish = to
            me.out.send(to, Leaving(tree.parent))  # it has to be beside us first
    else:
        links.seek(me, now_ms, "move", [(to, "below")])


def idle(me: Participant, now_ms: int) -> None:
    """Nothing is sought: time for what was put off."""
    wish, me.wish = me.wish, None
    if wish is not None:
        move(me, now_ms, wish)
    elif me.search.reorganises and me.search.until_ms is None:
        me.search.announce()


def on_probe(me: Participant, now_ms: int, sender: Address, message: Probe) -> None:
    if me.is_sound(sender, message.joiner, message.interest):
        me.search.on_probe(now_ms, sender, message)


def on_found(me: Participant, now_ms: int, sender: Address, message: Found) -> None:
    me.search.on_found(sender, message)


def on_reorganise(me: Participant, now_ms: int, sender: Address, message: Reorganise) -> None:
    if not me.is_sound(sender, message.newcomer, message.interest):
        return
    if me.search.on_reorganise(now_ms, sender, message):
        move(me, now_ms, message.newcomer)
