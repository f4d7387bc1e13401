"""Cell switching: how a participant that starves finds its place below, stays there for a while, and comes back."""

from protocols.model.box import Box
from protocols.overlay import OWN_BOX, SetBudget, Subscribe, TimerFired
from protocols.sub2sub.messages import CellSwitch, Ring, SwitchOk
from protocols.sub2sub.order import cell
from protocols.sub2sub.switching import DAMPING_CYCLES
from tests.sub2sub.scene import Player, copy, described, sent


def asked_in(player: Player, cycles: int, feeder: str = "y") -> list[tuple[int, str, CellSwitch]]:
    """In which cycles it asks whom for a place in another cell, while more than it gets is to be had below."""
    asked: list[tuple[int, str, CellSwitch]] = []
    for number in range(cycles):
        for name in range(10):
            player.hear(feeder, Ring(copy(f"{player.now_ms}-{name}", name), True))
        effects = player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
        asked += [(number, to, message) for to, message in sent(effects, CellSwitch)]
    return asked


def starving(feeder: str = "y") -> Player:
    """A member of cell 4 with budget for more than it gets, and one feeder of cell 3."""
    player = Player("m", 0, 9, profile="paper")
    player.stand(described(feeder, 0, 9, 3), described("n", 0, 9, 4))
    player.do(SetBudget(1_000.0))
    return player


def moved() -> Player:
    """It has found its place in cell 3."""
    player = starving()
    [(_, to, message)] = asked_in(player, 2)
    assert (to, message.cell) == ("y", 3)
    player.hear("y", SwitchOk(0, described("y", 0, 9, 3), 3))
    assert cell(player.overlay.descriptor()) == 3
    return player


def test_whose_feeder_stands_just_below_it_in_the_order_finds_its_place_all_the_same() -> None:
    """Nobody stands between it and its place in the next lower cell, so it is nearest to that itself."""
    player, links = starving("a"), {"a": Player("a", 0, 6), "n": Player("n", 0, 9)}
    for link in links.values():
        link.stand(described("m", 0, 9, 4))
    [(_, to, message)] = asked_in(player, 2, "a")
    [(asker, answer)] = sent(links[to].hear("m", message), SwitchOk)
    assert (asker, answer.cell) == ("m", 3)
    player.hear(to, answer)
    assert cell(player.overlay.descriptor()) == 3


def test_after_an_update_of_its_box_it_stands_where_the_new_box_belongs() -> None:
    player = moved()
    player.do(Subscribe(OWN_BOX, Box((0,), (64,)), version=1))
    assert cell(player.overlay.descriptor()) == 6


def test_it_does_not_move_again_within_fifty_cycles() -> None:
    player = moved()
    player.meet(described("b", 0, 9, 2))
    asked = asked_in(player, DAMPING_CYCLES + 2)
    assert DAMPING_CYCLES == 50
    assert [(number, message.cell) for number, _, message in asked] == [(49, 2)]
