"""Claims: who knows whom to ask for a ring, and when nobody is there."""

import pytest
from msgspec.structs import replace

from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads.workload import interest_in
from protocols.model.box import Box
from protocols.overlay import (
    OWN_BOX,
    Join,
    Leave,
    Publish,
    Received,
    Send,
    Siblings,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from protocols.sub2sub import claims
from protocols.sub2sub.claims import CLAIMS_KEPT, DISTRUST_MS, FULL_MS, LEASE_MS, REFRESH_MS, Claims
from protocols.sub2sub.messages import ANYWHERE, Claim, ClaimsDigest, Enter, JoinReply, NotHere
from protocols.sub2sub.messages import Claims as ClaimsMessage
from protocols.sub2sub.order import span
from tests.sub2sub.scene import SCHEMA_OF_TWO, Player, address, copy, described, sent


def claims_of(*claims: Claim) -> Claims:
    known = Claims(address("me"))
    for claim in claims:
        assert known.add(0, claim)
    return known


def test_a_value_is_covered_by_whoever_claims_it() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1), Claim(0, described("b", 20, 29), 1))
    assert [d.address.peer for d in known.covering(0, 25)] == ["b"]
    assert known.covering(0, 15) == []
    assert known.uncovered(0, 5, 31) == [(10, 20), (30, 31)]
    assert known.uncovered(2, 0, 1) == [(0, 1)]


def test_a_later_turn_replaces_an_earlier_one() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 2))
    assert not known.add(0, Claim(0, described("a", 0, 50, version=9), 1))
    assert known.add(0, Claim(0, described("a", 0, 50, version=9), 3))
    assert known.uncovered(0, 0, 51) == []


def test_an_ended_claim_is_gone_and_does_not_come_back() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1))
    assert known.add(0, Claim(0, described("a", 0, 9), 2, ended=True))
    assert not known.add(1, Claim(0, described("a", 0, 9), 1))
    assert known.covering(0, 5) == []


def test_claims_are_leases() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1, age_ms=1_000))
    known.expire(LEASE_MS - 1_001)
    assert len(known) == 1
    known.expire(LEASE_MS - 1_000)
    assert len(known) == 0


def test_that_a_claim_led_nowhere_is_told_in_its_holders_words() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1))
    assert known.disprove(0, address("a"), 0) == [Claim(0, described("a", 0, 9), 2, ended=True)]
    other = claims_of(Claim(0, described("a", 0, 9), 1))
    assert other.add(0, Claim(0, described("a", 0, 9), 2, ended=True))
    assert other.add(1, Claim(0, described("a", 0, 9), 3)), "it lives, and contradicts"


def test_a_claim_that_led_nowhere_is_distrusted_for_a_while() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1))
    known.disprove(0, address("a"))
    assert not known.add(1, Claim(0, described("a", 0, 9), 1))
    assert known.add(2, Claim(0, described("a", 0, 9), 3))
    known.disprove(3, address("a"))
    assert known.add(4 + DISTRUST_MS, Claim(0, described("a", 0, 9), 3))


def test_who_has_moved_does_not_hold_its_claim_any_more() -> None:
    known = claims_of(Claim(0, described("a", 0, 9, version=4), 1))
    known.correct(0, 0, described("a", 0, 9, version=5))
    known.correct(0, 0, described("a", 6, 9, version=3))  # it was late
    assert known.covering(0, 5)
    known.correct(0, 0, described("a", 6, 9, version=6))
    assert not known.covering(0, 5)
    assert not known.add(1, Claim(0, described("a", 0, 9), 1))
    assert known.add(1, Claim(0, described("a", 6, 9, version=6), 2)), "what it claims next is believed"


def test_equal_claims_have_equal_digests_in_any_order() -> None:
    first, second = Claim(0, described("a", 0, 9), 1), Claim(0, described("b", 0, 9), 4)
    assert claims_of(first, second).digest == claims_of(second, first).digest != claims_of(first).digest


def test_with_too_many_claims_nobody_can_be_sure() -> None:
    known = claims_of(*[Claim(0, described(f"n{number}", number, number), 1) for number in range(CLAIMS_KEPT)])
    assert not known.complete
    assert not known.add(0, Claim(0, described("late", 0, 9), 1))
    assert sum(len(batch) for batch in known.batches(5)) == CLAIMS_KEPT


def told(player: Player, *claims: Claim) -> list[Claim]:
    """What a participant says to everybody once it has heard these."""
    player.hear("z", ClaimsMessage(claims, news=True))
    return [claim for _, message in sent(player.do(TimerFired(0, "claims")), ClaimsMessage) for claim in message.claims]


def test_a_holder_contradicts_whoever_ends_its_claim_however_many_others_it_has_made_since() -> None:
    player = Player("m", 0, 9)
    player.stand(described("z", 50, 59, 7))
    own, claiming = player.overlay.descriptor(), player.overlay._claiming
    (first,) = told(player)
    claiming._turn += 5  # claims in other rings
    assert told(player, Claim(0, own, first.turn + 1, ended=True)) == [Claim(0, own, first.turn + 6)]
    assert told(player, Claim(0, own, first.turn + 6)) == [], "its own words"
    assert told(player, Claim(0, own, first.turn + 1, ended=True)) == [], "contradicted already"


def test_who_is_not_where_an_event_falls_may_still_hold_what_it_claims_elsewhere() -> None:
    player = Player("m", 80, 89)
    player.stand(described("z", 80, 89, 7))
    told(player, Claim(0, described("a", 0, 9), 1), Claim(0, described("b", 20, 29), 1))
    ((to, enter),) = sent(player.do(Publish(copy("e", x=5).event)), Enter)
    assert to == "a"
    player.hear("b", NotHere(enter.req_id))  # a knew no better than to pass it on to b
    assert player.overlay.claims.covering(0, 25)


def test_whoever_passed_an_event_on_has_said_no_if_the_next_one_does() -> None:
    """Or it would be asked again and again, for a member that is about to leave passes everything on."""
    player = Player("m", 80, 89)
    player.stand(described("z", 80, 89, 7))
    told(player, Claim(0, described("a", 0, 9), 1))
    ((to, enter),) = sent(player.do(Publish(copy("e", x=5).event)), Enter)
    assert to == "a"
    again = [message for _, message in sent(player.hear("b", NotHere(enter.req_id)), Enter)]
    assert [message.flood for message in again] == [True], "nobody else is known: the only match must not be missed"


def test_a_claim_that_is_about_to_end_still_leads_into_its_ring_but_covers_nothing_any_more() -> None:
    known = claims_of(Claim(0, described("a", 0, 9), 1))
    revision, digest = known.revision, known.digest
    assert known.add(0, Claim(0, described("a", 0, 9), 2, ending=True))
    assert (known.revision, known.digest) != (revision, digest), "it is news, and a comparison finds it"
    assert [d.address.peer for d in known.covering(0, 5)] == ["a"]
    assert known.uncovered(0, 0, 10) == [(0, 10)]
    assert [claim.ending for batch in known.batches(0) for claim in batch] == [True]


def test_whoever_leaves_says_so_to_everybody_before_its_claims_end() -> None:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 7))
    (mine,) = [claim for batch in player.overlay.claims.batches(0) for claim in batch]
    assert (mine.holder.address, mine.ending) == (player.me, False)
    player.do(Leave())
    told_ = [claim for _, m in sent(player.do(TimerFired(0, "claims")), ClaimsMessage) for claim in m.claims]
    assert {(claim.holder.address.peer, claim.ending, claim.ended) for claim in told_} == {("m", True, False)}


def test_whoever_stands_where_a_claim_is_about_to_end_claims_it_now() -> None:
    """Else each of those who were next to one of several leavers would wait for the others' claims to end."""
    player, link = Player("m", 0, 9), described("z", 0, 20, 7)
    p, q = described("p", 0, 50), described("q", 0, 50)
    player.do(Join((link.address,)))
    player.hear("z", ClaimsMessage((Claim(0, p, 1), Claim(0, q, 1))))
    player.hear("z", JoinReply(link, (link,)))
    assert not any(claim.holder.address == player.me for claim in told(player, Claim(0, p, 2, ending=True)))
    assert any(claim.holder.address == player.me for claim in told(player, Claim(0, q, 2, ending=True)))
    assert player.overlay.claims.uncovered(0, 0, 10) == []


def test_whoever_takes_up_less_says_so_to_everybody_before_its_claim_covers_less() -> None:
    """Of several that do so at once some are nobody's neighbours: whoever stands there would not hear it in time."""
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 7))
    player.do(TimerFired(0, "settle"), player.now_ms + 10_000)
    player.do(TimerFired(0, "claims"))
    player.do(Subscribe(OWN_BOX, Box((0,), (5,)), version=1))
    player.meet(described("n", 0, 9, 7))
    player.do(TimerFired(0, "settle"), player.now_ms + 10_000)
    assert player.overlay.rings[0].hi == 5
    (first,) = told(player)
    assert (first.ending, first.ended, span(first.holder, 0)) == (True, False, (0, 10))
    assert player.overlay.claims.mine(0) == first, "it leads into the ring until others have claimed what is left"
    player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    (second,) = told(player)
    assert (second.ending, second.ended, span(second.holder, 0)) == (False, False, (0, 5)), "nobody else claims that"


def test_a_claim_that_others_cover_as_well_is_given_up_in_time() -> None:
    """Several step in where a claim ends, and claims would only ever become more."""
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 7))
    told(player, Claim(0, described("p", 0, 50), 1))
    player.do(TimerFired(0, "cycle"), player.now_ms + REFRESH_MS)
    (first,) = [claim for claim in told(player) if claim.holder.address == player.me]
    assert (first.ending, first.ended) == (True, False)
    player.do(TimerFired(0, "cycle"), player.now_ms + 2_000)
    (second,) = [claim for claim in told(player) if claim.holder.address == player.me]
    assert second.ended
    assert player.overlay.claims.uncovered(0, 0, 10) == []


def test_not_so_if_they_are_about_to_end_theirs_too() -> None:
    player = Player("m", 0, 9)
    player.stand(described("n", 0, 9, 7))
    told(player, Claim(0, described("p", 0, 50), 1))
    player.do(TimerFired(0, "cycle"), player.now_ms + REFRESH_MS)
    told(player, Claim(0, described("p", 0, 50), 2, ending=True))
    player.do(TimerFired(0, "cycle"), player.now_ms + 2_000)
    (second,) = [claim for claim in told(player) if claim.holder.address == player.me]
    assert (second.ending, second.ended) == (False, False)


# --- siblings and comparisons -----------------------------------------------------------------------------------------

SIBLING = address("m", 1)


def flooded(player: Player) -> set[str]:
    """Who hears the news of a participant, siblings by their slots."""
    effects = player.do(TimerFired(0, "claims"))
    to = [
        to
        for effect in effects
        if isinstance(effect, Send) and type(effect.message) is ClaimsMessage
        for to in effect.to
    ]
    return {str(each.slot) if each.peer == "m" else each.peer for each in to}


def of_two_siblings() -> Player:
    player = Player("m", 0, 9)
    player.stand(described("z", 50, 59, 7), described("n", 0, 9, 7))
    player.do(TimerFired(0, "claims"))
    player.do(Siblings((SIBLING,)))
    return player


def test_news_from_outside_goes_to_siblings_and_on() -> None:
    player = of_two_siblings()
    player.hear("z", ClaimsMessage((Claim(0, described("a", 20, 29), 1),), news=True))
    assert flooded(player) == {"1", "n", "z"}


def test_what_a_sibling_has_passed_on_goes_no_further() -> None:
    player = of_two_siblings()
    news = ClaimsMessage((Claim(0, described("a", 20, 29), 1),), news=True)
    player.do(Received(SIBLING, 0, news))
    assert player.overlay.claims.covering(0, 25)
    assert flooded(player) == set()
    player.hear("z", ClaimsMessage((Claim(0, described("b", 30, 39), 1),), news=True))
    player.do(Received(SIBLING, 0, ClaimsMessage((Claim(0, described("b", 30, 39), 1),), news=True)))
    assert flooded(player) == set(), "it was about to, and the sibling was faster"


def test_a_comparison_brings_those_parts_that_differ_and_no_others() -> None:
    common = [Claim(0, described(f"n{number}", number, number), 1) for number in range(80)]
    one, other = Player("m", 90, 99), Player("o", 90, 99)
    for player, lone in ((one, "a"), (other, "b")):
        player.stand(described("z", 80, 99, 7))
        told(player, *common, Claim(0, described(lone, 80, 89), 1), Claim(0, described("z", 80, 99, 7), 1))
    said = ClaimsDigest(one.overlay.claims.digest)
    ((_, parts),) = sent(other.hear("m", said), ClaimsDigest)
    ((_, asked),) = sent(one.hear("o", parts), ClaimsMessage)
    assert asked.asking
    assert {"a", "m"} <= {claim.holder.address.peer for claim in asked.claims}
    ((_, answer),) = sent(other.hear("m", asked), ClaimsMessage)
    assert len(asked.claims) + len(answer.claims) < 30
    one.hear("o", answer)
    assert one.overlay.claims.digest == other.overlay.claims.digest
    assert sent(one.hear("o", ClaimsDigest(other.overlay.claims.digest))) == []


# --- restarts ---------------------------------------------------------------------------------------------------------


def reborn(claim: Claim) -> Claim:
    """The same words of its holder's next life."""
    holder = claim.holder
    return replace(claim, holder=replace(holder, address=replace(holder.address, boot=holder.address.boot + 1)))


def test_what_a_former_life_is_distrusted_for_does_not_count_for_the_next_one() -> None:
    former = Claim(0, described("a", 0, 9), 1)
    known = claims_of(former)
    known.disprove(0, address("a"))
    assert not known.add(1, former)
    assert known.add(1, reborn(former))


def test_a_comparison_finds_that_somebody_claims_it_in_another_life() -> None:
    former = Claim(0, described("a", 0, 9), 1)
    assert claims_of(former).digest != claims_of(reborn(former)).digest
    assert claims_of(former).different(tuple(claims_of(reborn(former)).parts)).bit_count() == 1


def test_who_has_given_up_a_ring_does_not_claim_it_again_when_told_that_its_claim_has_ended() -> None:
    """Before, it claimed a ring in which it did not stand, and stumbled when that was to be renewed."""
    player = Player("m", 0, 9)
    player.stand(described("z", 50, 59, 7))
    (first,) = told(player)
    own = player.overlay.descriptor()
    player.do(Unsubscribe(OWN_BOX))
    (said,) = told(player, Claim(0, own, first.turn + 5, ended=True))
    assert (said.ended, said.turn) == (True, first.turn + 6)
    for at_ms in range(4_000, REFRESH_MS + 8_000, 4_000):
        player.do(TimerFired(0, "cycle"), at_ms)
    assert player.overlay.claims.mine(0) is None


# --- too many ---------------------------------------------------------------------------------------------------------


def test_an_event_is_flooded_while_claims_may_be_lacking_and_some_time_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIMS_KEPT", 3)
    player = Player("m", 80, 89)
    player.stand(described("z", 80, 89, 7))
    a = described("a", 0, 9)
    told(player, Claim(0, a, 1), Claim(0, described("b", 20, 29), 1))
    entered = sent(player.do(Publish(copy("e", x=5).event)), Enter)
    assert {(to, enter.place, enter.flood) for to, enter in entered} == {("z", ANYWHERE, True)}
    told(player, Claim(0, a, 2, ended=True))
    assert player.overlay.claims.complete
    assert all(enter.flood for _, enter in sent(player.do(Publish(copy("f", x=5).event)), Enter))
    player.now_ms += FULL_MS
    assert not sent(player.do(Publish(copy("g", x=85).event)), Enter)


def test_where_not_all_can_claim_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose ring nobody could claim wants events whose other rings are found."""
    monkeypatch.setattr(claims, "CLAIMS_KEPT", 4)
    boxes = [Box((lo, -1), (lo + 5, 101)) for lo in range(0, 80, 10)] + [Box((-1, 40), (101, 44))] * 2
    swarm = Swarm(SwarmConfig(overlay="sub2sub", schema=SCHEMA_OF_TWO, seed=1, exact_boxes=True))
    swarm.start_many([[interest_in(SCHEMA_OF_TWO, box)] for box in boxes], 20)
    swarm.run(1_000)
    assert swarm.run_until(swarm.all_active, 60_000)
    for number in range(40):
        swarm.publish({"x": 7 * number % 80, "y": 40 + number % 6})
        swarm.run(100)
    swarm.run(11_000)
    verdict = swarm.oracle.settle()
    assert verdict.expected > 50
    assert not verdict.missing
