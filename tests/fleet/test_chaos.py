"""Chaos: announced before, undone after, whatever happens in between."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from peerd.fleet.chaos import Chaos, Plan
from peerd.fleet.docker import Engine, EngineError
from peerd.fleet.faults import Announced
from tests.fleet.fakes import FakeDriver, FakeEngine
from tests.support.waiting import until

UNDONE: dict[Announced, tuple[str, str]] = {
    "kill": ("kill", "start"),
    "stop": ("stop", "start"),
    "pause": ("pause", "unpause"),
    "cut": ("disconnect", "connect"),
}


@pytest.mark.parametrize("action", UNDONE)
async def test_it_is_announced_done_undone_and_over(tmp_path: Path, action: Announced) -> None:
    engine, driver = FakeEngine(5), FakeDriver()
    async with engine.serve(tmp_path) as socket, driver.serve() as url, Engine(socket) as client:
        victims = await Chaos(Plan(count=2, for_s=0.0), client, "p", url).once(action)
    assert len(victims) == 2
    do, undo = UNDONE[action]
    ids = {victim.id for victim in victims}
    assert [(what, each in ids) for what, each, _ in engine.told] == [(do, True)] * 2 + [(undo, True)] * 2
    about = [victim.endpoint.address for victim in victims]
    assert driver.told == [("announced", {"fault": action, "about": about}), ("healed", "7")]


async def test_a_container_comes_back_with_its_address_and_names(tmp_path: Path) -> None:
    engine = FakeEngine(2)
    async with engine.serve(tmp_path) as socket, Engine(socket) as client:
        (victim,) = await Chaos(Plan(count=1, for_s=0.0), client, "p", None).once("cut")
    config = engine.told[-1][2]
    assert config["IPAMConfig"] == {"IPv4Address": victim.endpoint.address}
    assert "peer" in config["Aliases"]


async def test_what_was_done_is_undone_when_it_is_told_to_stop(tmp_path: Path) -> None:
    engine, driver = FakeEngine(5), FakeDriver()
    async with engine.serve(tmp_path) as socket, driver.serve() as url, Engine(socket) as client:
        going = asyncio.create_task(Chaos(Plan(count=1, for_s=3600.0), client, "p", url).once("pause"))
        await until(lambda: engine.told, "a container to be paused")
        going.cancel()
        with suppress(asyncio.CancelledError):
            await going
        await until(lambda: len(driver.told) == 2, "the driver to be told")
    assert [what for what, _, _ in engine.told] == ["pause", "unpause"]
    assert driver.told[-1] == ("healed", "7")


async def test_it_waits_until_the_swarm_has_converged(tmp_path: Path) -> None:
    engine, driver = FakeEngine(5), FakeDriver()
    driver.risky = 3
    async with engine.serve(tmp_path) as socket, driver.serve() as url, Engine(socket) as client:
        await Chaos(Plan(count=1, for_s=0.0), client, "p", url).once("kill")
    assert driver.risky == 0


async def test_things_happen_in_turn(tmp_path: Path) -> None:
    engine = FakeEngine(3)
    plan = Plan(count=1, for_s=0.0, pause_s=0.0, times=3, actions=("kill", "pause"))
    async with engine.serve(tmp_path) as socket, Engine(socket) as client:
        assert await Chaos(plan, client, "p", None).run() == 3
    assert [what for what, _, _ in engine.told] == ["kill", "start", "pause", "unpause", "kill", "start"]


async def test_somebody_is_always_spared(tmp_path: Path) -> None:
    engine = FakeEngine(1)
    async with engine.serve(tmp_path) as socket, Engine(socket) as client:
        assert await Chaos(Plan(count=5, for_s=0.0), client, "p", None).once("kill") == []
    assert engine.told == []


async def test_what_the_engine_refuses_does_not_end_it(tmp_path: Path) -> None:
    engine = FakeEngine(3, failing=("pause",))
    async with engine.serve(tmp_path) as socket, Engine(socket) as client:
        assert len(await Chaos(Plan(count=1, for_s=0.0), client, "p", None).once("pause")) == 1
    assert [what for what, _, _ in engine.told] == ["unpause"]


async def test_no_engine_is_one_line(tmp_path: Path) -> None:
    async with Engine(str(tmp_path / "nothing.sock")) as client:
        with pytest.raises(EngineError, match="does not answer"):
            await client.running("p", "peer")


async def test_the_project_is_that_of_the_container(tmp_path: Path) -> None:
    async with FakeEngine(0).serve(tmp_path) as socket, Engine(socket) as client:
        assert await client.project_of("me") == "p"
        with pytest.raises(EngineError, match="name the project with --project"):
            await client.project_of("host")
