"""As much of a Docker engine's API as chaos needs, over the engine's socket: no client program has to be installed."""

import json
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec

SOCKET: Final = "/var/run/docker.sock"
ANSWER_S: Final = 60.0
"""The engine stops a container only after that has had its time to leave."""
PROJECT: Final = "com.docker.compose.project"
SERVICE: Final = "com.docker.compose.service"


class EngineError(Exception):
    """The engine does not answer, or says no."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a container is connected to a network."""

    network: str
    address: str
    aliases: tuple[str, ...]


class Container(msgspec.Struct, frozen=True):
    id: str
    name: str
    endpoint: Endpoint


class Engine:
    def __init__(self, socket: str = SOCKET) -> None:
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=ANSWER_S)
        self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(self._socket), timeout=timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    # --- looking ------------------------------------------------------------------------------------------------------

    async def project_of(self, container: str) -> str:
        """The Compose project that a container belongs to."""
        filters = {"id": [container], "label": [PROJECT]}
        found = await self._get("/containers/json", filters=json.dumps(filters))
        if not found:
            raise EngineError(f"{container} is no container of a Compose project; name the project with --project")
        return str(found[0]["Labels"][PROJECT])

    async def running(self, project: str, service: str) -> list[Container]:
        """The running containers of a service, by name."""
        filters = {"label": [f"{PROJECT}={project}", f"{SERVICE}={service}"], "status": ["running"]}
        listed = await self._get("/containers/json", filters=json.dumps(filters))
        found = [Container(each["Id"], each["Names"][0].lstrip("/"), _endpoint(each)) for each in listed]
        return sorted(found, key=lambda container: container.name)

    # --- doing --------------------------------------------------------------------------------------------------------

    async def kill(self, container: Container) -> None:
        await self._post(f"/containers/{container.id}/kill", signal="SIGKILL")

    async def stop(self, container: Container, seconds: int) -> None:
        """Let it leave for so long, then kill it."""
        await self._post(f"/containers/{container.id}/stop", t=str(seconds))

    async def start(self, container: Container) -> None:
        await self._post(f"/containers/{container.id}/start")

    async def pause(self, container: Container) -> None:
        await self._post(f"/containers/{container.id}/pause")

    async def unpause(self, container: Container) -> None:
        await self._post(f"/containers/{container.id}/unpause")

    async def cut(self, container: Container) -> None:
        """Take it off its network, as if its cable were pulled."""
        body = {"Container": container.id, "Force": True}
        await self._post(f"/networks/{container.endpoint.network}/disconnect", body)

    async def mend(self, container: Container) -> None:
        """Back on its network, with the address and the names that it had."""
        endpoint = container.endpoint
        config = {"IPAMConfig": {"IPv4Address": endpoint.address}, "Aliases": list(endpoint.aliases)}
        await self._post(f"/networks/{endpoint.network}/connect", {"Container": container.id, "EndpointConfig": config})

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _get(self, path: str, **query: str) -> Any:
        return json.loads(await self._ask("GET", path, None, query))

    async def _post(self, path: str, body: object = None, **query: str) -> None:
        await self._ask("POST", path, body, query)

    async def _ask(self, method: str, path: str, body: object, query: dict[str, str]) -> bytes:
        assert self._session is not None
        try:
            async with self._session.request(method, f"http://engine{path}", params=query, json=body) as response:
                raw = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EngineError(f"the engine at {self._socket} does not answer: {error}") from None
        if response.status >= 400:
            raise EngineError(f"{method} {path}: {raw[:300].decode('utf-8', 'replace').strip()}")
        return raw


def _endpoint(listed: dict[str, Any]) -> Endpoint:
    """The first network of a container. Its service's name is an alias that the engine's list leaves out."""
    network = next(iter(listed["NetworkSettings"]["Networks"].values()))
    aliases = (listed["Labels"][SERVICE], listed["Id"][:12])
    return Endpoint(network["NetworkID"], network["IPAddress"], aliases)
