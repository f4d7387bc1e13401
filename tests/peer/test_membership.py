"""Membership ties sampling, liveness and bootstrap together."""

from random import Random
from typing import Any

import pytest

from protocols.membership import WAITING_MAX, Bye, Gone, Membership, MembershipConfig, News
from protocols.model.box import EMPTY
from protocols.model.descriptor import REFUTATION_MAX, PeerDescriptor, Standing, addresses_of, pack, unpack
from protocols.model.ids import PEER_SLOT, Address, in_slot, of_peer
from protocols.overlay import (
    CancelTimer,
    Effect,
    Lost,
    Message,
    Rejected,
    Report,
    Send,
    SetTimer,
    Suspected,
    Undelivered,
)
from protocols.parts.bootstrap import Hello, Welcome
from protocols.parts.cyclon import Cyclon, CyclonReply, CyclonRequest, CyclonSwap, CyclonWalk
from protocols.parts.liveness import DEAD_MS, Ping, Pong
from tests.peer.scripted import Word

ME = Address("me", 5, PEER_SLOT, "here:1")


def peer(number: int, boot: int = 1) -> Address:
    return Address(f"p{number}", boot, PEER_SLOT, f"there-{number}:1")


def descriptor(number: int, boot: int = 1, participants: int = 0) -> PeerDescriptor:
    shown = pack(Standing(slot, EMPTY) for slot in range(participants))
    return PeerDescriptor(peer(number, boot), 0, 0, shown)


class Member:
    """A membership under the hands of a test."""

    def __init__(self, seeds: tuple[str, ...] = (), **config: Any) -> None:
        self.membership = Membership(ME, MembershipConfig(**config), Random(1))
        self.news = News()
        self.effects: list[Effect] = []
        self.now_ms = 0
        self.membership.start(0, list(seeds))
        self.collect()

    def collect(self) -> list[Effect]:
        self.effects = self.membership.out.drain()
        self.news = self.membership.news or News()
        self.membership.news = None
        return self.effects

    def hear(self, sender: Address, message: Message) -> list[Effect]:
        """What the peer does with a message for itself."""
        superseded = self.membership.heard(self.now_ms, sender)
        if superseded is not None:
            self.membership.superseded(self.now_ms, superseded)
        self.membership.received(self.now_ms, sender, message)
        return self.collect()

    def ready(self) -> list[Effect]:
        self.membership.show((Standing(0, EMPTY),))
        self.membership.ready(self.now_ms)
        return self.collect()

    def watch(self, slot: int, address: Address) -> None:
        self.membership.watch(self.now_ms, slot, address)
        self.collect()

    def tick(self, for_ms: int) -> list[Effect]:
        """Let that much time pass in silence, with a tick of liveness every second."""
        effects: list[Effect] = []
        lost: list[tuple[int, Address]] = []
        for _ in range(for_ms // 1_000):
            self.now_ms += 1_000
            self.membership.timer(self.now_ms, "tick")
            effects += self.collect()
            lost += self.news.lost
        self.news.lost = lost
        return effects


def sent(effects: list[Effect], type_: type) -> list[tuple[Address, Any]]:
    pairs = [(to, effect.message) for effect in effects if isinstance(effect, Send) for to in effect.to]
    return [(to, message) for to, message in pairs if isinstance(message, type_)]


def facts(effects: list[Effect]) -> list[Any]:
    return [effect.fact for effect in effects if isinstance(effect, Report)]


# --- Starting ---------------------------------------------------------------------------------------------------------


def test_without_seeds_the_swarm_begins_here() -> None:
    member = Member()
    assert member.news.begin
    keys = [effect.key for effect in member.effects if isinstance(effect, SetTimer)]
    assert keys == ["tick", "gossip", "seek"]


def test_with_seeds_it_says_hello() -> None:
    member = Member(("seed:1",))
    assert not member.news.begin
    [(to, hello)] = sent(member.effects, Hello)
    assert (to.peer, to.at) == ("", "seed:1")
    assert (hello.joining, hello.own.address) == (True, ME)


@pytest.mark.parametrize(
    ("parts", "keys"), [({"liveness": False}, ["gossip", "seek"]), ({"sampling": False}, ["tick", "seek"])]
)
def test_what_an_oracle_does_is_left_out(parts: dict[str, Any], keys: list[str]) -> None:
    member = Member(**parts)
    assert [effect.key for effect in member.effects if isinstance(effect, SetTimer)] == keys


def test_begin_after() -> None:
    member = Member(("seed:1",), begin_after_ms=3_000)
    begun_ms = None
    for _ in range(20):
        [timer] = [effect for effect in member.effects if isinstance(effect, SetTimer) and effect.key == "seek"]
        member.membership.timer(timer.at_ms, "seek")
        member.collect()
        if member.news.begin:
            begun_ms = timer.at_ms
            break
    assert begun_ms == 3_000


# --- Greeting ---------------------------------------------------------------------------------------------------------


def hello(number: int, joining: bool = True) -> Hello:
    return Hello(1, descriptor(number), (), "here:1", joining)


def test_a_newcomer_waits_until_the_peer_stands() -> None:
    member = Member()
    assert member.hear(peer(1), hello(1)) == []
    assert member.hear(peer(2), hello(2)) == []
    assert member.hear(peer(1), hello(1)) == []  # it asks again
    effects = member.ready()
    assert [(to, welcome.standing) for to, welcome in sent(effects, Welcome)] == [(peer(1), True), (peer(2), True)]
    assert sent(effects, CyclonSwap) or sent(effects, CyclonWalk)


def test_so_many_may_wait_and_no_more() -> None:
    member = Member()
    for number in range(WAITING_MAX + 10):
        member.hear(peer(number), hello(number))
    assert len(sent(member.ready(), Welcome)) == WAITING_MAX


def test_a_standing_peer_greets_at_once_and_names_its_participants() -> None:
    member = Member()
    member.ready()
    [(to, welcome)] = sent(member.hear(peer(1), hello(1)), Welcome)
    assert to == peer(1)
    assert welcome.standing
    assert [standing.slot for standing in unpack(welcome.own.participants)] == [0]


def test_one_that_only_probes_is_answered_but_not_called_standing_before_time() -> None:
    member = Member(("seed:1",))
    [(_, welcome)] = sent(member.hear(peer(1), hello(1, joining=False)), Welcome)
    assert not welcome.standing


def test_nobody_speaks_in_anothers_name() -> None:
    member = Member()
    member.ready()
    for message in (hello(2), Welcome(1, descriptor(2), (), True)):
        [fact] = facts(member.hear(peer(1), message))
        assert isinstance(fact, Rejected)
        assert "another peer's name" in fact.reason
    assert member.membership.cyclon.peers() == []


def test_a_welcome_brings_contacts() -> None:
    member = Member(("seed:1",))
    member.hear(peer(1), Welcome(1, descriptor(1, participants=2), (descriptor(2),), True))
    assert member.news.contacts
    assert [d.address for d in member.membership.contacts()] == [in_slot(peer(1), 0), in_slot(peer(1), 1)]
    assert {d.address for d in member.membership.cyclon.peers()} == {peer(1), peer(2)}


def test_a_welcome_of_one_that_seeks_itself_brings_none() -> None:
    member = Member(("seed:1",))
    member.hear(peer(1), Welcome(1, descriptor(1), (), False))
    assert not member.news.contacts
    assert member.membership.contacts() == []


def test_who_was_welcomed_by_a_leaver_joins_through_whom_it_was_introduced_to() -> None:
    """It stands, but none of its participants does any more; and nobody may be left of the seeds."""
    member = Member(("seed:1",))
    member.hear(peer(1), Welcome(1, descriptor(1), (), True))
    assert member.membership.contacts() == []
    for number in (2, 3):
        member.hear(peer(number), CyclonSwap(descriptor(number, participants=1)))
    member.membership.timer(1_000, "gossip")
    member.collect()
    assert member.news.contacts
    assert {d.address.peer for d in member.membership.contacts()} <= {"p2", "p3"}


def test_who_was_introduced_but_never_welcomed_joins_all_the_same() -> None:
    """The only seed has died with the welcome on its lips."""
    member = Member(("seed:1",))
    for number in (2, 3, 4):
        member.hear(peer(number), CyclonSwap(descriptor(number, participants=1)))
    member.membership.timer(500, "gossip")
    member.collect()
    assert member.membership.contacts() == []  # the welcome may be on its way
    member.membership.timer(600, "seek")
    member.membership.timer(1_500, "gossip")
    member.collect()
    assert member.news.contacts
    assert {d.address.peer for d in member.membership.contacts()} <= {"p2", "p3", "p4"}


def test_the_answer_to_a_later_probe_is_a_sample_and_mixes_the_views() -> None:
    member = Member()
    member.ready()
    effects = member.hear(peer(1), Welcome(1, descriptor(1, participants=1), (), True))
    assert addresses_of(member.news.sampled or ()) == [in_slot(peer(1), 0)]
    assert [to for to, _ in sent(effects, CyclonRequest)] == [peer(1)]


# --- Sampling ---------------------------------------------------------------------------------------------------------


def test_gossip_shuffles_and_hands_out_samples() -> None:
    member = Member()
    member.ready()
    for number in (1, 2, 3):
        member.hear(peer(number), CyclonSwap(descriptor(number, participants=1)))
    member.membership.timer(1_000, "gossip")
    effects = member.collect()
    [(target, _)] = sent(effects, CyclonRequest)
    sampled = {address.peer for address in addresses_of(member.news.sampled or ())}
    assert sampled == {"p1", "p2", "p3"} - {target.peer}
    [timer] = [effect for effect in effects if isinstance(effect, SetTimer)]
    assert 1_900 <= timer.at_ms <= 2_100


def test_a_request_is_answered_to_the_peer() -> None:
    member = Member()
    [(to, _)] = sent(member.hear(peer(1), CyclonRequest(1, (descriptor(1),))), CyclonReply)
    assert to == peer(1)
    assert "p1" in member.membership.cyclon


def test_a_walk_that_comes_back_goes_another_way() -> None:
    member = Member()
    member.hear(peer(2), CyclonSwap(descriptor(2)))
    item = Undelivered(PEER_SLOT, peer(9), CyclonWalk(descriptor(1), 2), refused=True)
    member.membership.undelivered(0, item)
    effects = member.collect()
    assert [to for to, _ in sent(effects, CyclonWalk)] == [peer(2)]


def test_a_refused_peer_leaves_the_view() -> None:
    member = Member()
    member.hear(peer(2), CyclonSwap(descriptor(2)))
    member.membership.undelivered(0, Undelivered(PEER_SLOT, peer(2), Ping(0), refused=True))
    assert "p2" not in member.membership.cyclon
    member.hear(peer(3), CyclonSwap(descriptor(2)))
    assert "p2" not in member.membership.cyclon  # it is buried


# --- Watching ---------------------------------------------------------------------------------------------------------


def test_a_silent_peer_is_suspected_and_then_lost_once_for_each_watcher() -> None:
    member = Member()
    for slot in (0, 1):
        member.watch(slot, in_slot(peer(1), 0))
    member.watch(1, in_slot(peer(1), 2))
    effects = member.tick(DEAD_MS + 5_000)
    assert facts(effects).count(Suspected(peer(1))) == 1
    assert facts(effects).count(Lost(peer(1))) == 1
    assert sorted(member.news.lost) == [
        (0, in_slot(peer(1), 0)),
        (1, in_slot(peer(1), 0)),
        (1, in_slot(peer(1), 2)),
    ]


def test_a_peer_that_speaks_is_not_lost() -> None:
    member = Member()
    member.watch(0, in_slot(peer(1), 0))
    for _ in range(30):
        member.tick(1_000)
        member.hear(peer(1), Pong(0))
        assert facts(member.effects) == []
    assert member.news.lost == []


def test_watches_are_counted() -> None:
    member = Member()
    address = in_slot(peer(1), 0)
    member.watch(0, address)
    member.watch(0, address)
    member.membership.unwatch(0, address)
    assert sent(member.tick(2_000), Ping)
    member.membership.unwatch(0, address)
    member.membership.unwatch(0, address)  # once too often
    assert sent(member.tick(DEAD_MS + 5_000), Ping) == []
    assert member.news.lost == []


def test_a_participant_that_is_gone_watches_nobody() -> None:
    member = Member()
    member.watch(0, in_slot(peer(1), 0))
    member.watch(0, in_slot(peer(1), 0))
    member.watch(1, in_slot(peer(2), 0))
    member.membership.unwatch_all(0)
    pinged = {to for to, _ in sent(member.tick(2_000), Ping)}
    assert pinged == {peer(2)}


def test_a_later_boot_ends_the_earlier_life() -> None:
    member = Member()
    member.watch(0, in_slot(peer(1), 0))
    effects = member.hear(peer(1, boot=2), Pong(0))
    assert Lost(peer(1)) in facts(effects)
    assert member.news.lost == [(0, in_slot(peer(1), 0))]


def test_watching_an_earlier_life_is_told_at_once() -> None:
    member = Member()
    member.watch(0, in_slot(peer(1, boot=2), 0))
    member.membership.watch(0, 1, in_slot(peer(1, boot=1), 0))
    member.collect()
    assert member.news.lost == [(1, in_slot(peer(1, boot=1), 0))]
    assert sent(member.tick(2_000), Ping)  # the later life is still watched


def test_gone_ends_the_watches_of_that_participant() -> None:
    member = Member()
    for slot in (0, 1):
        member.watch(0, in_slot(peer(1), slot))
    member.hear(peer(1), Gone(0))
    assert member.news.gone == in_slot(peer(1), 0)
    assert member.news.lost == []  # the peer lives
    assert sent(member.tick(2_000), Ping)
    member.hear(peer(1), Gone(1))
    assert sent(member.tick(2_000), Ping) == []


def test_goodbye_is_final() -> None:
    member = Member()
    member.watch(0, in_slot(peer(1), 0))
    member.hear(peer(2), CyclonSwap(descriptor(1)))
    member.hear(peer(1), Bye())
    assert member.news.lost == [(0, in_slot(peer(1), 0))]
    assert "p1" not in member.membership.cyclon
    assert [to for to, _ in sent(member.tick(20_000), Ping) if to.peer == "p1"] == []  # nobody watches it any more
    member.hear(peer(2), CyclonSwap(descriptor(1)))
    assert "p1" not in member.membership.cyclon


def test_an_oracle_says_who_is_lost() -> None:
    member = Member(liveness=False)
    member.watch(0, in_slot(peer(1), 0))
    member.watch(0, in_slot(peer(2), 0))
    member.membership.lost(0, peer(1))
    effects = member.collect()
    assert facts(effects) == [Lost(peer(1))]
    assert member.news.lost == [(0, in_slot(peer(1), 0))]


# --- Leaving, and nonsense --------------------------------------------------------------------------------------------


def test_leaving_stops_the_clocks_and_says_goodbye_to_view_and_watched() -> None:
    member = Member()
    member.hear(peer(1), CyclonSwap(descriptor(1)))
    member.watch(0, in_slot(peer(2), 0))
    member.membership.leave()
    effects = member.collect()
    assert {effect.key for effect in effects if isinstance(effect, CancelTimer)} == {"tick", "gossip", "seek"}
    assert {to for to, _ in sent(effects, Bye)} == {peer(1), peer(2)}


def test_what_is_not_for_the_peer_is_rejected() -> None:
    member = Member()
    [fact] = facts(member.hear(peer(1), Word(1)))
    assert isinstance(fact, Rejected)


def test_lost_peers_are_looked_for_again() -> None:
    """The seeds are forgotten here: only what was lost is left to be probed."""
    member = Member()
    member.ready()
    member.watch(0, in_slot(peer(1), 0))
    member.tick(DEAD_MS + 5_000)
    probed = set()
    for number in range(10):
        member.membership.timer(100_000 + 10_000 * number, "seek")
        probed |= {to.at for to, _ in sent(member.collect(), Hello)}
    assert probed == {of_peer(peer(1)).at}


# --- Forgeries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forged", [7, REFUTATION_MAX])
def test_a_forged_descriptor_of_this_peer_is_outbid(forged: int) -> None:
    member, other = Member(), Cyclon(peer(1), Random(2))
    lie = PeerDescriptor(ME, 0, forged, pack([Standing(9, EMPTY)]))
    assert other.add(lie)
    assert not other.add(member.membership.own()) or other.peers() == [lie]
    member.hear(peer(1), CyclonReply(1, (lie, descriptor(2))))
    member.membership.timer(1_000, "gossip")
    [(_, request)] = sent(member.collect(), CyclonRequest)
    own = request.entries[0]
    assert own.refutation > 7
    other.on_request(ME, request)
    [held] = [d for d in other.peers() if d.address == ME]
    assert held.participants == own.participants != lie.participants


def test_a_refutation_that_somebody_else_made_up_is_outbid() -> None:
    member = Member()
    member.hear(peer(1), CyclonRequest(1, (descriptor(1),), held=7))
    assert member.membership.own().refutation == 8


def test_an_echo_of_what_this_peer_said_changes_nothing() -> None:
    member = Member()
    member.hear(peer(1), CyclonReply(1, (member.membership.own(), PeerDescriptor(peer(2), 0, 5))))
    member.membership.timer(1_000, "gossip")
    assert member.membership.own().refutation == 0


@pytest.mark.parametrize(
    "message",
    [
        CyclonRequest(1, (descriptor(1), PeerDescriptor(peer(2), 0, 0, b"\xc1"))),
        CyclonReply(1, (PeerDescriptor(peer(2), 0, 0, b"\xc1"),)),
        CyclonReply(1, (), PeerDescriptor(peer(1), 0, 0, b"\xc1")),
        CyclonWalk(PeerDescriptor(peer(2), 0, 0, b"\xc1"), 0),
        CyclonSwap(PeerDescriptor(peer(2), 0, 0, b"\xc1")),
        Hello(1, descriptor(1), (PeerDescriptor(peer(2), 0, 0, b"\xc1"),), "here:1", True),
        Welcome(1, PeerDescriptor(peer(1), 0, 0, b"\xc1"), (), True),
    ],
)
def test_what_cannot_be_read_is_refused_and_changes_nothing(message: Message) -> None:
    member = Member()
    member.ready()
    effects = member.hear(peer(1), message)
    assert [type(effect) for effect in effects] == [Report]
    assert isinstance(effects[0], Report) and isinstance(effects[0].fact, Rejected)
    assert member.membership.cyclon.peers() == [] and member.membership.contacts() == []
