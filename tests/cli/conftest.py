"""Processes that tests start end with them, however they end."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.cli.daemons import Command, Daemon

StartDaemon: TypeAlias = Callable[..., Daemon]
StartCommand: TypeAlias = Callable[..., Command]


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def daemon(cleanup: ExitStack, tmp_path: Path) -> StartDaemon:
    """Starts a peer with these options."""
    number = count()

    def start(*args: str, **variables: str) -> Daemon:
        started = Daemon(tmp_path / f"peer-{next(number)}", *args, **variables)
        cleanup.callback(started.end)
        return started

    return start


@pytest.fixture
def command(cleanup: ExitStack, tmp_path: Path) -> StartCommand:
    """Starts any other command and does not wait for its end."""
    number = count()

    def start(*args: str, stdin: str = "", in_background: bool = False, **variables: str) -> Command:
        place = tmp_path / f"command-{next(number)}"
        started = Command(place, *args, stdin=stdin, in_background=in_background, **variables)
        cleanup.callback(started.end)
        return started

    return start
