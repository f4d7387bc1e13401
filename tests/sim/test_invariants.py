"""Each checker is silent on a sound swarm and speaks up on one that was corrupted by hand."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from peerd.sim import invariants
from peerd.sim.invariants import (
    covers_enclose_subscriptions,
    links_lead_to_the_living,
    participants_bounded,
    sampling_connected,
)
from peerd.sim.invariants.broadcast import graph_connected, links_bounded, links_mutual
from peerd.sim.invariants.graph import component
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import workload
from protocols.broadcast.config import BroadcastConfig
from protocols.broadcast.overlay import Broadcast
from protocols.model.box import EMPTY
from protocols.model.ids import Address

STOCKS = workload("stocks")


@pytest.fixture
def swarm() -> Swarm:
    sound = Swarm(SwarmConfig(overlay="broadcast", schema=STOCKS.schema, seed=1))
    interests = STOCKS.subscriptions(sound.stream("subscriptions"), 12)
    sound.start_many([[interest] for interest in interests], 50)
    sound.run(600)
    assert sound.converge(30_000) is not None
    return sound


def overlay_of(swarm: Swarm, index: int) -> Broadcast:
    found = swarm.live[index].peer.participants[0]
    assert isinstance(found, Broadcast)
    return found


def links_of(swarm: Swarm, index: int) -> dict[Address, int]:
    return overlay_of(swarm, index)._neighbours.linked


def test_a_sound_swarm_violates_nothing(swarm: Swarm) -> None:
    assert invariants.violations(swarm) == []


# --- Corruption, one for each checker ---------------------------------------------------------------------------------


def too_many_participants(swarm: Swarm) -> None:
    participants = swarm.live[3].peer.participants
    participants[1] = participants[0]


def no_participant(swarm: Swarm) -> None:
    swarm.live[3].peer.participants.clear()
    swarm.live[3].peer.grouping.covers.clear()


def box_forgotten(swarm: Swarm) -> None:
    overlay_of(swarm, 3)._own.box = EMPTY


def link_to_a_gone_peer(swarm: Swarm) -> None:
    links_of(swarm, 3)[Address("nobody", 1, 0, "nowhere:1")] = 0


def link_to_an_earlier_boot(swarm: Swarm) -> None:
    to = next(iter(links_of(swarm, 3)))
    links_of(swarm, 3)[Address(to.peer, to.boot - 1, to.slot, to.at)] = 0


def link_to_a_gone_slot(swarm: Swarm) -> None:
    to = next(iter(links_of(swarm, 3)))
    links_of(swarm, 3)[Address(to.peer, to.boot, 9, to.at)] = 0


def views_torn_apart(swarm: Swarm) -> None:
    """The views of the first half name nobody of the second, nor the other way round."""
    half = {node.address.peer for node in list(swarm.live.values())[:6]}
    for node in swarm.live.values():
        view = node.peer.membership.cyclon
        for descriptor in view.peers():
            if (descriptor.address.peer in half) != (node.address.peer in half):
                view.forget(descriptor.address)


def half_a_link(swarm: Swarm) -> None:
    to = next(iter(links_of(swarm, 3)))
    del links_of(swarm, 3)[to]


def too_many_links(swarm: Swarm) -> None:
    config = swarm.parameters
    assert isinstance(config, BroadcastConfig)
    for number in range(config.links_max + config.links + 1):
        links_of(swarm, 3)[Address(f"p{number}", 1, 0, "nowhere:1")] = 0


def graph_torn_apart(swarm: Swarm) -> None:
    mine = overlay_of(swarm, 3).descriptor().address
    links_of(swarm, 3).clear()
    for index in swarm.live:
        links_of(swarm, index).pop(mine, None)


CASES: list[tuple[invariants.Checker, Callable[[Swarm], None]]] = [
    (participants_bounded.check, too_many_participants),
    (participants_bounded.check, no_participant),
    (covers_enclose_subscriptions.check, box_forgotten),
    (links_lead_to_the_living.check, link_to_a_gone_peer),
    (links_lead_to_the_living.check, link_to_an_earlier_boot),
    (links_lead_to_the_living.check, link_to_a_gone_slot),
    (sampling_connected.check, views_torn_apart),
    (links_mutual.check, half_a_link),
    (links_bounded.check, too_many_links),
    (graph_connected.check, graph_torn_apart),
]


@pytest.mark.parametrize(("check", "corrupt"), CASES, ids=[corrupt.__name__ for _, corrupt in CASES])
def test_a_corrupted_swarm_is_found_out(
    swarm: Swarm, check: invariants.Checker, corrupt: Callable[[Swarm], None]
) -> None:
    assert list(check(swarm)) == []
    corrupt(swarm)
    found = list(check(swarm))
    assert found
    assert set(found) <= set(invariants.violations(swarm))
    assert found == list(check(swarm))  # the same words for as long as it lasts


def test_every_checker_is_shown_a_corruption() -> None:
    """Those of the baseline too; other overlays have theirs in their own folders."""
    assert {check for check, _ in CASES} == {*invariants.EVERY, *invariants.OF_OVERLAY["broadcast"]}


def test_sampling_is_not_asked_where_an_oracle_samples() -> None:
    config = SwarmConfig(overlay="broadcast", schema=STOCKS.schema, seed=1, sampling="oracle")
    swarm = Swarm(config)
    swarm.start_many([[], []], 50)
    swarm.run(2_000)
    assert list(sampling_connected.check(swarm)) == []


def test_component() -> None:
    assert component({}) == set()
    assert component({1: [2], 2: [], 3: [1]}) == {1, 2}
    assert component({1: [2], 2: [3], 3: [1]}) == {1, 2, 3}


def test_violations_that_pass_are_not_lasting(swarm: Swarm) -> None:
    half_a_link(swarm)
    # the next confirmation of links finds it; until then it is one violation, the same at every look
    assert len(swarm.lasting_violations()) <= 1
    assert swarm.converge(30_000) is not None
    assert swarm.lasting_violations() == []


def test_a_swarm_that_stays_corrupted_does_not_converge(swarm: Swarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(Any, invariants.OF_OVERLAY), "broadcast", [lambda _: iter(["always wrong"])])
    assert swarm.converge(3_000) is None
