"""What a container begins with, with a stand-in for tini that prints what it is given."""

import os
import signal
import subprocess
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.deploy.support import DEPLOY

ENTRY = DEPLOY / "entry"
TINI = '#!/bin/sh\necho "$@"\necho "data $PEERD_DATA_DIR"\necho "log $PEERD_LOG_DIR"\necho "name $PEERD_NAME"\n'


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tini").write_text(TINI)
    (tmp_path / "tini").chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PEERD_")}
    return {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOSTNAME": "h7"}


def said(environment: dict[str, str], *words: str) -> list[str]:
    command = [str(ENTRY), *words]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=30, check=True
    ).stdout.splitlines()


def test_a_peer_has_directories_named_after_its_host(environment: dict[str, str]) -> None:
    assert said({**environment, "LOGS": "/logs"}, "--overlay", "broadcast") == [
        "-- peerd --overlay broadcast",
        "data /var/lib/peerd/h7",
        "log /logs/h7",
        "name h7",
    ]


def test_nothing_is_logged_unless_it_is_said_where(environment: dict[str, str]) -> None:
    assert said(environment)[2] == "log "


def test_what_is_set_stays(environment: dict[str, str]) -> None:
    given = {**environment, "PEERD_DATA_DIR": "/elsewhere", "PEERD_LOG_DIR": "/there", "PEERD_NAME": "Nikos"}
    assert said(given)[1:] == ["data /elsewhere", "log /there", "name Nikos"]


def test_a_final_exit_code_is_for_peers_only(environment: dict[str, str]) -> None:
    given = {**environment, "FINAL_CODE": "2"}
    assert said(given)[0] == "-e 2 -- peerd"
    assert said(given, "fleet", "preflight")[0] == "-- peerd fleet preflight"


def test_a_command_is_no_peer(environment: dict[str, str]) -> None:
    assert said({**environment, "START_WITHIN_S": "3600"}, "status") == ["-- peerd status", "data ", "log ", "name "]


def test_one_that_waits_for_its_start_ends_when_it_is_told_to(environment: dict[str, str]) -> None:
    waiting = subprocess.Popen([str(ENTRY)], env={**environment, "START_WITHIN_S": "1000000"})
    try:
        _until_asleep(waiting.pid)
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(10) == 0
    finally:
        waiting.kill()


def _until_asleep(pid: int) -> None:
    """Wait until the shell has started its sleep, and waits itself."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    end = monotonic() + 10
    while not any("sleep" in Path(f"/proc/{child}/cmdline").read_text() for child in children.read_text().split()):
        assert monotonic() < end
        sleep(0.01)
