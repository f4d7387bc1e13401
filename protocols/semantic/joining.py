"""Joining, and taking up an interest (paper, section 3, join).

Differs from the paper, whose peers never change their mind: a participant attaches under its new interest, serves both
until that is done, then lets children go that the new one does not contain.
"""

from protocols.model.interest import NOTHING, Interest
from protocols.overlay import Join, Subscribe, Unsubscribe, Update
from protocols.semantic import attaching, links, moving
from protocols.semantic.messages import Rank
from protocols.semantic.participant import JOINING, NEW, Participant
from protocols.semantic.tree import digest


def join(me: Participant, now_ms: int, item: Join) -> None:
    if me.state != NEW:
        raise ValueError(f"participant {me.address} joins twice")
    me.heard_ms = now_ms
    me.out.timer("pulse", me.jittered(now_ms, me.config.pulse_ms))
    if me.config.repair_ms:
        me.out.timer("repair", now_ms + int(me.config.repair_ms * me.rng.uniform(0.5, 1.5)))
    if not item.contacts:
        me.reign(Rank(now_ms, me.address.peer, me.address.slot))
        attaching.stand(me, now_ms)
        me.activate()
        return
    me.state = JOINING
    me.contacts = list(item.contacts)
    links.seek(me, now_ms, "join", [(contact, "climb") for contact in item.contacts])


def subscribe(me: Participant, now_ms: int, item: Subscribe | Update) -> None:
    change(me, now_ms, Interest(item.box, item.pattern), item.version)


def unsubscribe(me: Participant, now_ms: int, item: Unsubscribe) -> None:
    change(me, now_ms, NOTHING, me.version + 1)


def change(me: Participant, now_ms: int, interest: Interest, version: int) -> None:
    tree = me.tree
    me.version = version
    if interest != tree.interest:
        tree.interest = interest
        me.digest = digest(interest)
        links.arrange(me, now_ms)
        links.tell_parent(me)  # before it hears of the new interest: there may be children who want more
        if me.stands and tree.parent is not None:
            links.seek(me, now_ms, "update", [(tree.parent, "here"), *me.anybody()])
    if me.stands and tree.parent is None:
        me.activate()
        moving.look_around(me, now_ms, newcomer=True)
    elif me.routing.served == interest and me.seek.purpose not in ("join", "update"):
        me.activate()
