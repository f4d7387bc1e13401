"""What a participant does whenever its links change, or have to: ask, set things in order, and tell those concerned.

*Asking for a parent* is one request at a time (`seek.py`); the answer is dealt with in `attaching.py`. Whenever parent,
children or interest have changed, `arrange` sees which children have to go and how events go now, and `tell_parent`
says what the parent counts on. The pulse carries to the children where they are: `beat`.
"""

from protocols.model.ids import Address
from protocols.overlay import Left
from protocols.semantic.messages import Attach, Below, Detach, Dismiss, Pulse, Refused
from protocols.semantic.participant import LEAVING, LEFT, Participant
from protocols.semantic.seek import LASTING, Purpose, Target
from protocols.semantic.tree import IDLE, INTEREST, Chain


def seek(me: Participant, now_ms: int, purpose: Purpose, targets: list[Target]) -> None:
    """Look for a parent among these, unless something more urgent is under way."""
    if not me.seek.may_begin(purpose):
        return
    targets = [target for target in targets if target[0] != me.address]
    if me.seek.begin(now_ms, purpose, targets, me.tree.interest, me.config.rpc_ms):
        ask(me)
    elif purpose in LASTING:
        me.seek.wait(now_ms, purpose, me.config.rpc_ms)
    me.out.timer("seek", now_ms + me.config.rpc_ms)


def ask(me: Participant) -> None:
    request, tree = me.seek.request, me.tree
    assert request is not None
    rank = tree.rank if any(child.kind != IDLE for child in tree.children.values()) else None
    message = Attach(me.address, request.req_id, request.interest, request.mode, rank, tree.parent)
    me.out.send(request.to, message)


def arrange(me: Participant, now_ms: int) -> None:
    """The links, or the interest, have changed: see which children have to go, and how events go now."""
    chain = me.routing.chain
    misplaced = me.tree.misplaced()
    stranded = any(me.tree.children[address].kind != IDLE for address in misplaced)
    me.beyond = stranded and me.tree.former is None  # or the parent before serves them
    me.routing.arrange(misplaced)
    if me.routing.chain != chain:
        link_siblings(me, chain)
        me.routing.replay_to_chain(now_ms, chain)
    if me.stands:
        hand_over(me, now_ms)


def hand_over(me: Participant, now_ms: int) -> None:
    """Let those children go that have to; a leaver goes itself when they have."""
    held = len(me.tree.children)
    if me.handover.step(now_ms, me.seek):
        me.out.timer("hand", now_ms + me.config.rpc_ms // 2)
    elif me.state == LEAVING:
        leave_now(me)
    elif len(me.tree.children) < held:  # some did not go in time
        arrange(me, now_ms)
        tell_parent(me)


def leave_now(me: Participant) -> None:
    me.state = LEFT
    tree = me.tree
    parents = [address for address in (tree.parent, tree.release()) if address is not None]
    me.out.send_all(parents, Detach(me.seek.next_id()))
    me.out.send_all(list(tree.children), Dismiss())
    tree.set_parent(None)
    tree.release()
    for address in list(tree.children):
        tree.drop(address)
    for request in me.waiting.values():
        me.out.send(request.joiner, Refused(request.req_id))
    for key in ("pulse", "repair", "seek", "probe", "hand"):
        me.out.cancel(key)
    me.out.report(Left())


def beat(me: Participant) -> None:
    """Pass the pulse on to the children."""
    for address in me.tree.children:
        me.out.send(address, me.tree.pulse_for(address, me.routing.chain))


def tell_parent(me: Participant) -> None:
    """Tell the parent what it knows about its child, if that has changed."""
    news = below(me, me.tree.leaving)
    if me.tree.parent is not None and news != me.said:
        me.said = news
        me.out.send(me.tree.parent, news)


def tell_former(me: Participant) -> None:
    """Tell a former parent that serves us a little longer not to count on us: we are in no chain of its children."""
    if me.tree.former is not None:
        me.out.send(me.tree.former, below(me, leaving=True))


def below(me: Participant, leaving: bool) -> Below:
    return Below(me.tree.equals, me.tree.tops, bool(me.tree.of_kind(INTEREST)), leaving, me.beyond)


def on_below(me: Participant, now_ms: int, sender: Address, message: Below) -> None:
    child = me.tree.children.get(sender)
    if child is not None:
        relayed, before = child.relays, (child.leaving, child.beyond)
        child.equals, child.tops = message.equals, max(1, message.tops)
        child.contains, child.leaving, child.beyond = message.contains, message.leaving, message.beyond
        if child.relays and not relayed:
            me.routing.replay_to_child(now_ms, sender)  # somebody is behind it who was active before we knew
        if (child.leaving, child.beyond) != before:
            arrange(me, now_ms)  # it passes nothing on any more, or is sent more
        tell_parent(me)


def link_siblings(me: Participant, before: Chain) -> None:
    """Tell the children whose neighbours in the chain are others now."""
    chain = me.routing.chain
    for address in before | chain:
        if before.get(address) != chain.get(address) and address in me.tree.children:
            me.out.send(address, me.tree.pulse_for(address, chain))


def hear_siblings(me: Participant, now_ms: int, pulse: Pulse) -> None:
    tree = me.tree
    known = (tree.left, tree.right)
    tree.left, tree.right = pulse.left, pulse.right
    new = [each for each in (pulse.left, pulse.right) if each is not None and each not in known]
    if new:
        me.routing.replay_to_siblings(now_ms, new)
