"""The workload driver with real peers: it finds them, knows what is owed, and tells faults from graceful change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from peerd.fleet import driver as module
from peerd.fleet.desk import Desk
from peerd.fleet.driver import Driver, FleetError, Plan
from peerd.testbed.bed import Bed
from tests.testbed.support import bed_of, until

SETTLE_MS = 1_500
"""Instead of half a minute: loopback is quick."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_MS", SETTLE_MS)
    for name in ("DISCOVER_S", "LOOK_S", "CONVERGE_S", "SETTLE_S"):
        monkeypatch.setattr(module, name, 0.2)


def plan_for(bed: Bed, **more: object) -> Plan:
    names = tuple(member.http for member in bed.members)
    return Plan(names=names, peers=len(bed.members), **{"rate": 100.0, "subscriptions": 3, **more})  # type: ignore[arg-type]


@asynccontextmanager
async def driving(plan: Plan) -> AsyncIterator[Driver]:
    driver = Driver(plan)
    task = asyncio.create_task(driver.run())
    try:
        yield driver
    finally:
        driver.stop()
        await task


async def test_every_owed_delivery_is_read_and_counted(tmp_path: Path) -> None:
    async with bed_of(4, tmp_path / "bed") as bed:
        ledger = await asyncio.wait_for(Driver(plan_for(bed, events=150)).run(), 60)
    assert ledger.published == 150
    assert ledger.peers == 4
    assert ledger.subscriptions == 12
    assert ledger.expected_deliveries > 20
    assert ledger.read_deliveries >= ledger.expected_deliveries
    assert (ledger.missing_deliveries, ledger.spurious_deliveries, ledger.duplicate_deliveries) == (0, 0, 0)
    assert (ledger.at_risk_deliveries, ledger.faults) == (0, {})


async def test_what_is_not_read_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen from an application: a reader that is broken, and nobody knows of a fault."""

    async def read_nothing(self: Driver, *what: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(Driver, "_read", read_nothing)
    async with bed_of(2, tmp_path / "bed") as bed:
        ledger = await asyncio.wait_for(Driver(plan_for(bed, events=100)).run(), 60)
    assert ledger.expected_deliveries > 5
    assert ledger.missing_deliveries == ledger.expected_deliveries


@pytest.mark.slow
async def test_a_crash_that_nobody_announced_is_found_out(tmp_path: Path) -> None:
    async with bed_of(4, tmp_path / "bed") as bed, driving(plan_for(bed)) as driver:
        await until(lambda: driver.ledger.published > 50, "events")
        bed.kill(bed.members[2])
        await until(lambda: driver.ledger.faults == {"found": 1}, "the crash to be found out")
        assert driver.oracle.at_risk
        assert driver.ledger.peers == 3
        await until(lambda: not driver.oracle.at_risk, "convergence", 60)
        assert driver.ledger.converged_s is not None
        owed = driver.ledger.expected_deliveries
        await until(lambda: driver.ledger.expected_deliveries > owed + 20, "what is owed after it", 60)
        assert driver.ledger.missing_deliveries == 0
        assert driver.ledger.at_risk_deliveries > 0


async def test_announced_faults_put_events_at_risk_and_graceful_stops_do_not(tmp_path: Path) -> None:
    async with bed_of(3, tmp_path / "bed") as bed, driving(plan_for(bed)) as driver:
        desk = Desk(driver, "127.0.0.1:0")
        await desk.start()
        try:
            await until(lambda: driver.ledger.peers == 3, "all to take part")
            await _announce_through(desk, driver)
        finally:
            await desk.stop()


async def _announce_through(desk: Desk, driver: Driver) -> None:
    url = f"http://127.0.0.1:{desk.port}"
    victim = driver.members.at_host("127.0.0.1")  # all have this address; the first is meant
    assert victim is not None
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{url}/v1/faults", json={"fault": "stop", "about": [victim.host]}) as response:
            assert response.status == 201
        assert not _at_risk(driver)
        assert victim not in driver.members.living
        await until(lambda: victim.standing, "the peer to be met again")
        async with session.post(f"{url}/v1/faults", json={"fault": "cut", "about": [victim.host]}) as response:
            id_ = (await response.json())["id"]
        assert _at_risk(driver)
        assert victim in driver.members.living
        assert victim not in driver.members.usable
        async with session.delete(f"{url}/v1/faults/{id_}") as response:
            assert response.status == 204
        assert victim in driver.members.usable
        await until(lambda: not driver.oracle.at_risk, "convergence", 60)
        async with session.delete(f"{url}/v1/faults/{id_}") as response:
            assert response.status == 404
        async with session.post(f"{url}/v1/faults", json={"fault": "sulk", "about": []}) as response:
            assert response.status == 422
        async with session.get(f"{url}/metrics") as response:
            text = await response.text()
        assert 'peerd_workload_faults_total{fault="cut"} 1.0' in text
        assert "peerd_workload_peers 3.0" in text
        async with session.get(f"{url}/v1/workload") as response:
            assert (await response.json())["faults"] == {"stop": 1, "cut": 1}


def _at_risk(driver: Driver) -> bool:
    return driver.oracle.at_risk


async def test_a_swarm_with_another_schema_ends_it_with_one_line(tmp_path: Path) -> None:
    async with bed_of(2, tmp_path / "bed") as bed:
        with pytest.raises(FleetError, match="peerd fleet schema"):
            await asyncio.wait_for(Driver(plan_for(bed, workload="ranges")).run(), 60)
