"""Chaos: things happen to containers while events flow, one after the other, and each is undone again.

    announce -> do -> leave it so for a while -> undo -> say that it is over -> wait until the swarm has converged

Announced, so that the driver knows which events are at risk and which must not be missing although something happened;
one at a time, so that what is seen has one cause. What was done is undone however this ends.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Annotated, Any, Final

import aiohttp
import msgspec
from msgspec import Meta

from peerd.fleet.docker import Container, Engine, EngineError
from peerd.fleet.faults import ANNOUNCED, Announced

LEAVE_S: Final = 20
"""How long a container may take to leave: longer than a peer's own patience with it."""
CONVERGE_S: Final = 120.0
"""How long the swarm may take to converge before the next thing happens regardless: twice its bound."""
DRIVER_S: Final = 10.0

_log = logging.getLogger("peerd.fleet")


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    service: str = "peer"
    actions: tuple[Announced, ...] = ANNOUNCED
    count: Annotated[int, Meta(ge=1, le=1_000)] = 2
    """Containers that something happens to at once."""
    pause_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 30.0
    """Between one thing and the next."""
    for_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 20.0
    """How long it lasts."""
    times: Annotated[int, Meta(ge=1)] | None = None
    """None: until told to stop."""
    seed: int = 0


class Chaos:
    """`driver` is the URL of the workload driver that is told; None if there is none."""

    def __init__(self, plan: Plan, engine: Engine, project: str, driver: str | None) -> None:
        self._plan = plan
        self._engine = engine
        self._project = project
        self._driver = driver
        self._rng = Random(f"{plan.seed}/chaos")
        self._do: dict[Announced, Callable[[Container], Awaitable[None]]] = {
            "kill": engine.kill,
            "stop": lambda container: engine.stop(container, LEAVE_S),
            "pause": engine.pause,
            "cut": engine.cut,
        }
        self._undo: dict[Announced, Callable[[Container], Awaitable[None]]] = {
            "kill": engine.start,
            "stop": engine.start,
            "pause": engine.unpause,
            "cut": engine.mend,
        }

    async def run(self) -> int:
        """How often something happened. Cancelled, it undoes what it has done before it ends."""
        happened = 0
        while self._plan.times is None or happened < self._plan.times:
            await asyncio.sleep(self._plan.pause_s)
            action = self._plan.actions[happened % len(self._plan.actions)]
            await self.once(action)
            happened += 1
        return happened

    async def once(self, action: Announced) -> list[Container]:
        """One thing, from its announcement to convergence; whom it happened to."""
        running = await self._engine.running(self._project, self._plan.service)
        victims = self._rng.sample(running, min(self._plan.count, max(0, len(running) - 1)))
        if not victims:
            _log.warning("no container of service %s is running that could be spared", self._plan.service)
            return []
        _log.info("%s: %s", action, ", ".join(container.name for container in victims))
        before = await self._tell("GET", "/v1/workload")
        async with self._announced(action, victims):
            try:
                await _all(self._do[action], victims)
                await asyncio.sleep(self._plan.for_s)
            finally:
                await asyncio.shield(_all(self._undo[action], victims))
        await self._converged(0 if before is None else before["peers"])
        return victims

    @asynccontextmanager
    async def _announced(self, action: Announced, victims: list[Container]) -> AsyncIterator[None]:
        about = [container.endpoint.address for container in victims]
        answer = await self._tell("POST", "/v1/faults", {"fault": action, "about": about})
        try:
            yield
        finally:
            if answer is not None:
                await asyncio.shield(self._tell("DELETE", f"/v1/faults/{answer['id']}"))

    async def _converged(self, peers: int) -> None:
        """Wait until nothing is at risk, and as many peers take part as before."""
        end = asyncio.get_running_loop().time() + CONVERGE_S
        while asyncio.get_running_loop().time() < end:
            answer = await self._tell("GET", "/v1/workload")
            if answer is None or (not answer["at_risk"] and answer["peers"] >= peers):
                return
            await asyncio.sleep(1.0)
        _log.warning("the swarm has not converged within %g s", CONVERGE_S)

    async def _tell(self, method: str, path: str, body: object = None) -> dict[str, Any] | None:
        """What the driver answers; None if there is none, or it is silent: chaos goes on without it."""
        if self._driver is None:
            return None
        timeout = aiohttp.ClientTimeout(total=DRIVER_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(method, self._driver + path, json=body) as response,
            ):
                raw = await response.read()
                response.raise_for_status()
                return dict(msgspec.json.decode(raw)) if raw else None
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError) as error:
            _log.warning("the workload driver does not answer: %s", str(error) or type(error).__name__)
            return None


async def _all(do: Callable[[Container], Awaitable[None]], containers: list[Container]) -> None:
    """To all of them, though it may fail with some: one that has ended by itself cannot be paused."""
    for outcome in await asyncio.gather(*map(do, containers), return_exceptions=True):
        if isinstance(outcome, EngineError):
            _log.warning("%s", outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
