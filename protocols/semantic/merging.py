"""Two trees become one.

After a partition, or when two peers have begun the same swarm, there are two origins. A participant that peer sampling
shows to be in a tree with another rank tells its origin, and the origin with the higher rank (the younger tree)
attaches below the other. A request of one that has children climbs to the origin of the other tree before it is
granted: if it meets the one who asks, the two were one tree already.
"""

from typing import Final

from protocols.model.bounds import ID_MAX
from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.overlay import Sampled
from protocols.semantic import links
from protocols.semantic.messages import HOPS_MAX, Foreign, Rank
from protocols.semantic.participant import STANDING, Participant

CONTACTS_MAX: Final = 64
"""Participants remembered from peer sampling: three views' worth."""


def sampled(me: Participant, now_ms: int, item: Sampled) -> None:
    others = [d for d in item.descriptors if d.address != me.address]
    me.contacts = [d.address for d in others][:CONTACTS_MAX]
    if me.state != STANDING or now_ms < me.named_ms + me.config.pulse_ms:
        return
    mine = me.tree.rank
    same = (mine.since_ms, mine.peer.encode(), mine.slot)
    for descriptor in others:
        if descriptor.ext[:3] == same:  # nearly all are in this tree: nothing else of them is looked at
            continue
        rank = _rank_of(descriptor)
        if rank is None or rank == me.tree.rank:
            continue
        me.named_ms = now_ms
        if rank > me.tree.rank:
            me.out.send(descriptor.address, Foreign(me.address))
        else:
            on_foreign(me, now_ms, me.address, Foreign(descriptor.address))
        return


def on_foreign(me: Participant, now_ms: int, sender: Address, message: Foreign) -> None:
    if me.state != STANDING or message.contact == me.address:
        return
    if me.tree.parent is None:
        join_tree(me, now_ms, message.contact)
    elif message.hops < HOPS_MAX and sender != me.tree.parent:
        me.out.send(me.tree.parent, Foreign(message.contact, message.hops + 1))


def join_tree(me: Participant, now_ms: int, contact: Address) -> None:
    """The origin of a tree asks to be taken into an older one."""
    if me.seek.purpose == "orphan" and me.seek.request is None:
        links.seek(me, now_ms, "orphan", [(contact, "climb")])
    else:
        links.seek(me, now_ms, "merge", [(contact, "climb")])


def _rank_of(descriptor: Descriptor) -> Rank | None:
    """The tree that a participant says it is in."""
    match descriptor.ext:
        case (int(since_ms), bytes(peer), int(slot), *_) if since_ms >= 0 and len(peer) <= ID_MAX:
            return Rank(since_ms, peer.decode("ascii", "replace"), slot)
    return None
