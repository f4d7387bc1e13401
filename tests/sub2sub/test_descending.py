"""The way down a ring, while those on it come and go (paper, section IV.B.2)."""

from protocols.overlay import OWN_BOX, PeerLost, Unsubscribe
from protocols.sub2sub.messages import Descend, Enter, Ring, RingHello
from tests.sub2sub.scene import Player, address, copy, described, sent


def test_an_event_that_was_handed_to_somebody_who_has_left_the_ring_is_given_back() -> None:
    player = Player("m", 0, 9)
    player.stand(described("l", 0, 9, 1))
    effects = player.hear("z", Descend(0, copy("e", x=50)))
    assert [(to, message.place) for to, message in sent(effects, Enter)] == [("z", 0)]
    assert [(to, message.own) for to, message in sent(effects, RingHello)] == [("z", player.overlay.descriptor())]


def test_so_is_one_that_has_gone_by_in_another_ring() -> None:
    player = Player("m", 0, 9)
    player.stand(described("l", 0, 9, 1))
    player.hear("l", Ring(copy("e", x=50)))
    assert [to for to, _ in sent(player.hear("z", Descend(0, copy("e", x=50))), Enter)] == ["z"]


def test_an_event_that_has_gone_by_in_another_ring_goes_down_in_this_one_all_the_same() -> None:
    player = Player("m", 0, 9)
    player.stand(described("l", 0, 9, 1))
    player.hear("y", Ring(copy("e")))
    assert [to for to, _ in sent(player.hear("z", Descend(0, copy("e"))), Descend)] == ["l"]


def test_nothing_is_handed_to_a_neighbour_that_says_it_is_elsewhere() -> None:
    player = Player("m", 0, 9)
    player.stand(described("l", 0, 9, 2))
    player.overlay._hood.offer_interest([described("c", 0, 9, 1)])
    assert [to for to, _ in sent(player.hear("z", Descend(0, copy("e"))), Descend)] == ["c"]
    player.hear("c", RingHello(0, described("c", 50, 59, 1, version=2), ()))
    assert [to for to, _ in sent(player.hear("z", Descend(0, copy("f"))), Descend)] == ["l"]


def test_if_the_next_one_down_is_lost_the_event_is_brought_back_even_by_one_that_has_left_the_ring() -> None:
    player = Player("m", 0, 9)
    player.stand(described("l", 0, 9, 1), described("z", 0, 9, 7))
    assert [to for to, _ in sent(player.hear("z", Descend(0, copy("e"))), Descend)] == ["l"]
    player.do(Unsubscribe(OWN_BOX))
    assert [to for to, _ in sent(player.do(PeerLost(address("l"))), Enter)] == ["z"]


def test_if_the_next_one_down_is_lost_the_event_goes_to_another_one_that_lives() -> None:
    player = Player("m", 0, 9)
    player.stand(described("c", 0, 9, 1), described("b", 0, 9, 1))
    assert [to for to, _ in sent(player.hear("z", Descend(0, copy("e"))), Descend)] == ["c"]
    assert [to for to, _ in sent(player.do(PeerLost(address("c"))), Descend)] == ["b"]
