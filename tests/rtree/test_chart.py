"""Events that need not climb to the root: what is held back, and why nothing owed is lost by it."""

from typing import Any

import pytest

from peerd.sim.workloads.workload import inside
from protocols.model.event import Event
from protocols.overlay import Effect, Leave, Publish, TimerFired
from protocols.rtree import chart
from protocols.rtree.config import RtreeConfig
from protocols.rtree.messages import Adopt, Carry, Chart, Covered, Mbr
from tests.conformance.support import Stage
from tests.rtree.scene import Player, address, box, event, mbr, sent

NEEDED = {"climb": "needed"}


def drawn(player: Player, *sides: tuple[int, int]) -> Chart:
    """A chart on which events from `low` up to `high` are wanted, for each of these."""
    grid = player.tree.grid
    assert grid is not None
    cells = 0
    for low, high in sides:
        cells |= grid.touched(box(low, high))
    return Chart(grid.encode(cells))


def charted(**config: Any) -> Player:
    """A leaf below `a`, in a tree in which nothing beyond 50 is wanted."""
    player = Player(climb="needed", **config).below("a")
    player.hear("a", drawn(player, (0, 50)))
    return player


def carried(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(to, message.copy.event.id) for to, message in sent(effects, Carry)]


def late(name: str = "late") -> Event:
    return event(name, 70)


# --- The publisher ----------------------------------------------------------------------------------------------------


def test_what_nobody_wants_stays_and_what_somebody_may_want_goes_to_the_root() -> None:
    player = charted()
    assert carried(player.do(Publish(event("unwanted", 70)))) == []
    assert carried(player.do(Publish(event("wanted", 40)))) == [("a", "wanted")]


def test_without_a_chart_everything_climbs() -> None:
    player = Player(climb="needed").below("a")
    assert carried(player.do(Publish(late()))) == [("a", "late")]


def test_what_was_held_back_is_sent_once_when_a_chart_wants_it() -> None:
    player = charted()
    player.do(Publish(late()))
    player.do(Publish(event("other", 95)))
    assert carried(player.hear("a", drawn(player, (0, 60)))) == []
    ((to, message),) = sent(player.hear("a", drawn(player, (0, 80)), at_ms=1_000), Carry)
    assert (to, message.copy.event.id) == ("a", "late")
    assert message.copy.age_ms > 900  # it has been here for as long as that
    assert carried(player.hear("a", drawn(player, (0, 85)))) == []


def test_what_was_held_back_for_long_is_forgotten() -> None:
    player = charted(replay_ms=5_000)
    player.do(Publish(late()))
    player.hear("a", drawn(player, (0, 51)), at_ms=5_900)  # the parent is there
    player.do(TimerFired(0, "check"), 6_000)
    assert player.tree.held == []


def test_a_full_memory_holds_nothing_back() -> None:
    player = charted(recent_max=2)
    assert [carried(player.do(Publish(late(name)))) for name in "xyz"] == [[], [], [("a", "z")]]


def test_a_silent_parent_puts_the_chart_in_doubt() -> None:
    player = charted()
    player.do(Publish(late()))
    quiet_ms = int(chart.TRUST_ROUNDS * player.tree.config.check_ms)
    assert carried(player.do(TimerFired(0, "check"), quiet_ms)) == []
    assert carried(player.do(TimerFired(0, "check"), quiet_ms + 10)) == [("a", "late")]
    assert carried(player.do(Publish(late("next")))) == [("a", "next")]


def test_a_leaver_sends_what_it_holds() -> None:
    player = charted()
    player.do(Publish(late()))
    assert carried(player.do(Leave())) == [("a", "late")]


def test_only_the_parent_has_a_say() -> None:
    player = charted()
    player.do(Publish(late()))
    assert carried(player.hear("stranger", drawn(player, (0, 100)))) == []


# --- Up and down ------------------------------------------------------------------------------------------------------


def test_the_root_sends_a_chart_that_has_grown_but_not_too_often() -> None:
    player = Player(climb="needed").begin()
    player.adopt("a", 30, 40)
    effects = player.do(TimerFired(0, "chart"), chart.SURVEY_MS)
    effects += player.adopt("b", 60, 70)
    assert sent(effects, Chart)[0] == ("a", drawn(player, (10, 20), (30, 40)))
    assert ("a", drawn(player, (10, 20), (30, 40), (60, 70))) not in sent(effects, Chart)
    effects = player.do(TimerFired(0, "chart"), 2 * chart.SURVEY_MS)
    assert {to for to, _ in sent(effects, Chart)} == {"a", "b"}
    assert sent(effects, Chart)[0][1] == drawn(player, (10, 20), (30, 40), (60, 70))


def test_the_chart_shrinks_at_the_roots_check() -> None:
    player = Player(climb="needed").begin()
    player.adopt("a", 10, 40)
    player.do(TimerFired(0, "chart"), 1_000)
    assert drawn(player, (10, 30)) not in [message for _, message in sent(player.hear("a", mbr(2, 10, 30)), Chart)]
    assert ("a", drawn(player, (10, 30))) in sent(player.do(TimerFired(0, "check"), 2_000), Chart)


def test_a_child_with_another_chart_is_told() -> None:
    player = Player(climb="needed").begin()
    player.adopt("a", 30, 40)
    player.do(TimerFired(0, "chart"), 1_000)
    known = chart.digest(player.tree)
    grown = Mbr(2, 0, box(30, 40), None, 0, (), None, False, b"", known)
    assert sent(player.hear("a", grown), Chart) == []
    forged = Mbr(3, 0, box(30, 40), None, 0, (), None, False, b"", known + 1)
    assert [to for to, _ in sent(player.hear("a", forged), Chart)] == ["a"]


def host() -> Player:
    """A host below `root`, with the children `c` and `d`, at either end of what its node encloses."""
    player = Player(climb="needed", low=40, high=50).begin()
    player.adopt("c", 0, 10)
    player.adopt("d", 90, 100)
    search = player.tree.search
    assert search is not None
    player.hear("root", Adopt(search.req_id, 1, ()))
    cover(player)
    return player


def cover(player: Player) -> list[Effect]:
    link = player.tree.candidate or player.tree.parent
    assert link is not None
    return player.hear("root", Covered(link.seq, 1, address("root"), ()))


def test_a_box_is_active_only_when_its_cells_are_known_above() -> None:
    """Though the host's own box does not change: the chart must."""
    player = host()
    effects = player.hear("c", mbr(5, 0, 30))
    ((to, told),) = sent(effects, Mbr)
    assert to == "root"
    assert player.tree.grid is not None
    assert player.tree.grid.decode(told.cells) == player.tree.grid.decode(
        drawn(player, (0, 30), (40, 50), (90, 100)).cells
    )
    assert sent(effects, Covered) == []
    assert [to for to, _ in sent(cover(player), Covered)] == ["c"]


def test_a_host_passes_the_chart_on_and_says_when_it_is_in_doubt() -> None:
    player = host()
    effects = player.hear("root", drawn(player, (0, 60)))
    assert sent(effects, Chart) == [("c", drawn(player, (0, 60))), ("d", drawn(player, (0, 60)))]
    effects = player.do(TimerFired(0, "check"), 60_000)
    assert sent(effects, Chart) == [("c", Chart(b"")), ("d", Chart(b""))]


def test_an_event_goes_only_where_a_cell_is_wanted() -> None:
    player = Player(climb="needed", low=0, high=5).begin()
    player.adopt("a", 30, 90)
    player.adopt("b", 90, 95)
    grid = player.tree.grid
    assert grid is not None
    entry = player.tree.nodes[0].entries[address("a")]
    entry.cells = grid.touched(box(30, 40)) | grid.touched(box(80, 90))
    player.tree.routes = None
    assert carried(player.do(Publish(event("between", 60)))) == []
    assert carried(player.do(Publish(event("within", 85)))) == [("a", "within")]


def test_cells_that_grow_are_caught_up() -> None:
    player = host()
    player.do(Publish(event("e", 20)))
    assert carried(player.hear("c", mbr(5, 0, 15))) == []
    assert carried(player.hear("c", mbr(6, 0, 25))) == [("c", "e")]


def test_charts_need_cells() -> None:
    with pytest.raises(ValueError, match="cells=true"):
        RtreeConfig(climb="needed", cells=False)


# --- A swarm ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_owed_event_is_lost_while_boxes_grow(seed: int) -> None:
    """As soon as a subscription is active somebody far away publishes for it, before the chart can be known there."""
    stage = Stage("rtree", seed, "zipf-25:75", settings=NEEDED)
    stage.gather(25)
    swarm = stage.swarm
    for _ in range(25):
        node = stage.rng.choice(stage.living())
        (id_,) = swarm.interests[node.index]
        interest = stage.interest()
        swarm.update(node, id_, interest)
        assert swarm.run_until(swarm.all_active, 20_000, 1)
        stage.run(1)
        for publisher in stage.rng.sample(stage.living(), 5):
            swarm.publish(inside(stage.rng, stage.workload.schema, interest.boxes[0]), publisher)
        stage.run(11_000)  # only what was not changed for ten seconds is owed
    stage.finish(least_expected=100)


@pytest.mark.parametrize("seed", [1, 2])
def test_most_of_what_nobody_wants_does_not_leave_its_publisher(seed: int) -> None:
    received = {}
    for climb in ("straight", "needed"):
        stage = Stage("rtree", seed, "zipf-25:75", settings={"climb": climb})
        stage.gather(30)
        stage.run(5_000)
        for attributes in stage.workload.events(stage.rng, 200):
            stage.swarm.publish(attributes)
        stage.run(2_000)
        received[climb] = stage.swarm.oracle.receptions["unwanted"]
    assert received["needed"] < received["straight"] / 3
