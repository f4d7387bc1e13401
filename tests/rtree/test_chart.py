"""Events that need not climb to the root: what is held back, and why nothing owed is lost by it."""

from typing import Any

import pytest

from peerd.sim.workloads.workload import inside
from protocols.model.event import Event
from protocols.overlay import OWN_BOX, Active, Effect, Leave, PeerLost, Publish, TimerFired, Update
from protocols.rtree import chart
from protocols.rtree.config import RtreeConfig
from protocols.rtree.grid import difference
from protocols.rtree.messages import Adopt, Carry, Chart, Charted, Child, Covered, Mbr, Move, Take
from tests.conformance.support import Stage, seeds
from tests.rtree.scene import Player, address, box, event, mbr, sent
from tests.rtree.swarms import NARROW

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
    vouch(player, "a")
    return player


def vouch(player: Player, parent: str, said: int | None = None) -> list[Effect]:
    """The parent answers that it has the same chart as we."""
    link = player.tree.parent
    assert link is not None
    now = player.now_ms if said is None else said
    return player.hear(parent, Covered(link.seq, link.level, address(parent), (), True, player.tree.chart.digest, now))


def has_chart(player: Player, *names: str) -> list[Effect]:
    """These children, and all below them, have the chart that we have."""
    return [effect for name in names for effect in player.hear(name, Charted(player.tree.chart.digest))]


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
    assert player.tree.chart.held == []


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
    effects = player.do(TimerFired(0, "chart"), 2 + chart.SURVEY_MS)
    assert sent(effects, Chart) == [("a", drawn(player, (10, 20), (30, 40)))]
    has_chart(player, "a")
    effects = player.adopt("b", 60, 70)
    assert sent(effects, Chart) == [("b", drawn(player, (10, 20), (30, 40)))]
    effects = player.do(TimerFired(0, "chart"), 3 + 2 * chart.SURVEY_MS)
    assert {to for to, _ in sent(effects, Chart)} == {"a", "b"}
    assert sent(effects, Chart)[0][1] == drawn(player, (10, 20), (30, 40), (60, 70))


def test_the_root_sends_the_next_chart_when_everybody_has_the_last_one() -> None:
    player = crowned()
    assert ("a", drawn(player, (10, 20), (30, 40), (60, 90))) in sent(
        player.hear("b", mbr(2, 60, 90), at_ms=2_000), Chart
    )
    assert len(sent(player.hear("a", mbr(2, 30, 55), at_ms=3_000), Chart)) == 1  # `mbr` knows none
    assert sent(has_chart(player, "a"), Chart) == []
    effects = has_chart(player, "b")
    assert [to for to, _ in sent(effects, Chart)] == ["a", "b"]
    assert sent(effects, Chart)[0][1] == drawn(player, (10, 20), (30, 55), (60, 90))


def test_the_chart_shrinks_at_the_roots_check() -> None:
    player = Player(climb="needed").begin()
    player.adopt("a", 10, 40)
    player.do(TimerFired(0, "chart"), 1_000)
    has_chart(player, "a")
    assert drawn(player, (10, 30)) not in [message for _, message in sent(player.hear("a", mbr(2, 10, 30)), Chart)]
    assert ("a", drawn(player, (10, 30))) in sent(player.do(TimerFired(0, "check"), 2_000), Chart)


def test_a_child_with_another_chart_is_told() -> None:
    player = Player(climb="needed").begin()
    player.adopt("a", 30, 40)
    player.do(TimerFired(0, "chart"), 1_000)
    known = player.tree.chart.digest
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


# --- Agreeing ---------------------------------------------------------------------------------------------------------


def agreed(effects: list[Effect]) -> list[tuple[str, bool]]:
    return [(to, message.agreed) for to, message in sent(effects, Covered)]


def crowned() -> Player:
    """A root with the children `a` and `b`, who have its chart."""
    player = Player(climb="needed").begin()
    player.adopt("a", 30, 40)
    player.adopt("b", 60, 70)
    player.do(TimerFired(0, "chart"), 1_000)
    has_chart(player, "a", "b")
    return player


def test_the_root_agrees_to_new_cells_when_everybody_has_said_that_they_are_on_the_chart() -> None:
    player = crowned()
    assert agreed(player.hear("a", mbr(2, 30, 38))) == [("a", True)]  # nothing new to anybody
    assert agreed(player.hear("b", mbr(2, 60, 90), at_ms=2_000)) == [("b", False)]  # the edge stands
    assert agreed(has_chart(player, "b")) == []
    assert agreed(has_chart(player, "a")) == [("b", True)]


def test_a_box_is_active_when_it_is_agreed_and_not_before() -> None:
    player = Player(climb="needed").below("a")
    told = sent(player.do(Update(OWN_BOX, box(80, 90), "", 2)), Mbr)[0][1]
    assert active(player.hear("a", Covered(told.seq, 0, address("a"), (), agreed=False))) == []
    assert active(player.hear("a", Covered(told.seq, 0, address("a"), (), agreed=True))) == [2]


def active(effects: list[Effect]) -> list[int]:
    return [effect.version for effect in effects if isinstance(effect, Active)]


def test_a_host_says_that_it_has_a_chart_when_its_children_have_it() -> None:
    player = host()
    has_chart(player, "c", "d")
    player.hear("root", drawn(player, (0, 60)))
    assert sent(has_chart(player, "c"), Charted) == []
    assert [to for to, _ in sent(has_chart(player, "d"), Charted)] == ["root"]
    again = player.hear("root", drawn(player, (0, 60)))  # the answer was lost
    assert [to for to, _ in sent(again, Charted)] == ["root"]


def test_a_chart_of_another_grid_is_passed_on_and_holds_nothing_back() -> None:
    """Somebody above knows more attributes than we do."""
    player = host()
    other = Chart(b"\x02" + b"\xff" * 9)
    assert sent(player.hear("root", other), Chart) == [("c", other), ("d", other)]
    assert [to for to, _ in sent(has_chart(player, "c", "d"), Charted)] == ["root"]
    vouch(player, "root")
    assert carried(player.do(Publish(event("e", 70)))) == [("root", "e")]


def test_who_has_the_last_chart_is_told_the_difference_and_others_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart, "difference", lambda old, new: b"d")
    player = host()
    player.hear("root", drawn(player, (0, 60)))
    base = player.tree.chart.digest
    has_chart(player, "c")
    effects = player.hear("root", drawn(player, (0, 90)))
    assert sent(effects, Chart) == [("c", Chart(b"d", base)), ("d", drawn(player, (0, 90)))]


def test_a_difference_makes_a_chart_out_of_the_one_that_is_known() -> None:
    player = charted()
    old, new = player.tree.chart.raw, drawn(player, (0, 80)).cells
    base = player.tree.chart.digest
    player.hear("a", Chart(difference(old, new), base + 1))  # from one that we do not have
    assert player.tree.chart.raw == old
    player.hear("a", Chart(b"no difference", base))
    assert player.tree.chart.raw == old
    effects = player.hear("a", Chart(difference(old, new), base))
    assert player.tree.chart.raw == new
    assert sent(effects, Charted) == [("a", Charted(player.tree.chart.digest))]


def test_a_host_tells_again_whom_it_waits_for() -> None:
    player = host()
    player.hear("root", drawn(player, (0, 60)))
    has_chart(player, "c")
    vouch(player, "root")
    assert [to for to, _ in sent(player.do(TimerFired(0, "check"), 2_000), Chart)] == ["d"]


def test_a_host_asks_for_its_own_children_what_they_wait_for() -> None:
    player = host()
    player.hear("c", mbr(5, 0, 30))
    link = player.tree.parent
    assert link is not None
    effects = player.hear("root", Covered(link.seq, 1, address("root"), (), agreed=False))
    assert agreed(effects) == [("c", False)]
    effects = player.hear("root", Covered(link.seq, 1, address("root"), (), agreed=True))
    assert agreed(effects) == [("c", True)]


def test_a_child_that_is_silent_is_not_waited_for_when_it_must_have_lost_its_trust() -> None:
    player = crowned()
    player.hear("b", mbr(2, 60, 90), at_ms=2_000)
    has_chart(player, "b")
    trust_ms = int(chart.TRUST_ROUNDS * player.tree.config.check_ms)
    assert agreed(player.do(TimerFired(0, "leave"), 2_000 + trust_ms)) == []
    assert agreed(player.do(TimerFired(0, "leave"), 2_001 + trust_ms)) == [("b", True)]


def test_an_answer_that_was_long_under_way_gives_no_trust() -> None:
    player = charted()
    trust_ms = int(chart.TRUST_ROUNDS * player.tree.config.check_ms)
    player.now_ms = 4_000
    vouch(player, "a", said=3)
    player.now_ms = trust_ms + 10
    assert carried(player.do(Publish(late()))) == [("a", "late")]
    vouch(player, "a")
    assert carried(player.do(Publish(late("trusted")))) == []


def test_a_parent_with_another_chart_gives_no_trust() -> None:
    player = charted()
    link = player.tree.parent
    assert link is not None
    player.hear("a", Covered(link.seq, 0, address("a"), (), True, 12345, 4_000), at_ms=4_000)
    assert carried(player.do(Publish(late()), at_ms=6_000)) == [("a", "late")]


def test_who_moves_goes_by_both_charts_until_the_new_parent_has_spoken() -> None:
    player = charted()
    player.hear("a", Move(0, 0))
    search = player.tree.search
    assert search is not None
    player.hear("b", Adopt(search.req_id, 0, ()))
    link = player.tree.candidate
    assert link is not None
    player.hear("b", drawn(player, (60, 80)))
    assert carried(player.do(Publish(late("old")))) == []  # only `a` has a say
    player.hear("b", Covered(link.seq, 0, address("b"), (), True, 0, 0))
    player.tree.chart.trusted_ms = player.now_ms
    assert carried(player.do(Publish(late("new")))) == [("b", "new")]
    assert carried(player.do(Publish(event("before", 30)))) == [("b", "before")]
    assert carried(player.do(Publish(event("neither", 95)))) == []
    player.hear("b", drawn(player, (60, 80)))
    assert carried(player.do(Publish(event("after", 30)))) == []


def test_who_has_lost_its_parent_knows_nothing_and_says_so() -> None:
    player = host()
    player.hear("root", drawn(player, (0, 60)))
    has_chart(player, "c", "d")
    effects = player.do(PeerLost(address("root")))
    assert sent(effects, Chart) == [("c", Chart(b"")), ("d", Chart(b""))]
    patience_ms = player.tree.config.patience_ms
    assert player.tree.is_root
    assert sent(player.do(TimerFired(0, "check"), patience_ms), Chart) == [("c", Chart(b"")), ("d", Chart(b""))]
    effects = player.do(TimerFired(0, "check"), patience_ms + 100)
    assert {to for to, message in sent(effects, Chart) if message.cells} == {"c", "d"}


def test_whoever_takes_over_a_node_says_nothing_before_its_children_have_come() -> None:
    player = charted()
    children = tuple(Child(address(name), box(low, low + 5), None, 0, ()) for name, low in (("c", 60), ("d", 70)))
    player.hear("a", Take(1, 0, (children,), address("top"), True))
    link = player.tree.candidate
    assert link is not None
    player.hear("top", Covered(link.seq, 1, address("top"), (), True, 0, 0))
    player.hear("top", drawn(player, (0, 80)))
    player.hear("c", mbr(1, 60, 65))
    assert sent(has_chart(player, "c"), Charted) == []
    player.hear("d", mbr(1, 70, 75))
    assert [to for to, _ in sent(has_chart(player, "d"), Charted)] == ["top"]


def test_a_root_that_hands_itself_over_agrees_to_nothing_more() -> None:
    player = crowned()
    player.do(Leave(), at_ms=2_000)
    assert player.tree.operation is not None
    player.hear("b", mbr(2, 60, 90))
    assert agreed(has_chart(player, "a", "b")) == []


# --- Down -------------------------------------------------------------------------------------------------------------


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


def owed_at_once(seed: int) -> None:
    """As soon as a subscription is active somebody far away publishes for it."""
    stage = Stage("rtree", seed, "zipf-25:75", settings={**NARROW, **NEEDED})
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


@seeds(1, 2, 3)
def test_no_owed_event_is_lost_while_boxes_grow(seed: int) -> None:
    owed_at_once(seed)


@seeds(1, 2, 3)
def test_a_box_is_active_only_when_every_chart_has_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is owed is ever held back: it would be lost here."""
    monkeypatch.setattr(chart, "release", lambda tree, now_ms: tree.chart.held.clear())
    owed_at_once(seed)


@seeds(1, 2)
def test_most_of_what_nobody_wants_does_not_leave_its_publisher(seed: int) -> None:
    received = {}
    for climb in ("straight", "needed"):
        stage = Stage("rtree", seed, "zipf-25:75", settings={**NARROW, "climb": climb})
        stage.gather(30)
        stage.run(5_000)
        for attributes in stage.workload.events(stage.rng, 200):
            stage.swarm.publish(attributes)
        stage.run(2_000)
        received[climb] = stage.swarm.oracle.receptions["unwanted"]
    assert received["needed"] < received["straight"] / 3
