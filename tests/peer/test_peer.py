"""The peer above its participants: delivery, subscriptions, joining and leaving."""

from itertools import groupby

import msgspec
import pytest

from protocols.membership import Bye, Gone
from protocols.model.descriptor import PeerDescriptor
from protocols.model.ids import PEER_SLOT, Address, in_slot, of_peer
from protocols.overlay import (
    CancelTimer,
    Deliver,
    Dropped,
    Join,
    Joined,
    Leave,
    Left,
    PeerLost,
    Placed,
    Publish,
    Received,
    Rejected,
    Sampled,
    SetTimer,
    Siblings,
    Subscribe,
    TimerFired,
    Undelivered,
    Update,
)
from protocols.parts.bootstrap import Hello, Welcome
from protocols.peer import AddSubscription, ChangeSubscription, PeerConfig, RemoveSubscription, Reseed
from tests.peer.scripted import (
    ME,
    Hosted,
    Word,
    activated,
    box,
    delivered,
    facts,
    handed,
    only,
    own,
    sent,
)

OTHER = Address("other", 1, 0, "there:1")


def add(id_: str, lo: int, hi: int) -> AddSubscription:
    return AddSubscription(id_, f"x >= {lo} AND x < {hi}", (box(lo, hi),))


def change(id_: str, lo: int, hi: int) -> ChangeSubscription:
    return ChangeSubscription(id_, f"x >= {lo} AND x < {hi}", (box(lo, hi),))


# --- Joining ----------------------------------------------------------------------------------------------------------


def test_the_first_peer_begins_at_once() -> None:
    hosted = Hosted()
    effects = hosted.begin()
    assert Joined() in facts(effects)
    assert hosted.peer.ready
    [join] = handed(hosted.made[0], Join)
    assert join.contacts == ()
    assert handed(hosted.made[0], Subscribe)[0].box.lo == handed(hosted.made[0], Subscribe)[0].box.hi  # the empty box


def test_a_peer_with_contacts_says_hello_and_waits() -> None:
    hosted = Hosted()
    effects = hosted.do(Join((Address("", 0, PEER_SLOT, "seed:1"),)))
    [(to, hello)] = sent(effects)
    assert to.at == "seed:1"
    assert isinstance(hello, Hello)
    assert hello.joining
    assert not hosted.peer.ready
    assert handed(hosted.made[0], Join) == []


def test_contacts_that_are_not_known_yet_are_waited_for() -> None:
    """A name that does not resolve names somebody all the same: beginning a swarm of one's own would split it."""
    hosted = Hosted()
    assert sent(hosted.do(Join((), begin=False))) == []
    assert not hosted.peer.ready
    hosted.do(Reseed(("seed:1",)))
    [(to, hello)] = sent(hosted.do(TimerFired(PEER_SLOT, "seek")))
    assert to.at == "seed:1"
    assert isinstance(hello, Hello)
    assert not hosted.peer.ready


def test_room_is_what_the_peer_and_all_its_participants_have() -> None:
    hosted = Hosted()
    hosted.begin()
    assert hosted.peer.has_room(1)
    hosted.made[0].roomy = False
    assert not hosted.peer.has_room(1)


def test_a_welcome_lets_the_participant_join_through_those_that_stand() -> None:
    hosted = Hosted()
    hosted.do(Join((Address("", 0, PEER_SLOT, "seed:1"),)))
    elder = Hosted()
    elder.begin()
    descriptor = elder.peer.membership.own()
    effects = hosted.do(Received(ME, PEER_SLOT, Welcome(1, descriptor, (), True)))
    assert handed(hosted.made[0], Join)[0].contacts == (in_slot(descriptor.address, 0),)
    assert Joined() in facts(effects)


def test_starting_twice_is_misuse() -> None:
    hosted = Hosted()
    hosted.begin()
    with pytest.raises(ValueError, match="started already"):
        hosted.begin()


def test_siblings_of_the_first_participant_join_through_it() -> None:
    hosted = Hosted(participants_max=4)
    for number in range(3):
        hosted.do(add(f"s{number}", 10 * number, 10 * number + 5))
    hosted.begin()
    assert [handed(hosted.made[slot], Join)[0].contacts for slot in range(3)] == [(), (own(0),), (own(0),)]


def test_joined_is_said_once_however_many_participants_stand() -> None:
    hosted = Hosted(participants_max=4)
    effects = hosted.begin()
    for number in range(4):
        effects += hosted.do(add(f"s{number}", 10 * number, 10 * number + 5))
    assert facts(effects).count(Joined()) == 1


# --- Subscriptions ----------------------------------------------------------------------------------------------------


def test_a_subscription_is_active_when_its_participant_says_so() -> None:
    hosted = Hosted(slow=True)
    hosted.begin()
    assert activated(hosted.do(add("s", 0, 10))) == []
    assert activated(hosted.stand(0)) == ["s"]


def test_active_of_an_older_version_activates_nothing() -> None:
    hosted = Hosted(slow=True)
    hosted.begin()
    hosted.stand(0)
    hosted.do(add("s", 0, 10))
    assert activated(hosted.activate(0, version=0)) == []
    assert activated(hosted.activate(0, version=1)) == ["s"]


def test_inside_a_standing_cover_a_subscription_is_active_at_once() -> None:
    hosted = Hosted()
    hosted.begin()
    hosted.do(add("wide", 0, 50))
    assert activated(hosted.do(add("narrow", 10, 20))) == ["narrow"]
    assert len(handed(hosted.made[0], Update)) == 1


def test_the_same_name_twice_is_misuse() -> None:
    hosted = Hosted()
    hosted.begin()
    hosted.do(add("s", 0, 10))
    with pytest.raises(ValueError, match="subscription s already"):
        hosted.do(add("s", 0, 10))
    with pytest.raises(KeyError):
        hosted.do(RemoveSubscription("t"))
    with pytest.raises(KeyError):
        hosted.do(change("t", 0, 10))


def test_placed_is_reported_with_the_box() -> None:
    hosted = Hosted()
    first = hosted.begin()
    assert [fact.moved for fact in facts(first, slot=0) if isinstance(fact, Placed)] == [False]
    moved = [fact for fact in facts(hosted.do(add("s", 0, 10)), slot=0) if isinstance(fact, Placed)]
    assert moved == [Placed(box(0, 10), True)]


# --- Delivery ---------------------------------------------------------------------------------------------------------


def test_an_event_is_matched_against_all_subscriptions_and_delivered_once() -> None:
    hosted = Hosted(participants_max=4)
    hosted.begin()
    for id_, lo, hi in (("low", 0, 20), ("middle", 10, 30), ("high", 20, 40)):
        hosted.do(add(id_, lo, hi))
    event = hosted.event(15)
    assert delivered(hosted.arrives(event, slot=0)) == [("low", "middle")]
    assert delivered(hosted.arrives(event, slot=1)) == []  # it has been there
    assert delivered(hosted.arrives(hosted.event(25, number=2), slot=1)) == [("middle", "high")]


def test_the_filter_decides_and_not_the_box() -> None:
    hosted = Hosted()
    hosted.begin()
    hosted.do(AddSubscription("odd", "", (box(0, 50),), lambda attributes: int(attributes["x"] or 0) % 2 == 1))
    assert delivered(hosted.arrives(hosted.event(15, number=1))) == [("odd",)]
    assert delivered(hosted.arrives(hosted.event(16, number=2))) == []


def test_a_subscription_with_several_boxes_gets_an_event_once() -> None:
    hosted = Hosted(participants_max=4)
    hosted.begin()
    hosted.do(AddSubscription("both", "", (box(0, 20), box(10, 30))))
    event = hosted.event(15)
    assert delivered(hosted.arrives(event, slot=0)) + delivered(hosted.arrives(event, slot=1)) == [("both",)]


def test_hops_are_passed_on() -> None:
    hosted = Hosted()
    hosted.begin()
    hosted.do(add("s", 0, 50))
    [effect] = only(hosted.arrives(hosted.event(15), hops=7), Deliver)
    assert effect.hops == 7


def test_an_event_whose_body_is_nonsense_is_dropped() -> None:
    hosted = Hosted()
    hosted.begin()
    hosted.do(add("s", 0, 50))
    nonsense = msgspec.structs.replace(hosted.event(15), body=b"\xc1")
    effects = hosted.arrives(nonsense)
    assert delivered(effects) == []
    assert Dropped(nonsense.id, "undecodable") in facts(effects)


# --- Publishing -------------------------------------------------------------------------------------------------------


def test_own_subscriptions_are_served_at_once() -> None:
    hosted = Hosted()
    hosted.begin()
    hosted.do(add("s", 0, 50))
    event = hosted.peer.new_event({"x": 15, "y": 0}, 0)
    effects = hosted.do(Publish(event))
    assert delivered(effects) == [("s",)]
    assert only(effects, Deliver)[0].hops == 0
    assert handed(hosted.made[0], Publish) == [Publish(event)]
    assert delivered(hosted.arrives(event)) == []  # it comes back over the overlay


def test_publishing_before_joining_is_reported_as_dropped() -> None:
    hosted = Hosted()
    event = hosted.peer.new_event({"x": 15, "y": 0}, 0)
    assert facts(hosted.do(Publish(event))) == [Dropped(event.id, "not-joined")]
    hosted.do(Join((Address("", 0, PEER_SLOT, "seed:1"),)))
    assert facts(hosted.do(Publish(event))) == [Dropped(event.id, "not-joined")]
    assert handed(hosted.made[0], Publish) == []


def test_event_ids_count_up() -> None:
    hosted = Hosted()
    ids = [hosted.peer.new_event({"x": 1}, 0).id for _ in range(3)]
    assert ids == ["me-5-1", "me-5-2", "me-5-3"]


# --- Updates ----------------------------------------------------------------------------------------------------------


def test_the_old_filter_is_served_until_the_new_one_is_active() -> None:
    hosted = Hosted(participants_max=4, slow=True)
    hosted.begin()
    hosted.do(add("s", 0, 20))
    hosted.stand(0)
    assert activated(hosted.do(change("s", 30, 50))) == []
    assert delivered(hosted.arrives(hosted.event(10, number=1), slot=0)) == [("s",)]
    assert activated(hosted.stand(1)) == ["s"]
    assert delivered(hosted.arrives(hosted.event(10, number=2), slot=0)) == []
    assert delivered(hosted.arrives(hosted.event(40, number=3), slot=1)) == [("s",)]
    assert handed(hosted.made[0], Leave) == [Leave()]


def test_an_event_in_both_filters_is_delivered_once() -> None:
    hosted = Hosted(participants_max=4, slow=True)
    hosted.begin()
    hosted.do(add("s", 0, 30))
    hosted.stand(0)
    hosted.do(change("s", 20, 50))
    event = hosted.event(25)
    assert delivered(hosted.arrives(event, slot=0)) == [("s",)]
    hosted.stand(1)
    assert delivered(hosted.arrives(event, slot=1)) == []


def test_an_update_that_is_overtaken_never_counts() -> None:
    hosted = Hosted(slow=True)
    hosted.begin()
    hosted.stand(0)
    hosted.do(add("s", 0, 20))
    hosted.activate(0)
    hosted.do(change("s", 30, 50))
    hosted.do(change("s", 60, 80))
    effects = hosted.activate(0)
    assert activated(effects) == ["s"]
    assert delivered(hosted.arrives(hosted.event(40, number=1))) == []
    assert delivered(hosted.arrives(hosted.event(70, number=2))) == [("s",)]
    assert delivered(hosted.arrives(hosted.event(10, number=3))) == []


def test_one_participant_covers_old_and_new_while_it_changes() -> None:
    hosted = Hosted(slow=True)
    hosted.begin()
    hosted.stand(0)
    hosted.do(add("s", 0, 20))
    hosted.activate(0)
    hosted.do(change("s", 30, 50))
    boxes = [item.box for item in handed(hosted.made[0], Update)]
    assert boxes == [box(0, 20), box(0, 50)]
    hosted.activate(0)
    assert handed(hosted.made[0], Update)[-1].box == box(30, 50)


def test_removing_ends_delivery_at_once() -> None:
    hosted = Hosted()
    hosted.begin()
    hosted.do(add("s", 0, 20))
    hosted.do(RemoveSubscription("s"))
    assert delivered(hosted.arrives(hosted.event(10))) == []
    assert hosted.peer.subscriptions.held == {}
    hosted.do(add("s", 0, 20))  # the name is free again
    assert delivered(hosted.arrives(hosted.event(10, number=2))) == [("s",)]


def test_removing_during_an_update_removes_both() -> None:
    hosted = Hosted(slow=True)
    hosted.begin()
    hosted.stand(0)
    hosted.do(add("s", 0, 20))
    hosted.activate(0)
    hosted.do(change("s", 30, 50))
    hosted.do(RemoveSubscription("s"))
    assert activated(hosted.activate(0)) == []
    assert delivered(hosted.arrives(hosted.event(10, number=1))) == []
    assert delivered(hosted.arrives(hosted.event(40, number=2))) == []


# --- Participants of one peer -----------------------------------------------------------------------------------------


def two_participants() -> Hosted:
    hosted = Hosted(participants_max=4)
    hosted.begin()
    hosted.do(add("a", 0, 10))
    hosted.do(add("b", 20, 30))
    assert list(hosted.peer.participants) == [0, 1]
    return hosted


def test_siblings_talk_without_the_network() -> None:
    hosted = two_participants()
    hosted.made[0].out.send_all([own(1), OTHER], Word(7))
    effects = hosted.nudge(0)
    assert sent(effects) == [(OTHER, Word(7))]
    assert handed(hosted.made[1], Received) == [Received(own(0), 1, Word(7))]


def test_participants_are_told_of_their_siblings_if_they_ask_for_it() -> None:
    hosted = Hosted(participants_max=4, knows_siblings=True)
    hosted.begin()
    for id_, lo in (("a", 0), ("b", 20), ("c", 40)):
        hosted.do(add(id_, lo, lo + 10))
    hosted.do(RemoveSubscription("b"))
    told = [addresses for addresses, _ in groupby(item.addresses for item in handed(hosted.made[0], Siblings))]
    assert told == [(), (own(1),), (own(1), own(2)), (own(2),)]
    assert handed(hosted.made[2], Siblings)[-1].addresses == (own(0),)
    assert not handed(two_participants().made[0], Siblings)


def test_an_earlier_life_of_this_peer_is_somebody_else() -> None:
    hosted = two_participants()
    former = Address(ME.peer, ME.boot - 1, 1, ME.at)
    hosted.made[0].out.send(former, Word(7))
    assert sent(hosted.nudge(0)) == [(former, Word(7))]
    assert handed(hosted.made[1], Received) == []


def test_a_sibling_that_has_left_is_lost() -> None:
    hosted = two_participants()
    hosted.do(add("c", 40, 50))
    hosted.do(RemoveSubscription("b"))
    assert list(hosted.peer.participants) == [0, 2]
    hosted.made[0].out.send(own(1), Word(7))
    assert sent(hosted.nudge(0)) == []
    assert handed(hosted.made[0], PeerLost) == [PeerLost(own(1))]


def test_the_last_standing_participant_waits_for_its_successor() -> None:
    hosted = Hosted(participants_max=4, slow=True)
    hosted.begin()
    hosted.do(add("a", 0, 10))
    hosted.stand(0)
    hosted.do(add("b", 20, 30))
    hosted.do(RemoveSubscription("a"))
    assert handed(hosted.made[0], Leave) == []
    assert hosted.peer.ready
    event = hosted.peer.new_event({"x": 1}, 0)
    assert facts(hosted.do(Publish(event))) == []
    hosted.stand(1)
    assert handed(hosted.made[0], Leave) == [Leave()]
    hosted.do(Publish(hosted.peer.new_event({"x": 2}, 0)))
    assert len(handed(hosted.made[0], Publish)) == 1  # from now on through the one that stays
    assert len(handed(hosted.made[1], Publish)) == 1
    hosted.leave(0)
    assert list(hosted.peer.participants) == [1]
    assert hosted.peer.ready


def test_participants_that_leave_count_until_they_are_gone() -> None:
    hosted = Hosted(participants_max=2, slow=True)
    hosted.begin()
    hosted.stand(0)
    hosted.do(add("a", 0, 10))
    hosted.do(add("b", 20, 30))
    hosted.stand(1)
    hosted.do(RemoveSubscription("b"))
    hosted.do(add("c", 40, 50))  # no room for a third
    assert list(hosted.peer.participants) == [0, 1]
    hosted.leave(1)
    hosted.do(add("d", 60, 70))
    assert list(hosted.peer.participants) == [0, 2]


# --- Messages ---------------------------------------------------------------------------------------------------------


def test_a_slot_that_does_not_exist_is_gone() -> None:
    hosted = Hosted()
    hosted.begin()
    assert sent(hosted.do(Received(OTHER, 3, Word(1)))) == [(of_peer(OTHER), Gone(3))]
    assert hosted.do(Received(OTHER, 3, Gone(0))) == []  # or two would tell each other for ever


def test_gone_is_told_to_all_once_whether_they_watched_or_only_wrote() -> None:
    hosted = two_participants()
    hosted.made[0].out.watch(OTHER)
    hosted.nudge(0)
    hosted.do(Received(of_peer(OTHER), PEER_SLOT, Gone(0)))
    assert handed(hosted.made[0], PeerLost) == [PeerLost(OTHER)]
    assert handed(hosted.made[1], PeerLost) == [PeerLost(OTHER)]


def test_a_message_for_a_participant_comes_from_a_participant() -> None:
    hosted = Hosted()
    hosted.begin()
    before = len(hosted.made[0].inputs)
    [fact] = facts(hosted.do(Received(of_peer(OTHER), 0, Word(1))), slot=0)
    assert isinstance(fact, Rejected)
    assert len(hosted.made[0].inputs) == before


def test_a_message_of_the_overlay_is_not_for_the_peer_itself() -> None:
    hosted = Hosted()
    hosted.begin()
    [fact] = facts(hosted.do(Received(OTHER, PEER_SLOT, Word(1))))
    assert isinstance(fact, Rejected)


def test_timers_and_undelivered_reach_their_participant() -> None:
    hosted = two_participants()
    hosted.do(TimerFired(1, "tick"))
    hosted.do(Undelivered(1, OTHER, Word(1)))
    hosted.do(TimerFired(9, "of one that is gone"))
    assert handed(hosted.made[1], TimerFired) == [TimerFired(1, "tick")]
    assert handed(hosted.made[1], Undelivered) == [Undelivered(1, OTHER, Word(1))]
    assert handed(hosted.made[0], TimerFired) == []


def test_a_refused_connection_is_a_lost_peer() -> None:
    hosted = Hosted()
    hosted.begin()
    hosted.made[0].out.watch(OTHER)
    hosted.nudge(0)
    hosted.do(Undelivered(0, OTHER, Word(1), refused=True))
    assert handed(hosted.made[0], PeerLost) == [PeerLost(OTHER)]


def test_samples_reach_all_participants() -> None:
    hosted = two_participants()
    hosted.do(Sampled(()))
    assert handed(hosted.made[0], Sampled) == handed(hosted.made[1], Sampled) == [Sampled(())]


# --- Leaving ----------------------------------------------------------------------------------------------------------


def test_leaving_tells_everyone_and_ends_when_the_last_has_left() -> None:
    hosted = Hosted(participants_max=4, slow=True)
    hosted.begin()
    hosted.do(add("a", 0, 10))
    hosted.do(add("b", 20, 30))
    hosted.stand(0)
    hosted.stand(1)
    effects = hosted.do(Leave())
    assert [timer.at_ms - hosted.now_ms for timer in only(effects, SetTimer)] == [PeerConfig().leave_ms]
    assert not hosted.peer.ready
    assert Left() not in facts(effects)
    assert Left() not in facts(hosted.leave(0))
    last = hosted.leave(1)
    assert Left() in facts(last)
    assert CancelTimer(PEER_SLOT, "leave") in last


def test_patience_with_leaving_ends() -> None:
    hosted = Hosted(slow=True)
    hosted.begin()
    hosted.stand(0)
    hosted.do(Leave())
    assert Left() in facts(hosted.do(TimerFired(PEER_SLOT, "leave")))


def test_left_is_said_once() -> None:
    hosted = Hosted(slow=True)
    hosted.begin()
    hosted.stand(0)
    effects = hosted.do(Leave())
    effects += hosted.do(Leave())
    effects += hosted.do(TimerFired(PEER_SLOT, "leave"))
    effects += hosted.leave(0)
    assert facts(effects).count(Left()) == 1
    assert len(handed(hosted.made[0], Leave)) == 1


def test_who_leaves_says_goodbye() -> None:
    hosted = Hosted()
    hosted.begin()
    other = of_peer(OTHER)
    hosted.do(Received(other, PEER_SLOT, Hello(1, PeerDescriptor(other), (), "here:1", True)))
    goodbyes = [to for to, message in sent(hosted.do(Leave())) if isinstance(message, Bye)]
    assert goodbyes == [other]
