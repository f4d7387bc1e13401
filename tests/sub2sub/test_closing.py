"""A cell that is limited is closed to shortcuts: who is told, what it keeps to, and what that is good for."""

from collections import defaultdict
from typing import Any

import pytest

from peerd.sim.invariants.sub2sub import limits_respected
from peerd.sim.swarm import Swarm
from protocols.model.ids import Address
from protocols.overlay import Rejected, Send, TimerFired
from protocols.sub2sub.flow import LEASE_CYCLES, Flow
from protocols.sub2sub.messages import FlowClosed, FlowQuery, Ring
from protocols.sub2sub.order import cell
from tests.sub2sub.scene import Player, address, copy, described, facts, participants, sent, swarm_of
from tests.sub2sub.test_flow import RANGES, overload

# --- in the cell ------------------------------------------------------------------------------------------------------


def limited(seq: int = 1, beyond: int = 100, limiting: bool = True) -> FlowQuery:
    return FlowQuery(0, 4, 0, beyond, address("n"), seq, limiting)


def member() -> Player:
    """Of cell 4, between two of its ring links."""
    player = Player("m", 0, 9)
    player.stand(described("y", 0, 9, 3), described("n", 0, 9, 4))
    return player


def told(player: Player, sender: str, name: str, x: int = 5) -> list[tuple[str, FlowClosed]]:
    """Who is told that the cell is closed when somebody sends an event."""
    return sent(player.hear(sender, Ring(copy(name, x))), FlowClosed)


def test_whoever_sends_into_a_limited_cell_over_a_shortcut_is_told_once() -> None:
    player = member()
    player.hear("n", limited())
    assert told(player, "z", "e") == [("z", FlowClosed(0, 4, 0, 100))]
    assert told(player, "z", "f") == []


def test_it_is_told_again_when_the_controller_has_asked_again() -> None:
    player = member()
    player.hear("n", limited(1))
    told(player, "z", "e")
    player.hear("n", limited(2))
    assert told(player, "z", "f") == [("z", FlowClosed(0, 4, 0, 100))]


def test_ring_links_are_not_told() -> None:
    player = member()
    player.hear("n", limited())
    assert told(player, "y", "e") == told(player, "n", "f") == []


def test_a_question_that_limits_nobody_yet_closes_nothing() -> None:
    player = member()
    player.hear("n", limited(limiting=False))
    assert told(player, "z", "e") == []


def test_only_the_range_that_is_limited_is_closed() -> None:
    player = member()
    player.hear("n", limited(beyond=5))
    assert told(player, "z", "e", x=8) == []
    assert told(player, "z", "f", x=3) == [("z", FlowClosed(0, 4, 0, 5))]


def test_nobody_is_told_any_more_when_the_lease_is_over() -> None:
    player = member()
    player.hear("n", limited())
    player.do(TimerFired(0, "cycle"), player.now_ms + 1_000 * (LEASE_CYCLES - 1))
    assert len(told(player, "z", "e")) == 1
    player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    assert told(player, "x", "f") == []


# --- below it ---------------------------------------------------------------------------------------------------------

CLOSED = FlowClosed(0, 6, 0, 100)


def below() -> Player:
    """Of cell 4, with a ring link into cell 6, and as many shortcuts as it has interest neighbours above."""
    player = Player("m", 0, 9, shortcuts=16)
    player.stand(described("k", 0, 9, 6))
    return player


def receivers(player: Player, name: str, x: int = 5) -> str:
    """Who gets an event: the ring link k, and over shortcuts n of cell 4, p of 6 and q of 7."""
    player.overlay._hood.offer_interest([described("n", 0, 9, 4), described("p", 0, 9, 6), described("q", 0, 9, 7)])
    return "".join(sorted(to for to, _ in sent(player.hear("z", Ring(copy(name, x))), Ring)))


def closed_by(sender: str, message: FlowClosed) -> tuple[Player, list[Any]]:
    player = below()
    assert receivers(player, "before") == "knpq"
    return player, facts(player.hear(sender, message))


def test_whoever_is_told_sends_no_shortcuts_there_but_to_its_ring_link_and_into_other_cells() -> None:
    player, _ = closed_by("p", CLOSED)
    assert receivers(player, "e") == "knq"


def test_shortcuts_into_another_part_of_the_cell_stay() -> None:
    player, _ = closed_by("p", FlowClosed(0, 6, 0, 5))
    assert receivers(player, "e", x=3) == "knq"
    assert receivers(player, "f", x=8) == "knpq"


def test_what_is_closed_is_open_again_when_the_lease_is_over() -> None:
    player, _ = closed_by("p", CLOSED)
    player.do(TimerFired(0, "cycle"), player.now_ms + 1_000 * (LEASE_CYCLES - 1))
    assert receivers(player, "e") == "knq"
    player.do(TimerFired(0, "cycle"), player.now_ms + 1_000)
    assert receivers(player, "f") == "knpq"


def test_another_word_makes_the_lease_longer_and_the_range_wider() -> None:
    player, _ = closed_by("p", FlowClosed(0, 6, 0, 5))
    player.do(TimerFired(0, "cycle"), player.now_ms + 50_000)
    receivers(player, "e")
    player.hear("p", FlowClosed(0, 6, 5, 10))
    player.do(TimerFired(0, "cycle"), player.now_ms + 50_000)
    assert receivers(player, "f", x=3) == receivers(player, "g", x=8) == "knq"


def test_a_fellow_does_not_mind() -> None:
    """Limits are on what comes into the cell, not on what goes round in it; and nobody has done anything wrong."""
    player, said = closed_by("s", FlowClosed(0, 4, 0, 100))
    assert said == []
    assert receivers(player, "e") == "knpq"


def test_a_stranger_closes_nothing() -> None:
    player, said = closed_by("s", CLOSED)
    assert said == [Rejected(address("s"), "closes a cell to strangers")]
    assert receivers(player, "e") == "knpq"


# --- a swarm ----------------------------------------------------------------------------------------------------------

PARAMETERS: dict[str, Any] = {
    "profile": "paper",
    "dissemination": "upward",
    "rate_max": 4,
    "buffer_max": 60,
    "threshold": 30,
    "switching": False,
}
"""Of cell 7, whose length is 64 of 100, everybody wants everything: it may receive 4 * 100 / 64 events a cycle."""
ALLOWED = 4 * 100 / 64


def swarm_with_shortcuts() -> Swarm:
    """Many short ranges, with budget for shortcuts into the higher cells, each of which gets too much of them."""
    swarm = swarm_of(RANGES + [(5 * at, 5 * at + 9) for at in range(18)], uploads=(140.0,), **PARAMETERS)
    assert list(limits_respected.check(swarm)) == []
    return swarm


def entering(swarm: Swarm, into: int, cycles: int) -> list[int]:
    """How many events come into a cell from below, in each cycle of an overload."""
    cells: dict[Address, int] = {p.descriptor().address: cell(p.descriptor()) for p in participants(swarm)}
    came: defaultdict[int, set[str]] = defaultdict(set)
    wire, since_ms = swarm.engine.tap, swarm.now_ms
    assert wire is not None

    def tap(now_ms: int, sender: Address, effect: Send) -> None:
        if isinstance(effect.message, Ring) and any(cells[sender] < cells[to] == into for to in effect.to):
            came[(now_ms - since_ms) // 1_000].add(effect.message.copy.event.id)
        wire(now_ms, sender, effect)

    swarm.engine.tap = tap
    overload(swarm, 40, cycles)
    swarm.engine.tap = wire
    return [len(came[number]) for number in range(cycles)]


def test_into_a_limited_cell_comes_what_its_limits_allow() -> None:
    swarm = swarm_with_shortcuts()
    came = entering(swarm, 7, 60)
    assert max(came[:20]) > 5 * ALLOWED
    assert sum(came[25:]) == pytest.approx(35 * ALLOWED, rel=0.1)
    assert list(limits_respected.check(swarm)) == []


def test_the_checker_finds_out_who_sends_shortcuts_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flow, "is_open", lambda *_: True)
    swarm = swarm_with_shortcuts()
    assert sum(entering(swarm, 7, 35)[25:]) > 15 * ALLOWED
    assert any("a shortcut into cell 7, which is closed" in line for line in limits_respected.check(swarm))
