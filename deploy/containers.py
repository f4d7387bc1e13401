"""The testbed of containers, from outside: Compose brings it up and down, the driver and Prometheus say how it is.

For those who measure (`deploy/measure.py`) and for the tests. The names and ports are its own, so that it disturbs no
other project on this machine.
"""

import json
import os
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
ANSWER_S: Final = 60.0
"""A driver or a Prometheus among 200 containers on a full machine may take that long."""
DOWN_TRIES: Final = 3
"""A busy engine still counts containers that it has removed to their network, and does not remove that."""


def run(*command: str | Path, seconds: float = 60.0, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run a command from the root of the project, with these variables more; its output is text."""
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=ROOT,
        env={**os.environ, **more},
        check=False,
        stdin=subprocess.DEVNULL,
    )


def compose_command() -> list[str] | None:
    """Compose v2 if it is there, else docker-compose 1.29, else None."""
    for command in (["docker", "compose"], ["docker-compose"]):
        try:
            if run(*command, "version").returncode == 0:
                return command
        except FileNotFoundError:
            continue
    return None


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Containers:
    """One project of Compose."""

    def __init__(self, compose: list[str], project: str, **variables: str) -> None:
        self._compose = compose
        self.project = project
        self.ports = {name: free_port() for name in ("HTTP", "WORKLOAD", "PROMETHEUS", "GRAFANA")}
        self.variables = {
            "COMPOSE_PROJECT_NAME": project,
            **{f"{name}_PORT": port for name, port in self.ports.items()},
            **variables,
        }

    def compose(self, *words: str, seconds: float = 120.0) -> "subprocess.CompletedProcess[str]":
        return run(*self._compose, *words, seconds=seconds, **self.variables)

    def up(self, *services: str, seconds: float = 400.0) -> "subprocess.CompletedProcess[str]":
        return self.compose("up", "-d", *services, seconds=seconds)

    def containers(self, *more: str) -> list[dict[str, Any]]:
        """What the engine says of the project's containers."""
        label = f"label=com.docker.compose.project={self.project}"
        ids = run("docker", "ps", "-aq", "--filter", label, *more).stdout.split()
        return list(json.loads(run("docker", "inspect", *ids).stdout)) if ids else []

    def left(self) -> list[str]:
        """Containers, networks and volumes that are still there."""
        label = f"label=com.docker.compose.project={self.project}"
        found = [each["Name"] for each in self.containers()]
        found += run("docker", "network", "ls", "-q", "--filter", label).stdout.split()
        return found + run("docker", "volume", "ls", "-q", "--filter", label).stdout.split()

    def workload(self) -> dict[str, Any]:
        return dict(ask(f"http://127.0.0.1:{self.ports['WORKLOAD']}/v1/workload"))

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What Prometheus makes of an expression now."""
        words = urllib.parse.urlencode({"query": expression})
        answer = ask(f"http://127.0.0.1:{self.ports['PROMETHEUS']}/api/v1/query?{words}")
        if answer["status"] != "success":
            raise RuntimeError(str(answer))
        return list(answer["data"]["result"])

    def value(self, expression: str) -> float | None:
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def down(self) -> float:
        """Take everything down; how long that took."""
        start = time.monotonic()
        for _ in range(DOWN_TRIES):
            outcome = self.compose("--profile", "chaos", "down", "-v", "--remove-orphans", seconds=900)
            if not outcome.returncode:
                return time.monotonic() - start
        raise RuntimeError(outcome.stderr)


def ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=ANSWER_S) as response:
        return json.loads(response.read())
